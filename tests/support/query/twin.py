"""Queries by brute force: a graph as a set of triples, what a query means on it, and the graph as a `FactSet`.

Names of entities are letters. Properties `p` and `q` lead to entities, and `p of` and `q of` read them backwards; `t` has
times, `n` quantities, `x` text, and `m` entities, read backwards by `m of`, and quantities.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from refactx.fact import Link, LinkedFact, Qualifiers
from refactx.walks.language import BOUNDS, Hop, MemberValue, Predicate, Query, ValueKind, WalkFilter

Fact = tuple[str, str, str]
Graph = frozenset[Fact]

ENTITIES = ("A", "B", "C", "D", "Ea", "Eb (e)", "F (f)")
TIMES = ("1990", "1990-05", "1991-05-02", "1995-12-31")
NUMBERS = ("-1.5", "0", "7", "7.0", "30")
TEXTS = ("ea (e)", "Be", "b")
KINDS: dict[str, ValueKind] = {"p": "entity", "q": "entity", "t": "time", "n": "quantity", "x": "text", "m": "mixed"}
OBJECTS = {"p": ENTITIES, "q": ENTITIES, "t": TIMES, "n": NUMBERS, "x": TEXTS, "m": (*ENTITIES, *NUMBERS)}
INVERTED = ("p", "q", "m")
EVERY = [(s, p, o) for p in OBJECTS for s in ENTITIES for o in OBJECTS[p]]
SPARSE = st.frozensets(st.sampled_from(EVERY), min_size=1, max_size=30)
DENSE = st.builds(
    lambda seed, size: frozenset(random.Random(seed).sample(EVERY, size)), st.integers(0, 1 << 20), st.integers(30, 160)
)
CLAIMS = st.one_of(SPARSE, DENSE, DENSE, DENSE)
PREDICATES = (*KINDS, "p of", "q of", "m of")
LINKS = ("p", "q", "m", "p of", "q of", "m of")


def objects_as(predicate: str) -> str:
    """The property whose objects are of the kind of a predicate's."""
    return "p" if predicate.endswith(" of") else predicate


def with_inverse(claims: Iterable[Fact], limit: float = float("inf")) -> Graph:
    """Claims and their inverse facts, without those of objects with more than `limit` subjects by a property."""
    claims = set(claims)
    subjects = Counter((p, o) for _, p, o in claims)
    back = {(o, f"{p} of", s) for s, p, o in claims if p in INVERTED and o in ENTITIES and subjects[p, o] <= limit}
    return frozenset(claims | back)


@dataclass
class SetFacts:
    """A graph as a `FactSet`. `limit`: an object with more subjects is a hub, whose inverse facts are only counted;
    `size`: how many facts a scan for them reads, by default too many; `scans`: the ends that were scanned for, and how many."""

    claims: Graph
    limit: float = float("inf")
    asked: list[str] = field(default_factory=list)
    size: int = 1 << 60
    scans: list[object] = field(default_factory=list)
    base: str | None = None

    @property
    def facts(self) -> Graph:
        return with_inverse(self.claims, self.limit)

    def predicates(self, subject: str) -> dict[str, int]:
        return dict(Counter(p for s, p, _ in sorted(with_inverse(self.claims)) if s == subject))

    def describe(self, predicates: Sequence[str]) -> dict[str, Predicate]:
        return {
            name: Predicate(name, f"P{ord(name[0])}", name.endswith(" of"), KINDS[objects_as(name)])
            for name in predicates
            if name in PREDICATES
        }

    def link(self, name: str, id_: str | None) -> Link:
        return Link(name, id_)

    def inverse_of(self, predicate: str) -> str | None:
        if predicate.removesuffix(" of") not in INVERTED:
            return None
        return predicate.removesuffix(" of") if predicate.endswith(" of") else f"{predicate} of"

    def counts(self, subjects: Sequence[str], predicate: str) -> list[int]:
        every = with_inverse(self.claims)
        return [sum((s, p) == (subject, predicate) for s, p, _ in every) for subject in subjects]

    def is_hub(self, subject: str, predicate: str) -> bool:
        return any((s, p) == (subject, predicate) for s, p, _ in with_inverse(self.claims) - self.facts)

    def objects(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        facts = sorted(self.facts)
        for subject in subjects:
            yield from ((s, o) for s, p, o in facts if (s, p) == (subject, predicate))

    has_statements = False

    def statements(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str, Qualifiers]]:
        yield from ((subject, value, ()) for subject, value in self.objects(subjects, predicate))

    def origins(self, subject: str, predicate: str, object_: str) -> list[str]:
        return []

    def with_references(self, facts: Sequence[LinkedFact]) -> Sequence[LinkedFact]:
        return facts

    def hold(self, facts: Sequence[Fact]) -> list[bool]:
        return [fact in self.facts for fact in facts]

    def scan(self, ends: Sequence[tuple[str, str]], lasts: Callable[[], bool], most: int | None = None) -> list[Fact]:
        self.scans.append((tuple(sorted(ends)), most))
        return [(s, p, o) for s, p, o in sorted(self.facts) if (p, o) in ends and lasts()][:most]

    def ids(self, names: Sequence[str]) -> dict[str, str]:
        return {name: f"Q{ENTITIES.index(name)}" for name in names if name in ENTITIES}

    def names(self, ids: Sequence[str], *, inverse: bool = False) -> dict[str, str]:
        properties = {f"P{ord(name[0])}": name for name in PREDICATES if name.endswith(" of") == inverse}
        entities = {} if inverse else {f"Q{number}": name for number, name in enumerate(ENTITIES)}
        return {id_: (properties | entities)[id_] for id_ in ids if id_ in properties or id_ in entities}


