"""Statements with qualifiers in SPARQL: the store and the tree of an index give the rows of Wikidata's own RDF."""

import random
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyoxigraph import QueryBoolean, RdfFormat, Store
from support.ingest.living_index import LivingIndex
from support.ingest.statement_world import Amount, Moment, Snak, Statement, json_lines, rdf_lines
from support.sparql.stores import triples_anew, triples_in

from refactx.index.index import Index
from refactx.ingest.parsers.formats import published_quads
from refactx.ingest.source_options import Selection
from refactx.iris import PREFIXES
from refactx.sparql.engines import QueryRefusedError, Rows, StoreEngine, TreeEngine, open_engine
from refactx.sparql.labels import LabelError, completions, with_iris
from refactx.sparql.store import build_store, open_store, update_store
from refactx.sparql.walks import from_sparql
from refactx.walks.facts import TreeFacts
from refactx.walks.language import write_line

PEOPLE, AMOUNTS = ("Q2", "Q3", "Q4"), tuple(Amount(n, u) for n in ("+4478", "-0.50", "+0") for u in (None, "Q9"))
TIMES = tuple(Moment(y, 5, 3, p, False) for y in (-44, 1582, 1990, 2001) for p in (9, 10, 11))
VALUES: dict[str, tuple[Snak, ...]] = {"P10": PEOPLE, "P11": AMOUNTS, "P12": TIMES, "P580": TIMES, "P582": TIMES}
VALUES |= {"P642": PEOPLE, "P99": PEOPLE, "P459": PEOPLE}
PATTERNS = (
    "?x p:P10 ?s . ?s ps:P10 ?a ; pq:P642 ?b",
    "?x p:P10/pq:P580 ?a",
    "?x p:P10 [ ps:P10 ?a ; pqv:P580 [ wikibase:timeValue ?b ; wikibase:timePrecision 9 ] ]",
    "?x p:P11/psv:P11 [ wikibase:quantityAmount ?a ; wikibase:quantityUnit ?b ]",
    "?x p:P11 ?s . ?s ps:P11 ?a ; pq:P459 ?b",
    "?x p:P12 ?s . ?s psv:P12 [ wikibase:timeValue ?a ; wikibase:timePrecision ?b ] ; a wikibase:BestRank",
    "?x p:P10 ?s . ?s ps:P10 ?a ; pq:P580 ?b FILTER NOT EXISTS { ?s pq:P582 ?e } FILTER(YEAR(?b) > 1582)",
    "?x p:P10 ?s . ?s wikibase:rank wikibase:PreferredRank ; ps:P10 ?a ; pq:P99 ?b "
    ". ?x p:P10/wikibase:rank wikibase:NormalRank",
    "?a wikibase:claim ?p ; wikibase:statementProperty ?b . FILTER(?a = wd:P10)",
)
WALKS = [
    ("SELECT DISTINCT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; pq:P642 wd:Q2 }", "list <Springfield> <mayor> with <of> <Bob>"),
    ("SELECT DISTINCT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 wd:Q2 ; pq:P642 ?x }", "list <Springfield> <mayor> being <Bob> its <of>"),
    ("SELECT DISTINCT ?x { ?x p:P10 [ ps:P10 wd:Q2 ; pq:P642 wd:Q3 ] }", "list <Bob> <mayor of> with <of> <Cy>"),
    ("SELECT DISTINCT ?x { wd:Q1 p:P10/pq:P580 ?x }", "list <Springfield> <mayor> its <start time>"),
    (
        "SELECT DISTINCT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; pq:P580 ?t FILTER(YEAR(?t) < 1990) }",
        "list <Springfield> <mayor> with <start time> under <1990>",
    ),
    (
        "SELECT (COUNT(DISTINCT ?x) AS ?n) { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; pq:P580 ?t FILTER(YEAR(?t) = 1990) }",
        "count <Springfield> <mayor> with <start time> equals <1990>",
    ),
    (
        "ASK { wd:Q1 p:P10 ?s . ?s ps:P10 wd:Q2 ; pq:P580 ?t FILTER(YEAR(?t) > 1582) }",
        "ask <Springfield> <mayor> with <start time> over <1582> <Bob>",
    ),
    ("SELECT DISTINCT ?x { wd:Q1 wdt:P10 ?x FILTER NOT EXISTS { ?x wdt:P12 ?t } }",
     "list <Springfield> <mayor> which not count <founded> over <0>"),
    ("SELECT DISTINCT ?x { wd:Q1 wdt:P10 ?x MINUS { ?x wdt:P10 wd:Q2 } FILTER(?x != wd:Q3) }",
     "list <Springfield> <mayor> which not is <Cy> which not <mayor> <Bob>"),
]  # fmt: skip
INEXACT = [
    ("SELECT ?x { wd:Q1 p:P10/ps:P10 ?x }", "list <Springfield> <mayor>"),
    (
        "SELECT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x FILTER NOT EXISTS { ?s pq:P582 ?e } }",
        "list <Springfield> <mayor> now",
    ),
    (
        "SELECT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; pq:P580 ?t } ORDER BY DESC(?t) LIMIT 1",
        "most <Springfield> <mayor> by its <start time>",
    ),
    (
        "SELECT ?x { wd:Q1 wdt:P11 ?a . wd:Q2 wdt:P11 ?b BIND(IF(?a < ?b, wd:Q1, wd:Q2) AS ?x) }",
        "least <Springfield> or <Bob> by <height>",
    ),
    ("ASK { wd:Q1 wdt:P11 ?a . wd:Q2 wdt:P11 ?b FILTER(?b < ?a) }", "ask <Bob> <height> under <Springfield> <height>"),
    (
        "SELECT ?x { ?x wdt:P10 wd:Q2 ; wdt:P12 ?t . wd:Q1 p:P10 [ ps:P10 wd:Q3 ; pq:P580 ?u ] FILTER(?t > ?u) }",
        "list <Bob> <mayor of> which <founded> over <Springfield> <mayor> being <Cy> its <start time>",
    ),
]
NO_WALKS = [
    "SELECT ?x ?t { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; pq:P580 ?t }",
    "SELECT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; pq:P580 ?t }",
    "SELECT ?s { wd:Q1 p:P10 ?s . ?s ps:P10 ?x }",
    "SELECT ?x { ?p p:P10 ?s . ?s ps:P10 ?x ; pq:P642 wd:Q2 }",
    "SELECT ?x { wd:Q1 p:P10 ?s . ?s ps:P11 ?x }",
    "SELECT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; wikibase:rank wikibase:PreferredRank }",
    "SELECT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x FILTER NOT EXISTS { ?s pq:P580 ?e } }",
    "SELECT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; prov:wasDerivedFrom ?r }",
    "SELECT ?x { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; pq:P642 ?q FILTER(?q != wd:Q2) }",
    "SELECT ?x { wd:Q1 wdt:P11 ?a . wd:Q2 wdt:P12 ?b BIND(IF(?a < ?b, wd:Q1, wd:Q2) AS ?x) }",
    "SELECT ?x { wd:Q1 wdt:P11 ?a . wd:Q2 wdt:P11 ?b BIND(IF(?a = ?b, wd:Q1, wd:Q2) AS ?x) }",
    "SELECT ?x { wd:Q1 wdt:P11 ?a . wd:Q2 wdt:P11 ?b BIND(IF(?a < ?b, wd:Q3, wd:Q2) AS ?x) }",
    "SELECT ?x { wd:Q1 wdt:P10 ?x FILTER NOT EXISTS { ?x wdt:P10 wd:Q2 ; wdt:P12 ?t } }",
]


