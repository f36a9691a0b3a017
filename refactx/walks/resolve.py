"""The names of a query as people write them: in place of each the entity or predicate of the index that it means.

A name of the index has its description, `Louisiana (state of the United States of America)`, and few people type that.
What a name means is told by the predicate after it; that of the value of a filter by the predicate that leads to it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from refactx.linking.linker import LinkedName
from refactx.walks.language import Hop, Query, WalkFilter
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
        all_hops = (query.hops, *(which.hops for which in query.which))
        first = next((hops[0].predicate for hops in all_hops if hops), "")
        known = self._linker.predicate(first) if first else None
        start = self._entity(query.start, (first or None) if known is None else known.name)
        hops = self._hops(query.hops, start)
        which = tuple(self._filter(one, hops, "" if query.hops else start) for one in query.which)
        by = query.by and replace(query.by, predicate=self._predicate(query.by.predicate))
        return replace(query, start=start, hops=hops, which=which, by=by), tuple(self._replaced.values())

    def _hops(self, hops: Sequence[Hop], start: str) -> tuple[Hop, ...]:
        """Return hops; those of `start` may have predicates of its own."""
        return tuple(
            replace(hop, predicate=self._predicate(hop.predicate, "" if at else start)) for at, hop in enumerate(hops)
        )

    def _filter(self, which: WalkFilter, hops: Sequence[Hop], start: str) -> WalkFilter:
        which = replace(which, hops=self._hops(which.hops, start))
        before = (*hops, *which.hops)
        if which.operator != "is" or not before:
            return which
        predicate = before[-1].predicate
        described = self._facts.describe([predicate]).get(predicate)
        kind = "entity" if described is None else described.kind
        is_literal = parse_quantity(which.value) is not None or parse_time(which.value) is not None
        if kind not in ("entity", "mixed") or (kind == "mixed" and is_literal):
            return which
        return replace(which, value=self._entity(which.value, self._facts.inverse_of(predicate)))

    def _entity(self, label: str, predicate: str | None) -> str:
        return self._noted(label, self._linker.entity(label, () if predicate is None else (predicate,)))

    def _predicate(self, label: str, subject: str = "") -> str:
        return self._noted(label, self._linker.predicate(label, [subject] if subject else [])) if label else label

    def _noted(self, label: str, found: LinkedName | None) -> str:
        if found is None or found.is_as_written:
            return label
        return self._replaced.setdefault(found.name, found).name
