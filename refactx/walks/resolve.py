"""The names of a query as people write them: in place of each the entity or predicate of the index that it means.

A name of the index has its description, `Louisiana (state of the United States of America)`, and few people type that.
What a name means is told by the predicate after it; that of the value of a filter by the predicate that leads to it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from refactx.linking.linker import LinkedName
from refactx.walks.language import Hop, MemberValue, Query, StatementFilter, Walk, WalkFilter
from refactx.walks.values import parse_quantity, parse_time

if TYPE_CHECKING:
    from refactx.walks.facts import TreeFacts


def resolve(query: Query, facts: "TreeFacts") -> tuple[Query, tuple[LinkedName, ...]]:
    """Return a query with names of the index in place of what was written, and what was replaced.

    Values are names after `is` alone. A name that means nothing stays, and is an error of `evaluate`.

        query, replaced = resolve(read_line("count <Louisiana> <nickname>"), TreeFacts(index))
        query.start  # "Louisiana (state of the United States of America)"

    Raises as the methods of `facts` do.
    """
    return _Resolution(facts).resolved(query)


class _Resolution:
    """The names that a query's own are replaced by, as far as they are other ones."""

    def __init__(self, facts: "TreeFacts") -> None:
        self._facts, self._linker = facts, facts.linker
        self._replaced: dict[str, LinkedName] = {}

    def resolved(self, query: Query) -> tuple[Query, tuple[LinkedName, ...]]:
        first = next((walk.hops[0].predicate for walk in query.walks if walk.hops and walk != query.minus), "")
        start, *also = (self._start(name, first) for name in (query.start, *query.also))
        hops = self._hops(query.hops, start)
        return replace(
            query,
            start=start,
            also=tuple(also),
            hops=hops,
            which=tuple(self._filter(one, hops, "" if query.hops else start) for one in query.which),
            by=query.by and self._value(query.by),
            per=query.per and replace(query.per, hops=self._hops(query.per.hops, "")),
            show=tuple(map(self._value, query.show)),
            minus=query.minus and self._walk(query.minus),
        ), tuple(self._replaced.values())

    def _start(self, label: str, first: str) -> str:
        known = self._linker.predicate(first) if first else None
        return self._entity(label, (first or None) if known is None else known.name)

    def _walk(self, walk: Walk) -> Walk:
        start = self._start(walk.start, walk.hops[0].predicate if walk.hops else "")
        return Walk(start, self._hops(walk.hops, start))

    def _value(self, value: MemberValue) -> MemberValue:
        return replace(value, predicate=self._predicate(value.predicate), via=tuple(map(self._predicate, value.via)))

    def _hops(self, hops: Sequence[Hop], start: str) -> tuple[Hop, ...]:
        """Return hops; those of `start` may have predicates of its own."""
        return tuple(self._hop(hop, "" if at else start) for at, hop in enumerate(hops))

    def _hop(self, hop: Hop, subject: str) -> Hop:
        predicate = self._predicate(hop.predicate, subject)
        where = list[StatementFilter]()
        for one in hop.where:
            if one.word == "with":
                name, value = self._predicate(one.values[0]), one.values[1]
                value = self._of_kind(value, name) if one.operator == "is" else value
                one = replace(one, values=(name, value))  # noqa: PLW2901  # as the index has it
            elif one.word == "being":
                one = replace(one, values=(self._of_kind(one.values[0], predicate),))  # noqa: PLW2901
            where.append(one)
        return replace(hop, predicate=predicate, where=tuple(where), its=hop.its and self._predicate(hop.its))

    def _filter(self, which: WalkFilter, hops: Sequence[Hop], start: str) -> WalkFilter:
        which = replace(which, hops=self._hops(which.hops, start))
        if which.than:
            than = self._walk(Walk(which.value, which.than))
            return replace(which, value=than.start, than=than.hops)
        before = (*hops, *which.hops)
        if which.operator != "is" or not before:
            return which
        value, *also = (self._of_kind(one, before[-1].its or before[-1].predicate) for one in which.values)
        return replace(which, value=value, also=tuple(also))

    def _of_kind(self, value: str, predicate: str) -> str:
        """Return the object that a value means after a predicate: the name of an entity, if it leads to such."""
        described = self._facts.describe([predicate]).get(predicate)
        kind = "entity" if described is None else described.kind
        is_literal = parse_quantity(value) is not None or parse_time(value) is not None
        if kind not in ("entity", "mixed") or (kind == "mixed" and is_literal):
            return value
        return self._entity(value, self._facts.inverse_of(predicate))

    def _entity(self, label: str, predicate: str | None) -> str:
        return self._noted(label, self._linker.entity(label, () if predicate is None else (predicate,)))

    def _predicate(self, label: str, subject: str = "") -> str:
        return self._noted(label, self._linker.predicate(label, [subject] if subject else [])) if label else label

    def _noted(self, label: str, found: LinkedName | None) -> str:
        if found is None or found.is_as_written:
            return label
        return self._replaced.setdefault(found.name, found).name
