"""The reasons why queries have no rows: each is true of the data, and the part that it names is there in the query."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyoxigraph import Store
from support.ingest.living_index import LivingIndex
from support.sparql.small_graph import EVERY, Queries, ingest_graph

from refactx.sparql.empty import NOT_FOUND, explain_empty, is_empty
from refactx.sparql.engines import EngineError, Result, SparqlEngine, StoreEngine, TreeEngine, open_engine
from refactx.sparql.labels import with_iris
from refactx.sparql.store import build_store, open_store
from refactx.walks import TreeFacts


@pytest.fixture(scope="module")
def opened(stored: LivingIndex) -> Iterator[tuple[SparqlEngine, TreeFacts]]:
    with stored.open() as index:
        engine = open_engine(index, "store")
        yield engine, TreeFacts(index)
        engine.close()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT ?x { <Eve> <size> ?x }", "nothing matches `<Eve> <size> ?x`: <Eve> has <day>, <motto>, <spouse>"),
        ("SELECT ?x { <Dan> <before> ?x }", "nothing matches `<Dan> <before> ?x`: <Dan> has no properties in the index"),
        ("SELECT ?x { ?x <spouse> <Bob> }", "nothing matches `?x <spouse> <Bob>`: the other way round it does"),
        ("SELECT ?x { ?x rdfs:label 'Bob' }",
         "nothing matches `?x rdfs:label 'Bob'`: its text has a language there, write 'Bob'@en"),
        ("SELECT ?x { wd:Q99 <spouse> ?x }", "nothing matches `wd:Q99 <spouse> ?x`: the index has nothing with the id Q99"),
        ("SELECT ?x { <Bob> wdt:P99 ?x }", "nothing matches `<Bob> wdt:P99 ?x`: the index has no property with the id P99"),
        ("SELECT ?x { <Ann> <child> ?x . ?x <day> ?d . ?x <size> ?n }",
         "each of these matches something, but not together: `?x <day> ?d` and `?x <size> ?n`"),
        ("SELECT ?x { <Ann (a poet)> <child> ?x ; <before> ?y }",
         "nothing matches `<Ann (a poet)> <before> ?y`: <Ann (a poet)> has <child>"),
        ("SELECT ?x { ?x <spouse> <Dan> ; <size> ?n FILTER(?n > 100) }",
         "the patterns match, but nothing passes `FILTER(?n > 100)`"),
        ("SELECT ?x { ?x <spouse> <Dan> FILTER(?x != <Bob>) FILTER(?x != <Eve>) }",
         "the patterns match, but nothing passes all of `FILTER(?x != <Bob>)` and `FILTER(?x != <Eve>)`"),
        ("SELECT ?x { <Bob> <spouse> ?x MINUS { ?y <spouse> ?x } }",
         "the patterns match, but nothing passes `MINUS { ?y <spouse> ?x }`"),
        ("SELECT ?x { <Ann> <child> ?x } OFFSET 5", "the patterns match, but OFFSET 5 leaves no row"),
        ("SELECT ?x { { <Bob> <child> ?x } UNION { <Dan> <child> ?x } }",
         "no branch of `{ <Bob> <child> ?x } UNION { <Dan> <child> ?x }` matches anything"),
        ("SELECT ?x { { <Bob> <child> ?x . ?x ?p ?o } }", "nothing matches `<Bob> <child> ?x`"),
        ("SELECT ?x { VALUES ?x { <Bob> } <Ann> <child> ?y . ?x <day> ?d }",
         "but not together: `VALUES ?x { <Bob> }` and `?x <day> ?d`"),
        ("SELECT ?x { ?x <spouse> <Dan> OPTIONAL { ?x <size> ?n } FILTER(?n = 8) }", "nothing passes `FILTER(?n = 8)`"),
        ("SELECT ?x { [ <child> <Bob> ] <size> ?x }", "nothing matches `[ <child> <Bob> ] <size> ?x`"),
        ("SELECT (COUNT(?x) AS ?n) { <Bob> <child> ?x }", "nothing matches `<Bob> <child> ?x`"),
        ("ASK { <Bob> <child> <Dan> }", "nothing matches `<Bob> <child> <Dan>`"),
    ],
)  # fmt: skip
def test_the_reason(opened: tuple[SparqlEngine, TreeFacts], query: str, reason: str) -> None:
    engine, names = opened
    labelled = with_iris(query, names)
    assert is_empty(engine.run(labelled.sparql))
    assert reason in explain_empty(labelled, engine, names)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("ASK { FILTER(1 = 2) }", "but nothing passes `FILTER(1 = 2)`"),
        ("SELECT (SUM(?n - ?n) AS ?m) { ?x <size> ?n }", "each part of it matches something, and all parts together"),
        ("SELECT ?x { ?x ^(<spouse>) <Bob> . ?x <child> <Bob> }", "not together: `?x ^<spouse> <Bob>`"),
    ],
)
def test_a_reason_or_that_none_was_found(opened: tuple[SparqlEngine, TreeFacts], query: str, reason: str) -> None:
    engine, names = opened
    labelled = with_iris(query, names)
    assert is_empty(engine.run(labelled.sparql))
    assert reason in explain_empty(labelled, engine, names)


def test_the_tree_explains_what_it_can(opened: tuple[SparqlEngine, TreeFacts], stored: LivingIndex) -> None:
    _, names = opened
    with stored.open() as index:
        query = with_iris("SELECT ?x { <Bob> <child> ?x }", names)
        reason = explain_empty(query, TreeEngine(index), names)
        assert reason == "nothing matches `<Bob> <child> ?x`: the other way round it does"
        query = with_iris("SELECT DISTINCT ?x { <Eve> <spouse> ?x . <Ann> <child> ?x }", names)
        assert "not together" in explain_empty(query, TreeEngine(index), names)


class Failing:
    """An engine that answers some questions, and then fails."""

    name = "failing"

    def __init__(self, engine: SparqlEngine, answers: int) -> None:
        self._engine, self.left = engine, answers

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        self.left -= 1
        if self.left < 0:
            raise EngineError("gone")
        return self._engine.run(query, limit=limit, seconds=seconds)

    def close(self) -> None:
        """Do nothing."""


def test_an_engine_that_fails_gives_no_wrong_reason(opened: tuple[SparqlEngine, TreeFacts]) -> None:
    engine, names = opened
    query = with_iris("SELECT ?x { <Ann> <child> ?x . ?x <day> ?d . ?x <size> ?n FILTER(?n > 3) }", names)
    reasons = {explain_empty(query, Failing(engine, answers), names) for answers in range(15)}
    together = "each of these matches something, but not together: "
    unfound = f"{NOT_FOUND}: one of its parts alone could not be run (gone)"
    assert unfound in reasons
    assert all(reason == unfound or reason.startswith(together) for reason in reasons)
    assert f"{together}`?x <day> ?d` and `?x <size> ?n`" in reasons


@pytest.mark.parametrize("seed", range(2))
def test_what_is_blamed_has_no_rows(seed: int, db_url: str, tmp_path: Path) -> None:
    claims = random.Random(seed).sample(EVERY, 60)
    living, queries, explained = ingest_graph(db_url, tmp_path, claims, f"blamed{seed}"), Queries(seed), 0
    with living.open() as index:
        build_store(index)
        with open_store(index) as store:
            engine, names = StoreEngine(store.oxigraph), TreeFacts(index)
            for _ in range(150):
                query = queries.query()
                if not is_empty(engine.run(query)):
                    continue
                reason = explain_empty(with_iris(query, names), engine, names)
                assert reason, query
                parts = [part for part in reason.split(": <")[0].split("`")[1::2] if "wdt:" in part or "FILTER" in part]
                assert parts, reason
                assert all(part in query for part in parts), reason
                if "but nothing passes" not in reason and "leaves no row" not in reason:
                    assert engine.run(f"ASK {{ {' . '.join(parts)} }}") is False, (query, reason)
                    for part in parts[: len(parts) if len(parts) > 1 else 0]:
                        assert engine.run(f"ASK {{ {part} }}") is True, (query, reason)
                explained += 1
    assert explained > 10


def test_a_count_of_nothing_is_empty() -> None:
    engine = StoreEngine(Store())
    assert is_empty(engine.run("SELECT (COUNT(*) AS ?n) (SAMPLE(?a) AS ?b) { ?a ?p ?o }"))
    assert not is_empty(engine.run("SELECT * { VALUES ?x { 0 0 } }"))
    assert not is_empty(engine.run("SELECT * { VALUES ?x { 'a' } }"))
