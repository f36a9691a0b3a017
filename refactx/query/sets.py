"""Sets of members, each with the facts by which it was reached, and hops from one set to the next."""

from collections.abc import Iterator, Sequence
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

    Methods raise QueryError for the facts of a hub, and whatever the set of facts raises.
    """

    def __init__(self, facts: FactSet, budget: Budget) -> None:
        self.facts, self.budget = facts, budget
        self._objects: dict[str, dict[str, list[str]]] = {}

    def kind(self, predicate: str) -> ValueKind:
        """Return the kind of a predicate's objects; `mixed` if it is not known."""
        described = self.facts.describe([predicate]).get(predicate)
        return described.kind if described else "mixed"

    def is_known(self, predicate: str) -> bool:
        """Return whether the index names a predicate so. (An index of ready-made facts names none.)"""
        return predicate in self.facts.describe([predicate])

    def pairs(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        """Yield pairs of a subject and an object, as long as the budget lasts."""
        for hub in self._hubs(subjects, predicate):
            (count,) = self.facts.counts([hub], predicate)
            raise QueryError(f"<{hub}> has {count:,} facts with <{predicate}>: they are counted, but not in the index")
        for pair in self.facts.objects(subjects, predicate):
            if not self.budget.spend(1):
                return
            yield pair

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
                reached[member] = following[member] = Trail((subject, hop.predicate, member), begin[subject])
            if not hop.closure:
                break
            begin = {member: trail for member, trail in following.items() if member not in expanded}
        return reached

    def hold(self, subjects: Sequence[str], predicate: str, value: str) -> Members:
        """Return the subjects that have a fact with a predicate and a value, each with that fact.

        A hub's facts are looked up from the other side.
        """
        hubs = self._hubs(subjects, predicate)
        facts: list[Triple] = [
            (value, self.backwards(predicate, subject), subject) if subject in hubs else (subject, predicate, value)
            for subject in subjects
        ]
        flags = self.facts.hold(facts)
        return {subject: Trail(fact, None) for subject, fact, does in zip(subjects, facts, flags, strict=True) if does}

    def _hubs(self, subjects: Sequence[str], predicate: str) -> set[str]:
        """Return the subjects whose facts with a predicate are not in the index."""
        described = self.facts.describe([predicate]).get(predicate)
        if described is None or described.kind in LITERALS:
            return set()
        if described.inverse and len(subjects) > 1:
            self.facts.counts(subjects, predicate)  # looks up all hubs at once, before each is asked for
        return {subject for subject in subjects if self.facts.is_hub(subject, predicate)}

    def backwards(self, predicate: str, subject: str) -> str:
        """Return the predicate that leads back to a subject. Raises QueryError if there is none."""
        inverse = self.facts.inverse_of(predicate)
        if inverse is None:
            raise QueryError(
                f"the facts of <{subject}> with <{predicate}> are counted, but not in the index, and there are no "
                "facts that lead back to it"
            )
        return inverse
