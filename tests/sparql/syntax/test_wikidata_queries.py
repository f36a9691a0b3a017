"""Queries as Wikidata's users write them, on the store of an index: labels, hints, places, or one true reason."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Store
from support.ingest.living_index import LivingIndex
from support.sparql.small_graph import Queries

from refactx.iris import PREFIXES
from refactx.sparql.engines import QueryRefusedError, Rows, SparqlEngine, StoreEngine, TreeEngine, open_engine
from refactx.sparql.engines.checking import check_query
from refactx.sparql.store import open_store

SERVICE = 'SERVICE wikibase:label { bd:serviceParam wikibase:language "[AUTO_LANGUAGE],en". }'
EXAMPLES = {
    text.partition("\n")[0]: f"#title: {text}"
    for text in (Path(__file__).parent / "wikidata_examples.sparql").read_text().split("#title: ")[1:]
}
REFUSED = {
    "Airports within 100 km of Berlin": "SERVICE wikibase:around asks another server",
    "Search by the API": "SERVICE wikibase:mwapi asks another server",
    "Children of Genghis Khan, by the graph service": "SERVICE gas:service asks another server",
    "Musicians who share a name, by named subqueries": "write the query, in { }, in the place of INCLUDE",
    "Places in a box": "SERVICE wikibase:box asks another server",
    "Federation": "SERVICE <https://dbpedia.org/sparql> asks another server",
    "Describe": "this is a DESCRIBE query, whose result is a graph",
}
NOTED = {
    "Humans without children": "wdno:P40 leads to statements",
    "Humans born in New York City": "wikibase:sitelinks is about pages of Wikipedia",
    "Humans who died on an expedition": "schema:about is about pages of Wikipedia",
    "Presidents and their spouses": "p:P6 and ps:P6 lead to statements with their qualifiers and references",
    "Largest cities with a female mayor": "p:P6 and ps:P6 and others lead to statements",
    "Wikidata items with most statements": "wikibase:statements is about pages of Wikipedia and counts",
    "Awards, with the year": "this index has values alone (wdt:P166)",
    "References of a claim": "p:P69 and pr:P854 lead to statements",
    "Awarded Chemistry Nobel Prizes": "p:P166 and ps:P166 and others lead to statements",
    "Countries by their cities with a female mayor": "p:P6 and ps:P6 and others lead to statements",
    "Materials of the Mona Lisa, and of which part": "p:P186 and ps:P186 and others lead to statements",
    "Born this month, known to the day": "p:P569 and psv:P569 lead to statements",
    "Heights, with their units": "p:P2048 and psv:P2048 lead to statements",
    "Values of the best rank, and since when": "p:P6 and ps:P6 and others lead to statements",
    "Properties connecting items of two classes": "hints to Wikidata's planner are left out (hint:Query hint:optimizer)",
    "A hint before a pattern": "(hint:Prior hint:runFirst)",
    "A hint and a service at the end": "(hint:Prior hint:gearing)",
}


@pytest.fixture(scope="module")
def engine(stored: LivingIndex) -> Iterator[SparqlEngine]:
    with stored.open() as index, closing(open_engine(index, "store")) as engine:
        yield engine


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_of_wikidata_runs_or_has_one_reason(engine: SparqlEngine, title: str) -> None:
    query = EXAMPLES[title]
    if title in REFUSED:
        with pytest.raises(QueryRefusedError) as error:
            engine.run(query)
        assert REFUSED[title] in str(error.value)
        assert "\n" not in str(error.value)
        return
    found = engine.run(query)
    check_query(query)
    note = found.note if isinstance(found, Rows) else ""
    assert NOTED.get(title, "") in note
    assert bool(note) == (title in NOTED)


def test_there_are_46_examples() -> None:
    assert len(EXAMPLES) == 46
    assert {*REFUSED, *NOTED} <= set(EXAMPLES)


def texts(found: Any) -> list[tuple[str | None, ...]]:
    assert isinstance(found, Rows)
    return sorted(tuple(None if one is None else one.value.rpartition("/")[2] for one in row) for row in found.rows)


def test_labels_are_those_of_the_index(engine: SparqlEngine) -> None:
    query = f"SELECT ?x ?xLabel ?xDescription ?xAltLabel {{ ?x wdt:P4 wd:Q5 {SERVICE} }}"
    assert texts(engine.run(query)) == [("Q3", "Bob", None, "Bobby"), ("Q4", "Eve", None, "Bobby, Evi")]
    query = f"SELECT ?x ?xLabel ?xDescription {{ VALUES ?x {{ wd:Q1 wd:Q99 }} {SERVICE} }}"
    assert texts(engine.run(query)) == [("Q1", "Ann", "a poet"), ("Q99", "Q99", None)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT ?name { ?x wdt:P4 wd:Q5 SERVICE wikibase:label { ?x rdfs:label ?name } }", [("Bob",), ("Eve",)]),
        (
            "SELECT ?a { SERVICE wikibase:label { wd:Q3 rdfs:label ?a . [] rdfs:label ?b . 'x' rdfs:label ?c } }",
            [("Bob",)],
        ),
        (f"SELECT ?xLabel (COUNT(?y) AS ?n) {{ ?x wdt:P3 ?y . {SERVICE} }} GROUP BY ?xLabel", [("Ann", "2")]),
        (f"SELECT (SAMPLE(?yLabel) AS ?l) {{ {SERVICE} ?x wdt:P5 ?v ; ^wdt:P1 ?y }}", [("Ann",)]),
        (f"SELECT ?x {{ {SERVICE} ?x wdt:P4 ?y }} ORDER BY DESC(?xLabel) LIMIT 1", [("Q4",)]),
        (f"SELECT ?xLabel {{ ?x wdt:P4 wd:Q5 {SERVICE} FILTER(?xLabel = 'Eve'@en) }}", [("Eve",)]),
        (f"SELECT ?vLabel {{ wd:Q3 wdt:P5 ?v . {SERVICE} . }}", [("7",)]),
        (f"SELECT ?xLabel {{ wd:Q3 wdt:P4 ?x . ?x rdfs:label ?xLabel . {SERVICE} }}", [("Dan",)]),
        (f"SELECT ?xLabel {{ {{ SELECT ?x ?xLabel {{ wd:Q3 wdt:P4 ?x {SERVICE} }} }} {SERVICE} }}", [("Dan",)]),
        (
            f"SELECT ?xLabel {{ {{ wd:Q3 wdt:P4 ?x {SERVICE} }} UNION {{ wd:Q2 wdt:P1 ?x {SERVICE} }} }}",
            [("Bob",), ("Dan",)],
        ),
        (f"SELECT ?xLabel ?y {{ ?x wdt:P3 ?y OPTIONAL {{ ?y wdt:P9 ?z }} {SERVICE} }}", [("Ann", "Q3"), ("Ann", "Q4")]),
        (f"SELECT ?p ?pLabel {{ wd:Q2 ?q wd:Q3 . ?p wikibase:directClaim ?q {SERVICE} }}", [("P1", "before")]),
        (f"SELECT * {{ wd:Q3 wdt:P4 ?x {SERVICE} }}", [("Q5",)]),
    ],
)
def test_labels_stand_where_the_service_has_them(engine: SparqlEngine, query: str, expected: list[Any]) -> None:
    assert texts(engine.run(query)) == expected
    assert texts(engine.run(query, seconds=60)) == expected


def test_labels_of_another_language_are_noted() -> None:
    store = Store()
    for id_, language, text in (
        ("Q1", "en", "cat"),
        ("Q1", "mul", "felis"),
        ("Q2", "it", "cane"),
        ("Q3", "pt-br", "ave"),
    ):
        label = Literal(text, language=language)
        store.add(Quad(NamedNode(PREFIXES["wd"] + id_), NamedNode(PREFIXES["rdfs"] + "label"), label))
    query = 'SELECT ?x ?xLabel { ?x rdfs:label ?any SERVICE wikibase:label { bd:serviceParam wikibase:language "%s" } }'
    for asked, expected, note in (
        (
            "en",
            {"Q1": "cat", "Q2": "cane", "Q3": "ave"},
            "labels are in it, pt-br where there are none as the query asks for",
        ),
        ("de,pt-BR,it", {"Q1": "felis", "Q2": "cane", "Q3": "ave"}, ""),
    ):
        found = StoreEngine(store).run(query % asked)
        assert isinstance(found, Rows)
        assert {row[0].value.rpartition("/")[2]: row[1].value for row in found.rows} == expected  # type: ignore[union-attr]
        assert found.note == note


@pytest.mark.parametrize("seed", range(3))
def test_labels_of_any_query_are_those_of_a_loop_over_its_rows(stored: LivingIndex, seed: int) -> None:
    queries, compared = Queries(seed), 0
    with stored.open() as index, open_store(index) as facts:
        engine = StoreEngine(facts.oxigraph)
        for _ in range(40):
            query = queries.query()
            if not re.match(r"SELECT (DISTINCT )?\?x ", query) or "ORDER" in query:
                continue
            with_labels = re.sub(r"\}$", f" {SERVICE} }}", query.replace("?x ", "?x ?xLabel ", 1))
            plain, found = engine.run(query), engine.run(with_labels)
            assert isinstance(plain, Rows)
            assert isinstance(found, Rows)
            expected = Counter((row[0], label_in(facts.oxigraph, row[0])) for row in plain.rows)
            assert Counter((row[0], getattr(row[1], "value", None)) for row in found.rows) == expected, with_labels
            compared += 1
    assert compared > 5


def label_in(store: Store, term: Any) -> str | None:
    if not isinstance(term, NamedNode):
        return getattr(term, "value", None)
    label = NamedNode(PREFIXES["rdfs"] + "label")
    found = [quad.object.value for quad in store.quads_for_pattern(term, label, None, DefaultGraph())]  # type: ignore[union-attr]
    return min(found, default=term.value.rpartition("/")[2])


def test_places_have_distances_in_kilometres() -> None:
    store = Store()
    point = '"Point({})"^^geo:wktLiteral'
    query = "SELECT ?d {{ BIND(geof:distance({}, {}) AS ?d) }}"
    for one, other, expected in (
        ("0 0", "0 1", 111.195),
        ("-179.5 0", "179.5 0", 111.195),
        ("10 90", "-70 -90", 20015.115),
    ):
        found = StoreEngine(store).run(query.format(point.format(one), point.format(other)))
        assert isinstance(found, Rows)
        assert float(found.rows[0][0].value) == pytest.approx(expected, abs=0.01)  # type: ignore[union-attr]
    moon = '"<http://www.wikidata.org/entity/Q405> Point(1 2)"^^geo:wktLiteral'
    for wrong in (moon, "'no point'", "wd:Q1", point.format("1.2.3 4")):
        assert texts(StoreEngine(store).run(query.format(point.format("1 2"), wrong))) == [(None,)]
    found = StoreEngine(store).run(f"SELECT (geof:globe({moon}) AS ?g) (geof:latitude({moon}) AS ?y) {{}}")
    assert texts(found) == [("Q405", "2")]


def test_the_tree_answers_without_labels_alone(stored: LivingIndex) -> None:
    with stored.open() as index:
        tree = TreeEngine(index)
        found = tree.run(f"SELECT ?x {{ hint:Query hint:optimizer 'None' . wd:Q3 wdt:P4 ?x . {SERVICE} }}")
        assert texts(found) == [("Q5",)]
        assert isinstance(found, Rows)
        assert "hints to Wikidata's planner are left out" in found.note
        with pytest.raises(QueryRefusedError, match=r"asks for labels .SERVICE wikibase:label.: leave them out"):
            tree.run(f"SELECT ?x ?xLabel {{ wd:Q3 wdt:P4 ?x {SERVICE} }}")
        with pytest.raises(QueryRefusedError, match="p:P4 and ps:P4 lead to statements"):
            tree.run("SELECT ?x { wd:Q3 p:P4/ps:P4 ?x }")


BY_PLACE = "SELECT ?o ({}) {{ ?o <http://e/p> ?x }} GROUP BY ?o HAVING{}"


@pytest.mark.parametrize(
    ("shown", "named", "written"),
    [
        ("COUNT(?x) AS ?n", "(?n > 1)", "(COUNT(?x) > 1)"),
        ("COUNT(?x) AS ?n", "(?n > 1 && ?o != 2) ORDER BY ?n", "(COUNT(?x) > 1 && ?o != 2) ORDER BY ?n"),
        ("COUNT(?x) AS ?n) (?n * 2 AS ?m", "(?m > 2)", "(COUNT(?x) * 2 > 2)"),
        ("SUM(?x) + 1 AS ?n", "(10 - ?n > 1) (?n < 7)", "(10 - (SUM(?x) + 1) > 1) ((SUM(?x) + 1) < 7)"),
        ("MAX(?x) AS ?n", "(STRLEN(STR(?n)) = 1)", "(STRLEN(STR(MAX(?x))) = 1)"),
    ],
)
def test_a_name_in_having_is_its_expression(shown: str, named: str, written: str) -> None:
    store = Store()
    store.update("INSERT DATA { <a:a> <http://e/p> 1, 2 . <a:b> <http://e/p> 2, 3, 4 . <a:c> <http://e/p> 5 }")
    engine = StoreEngine(store)
    for query in (BY_PLACE, f"SELECT ?o {{{{ {{{{ {BY_PLACE} }}}} }}}}"):
        found = engine.run(query.format(shown, named))
        single = shown.replace("?n * 2", "COUNT(?x) * 2")  # pyoxigraph takes no name of the same SELECT here
        wanted = engine.run(query.format(single, written))
        assert isinstance(found, Rows)
        assert isinstance(wanted, Rows)
        assert found.rows
        assert Counter(found.rows) == Counter(wanted.rows)


def test_a_name_in_having_of_a_value_that_varies_stays(engine: SparqlEngine) -> None:
    found = engine.run("SELECT ?n (RAND() AS ?r) { ?x wdt:P1 ?n } GROUP BY ?n HAVING(?r < 2)")
    assert isinstance(found, Rows)
    assert not found.rows  # it has no value there
