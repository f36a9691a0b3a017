"""A walk on an index of random claims has the answer that its SPARQL has on the claims: inverse properties and hubs too."""

import random
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.ingest.graph_twin import Line, written
from support.ingest.living_index import LivingIndex
from support.query.check import EMPTY

from bench.gold_walks.answers import Answer, answer_of_index, answer_of_store, load
from bench.gold_walks.differences import is_tie
from refactx.ingest.source_options import Selection
from refactx.sparql.walks import from_sparql
from refactx.walks.facts import TreeFacts
from refactx.walks.language import BOUNDS, Hop, MemberValue, Query, QueryError, WalkFilter, write_line
from refactx.walks.sparql_text import to_sparql

ENTITIES = {f"Q{number}": name for number, name in enumerate(("Ann", "Bob", "Eve", "Eva", "Dan", "Abe"), 1)}
LINKS = {"P1": "before", "P2": "after", "P3": "father", "P4": "mother", "P5": "child", "P6": "spouse", "P7": "employer"}
PAIRS = [("P1", "P2"), ("P2", "P1"), ("P3", "P5"), ("P4", "P5"), ("P6", "P6")]
VALUES = {
    "P8": ("size", "^^decimal", ("-1.5", "0", "7", "30")),
    "P9": ("day", "^^dateTime", ("1990-01-01", "1991-05-02", "1991-12-31")),
    "P10": ("motto", "en", ("a, b", "Be", "b")),
}
EVERY: list[Line] = [("claim", *parts) for parts in product(ENTITIES, LINKS, ENTITIES)]
EVERY += [
    ("literal", entity, property_, f"{value}T00:00:00Z" if property_ == "P9" else value, datatype)
    for entity, (property_, (_, datatype, values)) in product(ENTITIES, VALUES.items())
    for value in values
]
NAMES: list[Line] = [("label", id_, name, "en") for id_, name in (ENTITIES | LINKS).items()]
NAMES += [("label", id_, name, "en") for id_, (name, *_) in VALUES.items()]
NAMES += [("label", "P1696", "inverse property", "en"), *(("claim", one, "P1696", other) for one, other in PAIRS)]


class Walker:
    """Random queries that lead somewhere, in a graph of facts by name."""

    def __init__(self, chance: random.Random, facts: TreeFacts) -> None:
        self.chance, self.facts = chance, facts

    def query(self) -> Query:
        head: Any = self.chance.choice(("list", "list", "count", "ask", "most", "least"))
        start = self.chance.choice(list(ENTITIES.values()))
        hops, nodes = self.hops([start], 1 if head == "ask" else self.chance.randint(1, 2))
        which = [self.which(nodes) for _ in range(self.chance.choice((0, 0, 1, 2)))]
        if head not in ("most", "least"):
            return Query(head, start, hops, tuple(which))
        if self.chance.random() < 0.4:
            return Query(head, start, hops, tuple(which), MemberValue(self.predicate(nodes), counted=True), 2)
        return Query(
            head, start, hops, tuple(which), MemberValue(self.chance.choice(("size", "day"))), self.chance.randint(1, 3)
        )

    def predicate(self, nodes: Sequence[str]) -> str:
        """A predicate of some entities that leads to entities."""
        own = {name for node in nodes for name in self.facts.predicates(node)} or set(LINKS.values())
        links = [one.name for one in self.facts.describe(sorted(own)).values() if one.kind == "entity"]
        return self.chance.choice(sorted(links) or ["child"])

    def hops(self, nodes: Sequence[str], most: int) -> tuple[tuple[Hop, ...], list[str]]:
        found, reached = list[Hop](), list(nodes)
        for _ in range(most):
            closure: Any = self.chance.choice(("", "", "", "+", "*"))
            found.append(Hop(self.predicate(reached), closure))
            reached = sorted({name for _, name in self.facts.objects(reached, found[-1].predicate)}) or ["Ann"]
        return tuple(found), reached

    def which(self, nodes: Sequence[str]) -> WalkFilter:
        hops, reached = self.hops(nodes, self.chance.randint(0, 1))
        kind = self.chance.choice((*VALUES, "entity", "entity", "name"))
        if kind == "entity":
            return WalkFilter(hops, "is", self.chance.choice(reached))
        if kind == "name":
            return WalkFilter(
                hops, self.chance.choice(("starts with", "contains", "equals")), self.chance.choice(("E", "ann"))
            )
        name, _, values = VALUES[kind]
        operators: Any = ("starts with", "contains", "equals") if kind == "P10" else ("equals", *BOUNDS)
        return WalkFilter((*hops, Hop(name)), self.chance.choice(operators), self.chance.choice(values))


@pytest.mark.long
@pytest.mark.parametrize(("seed", "limit"), [(1, 1000), (2, 1000), (3, 2), (4, 1), (5, 3)])
def test_a_walk_on_an_index_has_the_answer_of_its_sparql(seed: int, limit: int, db_url: str, tmp_path: Path) -> None:
    """An object with more subjects than the limit is a hub."""
    chance, path, living = random.Random(seed), tmp_path / "claims.nt", LivingIndex(db_url, tmp_path)
    claims = chance.sample(EVERY, chance.randint(30, 120))
    path.write_text("".join(written(line) + "\n" for line in [*NAMES, *claims]))
    living.ingest_from(path, selection=Selection(inverse=True, inverse_limit=limit))
    store, answered = load(path), 0
    with living.open() as index:
        facts = TreeFacts(index)
        assert bool(index.hubs(ENTITIES.values())) == (limit < 1000)
        for _ in range(300):
            query = Walker(chance, facts).query()
            sparql, line = to_sparql(query, facts), write_line(query)
            expected = answer_of_store(sparql, store)
            got = answer_of(query, facts)
            if got is None:
                assert limit < 1000
                continue
            assert got == expected or is_tie(query, facts, (expected, got)), (line, sparql)
            read = from_sparql(sparql, facts)
            assert read is None or answer_of(read, facts) in (got, None), (line, sparql)
            answered += bool(got)
    assert answered > 150


def answer_of(query: Query, facts: TreeFacts) -> Answer | None:
    """The answer of an index: empty, if no member has a predicate, which is an error for people.

    None for those who have a hub as a child: nothing tells `child` from what `father` and `mother` say.
    """
    try:
        return answer_of_index(query, facts)
    except QueryError as error:
        if "has too many facts with <child of>" in str(error):
            return None
        assert re.search(EMPTY, str(error)), error
        return frozenset()