def drawn() -> list[Statement]:
    """Return statements that an index has whole: with labels, values and qualifiers, none deprecated."""
    chance, found = random.Random(7), dict[tuple[object, ...], Statement]()
    for number in range(90):
        property_ = chance.choice(("P10", "P10", "P11", "P12"))
        names = chance.sample(("P580", "P582", "P642", "P99", "P459"), chance.randint(1, 3))
        pairs = tuple((name, chance.choice(VALUES[name])) for name in names)
        subject, value = chance.choice(("Q1", "Q1", "Q2", "Q3")), chance.choice(VALUES[property_])
        one = Statement(subject, property_, value, chance.choice(("normal", "normal", "preferred")), pairs, number)
        found.setdefault((subject, property_, value), one)
    return list(found.values())


@pytest.fixture(scope="module")
def twin() -> Store:
    store = Store()
    store.load("\n".join(rdf_lines(drawn())).encode(), RdfFormat.N_TRIPLES)
    return store


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    living = LivingIndex(module_url, tmp_path_factory.mktemp("statements"))
    source = living.folder / "entities.json"
    source.write_text("\n".join(json_lines(drawn())))
    living.ingest_from(source, selection=Selection(inverse=True, qualifiers=("all",)))
    with living.open() as index:
        build_store(index)
        yield index


