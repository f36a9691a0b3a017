"""Filters that a question names: other entities that some member of a set leads to."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from refactx.choosing.queries.candidate import Base, predicates_of
from refactx.choosing.queries.mentions import Mention, Mentions
from refactx.choosing.queries.words import QueryWords
from refactx.query.fact_set import FactSet, Predicate
from refactx.query.walk import Hop, Which

WIDER = 6
"""How many steps up from a member's class are made to find a class that the question names."""

WAYS = 4
"""The most predicates that lead to one entity."""

NEAR = 20
"""How many subjects of each predicate of a named entity are looked for among the members of a large set."""


def _says(predicate: str, mention: Mention) -> bool:
    """Return whether a predicate's name has that of an entity: what is `located in time zone` is a timezone."""
    words, called = predicate.lower().split(), mention.called.lower().replace(" ", "")
    return any("".join(words[a:b]) == called for a, b in combinations(range(len(words) + 1), 2))


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter by an entity that the question names, and some members that match it."""

    mention: Mention
    which: Which
    members: Sequence[str]


class Conditions:
    """The filters for sets of one question. `sample`: how many members stand for a set."""

    def __init__(self, facts: FactSet, words: QueryWords, mentions: Mentions, sample: int) -> None:
        self._facts, self._mentions, self._sample = facts, mentions, sample
        names = facts.names([words.class_of, words.subclass_of])
        self._class_of, self._wider = names.get(words.class_of), names.get(words.subclass_of)
        self.instances = None if self._class_of is None else facts.inverse_of(self._class_of)
        """The predicate from a class to what it is the class of; None if the index has none."""

    def of(self, base: Base) -> list[Condition]:
        """Return the filters that some member of a set matches."""
        members, found = self.members(base), list[Condition]()
        for other in self._mentions.entities:
            if not other.is_apart(base.start) or other.name == base.start.name or _says(base.predicate.name, other):
                continue
            matching: dict[str, list[str]] = {}
            for predicate in predicates_of(self._facts, other.name):
                forwards = self._facts.inverse_of(predicate.name) if predicate.inverse else None
                if forwards is not None and (some := self._matching(base, members, predicate, forwards, other.name)):
                    matching[forwards] = some
            likely = sorted(matching.items(), key=lambda one: -len(one[1]))[:WAYS]
            found += [Condition(other, Which(self._hops_to(name), "is", other.name), some) for name, some in likely]
            if self._class_of is not None and self._class_of not in matching:
                some = self._of_class(members, other.name)
                if some:
                    found.append(Condition(other, Which(self._hops_to(self._class_of), "is", other.name), some))
        return found

    def _matching(
        self, base: Base, members: Sequence[str], predicate: Predicate, forwards: str, other: str
    ) -> list[str]:
        """Return members that lead to an entity, as far as they are in a sample of the set or of the entity's subjects.

        `predicate`, `forwards`: the predicate from the entity to its subjects, and the one that leads back.
        """
        facts, [count] = self._facts, self._facts.counts([other], predicate.name)
        near: list[str] = []
        if not facts.is_hub(other, predicate.name):
            near = [subject for _, subject in islice(facts.objects([other], predicate.name), 4 * self._sample)]
        if len(near) == count:
            found = sorted(set(near) & set(members))
        else:
            holds = facts.hold([(member, forwards, other) for member in members])
            found = [member for member, true in zip(members, holds, strict=True) if true]
        backwards = facts.inverse_of(base.predicate.name)
        if found or backwards is None or 0 < len(members) < self._sample:
            return found
        near = near[:NEAR]
        holds = facts.hold([(subject, backwards, base.start.name) for subject in near])
        return [subject for subject, true in zip(near, holds, strict=True) if true]

    def _hops_to(self, predicate: str) -> tuple[Hop, ...]:
        """Return the hops of a filter by a predicate: classes count with those that they are part of."""
        if predicate == self._class_of and self._wider is not None:
            return Hop(predicate), Hop(self._wider, "*")
        return (Hop(predicate),)

    def _of_class(self, members: Sequence[str], name: str) -> list[str]:
        """Return members with a class that is part of an entity, which has classes of its own; those of the nearest
        classes alone."""
        if self._class_of is None or self._wider is None or not members:
            return []
        if self._facts.inverse_of(self._wider) not in self._facts.predicates(name):
            return []
        classes, seen = defaultdict[str, set[str]](set), set[str]()  # the members of each class
        for member, one in self._facts.objects(members, self._class_of):
            classes[one].add(member)
        for _ in range(WIDER):
            if not classes or name in classes:
                break
            seen |= classes.keys()
            wider = defaultdict[str, set[str]](set)
            for narrow, wide in self._facts.objects(sorted(classes), self._wider):
                if wide not in seen:
                    wider[wide] |= classes[narrow]
            classes = wider
        return [member for member in members if member in classes.get(name, ())]

    def scanned(self, base: Base, most: int) -> list[str]:
        """Return some members of a set: of a hub, the first that a scan finds, if the index has at most `most` facts."""
        facts, start, predicate = self._facts, base.start.name, base.predicate.name
        if not facts.is_hub(start, predicate):
            return self.members(base)
        forwards = facts.inverse_of(predicate)
        if forwards is None or facts.size > most:
            return []
        return [subject for subject, _, _ in facts.scan([(forwards, start)], lambda: True, self._sample)]

    def members(self, base: Base) -> list[str]:
        """Return some members of a set; none if it has literals, or is that of a hub."""
        if base.predicate.kind not in ("entity", "mixed") or self._facts.is_hub(base.start.name, base.predicate.name):
            return []
        pairs = self._facts.objects([base.start.name], base.predicate.name)
        return [member for _, member in islice(pairs, self._sample)]
