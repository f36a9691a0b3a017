"""The names of a query as people write them: a label or an alias stands for the entity that it means most often.

A name of the index has its description, `Louisiana (state of the United States of America)`, and few people type that.
So a name that the index does not have is replaced by that of an entity with this label or alias: of those that have the
predicate after it (or, for the value of a filter, facts that lead to it by the predicate before it) the one with most
facts. A name that the index has is never replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from refactx.query.fact_set import FactSet
from refactx.query.values import parse_quantity, parse_time
from refactx.query.walk import Hop, Query, Which


class LabelledFacts(FactSet, Protocol):
    """A set of facts that finds entities by label or alias."""

    def labelled(self, label: str) -> Sequence[str]:
        """Return the names of entities with facts that have a label or an alias."""
        ...


@dataclass(frozen=True, slots=True)
class Resolved:
    """A `label` of a query and the `name` that takes its place; `among`: how many entities have that label or alias."""

    label: str
    name: str
    among: int


def resolve(query: Query, facts: LabelledFacts) -> tuple[Query, tuple[Resolved, ...]]:
    """Return a query with names of the index in place of labels and aliases, and what was replaced.

    Values are names after `is` alone. What nothing is known of stays as it is, and is an error of `denote`.

        query, replaced = resolve(read_line("count <Louisiana> <nickname>"), TreeFacts(index))
        query.start  # "Louisiana (state of the United States of America)"

    Raises as the methods of `facts` do.
    """
    found: dict[str, Resolved] = {}
    first = [hops[0].predicate for hops in (query.hops, *(which.hops for which in query.which)) if hops]
    start = _meant(query.start, first[0] if first else None, facts, found)
    which = tuple(_resolve_value(one, query.hops, facts, found) for one in query.which)
    return replace(query, start=start, which=which), tuple(found.values())


def _resolve_value(which: Which, hops: Sequence[Hop], facts: LabelledFacts, found: dict[str, Resolved]) -> Which:
    before = (*hops, *which.hops)
    if which.operator != "is" or not before:
        return which
    predicate = before[-1].predicate
    described = facts.describe([predicate]).get(predicate)
    kind = "entity" if described is None else described.kind
    is_literal = parse_quantity(which.value) is not None or parse_time(which.value) is not None
    if kind not in ("entity", "mixed") or (kind == "mixed" and is_literal):
        return which
    return replace(which, value=_meant(which.value, facts.inverse_of(predicate), facts, found))


def _meant(label: str, predicate: str | None, facts: LabelledFacts, found: dict[str, Resolved]) -> str:
    """Return the name that a label means, if possible one of an entity that has a predicate. Note it in `found`."""
    if facts.predicates(label) or facts.ids([label]):
        return label
    names = facts.labelled(label)
    if not names:
        return label
    counts = [0] * len(names) if predicate is None else facts.counts(names, predicate)
    fitting = [name for name, count in zip(names, counts, strict=True) if count] or names
    name = max(fitting, key=lambda one: sum(facts.predicates(one).values()))
    found.setdefault(name, Resolved(label, name, len(names)))
    return name
