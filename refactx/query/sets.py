"""Sets of members, each with the facts by which it was reached, and hops from one set to the next."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from refactx.query.budget import Budget
from refactx.query.fact_set import FactSet, ValueKind
from refactx.query.walk import Hop, QueryError

Triple = tuple[str, str, str]
LITERALS: tuple[ValueKind, ...] = ("time", "quantity", "coordinates", "text", "literal")
"""The kinds of objects that have no facts of their own."""


class Trail(NamedTuple):
    """A fact and those that follow on the way."""

    fact: Triple
    rest: "Trail | None"


Members = dict[str, Trail | None]
"""Members in order, each with the way that leads to it or from it; None if there are no facts on the way."""


def facts_of(trail: Trail | None) -> Iterator[Triple]:
    """Yield the facts of a trail, the first one first."""
    while trail is not None:
        yield trail.fact
        trail = trail.rest


class Walks:
    """Hops on a set of facts within a budget. Objects that were read once are kept.

    Methods raise QueryError for the facts of a hub if the budget admits no scan for them, and whatever the set of facts
    raises.
    """

    def __init__(self, facts: FactSet, budget: Budget) -> None:
        self.facts, self.budget = facts, budget
        self._objects: dict[str, dict[str, list[str]]] = {}
        self._hub_facts: dict[tuple[str, str], dict[str, Triple]] = {}

    def kind(self, predicate: str) -> ValueKind:
        """Return the kind of a predicate's objects; `mixed` if it is not known."""
        described = self.facts.describe([predicate]).get(predicate)
        return described.kind if described else "mixed"

    def is_known(self, predicate: str) -> bool:
        """Return whether the index names a predicate so. (An index of ready-made facts names none.)"""
        return predicate in self.facts.describe([predicate])

    def pairs(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        """Yield pairs of a subject and an object, as long as the budget lasts."""
        hubs = self._hubs(subjects, predicate)
        if hubs:
            self._scan(sorted(hubs), predicate)
        for is_hub, some in groupby(subjects, hubs.__contains__):
            own = [(hub, member) for hub in some for member in self._hub_facts[hub, predicate]] if is_hub else None
            for pair in self.facts.objects(list(some), predicate) if own is None else own:
                if not self.budget.spend(1):
                    return
                yield pair

    def counts(self, subjects: Sequence[str], predicate: str) -> list[int]:
        """Return how many facts each subject has with a predicate.

        The stored number of a hub is that of the facts that lead to it. If its predicate has others, or not all of
        these, they are found one by one.
        """
        found = list(self.facts.counts(subjects, predicate))
        described = self.facts.describe([predicate]).get(predicate)
        if described is None or (described.inverse and self._backwards(predicate)):
            return found
        hubs = self._hubs(subjects, predicate)
        objects = self.objects(sorted(hubs), predicate) if hubs else {}
        return [len(objects[one]) if one in hubs else count for one, count in zip(subjects, found, strict=True)]

    def fact(self, subject: str, predicate: str, member: str) -> Triple:
        """Return the fact by which a member was reached: of a hub, that which leads back."""
        known = self._hub_facts.get((subject, predicate))
        return (subject, predicate, member) if known is None else known[member]

    def _scan(self, hubs: Sequence[str], predicate: str) -> None:
        """Find the facts that lead back to some hubs, and those that lead away from them. All are found by one scan."""
        new = [hub for hub in hubs if (hub, predicate) not in self._hub_facts]
        back = self._backwards(predicate)
        if not new:
            return
        if not back or self.facts.size > self.budget.limits.scanned:
            raise self._refused(new[0], predicate)
        found = {hub: dict[str, Triple]() for hub in new}
        for subject, member in self.facts.objects(new, predicate):
            found[subject][member] = (subject, predicate, member)
        ends = [(name, hub) for name in back for hub in new]
        scan = self.budget.scan()
        for subject, name, hub in self.facts.scan(ends, scan.spend):
            found[hub].setdefault(subject, (subject, name, hub))
        self.budget.settle(scan)
        self._hub_facts.update(((hub, predicate), members) for hub, members in found.items())

    def _backwards(self, predicate: str) -> list[str]:
        """Return the predicates whose facts with a hub as object are missing from those of a predicate.

        None, if they have facts of further properties too.
        """
        described = self.facts.describe([predicate]).get(predicate)
        if described is None or described.id is None:
            return []
        names = list(self.facts.names(described.also or (described.id,)).values())
        both = set() if described.inverse else {described.id}
        return names if all(both.issuperset(one.also) for one in self.facts.describe(names).values()) else []

    def _refused(self, hub: str, predicate: str) -> QueryError:
        todo = "Narrow the set to members of another entity, or ingest with a larger --inverse-limit"
        if not self._backwards(predicate):
            return QueryError(
                f"<{hub}> is a hub: its facts with <{predicate}> are not in the index, and no others tell them. {todo}"
            )
        (count,) = self.facts.counts([hub], predicate)
        return QueryError(
            f"<{hub}> has {count:,} facts with <{predicate}>: they are counted, but not in the index, and to look for them "
            f"is to scan {self.facts.size:,} facts. {todo}"
        )

    def objects(self, subjects: Sequence[str], predicate: str) -> dict[str, list[str]]:
        """Return the objects of each subject, as far as the budget lasts; each subject is read once."""
        known = self._objects.setdefault(predicate, {})
        new = [subject for subject in subjects if subject not in known]
        known.update((subject, []) for subject in new)
        for subject, member in self.pairs(new, predicate):
            known[subject].append(member)
        return known

    def follow(self, members: Members, hop: Hop) -> Members:
        """Return the set to which a hop leads from a set. The trail of a member leads back from it."""
        reached: Members = dict(members) if hop.closure == "*" else {}
        begin, expanded = dict(members), set[str]()
        while begin:
            expanded.update(begin)
            following: Members = {}
            for subject, member in self.pairs(list(begin), hop.predicate):
                if member in reached:
                    continue
                if not self.budget.admits(len(reached) + 1):
                    return reached
                fact = self.fact(subject, hop.predicate, member)
                reached[member] = following[member] = Trail(fact, begin[subject])
            if not hop.closure:
                break
            begin = {member: trail for member, trail in following.items() if member not in expanded}
        return reached

    def hold(self, subjects: Sequence[str], predicate: str, value: str) -> Members:
        """Return the subjects that have a fact with a predicate and a value, each with that fact.

        A hub's facts are looked up from the other side.
        """
        hubs = self._hubs(subjects, predicate)
        return self._proved({one: self._ways(one, predicate, value, one in hubs) for one in subjects})

    def reached(self, subject: str, predicate: str, members: Sequence[str]) -> Members:
        """Return those of some members that are objects of a subject's facts with a predicate, each with that fact.

        A hub's facts are looked up from the other side.
        """
        is_hub = self.facts.is_hub(subject, predicate)
        return self._proved({one: self._ways(subject, predicate, one, is_hub) for one in members})

    def _ways(self, subject: str, predicate: str, member: str, is_hub: bool) -> list[Triple]:
        """Return the facts of which each states that a subject has a member."""
        back = self._backwards(predicate) if is_hub else []
        if is_hub and not back:
            raise self._refused(subject, predicate)
        return [(subject, predicate, member), *((member, name, subject) for name in back)]

    def _proved(self, ways: Mapping[str, Sequence[Triple]]) -> Members:
        """Return the names of which one of their facts exists, each with that fact."""
        flags = iter(self.facts.hold([fact for some in ways.values() for fact in some]))
        proved = {name: [fact for fact in some if next(flags)] for name, some in ways.items()}
        return {name: Trail(facts[0], None) for name, facts in proved.items() if facts}

    def _hubs(self, subjects: Sequence[str], predicate: str) -> set[str]:
        """Return the subjects whose facts with a predicate are not in the index."""
        described = self.facts.describe([predicate]).get(predicate)
        if described is not None and not (described.inverse or described.also):
            return set()
        if len(subjects) > 1:
            self.facts.counts(subjects, predicate)  # looks up all hubs at once, before each is asked for
        return {subject for subject in subjects if self.facts.is_hub(subject, predicate)}