# --- What a query means


def reach(graph: Graph, nodes: set[str], hop: Hop) -> set[str]:
    """The set to which a hop leads from a set."""

    def once(some: set[str]) -> set[str]:
        return {o for s, p, o in graph if s in some and p == hop.predicate}

    if not hop.closure:
        return once(nodes)
    found = nodes if hop.closure == "*" else once(nodes)
    while once(found) - found:
        found = found | once(found)
    return found


def reach_all(graph: Graph, nodes: set[str], hops: Sequence[Hop]) -> set[str]:
    for hop in hops:
        nodes = reach(graph, nodes, hop)
    return nodes


def compares(text: str, operator: str, value: str) -> bool:
    """Times begin with those that contain them, and are in the order of the alphabet."""
    plain = text.partition(" (")[0].lower()
    if operator in ("is", "starts with", "contains"):
        return {"is": text == value, "starts with": plain.startswith(value.lower())}.get(
            operator, value.lower() in plain
        )
    if text in NUMBERS and value in NUMBERS:
        one, other = Decimal(text), Decimal(value)
        return {
            "equals": one == other,
            "over": one > other,
            "under": one < other,
            "from": one >= other,
            "up to": one <= other,
        }[operator]
    if all(re.fullmatch(r"\d{4}(-\d\d){0,2}", one) for one in (text, value)):  # bounds are read as others than `TIMES`
        contained = text.startswith(value)
        after = text > value and not contained
        return {"equals": contained, "over": after, "under": text < value, "from": text >= value, "up to": not after}[
            operator
        ]
    return operator == "equals" and value.lower() in (text.lower(), plain)


def members(graph: Graph, query: Query) -> set[str]:
    """The members that all filters admit."""
    return {
        member
        for member in reach_all(graph, {query.start}, query.hops)
        if all(_admits(graph, member, which) != which.negated for which in query.which)
    }


def _admits(graph: Graph, member: str, which: WalkFilter) -> bool:
    """Whether a filter admits a member: by what its hops lead to, or by how many that are."""
    found = reach_all(graph, {member}, which.hops)
    if which.counted:
        count, value = len(found), Decimal(which.value)
        admits = {"over": count > value, "under": count < value, "from": count >= value, "up to": count <= value}
        return admits.get(which.operator, count == value)
    return any(compares(end, which.operator, value) for end in found for value in which.values)


