"""Random worlds of statements as an index and as Wikidata's claims in a store, and random walks over them.

`python -m support.query.statement_world 2000` in `tests` compares so many walks with their SPARQL, and prints what differs.
"""

import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, QueryBoolean, Store

from refactx.iris import PREFIXES, XSD
from refactx.walks.evaluate import Result, WalkLimits, evaluate_walk
from refactx.walks.language import (
    BOUNDS,
    Groups,
    Hop,
    MemberValue,
    Query,
    QueryError,
    StatementFilter,
    Walk,
    WalkFilter,
    write_line,
)
from refactx.walks.sparql_text import to_sparql
from support.query.memory_index import RowsIndex
from support.query.world import Properties, WorldIndex

NAMES = ("Ann", "Bob", "Cay", "Dan", "Eve", "Fay")
DAYS = ("1989-05-02", "1990-01-01", "1990-07-15", "1991-12-31", "1993-03-09", "1994-01-01")
NUMBERS = ("-1.5", "0", "7", "12.25", "30")
TIMES = (*DAYS, "1990", "1991", "1990-07", "1993")
ORDINALS = ("1", "2", "15")
PROPERTIES: Properties = {
    "mayor": ("P6", "entity", "mayor of"),
    "award": ("P166", "entity", "award of"),
    "population": ("P1082", "quantity", ""),
    "boss": ("P7", "entity", "boss of"),
    "born": ("P569", "time", ""),
    "height": ("P2048", "quantity", ""),
    "start time": ("P580", "time", ""),
    "end time": ("P582", "time", ""),
    "point in time": ("P585", "time", ""),
    "series ordinal": ("P1545", "text", ""),
    "for work": ("P1686", "entity", ""),
}
LINKS, STATED = ("mayor", "award", "boss", "mayor of", "award of", "boss of"), ("mayor", "award", "population")
EMPTY = (
    "no fact of",
    "is no predicate of",
    "has the qualifier",
    "cannot be compared",
    "no fact begins",
    "from literals",
)
Stated = tuple[str, str, str, tuple[tuple[str, str], ...]]


class StatementIndex(WorldIndex):
    """Claims, of which some have qualifiers. Those that are not of the best rank (`lesser`) have no plain facts."""

    def __init__(self, claims: Sequence[Stated], lesser: frozenset[tuple[str, str, str]]) -> None:
        super().__init__({claim[:3] for claim in claims} - lesser, PROPERTIES)
        stated = {(*claim[:3], *(part for pair in claim[3] for part in pair)) for claim in claims if claim[3]}
        RowsIndex.__init__(self, [(1, frozenset({*self.graph, *stated}))])  # type: ignore[arg-type]