IDS = {"Q64": "Q1", "Q12418": "Q1", "Q42": "Q1", "Q30": "Q1", "Q44585": "Q2", "P166": "P10", "P6": "P10", "P186": "P10"}
IDS |= {"P569": "P12", "P2048": "P11", "P518": "P642", "P585": "P580"}
EXAMPLES = Path(__file__).parent.joinpath("syntax", "wikidata_examples.sparql").read_text().split("#title: ")[1:]
TITLES = (
    "Awarded Chemistry Nobel Prizes",
    "Materials of the Mona Lisa",
    "Born this month",
    "Heights, with",
    "Values of the best rank",
    "Awards, with the year",
)
"""Wikidata's examples that have rows on these statements, by the ids that these have."""


@pytest.mark.parametrize("title", TITLES)
def test_an_example_of_wikidata_has_the_rows_of_the_dump(title: str, index: Index, twin: Store) -> None:
    (query,) = [text.partition("\n")[2] for text in EXAMPLES if text.startswith(title)]
    query = re.sub(r"\b[PQ]\d+\b", lambda id_: IDS.get(id_[0], id_[0]), query)
    with closing(open_engine(index, "store")) as engine:
        found, expected = engine.run(query), StoreEngine(twin).run(query)
    assert isinstance(found, Rows)
    assert isinstance(expected, Rows)
    assert sorted(map(str, found.rows)) == sorted(map(str, expected.rows)) != []
    assert found.note == ""


def answers(store: Store, query: str) -> object:
    found = store.query(query, prefixes=PREFIXES)
    return bool(found) if isinstance(found, QueryBoolean) else sorted(str(row) for row in found)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_store_has_the_statements_of_the_dump(pattern: str, index: Index, twin: Store) -> None:
    if "claim" in pattern:
        twin = Store()
        twin.update(
            "INSERT DATA { wd:P10 wikibase:claim p:P10 ; wikibase:statementProperty ps:P10 }", prefixes=PREFIXES
        )
    query = f"SELECT DISTINCT ?x ?a ?b {{ {pattern} }}"
    expected = answers(twin, query)
    assert expected
    with open_store(index) as store:
        assert answers(store.oxigraph, query) == expected
        assert triples_in(store) == triples_anew(index)


@pytest.mark.parametrize(("gold", "line"), WALKS)
def test_a_query_about_statements_is_a_walk_with_its_rows(gold: str, line: str, index: Index, twin: Store) -> None:
    walk = from_sparql(gold, TreeFacts(index), exact=True)
    assert walk is not None
    assert write_line(walk) == line.replace("<Bob>", "<Ann Lee>").replace("<Cy>", "<Bob>")
    found = TreeEngine(index).run(gold)
    with closing(open_engine(index, "store")) as engine:
        other = engine.run(gold)
    if isinstance(found, Rows) and isinstance(other, Rows):
        assert sorted(map(str, found.rows)) == sorted(map(str, other.rows))
        assert other.note == ""
        assert sorted(str(row[0]) for row in found.rows) == sorted(
            str(row[0]) for row in twin.query(gold, prefixes=PREFIXES)
        )
    else:
        assert found is other is answers(twin, gold)