def first_by(graph: Graph, query: Query) -> list[tuple[str, Any]]:
    """The members in order with what they are sorted by; members without it are left out."""
    assert query.by is not None
    sign = -1 if query.head == "most" else 1
    keys: dict[str, Any] = {}
    for member in members(graph, query):
        values = reach_all(graph, {member}, query.by.hops)
        if not values:
            continue
        if query.by.counted:
            keys[member] = len(values)
        else:
            ranks = [Decimal(v) if v in NUMBERS else TIMES.index(v) for v in values]
            keys[member] = max(ranks) if query.head == "most" else min(ranks)
    return sorted(sorted(keys.items()), key=lambda one: sign * one[1])[: query.limit]


# --- Random queries


class Drawn:
    """Draws hops and filters, most of which lead somewhere in a graph."""

    def __init__(self, draw: st.DrawFn, graph: Graph) -> None:
        self.draw, self.graph = draw, graph

    def hop(self, nodes: set[str], of: Sequence[str], closures: Sequence[str] = ("",)) -> Hop:
        """A hop from a set; of three in four the predicate is one that a member has."""
        own = sorted({p for s, p, _ in self.graph if s in nodes and p in of})
        closure: Any = self.draw(st.sampled_from(closures))
        return Hop(self.draw(st.sampled_from(own if own and self.draw(st.integers(0, 3)) else of)), closure)

    def hops(self, nodes: set[str], most: int, last: Sequence[str]) -> list[Hop]:
        """Hops over links, and maybe one over any of the predicates `last`."""
        found: list[Hop] = []
        for _ in range(self.draw(st.integers(0, most))):
            found.append(self.hop(nodes, LINKS, ("", "", "+", "*")))
            nodes = reach(self.graph, nodes, found[-1])
        return found + ([self.hop(nodes, last)] if last and self.draw(st.booleans()) else [])

    def which(self, nodes: set[str], kind: str, has_hops: bool) -> WalkFilter:
        """A filter of members of a kind, whose operator and value fit what its hops lead to, with some exceptions."""
        hops = self.hops(nodes, 2, PREDICATES) if has_hops else []
        last = objects_as(hops[-1].predicate) if hops else kind
        operators = ["is", "equals", "starts with", "contains", *(BOUNDS if last in "tnm" else [])]
        operator: Any = self.draw(st.sampled_from(operators))
        if operator in ("starts with", "contains"):
            return WalkFilter(tuple(hops), operator, self.draw(st.sampled_from(("a", "E", "1990", "-"))))
        ends = sorted(reach_all(self.graph, nodes, hops))
        values = OBJECTS[last] if last != "m" or operator not in BOUNDS else NUMBERS
        fitting = [end for end in ends if end in values] or values
        some = self.draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=self.draw(st.sampled_from((1, 1, 2)))))
        return WalkFilter(tuple(hops), operator, some[0], also=tuple(some[1:]))


@st.composite
def queries(draw: st.DrawFn, claims: Graph) -> Query:
    """A query on a graph."""
    graph = with_inverse(claims)
    drawn, start = Drawn(draw, graph), draw(st.sampled_from(sorted({s for s, _, _ in graph})))
    head: Any = draw(st.sampled_from(["list", "list", "count", "ask", "most", "least"]))
    is_sorted = head in ("most", "least")
    hops = drawn.hops({start}, 0 if head == "ask" else 2, () if is_sorted else PREDICATES)
    hops = hops or ([] if head == "ask" else [drawn.hop({start}, LINKS)])
    kind, nodes = objects_as(hops[-1].predicate) if hops else "p", reach_all(graph, {start}, hops)
    filters = st.lists(st.just(None), min_size=0 if hops else 1, max_size=2)
    which = [drawn.which(nodes, kind, kind in "pqm") for _ in draw(filters)]
    if not is_sorted:
        return Query(head, start, tuple(hops), tuple(which))
    counted = draw(st.booleans())
    via = [drawn.hop(nodes, LINKS).predicate] if draw(st.integers(0, 3)) == 0 else []
    last = drawn.hop(reach_all(graph, nodes, list(map(Hop, via))), PREDICATES if counted else ("t", "n"))
    by = MemberValue(last.predicate, counted, via=tuple(via))
    return Query(head, start, tuple(hops), tuple(which), by, draw(st.integers(1, 4)))


ASKED = CLAIMS.flatmap(lambda claims: st.tuples(st.just(claims), queries(claims)))
"""A graph and a query on it."""
