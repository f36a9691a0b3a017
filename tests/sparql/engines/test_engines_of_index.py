"""The engines of an index: all give the rows that pyoxigraph alone gives on the triples of the index, or refuse."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad, QueryBoolean, Store
from support.ingest.graph_twin import Line
from support.ingest.living_index import LivingIndex
from support.sparql.endpoint import running
from support.sparql.small_graph import EVERY, FIXED, Queries, ingest_graph

from refactx.index.open import database
from refactx.iris import PREFIXES
from refactx.postgres.writing import drop
from refactx.sparql.engines import (
    EndpointEngine,
    EngineTimeoutError,
    QueryRefusedError,
    Result,
    Rows,
    SparqlSyntaxError,
    StoreEngine,
    TreeEngine,
    open_engine,
)
from refactx.sparql.store import StoreError, build_store, open_store, update_store


def alone(store: Store, query: str) -> object:
    """What pyoxigraph alone gives: the truth, or rows with how often each is there."""
    found = store.query(query, prefixes=PREFIXES)
    return bool(found) if isinstance(found, QueryBoolean) else Counter(map(tuple, found))


def comparable(result: Result) -> object:
    return result if isinstance(result, bool) else Counter(result.rows)


GRAPHS = (
    "SELECT * { GRAPH ?g { ?s ?p ?o } }", "ASK { GRAPH <urn:refactx:> { ?s ?p ?o } }", "SELECT ?g { GRAPH ?g { } }",
    "SELECT ?s ?p ?o FROM <urn:refactx:> { ?s ?p ?o }", "SELECT ?o FROM NAMED <urn:refactx:> { GRAPH ?g { ?s ?p ?o } }",
)  # fmt: skip


@pytest.mark.parametrize("query", GRAPHS)
def test_a_store_has_no_graphs_but_its_facts(stored: LivingIndex, query: str) -> None:
    with stored.open() as index, closing(open_engine(index, "store")) as engine:
        found = engine.run(query)
        assert found is False or (isinstance(found, Rows) and not found.rows)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("?d > '1900-01-01T00:00:00Z'^^xsd:dateTime", {"Q3"}),
        ("?d < '1900-01-01T00:00:00Z'^^xsd:dateTime", {"Q4"}),
        ("YEAR(?d) = 1942", set()),
        ("YEAR(?d) = 1582", {"Q4"}),
    ],
)
def test_dates_that_are_none_and_years_alone_are_not_compared_and_named(
    dated: LivingIndex, condition: str, expected: set[str]
) -> None:
    query = f"SELECT DISTINCT ?x {{ ?x wdt:P1 wd:Q6 ; wdt:P6 ?d FILTER({condition}) }}"
    with dated.open() as index:
        for name in ("store", "tree"):
            with closing(open_engine(index, name)) as engine:
                found = engine.run(query)
                assert isinstance(found, Rows)
                assert {row[0].value.rpartition("/")[2] for row in found.rows} == expected, name  # type: ignore[union-attr]
                assert " such as 19" in found.note or " such as 18" in found.note
                assert found.note.endswith("are no xsd:dateTime (no day of the calendar): they are not compared")
                plain = engine.run("SELECT DISTINCT ?d { wd:Q1 wdt:P6 ?d }")
                assert isinstance(plain, Rows)
                assert (len(plain.rows), plain.note) == (1, "")
                assert engine.run("ASK { wd:Q1 wdt:P6 '1942-02-29T00:00:00Z'^^xsd:dateTime }") is True


@pytest.fixture(scope="module")
def dated(people: LivingIndex) -> LivingIndex:
    """An index of dates of which two are none, and one is a month."""
    days = {"Q1": "1942-02-29", "Q2": "1858-06-31", "Q3": "1990-01-01", "Q4": "1582-10-10", "Q5": "1942-05-00"}
    claims: list[Line] = [("claim", one, "P1", "Q6") for one in days]
    claims += [("literal", one, "P6", f"{day}T00:00:00Z", "^^dateTime") for one, day in days.items()]
    living = ingest_graph(people.url, people.folder, claims, "dated")
    with living.open() as index:
        build_store(index)
    return living


@pytest.mark.parametrize("seed", range(3))
def test_all_engines_give_the_rows_of_pyoxigraph(seed: int, db_url: str, tmp_path: Path) -> None:
    claims = random.Random(seed).sample(EVERY, 60)
    living, queries = ingest_graph(db_url, tmp_path, claims, f"random{seed}"), Queries(seed)
    walks, refused = Counter[bool](), 0
    with living.open() as index:
        build_store(index)
        with open_store(index) as facts, running(facts.oxigraph) as server:
            tree, store, endpoint = TreeEngine(index), StoreEngine(facts.oxigraph), EndpointEngine(server.url)
            for _ in range(100):
                query = queries.query()
                expected = alone(facts.oxigraph, query)
                assert comparable(store.run(query)) == expected, query
                assert comparable(store.run(query, seconds=60)) == expected, query
                if queries.chance.random() < 0.1:
                    assert comparable(endpoint.run(query)) == expected, query
                try:
                    found = tree.run(query)
                except QueryRefusedError as error:
                    assert "without a store, an index answers queries of one chain of facts alone, and " in str(
                        error
                    ) or "from literals" in str(error)
                    refused += 1
                    continue
                if "ORDER BY" in query and expected:
                    assert isinstance(found, Rows)  # of several that come first, engines may give any
                    assert len(found.rows) == 1
                else:
                    assert comparable(found) == expected, query
                walks[bool(expected)] += 1
            endpoint.close()
    assert walks[True] > 15
    assert walks[False] > 3
    assert refused > 8


CHILDREN = "SELECT ?x { wd:Q1 wdt:P3 ?x }"
BOTH = {(NamedNode("http://www.wikidata.org/entity/Q3"),), (NamedNode("http://www.wikidata.org/entity/Q4"),)}


class TestChoice:
    def test_the_store_answers_if_it_has_what_the_index_has(self, db_url: str, tmp_path: Path) -> None:
        living = ingest_graph(db_url, tmp_path, FIXED, "followed")
        with living.open() as index:
            assert open_engine(index).name == "tree"
            with pytest.raises(StoreError, match=r"has no store: run `refactx store build followed`"):
                open_engine(index, "store")
            build_store(index)
            assert open_engine(index).name == open_engine(index, "store").name == "store"
            assert open_engine(index, "tree").name == "tree"
        living.append("a b c")
        with living.open() as index:
            assert open_engine(index).name == "tree"
            with pytest.raises(StoreError, match=r"is behind the index: run `refactx store update followed`"):
                open_engine(index, "store")
            with pytest.raises(QueryRefusedError, match=r"OPTIONAL: the store .* is behind the index: run"):
                open_engine(index).run("SELECT ?x { wd:Q1 wdt:P3 ?x OPTIONAL { ?x wdt:P4 ?y } }")
            update_store(index)
            engine = open_engine(index)
            assert engine.name == "store"
            assert engine.run(CHILDREN) == Rows(("x",), engine.run(CHILDREN).rows)  # type: ignore[union-attr]
            engine.close()

    def test_a_store_of_another_index_of_this_name(self, db_url: str, tmp_path: Path) -> None:
        living = ingest_graph(db_url, tmp_path, FIXED, "again")
        with living.open() as index:
            build_store(index)
        with database(db_url) as opened, opened.connection() as connection:
            drop(connection, "again")
        with ingest_graph(db_url, tmp_path, FIXED, "again").open() as index:
            with pytest.raises(StoreError, match=r"is that of another index of this name .*run `refactx store build"):
                open_engine(index, "store")
            assert set(open_engine(index).run(CHILDREN).rows) == BOTH  # type: ignore[union-attr]


class TestRefusals:
    @pytest.mark.parametrize(
        ("query", "reason"),
        [
            ("SELECT ?x { wd:Q1 wdt:P3 ?x OPTIONAL { ?x wdt:P4 ?y } }", "this query has OPTIONAL"),
            ("SELECT ?x { { wd:Q1 wdt:P3 ?x } UNION { ?x wdt:P3 wd:Q1 } }", "this query has UNION"),
            ("SELECT ?x ?y { wd:Q1 wdt:P3 ?x . ?x wdt:P4 ?y }", "this query asks for 2 variables instead of one"),
            ("SELECT ?x { wd:Q999 wdt:P3 ?x }", "wd:Q999 has no name in the index"),
            ("SELECT ?x { wd:Q1 ?p ?x }", "this query has a variable in place of a property"),
            (
                "SELECT ?x { wd:Q1 wdt:P3/wdt:P4 ?x }",
                "this query may have equal rows: write DISTINCT",
            ),
            ("SELECT DISTINCT ?x { wd:Q3 ^wdt:P3 ?x . ?x rdfs:label ?l FILTER(?l = 'Ann') }", "compares text"),
            ("SELECT ?x { wd:Q1 wdt:P3 ?x } LIMIT 1", "this query has LIMIT without ORDER BY"),
            ("SELECT ?x { ?x wdt:P3 ?y }", "are no chains of triples from an entity to one variable"),
            ("SELECT ?x { wd:Q1 wdt:P3 ?x } OFFSET 1", "this query has OFFSET"),
        ],
    )
    def test_what_is_no_walk(self, people: LivingIndex, query: str, reason: str) -> None:
        with people.open() as index, pytest.raises(QueryRefusedError) as caught:
            TreeEngine(index).run(query)
        assert reason in str(caught.value)
        assert "build a store of the index (`refactx store build`)" in str(caught.value)

    def test_a_predicate_that_nothing_has_is_no_error(self, people: LivingIndex) -> None:
        with people.open() as index:
            assert TreeEngine(index).run("SELECT ?x { wd:Q5 wdt:P3 ?x }") == Rows(("x",), [])
            assert TreeEngine(index).run("ASK { wd:Q5 wdt:P3 ?x }") is False


@pytest.fixture(scope="module")
def many() -> Store:
    """A store with triples of which all combinations of three take seconds."""
    store = Store()
    store.extend(
        Quad(NamedNode(f"http://a/{n}"), NamedNode("http://p"), NamedNode(f"http://b/{n}")) for n in range(300)
    )
    return store


SLOW = "SELECT (COUNT(*) AS ?n) { ?a ?p ?b . ?c ?q ?d . ?e ?r ?f }"


class TestStore:
    @pytest.fixture
    def engine(self, many: Store) -> Iterator[StoreEngine]:
        engine = StoreEngine(many)
        yield engine
        engine.close()

    def test_a_limit(self, engine: StoreEngine) -> None:
        for limit, query, rows, truncated in (
            (10, "SELECT ?a { ?a ?p ?b }", 10, True),
            (300, "SELECT ?a { ?a ?p ?b }", 300, False),
            (10, "SELECT ?a { ?a ?p ?b } LIMIT 10", 10, False),
            (None, "SELECT ?a { ?a ?p ?b . ?c ?q ?b }", 300, False),
        ):
            result = engine.run(query, limit=limit)
            assert isinstance(result, Rows)
            assert (len(result.rows), result.truncated) == (rows, truncated)

    def test_a_query_that_takes_too_long_does_not_keep_the_next_one(self, engine: StoreEngine) -> None:
        with pytest.raises(EngineTimeoutError, match=r"takes more than 0\.1 seconds on the store: bind more"):
            engine.run(SLOW, seconds=0.1)
        result = engine.run("SELECT (COUNT(*) AS ?n) { ?a ?p ?b }", seconds=60)
        assert isinstance(result, Rows)
        assert result.rows[0][0].value == "300"  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("query", "error", "said"),
        [
            ("SELECT ?a { ?a ?p }", SparqlSyntaxError, "line 1, column "),
            ("", SparqlSyntaxError, "the query is empty"),
            ("DELETE WHERE { ?a ?p ?b }", QueryRefusedError, "SPARQL update (DELETE), which was not run"),
            ("CONSTRUCT { ?a ?p ?b } WHERE { ?a ?p ?b }", QueryRefusedError, "this is a CONSTRUCT query"),
            ("DESCRIBE <http://a/1>", QueryRefusedError, "this is a DESCRIBE query"),
            ("ASK { SERVICE <http://127.0.0.1:1/> { ?a ?p ?b } }", QueryRefusedError, "asks another server"),
            (f"ASK {'{' * 5000} ?a ?p ?b {'}' * 5000}", QueryRefusedError, "5000 brackets within each other"),
        ],
    )
    def test_what_it_does_not_run(self, engine: StoreEngine, query: str, error: type[Exception], said: str) -> None:
        for seconds in (None, 60.0):
            with pytest.raises(error) as caught:
                engine.run(query, seconds=seconds)
            assert said in str(caught.value)
        assert engine.run("ASK { <http://a/1> ?p ?b }") is True


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "SELECT DISTINCT ?x { ?x wdt:P1 wd:Q6 }",
            "follows <{P1}> against its direction, for which this index has no inverse",
        ),
        ("SELECT DISTINCT ?x { ?x wdt:P1/wdt:P2* wd:Q6 }", "follows <{P2}> and <{P1}> against their direction"),
        ("SELECT DISTINCT ?x { wd:Q6 ^wdt:P2*/^wdt:P1 ?x }", "follows <{P2}> and <{P1}> against their direction"),
        ("SELECT DISTINCT ?x { ?x wdt:P1 ?y . ?x wdt:P2 ?y }", "no chains of triples from an entity"),
    ],
)
def test_a_path_that_the_facts_do_not_have_is_the_reason(db_url: str, tmp_path: Path, query: str, reason: str) -> None:
    plain = ingest_graph(db_url, tmp_path, list(EVERY), "plain", inverse=False)
    both = ingest_graph(db_url, tmp_path, list(EVERY), "both")
    with plain.open() as index:
        names = index.names_of(["P1", "P2"])
        with pytest.raises(QueryRefusedError) as error:
            TreeEngine(index).run(query)
        assert reason.format(**names) in str(error.value)
    if "no chains" not in reason:
        with both.open() as index:
            build_store(index)
            with closing(open_engine(index, "store")) as store:
                assert comparable(TreeEngine(index).run(query)) == comparable(store.run(query))