class World:
    """A random world, its facts and its store."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        values: dict[str, Sequence[str]] = {"population": NUMBERS, "height": NUMBERS, "born": DAYS}
        chosen = self.chance.choices(list(product(NAMES, ("mayor", "award", "boss", *values))), k=60)
        every = [(one, name, self.chance.choice(values.get(name, NAMES))) for one, name in chosen]
        every += [(name, "born", self.chance.choice(DAYS)) for name in NAMES]
        number = Counter(every)
        self.claims: list[Stated] = list(
            dict.fromkeys((*fact, self._qualifiers(number[fact] > 1) if fact[1] in STATED else ()) for fact in every)
        )
        lesser = set[tuple[str, str, str]]()
        for pair in {fact[:2] for fact in every if fact[1] in STATED and self.chance.random() < 0.4}:
            objects = sorted({fact[2] for fact in every if fact[:2] == pair})
            others = {(*pair, one) for one in self.chance.sample(objects, len(objects) - 1)}  # one is preferred
            if any(claim[3] for claim in self.claims if claim[:3] in others):  # what else would tell the rank
                lesser |= others
        self.lesser = frozenset(lesser)
        self.facts = StatementIndex(self.claims, self.lesser).facts
        self.ids = self.facts.ids([*NAMES, *PROPERTIES])
        self.named = {id_: name for name, id_ in self.ids.items()}
        self.store = self._store()

    def _qualifiers(self, must: bool) -> tuple[tuple[str, str], ...]:
        """Random qualifiers, in the order in which they are written."""
        start, end = sorted(self.chance.sample(DAYS, 2))
        times: Any = [(), (("start time", start),), (("start time", start), ("end time", end)), (("end time", end),)]
        found = [*self.chance.choice([*times, (("point in time", start),)])]
        if must or self.chance.random() < 0.4:
            found.append(("series ordinal", self.chance.choice(ORDINALS)))
        if self.chance.random() < 0.4:
            found.append(("for work", self.chance.choice(NAMES)))
        return tuple(found)

    def _store(self) -> Store:
        store = Store()
        preferred = {fact[:2] for fact in self.lesser}
        for number, (subject, predicate, value, qualifiers) in enumerate(self.claims):
            one, id_ = NamedNode(PREFIXES["wd"] + self.ids[subject]), self.ids[predicate]
            statement = BlankNode(f"s{number}")
            is_best = (subject, predicate, value) not in self.lesser
            if not (is_best or qualifiers):  # no fact says so
                continue
            rank = "PreferredRank" if is_best and (subject, predicate) in preferred else "NormalRank"
            parts: list[tuple[Any, str, Any]] = [
                (one, f"p:{id_}", statement),
                (statement, f"ps:{id_}", self._term(predicate, value)),
                (statement, "wikibase:rank", NamedNode(PREFIXES["wikibase"] + rank)),
            ]
            parts += [(statement, f"pq:{self.ids[name]}", self._term(name, said)) for name, said in qualifiers]
            if is_best:
                parts.append((one, f"wdt:{id_}", self._term(predicate, value)))
                parts.append((statement, "rdf:type", NamedNode(PREFIXES["wikibase"] + "BestRank")))
            for term, name, other in parts:
                prefix, _, local = name.partition(":")
                store.add(Quad(term, NamedNode(PREFIXES[prefix] + local), other))
        return store

    def _term(self, predicate: str, value: str) -> NamedNode | Literal:
        kind = PROPERTIES[predicate][1]
        if kind == "entity":
            return NamedNode(PREFIXES["wd"] + self.ids[value])
        if kind == "time":
            return Literal(f"{value}T00:00:00Z", datatype=NamedNode(XSD + "dateTime"))
        return Literal(value, datatype=NamedNode(XSD + "decimal")) if kind == "quantity" else Literal(value)

    def rows(self, sparql: str) -> set[tuple[str, ...]] | bool | list[tuple[str, ...]]:
        """The rows of a query by name, in order; empty texts where nothing is bound."""
        found = self.store.query(sparql)
        if isinstance(found, QueryBoolean):
            return bool(found)
        return [tuple("" if value is None else self._text(value) for value in row) for row in found]  # type: ignore[union-attr]

    def _text(self, value: Any) -> str:
        if isinstance(value, NamedNode):
            return self.named[value.value.rpartition("/")[2]]
        return str(value.value).removesuffix("T00:00:00Z")

    # --- Walks

    def query(self) -> Query:
        """A random query, that most often leads somewhere."""
        one, start = self.chance, self.chance.choice(NAMES)
        head: Any = one.choice(["list"] * 4 + ["count", "ask", "most", "least", "sum", "average", "difference"])
        if head == "difference":
            return self._difference(start)
        also = tuple(one.sample(NAMES, one.choice((0, 0, 0, 1, 2))))
        hops, nodes = self.hops(
            [start, *also], 1 if head == "ask" else one.choice((1, 1, 2)), literal=head in ("list", "count")
        )
        which = tuple(self.which(nodes) for _ in range(one.choice((0, 0, 1, 2)))) if nodes else ()
        last = hops[-1].predicate.removesuffix(" of")
        reads = last in ("mayor", "award") and not hops[-1].closure
        by = show = None
        per = None
        if head in ("most", "least", "sum", "average"):
            by = MemberValue(one.choice(("height", "population"))) if nodes else MemberValue("height")
            if one.random() < 0.2:
                by = replace(by, via=(one.choice(LINKS),))
            elif one.random() < 0.3:
                by = MemberValue(one.choice(LINKS), counted=True)
            elif reads and head in ("most", "least") and one.random() < 0.7:
                by = MemberValue(one.choice(("start time", "end time", "point in time")), its=True)
        if head in ("count", "sum", "average") and one.random() < 0.6 and self._leads_to_entities(hops[-1]):
            per = self._groups()
        if head == "list" and one.random() < 0.4 and self._leads_to_entities(hops[-1]):
            show = [MemberValue(one.choice(("height", "born", "boss", "mayor of"))) for _ in range(one.choice((1, 2)))]
            if one.random() < 0.3:
                show.append(MemberValue("born", via=(one.choice(LINKS),)))
            if reads:
                show.append(MemberValue(one.choice(("start time", "for work", "series ordinal")), its=True))
        limit = one.choice((1, 1, 2, 3)) if head in ("most", "least") else 1
        return Query(head, start, hops, which, by, limit, also, per, tuple(dict.fromkeys(show or ())))

    @staticmethod
    def _leads_to_entities(hop: Hop) -> bool:
        return (hop.its or hop.predicate) in (*LINKS, "for work")

    def _groups(self) -> Groups:
        one = self.chance
        hops = tuple(Hop(one.choice(LINKS)) for _ in range(one.choice((1, 1, 2))))
        operator: Any = one.choice((None, None, None, *BOUNDS, "equals"))
        order: Any = one.choice(("", "most", "least"))
        return Groups(
            hops, operator, one.choice(("1", "2", "7")) if operator else "", order, one.choice((0, 2)) if order else 0
        )

    def _difference(self, start: str) -> Query:
        one, other = self.chance, self.chance.choice(NAMES)
        if one.random() < 0.4:
            return Query("difference", start, by=MemberValue(one.choice(LINKS), counted=True), minus=Walk(other))
        if one.random() < 0.5:
            return Query("difference", start, by=MemberValue("height"), minus=Walk(other))
        hops = [(self.stated_hop([name], "population"),) for name in (start, other)]
        return Query("difference", start, hops[0], minus=Walk(other, hops[1]))

    def hops(self, nodes: Sequence[str], most: int, *, literal: bool = False) -> tuple[tuple[Hop, ...], list[str]]:
        """Hops from some entities, and the entities that their predicates lead to."""
        found, reached = list[Hop](), list(nodes)
        for place in range(most):
            own = sorted({name for node in reached for name in self.facts.predicates(node)})
            links = [name for name in own if name in LINKS] or list(LINKS)
            if literal and place == most - 1 and self.chance.random() < 0.15:
                links = ["population"]
            hop = self.stated_hop(reached, self.chance.choice(links))
            found.append(hop)
            reached = sorted({end for node in reached for end in self._ends(node, hop)} & set(NAMES))
            if not reached:
                break
        return tuple(found), reached

    def _ends(self, node: str, hop: Hop) -> list[str]:
        if hop.its == "for work":
            return [value for claim in self.claims for name, value in claim[3] if name == "for work"]
        return [value for _, value in self.facts.objects([node], hop.predicate)] if hop.its is None else []

    def stated_hop(self, nodes: Sequence[str], predicate: str) -> Hop:
        """A hop over a predicate, which statements narrow if it may have some."""
        one = self.chance
        if predicate.removesuffix(" of") not in STATED or one.random() < 0.25:
            closure: Any = one.choice(("", "", "+", "*")) if predicate in LINKS else ""
            return Hop(predicate, closure)
        where = [self.condition(predicate, first=place == 0) for place in range(one.choice((0, 1, 1, 2)))]
        its = one.choice(("start time", "for work", "point in time")) if one.random() < 0.15 else None
        return Hop(predicate, "", tuple(where), its)

    def condition(self, predicate: str, *, first: bool) -> StatementFilter:
        one = self.chance
        word: Any = one.choice(
            ("at", "at", "between", "earliest", "latest", "being", "with", "with", *(["now"] if first else []))
        )
        if word == "at":
            return StatementFilter(word, (one.choice(TIMES),))
        if word == "between":
            return StatementFilter(word, tuple(sorted(one.choices(TIMES, k=2))))
        if word == "being":
            return StatementFilter(word, (one.choice(NUMBERS if predicate == "population" else NAMES),))
        if word != "with":
            return StatementFilter(word)
        name = one.choice(("start time", "end time", "series ordinal", "for work"))
        operator: Any = one.choice((*BOUNDS, "equals")) if name.endswith("time") else "is"
        values = {"series ordinal": ORDINALS, "for work": NAMES}.get(name, TIMES)
        return StatementFilter(word, (name, one.choice(values)), operator)

    def which(self, nodes: Sequence[str]) -> WalkFilter:
        one, negated = self.chance, self.chance.random() < 0.3
        kind = one.choice(("number", "number", "entity", "entity", "count", "than", "statement"))
        hops, _ = self.hops(nodes, 1)
        entity = one.choice(NAMES)
        sign: Any = one.choice(("over", "under", "equals"))
        if kind == "number":
            return WalkFilter((Hop(one.choice(("height", "population"))),), sign, one.choice(NUMBERS), negated=negated)
        if kind == "count":
            than = self.hops([entity], 1)[0] if one.random() < 0.3 else ()
            return WalkFilter(hops, sign, entity if than else one.choice(("0", "1", "2")), than, True, negated)
        if kind == "than":
            return WalkFilter(
                (Hop("height"),), one.choice(("over", "under")), entity, (Hop("height"),), negated=negated
            )  # type: ignore[arg-type]
        if kind == "statement":
            hops = (Hop("mayor", "", (self.condition("mayor", first=True),)),)
            return WalkFilter(hops, "is", entity, negated=negated)
        also = (one.choice(NAMES),) if one.random() < 0.3 else ()
        return WalkFilter((Hop(one.choice(LINKS)),), "is", entity, negated=negated, also=also)


def outcome(world: World, query: Query) -> str:
    """How the answer of the facts and that of SPARQL on the claims compare: `same`, `empty`, `refused`, or what differs."""
    try:
        sparql = to_sparql(query, world.facts)
    except QueryError as error:
        return f"no SPARQL: {error}"
    rows = world.rows(sparql)
    try:
        found = evaluate_walk(query, world.facts, WalkLimits(seconds=600))
    except QueryError as error:
        if "a difference is one of two values" in str(error):
            return "refused"
        is_empty = not rows or (query.per is None and rows == [("0",)])
        return "empty" if any(one in str(error) for one in EMPTY) and is_empty else f"{error} {rows}"
    return _compared(world, query, found, rows)


def _compared(world: World, query: Query, found: Result, rows: Any) -> str:
    if isinstance(rows, bool):
        return "same" if found.truth == rows else f"{found.truth} {rows}"
    mine: Any
    if query.head == "count" and query.per is None:
        mine, rows = str(found.count), rows[0][0]
    elif query.per is not None:
        mine, rows = _numbers(zip(found.values, found.sorted_by, strict=True)), _numbers(rows)
        if query.per.limit:  # of equal groups any may be first
            mine, rows = sorted(mine.values()), sorted(rows.values())
    elif query.head in ("sum", "average", "difference"):
        mine, rows = _numbers(("", value) for value in found.values), _numbers(("", *row) for row in rows)
        rows = {} if not mine and rows == {"": 0} else rows  # the average of nothing
    elif query.head in ("most", "least"):
        every = evaluate_walk(
            Query(query.head, query.start, query.hops, query.which, query.by, 999, query.also), world.facts
        )
        values = dict(zip(every.values, every.sorted_by, strict=True))
        mine, rows = [values[one] for one in found.values], [values.get(row[0], row[0]) for row in rows]
        mine, rows = (
            [Decimal(one) if one[-1].isdigit() and "-" not in one[1:] else one for one in some] for some in (mine, rows)
        )
    elif query.show:
        cells = (
            product([value], *(cell or ("",) for cell in row))
            for value, row in zip(found.values, found.cells, strict=True)
        )
        mine, rows = {row for some in cells for row in some}, set(rows)
    else:
        mine, rows = set(found.values), {row[0] for row in rows}
        if query.hops[-1].predicate == "population" and query.hops[-1].its is None:
            mine, rows = ({Decimal(one) for one in some} for some in (mine, rows))
    return ("same" if mine else "empty") if mine == rows else f"{mine} {rows}"


def _number(text: str) -> Decimal | str:
    return Decimal(text) if text[-1].isdigit() and "-" not in text[1:] else text


def _numbers(pairs: Any) -> dict[str, Decimal]:
    return {name: round(Decimal(number), 5) for name, number in pairs}


def differences(count: int, seed: int = 0, of_world: int = 40) -> tuple[Counter[str], list[str]]:
    """Compare so many walks that have SPARQL; return how many had which outcome, and those that differ."""
    outcomes, different = Counter[str](), list[str]()
    while outcomes["same"] + outcomes["empty"] + len(different) < count:
        world, seed = World(seed), seed + 1
        for _ in range(of_world):
            try:
                query = world.query()
            except QueryError:
                continue
            found = outcome(world, query)
            kind = found if found in ("same", "empty", "refused") else found.partition(":")[0]
            if kind in ("same", "empty", "refused", "no SPARQL"):
                outcomes[kind] += 1
                continue
            different.append(f"{seed - 1}: {write_line(query)}\n  {found}\n  {to_sparql(query, world.facts)}")
    return outcomes, different


if __name__ == "__main__":
    counts, others = differences(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(dict(counts), f"{len(others)} differ", *others[:5], sep="\n")