@pytest.mark.parametrize(("gold", "line"), INEXACT)
def test_a_query_whose_rows_may_be_others_is_a_walk_that_the_tree_refuses(gold: str, line: str, index: Index) -> None:
    facts = TreeFacts(index)
    walk = from_sparql(gold, facts)
    assert walk is not None
    assert write_line(walk) == line.replace("<Bob>", "<Ann Lee>").replace("<Cy>", "<Bob>")
    assert from_sparql(gold, facts, exact=True) is None
    with pytest.raises(QueryRefusedError, match="without a store, an index answers"):
        TreeEngine(index).run(gold)


@pytest.mark.parametrize("query", NO_WALKS)
def test_what_says_more_of_statements_is_no_walk(query: str, index: Index) -> None:
    assert from_sparql(query, TreeFacts(index)) is None


def test_names_stand_for_every_use_of_a_property(index: Index) -> None:
    facts = TreeFacts(index)
    query = "SELECT ?x ?t { <Springfield> p:<mayor> ?s . ?s ps:<mayor> ?x ; pqv:<start time>/wikibase:timeValue ?t }"
    expected = "SELECT ?x ?t { wd:Q1 p:P10 ?s . ?s ps:P10 ?x ; pqv:P580/wikibase:timeValue ?t }"
    assert with_iris(query, facts).sparql == expected
    assert with_iris("PREFIX p:<http://e/> SELECT ?x { <Springfield> p:a ?x }", facts).sparql.endswith(
        "{ wd:Q1 p:a ?x }"
    )
    with pytest.raises(LabelError, match="line 1, column 13: <p:mayors> is no property of the index"):
        with_iris("ASK { wd:Q1 p:<mayors> ?x }", facts)
    with pytest.raises(LabelError, match="reads a property backwards: p: stands before the name of a property"):
        with_iris("ASK { wd:Q1 p:<mayor of> ?x }", facts)
    assert completions("SELECT ?x { <Springfield> p:<may", facts) == ["mayor>"]


def test_a_graph_as_it_was_published_has_its_own_statements(
    db_url: str, tmp_path: Path, twin: Store, index: Index
) -> None:
    living, source = LivingIndex(db_url, tmp_path), tmp_path / "all.nt"
    source.write_text("\n".join(rdf_lines(drawn())) + "\n")
    living.ingest_from(source, selection=Selection(qualifiers=("all",)))
    with living.open() as opened:
        build_store(opened, published=lambda: published_quads([source]))
        for pattern in PATTERNS[:-1]:
            query = f"SELECT ?x ?a ?b {{ {pattern} }}"
            with open_store(opened) as store:
                assert answers(store.oxigraph, query) == answers(twin, query)
        living.append("Zoe mayor Bob")
        opened.refresh()
        update_store(opened)
        with open_store(opened) as store:
            assert answers(store.oxigraph, "SELECT ?x { ?x p:P10 ?s }") == answers(twin, "SELECT ?x { ?x p:P10 ?s }")


def test_a_store_says_what_it_lacks_of_statements(index: Index) -> None:
    with closing(open_engine(index, "store")) as engine:
        found = engine.run("SELECT ?x { wd:Q1 p:P10 ?s . ?s pr:P854 ?x }")
    assert isinstance(found, Rows)
    assert found.note.startswith("pr:P854 leads to references, normalised values or claims of no value")
    with open_store(index) as store:
        assert StoreEngine(store.oxigraph).run("ASK { wd:Q1 p:P10/ps:P10 ?x }") is True


def test_statements_of_tables_have_iris_of_our_own(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("Ann employer Acme", "Ann employer Acme start 2015", "Ann employer Bolt")
    with living.open() as opened:
        build_store(opened)
        query = """SELECT ?o ?t { ?x <urn:refactx:p:employer> ?s . ?s <urn:refactx:ps:employer> ?o
            OPTIONAL { ?s <urn:refactx:pq:start> ?t } }"""
        with open_store(opened) as store:
            rows = sorted((row[0].value, row[1] and row[1].value) for row in store.query(query))
        assert rows == [("urn:refactx:Acme", "2015"), ("urn:refactx:Bolt", None)]
