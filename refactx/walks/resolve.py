"""The names of a query as people write them: a label or an alias stands for the entity that it means most often.

A name of the index has its description, `Louisiana (state of the United States of America)`, and few people type that.
So a name stays if it has facts with the predicate after it (the value of a filter: if the predicate before it leads to
it). Else it is taken as a label: of the entities with this label, those with such facts are meant, and of these the one
with most facts; but another entity, of which it is an alias, if that has more facts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from refactx.walks.language import FactSet, Hop, Query, WalkFilter
from refactx.walks.values import INITIAL, bare_name, parse_quantity, parse_time

COMPARED = 20
"""The most entities of a label whose facts are counted."""


class LabelledFacts(FactSet, Protocol):
    """A set of facts that finds entities by label or alias."""

    def labelled(self, label: str) -> Sequence[str]:
        """Return names of entities with facts that are a label and a description, those with most facts first."""
        ...

    def aliased(self, alias: str) -> Sequence[str]:
        """Return names of entities that have an alias."""
        ...

    def near(self, name: str, most: int = 5) -> Sequence[str]:
        """Return names of entities with facts that are like a name."""
        ...


@dataclass(frozen=True, slots=True)
class Resolved:
    """A `label` of a query and the `name` that takes its place; `among`: how many entities have that label or alias."""

    label: str
    name: str
    among: int

    @property
    def note(self) -> str:
        """What the user should know of it."""
        of = f", of {self.among} with this name" if self.among > 1 else ""
        return f"<{self.label}> is taken as <{self.name}>{of}"


def resolve(query: Query, facts: LabelledFacts) -> tuple[Query, tuple[Resolved, ...]]:
    """Return a query with names of the index in place of labels and aliases, and what was replaced.

    Values are names after `is` alone. A name of which nothing is known stays, and is an error of `evaluate`.

        query, replaced = resolve(read_line("count <Louisiana> <nickname>"), TreeFacts(index))
        query.start  # "Louisiana (state of the United States of America)"

    Raises as the methods of `facts` do.
    """
    found: dict[str, Resolved] = {}
    first = [hops[0].predicate for hops in (query.hops, *(which.hops for which in query.which)) if hops]
    start = _meant(query.start, first[0] if first else None, facts, found)
    which = tuple(_resolve_value(one, query.hops, facts, found) for one in query.which)
    return replace(query, start=start, which=which), tuple(found.values())


def find_entity(label: str, facts: LabelledFacts, predicate: str | None = None) -> Resolved | None:
    """Return the entity that a name means, as people write it; None if there is none: see `facts.near`.

    `predicate`: that of the facts which it should have. Raises as the methods of `facts` do.
    """
    found: dict[str, Resolved] = {}
    name = _meant(label, predicate, facts, found)
    if name != label:
        return found[name]
    return Resolved(label, label, 1) if facts.predicates(label) else None


def _resolve_value(
    which: WalkFilter, hops: Sequence[Hop], facts: LabelledFacts, found: dict[str, Resolved]
) -> WalkFilter:
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
    """Return the name that a label means. Note it in `found` if it is another.

    `predicate`: that of the facts which it should have.
    """
    is_name = bool(facts.predicates(label) or facts.ids([label]))
    if is_name and (predicate is None or facts.counts([label], predicate)[0]):
        return label
    own, by_alias = namesakes(label, facts)
    best = _best(own, predicate, facts)
    other = _best(by_alias, predicate, facts)
    if best is None or (other is not None and other.facts > best.facts and other.fits >= best.fits):
        best = other
    if best is None or (is_name and not best.fits):
        return label
    among = len({*own, *by_alias}) + is_name
    found.setdefault(best.name, Resolved(label, best.name, among))
    return best.name


def namesakes(label: str, facts: LabelledFacts) -> tuple[list[str], list[str]]:
    """Return the entities with a label, and those with it as an alias; if there are none, in any case of its letters, with
    full stops after initials, or with `_` between words.

    Raises as the methods of `facts` do.
    """
    own, by_alias = list(facts.labelled(label)), list(facts.aliased(label))
    label = " ".join(label.replace("_", " ").split())
    titled = label.title()
    spelt = [f"{label[:1].swapcase()}{label[1:]}", titled, label.lower(), label.upper(), INITIAL.sub(".", titled)]
    spelt += [one.replace(" ", "_") for one in (label, *spelt) if " " in one]  # as the names of many lists of edges
    for other in dict.fromkeys(spelt):
        if not own and not by_alias:
            own = [*([other] if facts.predicates(other) else []), *facts.labelled(other)]
            by_alias = list(facts.aliased(other))
    if not own and not by_alias:
        folded = label.casefold()
        own = [name for name in facts.near(label) if folded in (name.casefold(), bare_name(name).casefold())]
    return own, by_alias


class _Candidate(NamedTuple):
    """An entity: whether it has facts with a predicate (`fits`), and how many `facts` in all."""

    fits: bool
    facts: int
    name: str


def _best(names: Sequence[str], predicate: str | None, facts: FactSet) -> _Candidate | None:
    counts = [0] * len(names) if predicate is None else facts.counts(names, predicate)
    fitting = [name for name, count in zip(names, counts, strict=True) if count]
    candidates = (
        _Candidate(bool(fitting), sum(facts.predicates(name).values()), name) for name in (fitting or names)[:COMPARED]
    )
    return max(candidates, key=lambda one: one.facts, default=None)
