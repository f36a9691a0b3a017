"""The ways to read the units of a query's line so far, and the units that may follow each.

A *unit* is a word, or a name in brackets with the sign after it: `count`, `<nickname>`, `<part of>+`, `which`. A line can
have two readings: in `ask <Ann> <spouse>`, the predicate is a hop to the set, or one of a filter whose value follows. The
units that may follow a line are those of all its readings, and a unit leads to the readings that have it.

Each reading is one that `refactx.walks.language` has too, with limits: at most two hops to the set and two in a filter, three
filters, and no filters of text (`starts with`, `contains`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from refactx.walks.decoding.samples import MOST_VALUES, Sample, Samples, orders_of
from refactx.walks.decoding.units import Choices, hop_of, name_of, unit_of
from refactx.walks.language import HEADS, TERMINATOR, Closure, Head, Hop, Operator, WalkFilter
from refactx.walks.sets import Limits

END = TERMINATOR.strip()
MOST_HOPS = 2
MOST_FILTERS = 3
MOST_LIMIT = 100
"""The most members that `most` and `least` ask for."""
MOST_RANKED = Limits().members
"""The most members of a set of which the first ones can be found."""

_OPERATORS: tuple[Operator, ...] = ("is", "equals", "over", "under")
_SIGNS: tuple[Closure, ...] = ("", "+", "*")


class Reading(ABC):
    """A way to read the units of a line so far."""

    __slots__ = ()

    @abstractmethod
    def choices(self, samples: Samples) -> Choices:
        """Return the units that may follow."""

    @abstractmethod
    def after(self, unit: str, samples: Samples) -> Iterator["Reading"]:
        """Yield the readings after one more unit; none if it may not follow."""


@dataclass(frozen=True, slots=True)
class Beginning(Reading):
    """A line before its start. `head`: None at its beginning; `has_limit`: after the number of members."""

    head: Head | None = None
    has_limit: bool = False

    def choices(self, samples: Samples) -> Choices:
        if self.head is None:
            return Choices(frozenset(HEADS))
        return Choices(self._limits, subjects=True)

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        if self.head is None:
            yield from (Beginning(head) for head in HEADS if head == unit)
        elif unit in self._limits:
            yield Beginning(self.head, has_limit=True)
        else:
            yield Walked(self.head, Sample((name_of(unit),)))

    @property
    def _limits(self) -> frozenset[str]:
        is_ranked = self.head in ("most", "least") and not self.has_limit
        return frozenset(map(str, range(2, MOST_LIMIT + 1))) if is_ranked else frozenset()


@dataclass(frozen=True, slots=True)
class Walked(Reading):
    """A line up to its start, its last hop or its last filter. `members`: those of the set so far.

    `hops`, `filters`: how many it has; `start`: None before the first hop; `is_hub`: the set is counted, but not in the
    index.
    """

    head: Head
    members: Sample
    hops: int = 0
    filters: int = 0
    start: str | None = None
    is_hub: bool = False

    def choices(self, samples: Samples) -> Choices:
        return Choices(frozenset([*self._words(samples), *map(unit_of, self._hops(samples))]))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        if unit == END:
            yield Ended()
        elif unit in ("which", "and"):
            yield Filtering(self, self.members, has_word=unit == "which")
        elif unit == "by":
            yield Sorting(self)
        elif self._may_hop and unit.startswith("<") and hop_of(unit).predicate in samples.all_predicates(self.members):
            yield self._walked(hop_of(unit), samples)
            if self.head == "ask" and not self.hops:
                yield from Filtering(self, self.members).after(unit, samples)

    @property
    def is_ranked(self) -> bool:
        """Whether members are sorted."""
        return self.head in ("most", "least")

    @property
    def _may_hop(self) -> bool:
        return not self.filters and not self.is_hub and self.hops < (1 if self.head == "ask" else MOST_HOPS)

    def _words(self, samples: Samples) -> Iterator[str]:
        if not (self.hops or self.filters):
            return
        yield "by" if self.is_ranked else END
        if not self.is_hub and self.filters < MOST_FILTERS:
            word = "which" if self.hops else "and"
            if Filtering(self, self.members, has_word=word == "which").is_possible(samples):
                yield word

    def _hops(self, samples: Samples) -> list[Hop]:
        if not self._may_hop:
            return []
        readable = samples.readable(self.members)
        found = [
            Hop(predicate, sign)
            for predicate, count in readable.items()
            for sign in (_SIGNS if samples.can_repeat(self.members, predicate) else ("",))
            if not self.is_ranked or (count <= MOST_RANKED and self._can_rank(Hop(predicate, sign), samples))
        ]
        if not self.hops:
            (start,) = self.members.members
            if self.head in ("count", "ask") or not found:  # the facts of hubs are counted
                found += [Hop(predicate) for predicate in samples.predicates(start) if Hop(predicate) not in found]
        return found

    def _can_rank(self, hop: Hop, samples: Samples) -> bool:
        """Return whether some member of the set after a hop has facts. A closure must have few members."""
        reached = samples.follow(self.members, hop)
        if reached is None or (hop.closure and not reached.is_whole):
            return False
        return bool(samples.with_facts(reached).members)

    def _walked(self, hop: Hop, samples: Samples) -> "Walked":
        reached = samples.follow(self.members, hop)
        start = self.members.members[0] if self.start is None else self.start
        if reached is None:
            return replace(self, members=Sample(()), hops=self.hops + 1, start=start, is_hub=True)
        members = samples.with_facts(reached) if self.is_ranked else reached
        return replace(self, members=members, hops=self.hops + 1, start=start)


@dataclass(frozen=True, slots=True)
class Filtering(Reading):
    """A line within a filter of the set `of`, after its `hops`. `ends`: what these lead to, the members without any.

    `has_word`: it follows `which`, so members may be compared themselves.
    """

    of: Walked
    ends: Sample
    hops: tuple[Hop, ...] = ()
    has_word: bool = False

    def choices(self, samples: Samples) -> Choices:
        texts = list(map(unit_of, self._following(samples)))
        texts += [operator for operator in self._operators if self.values(operator)]
        own = self.values("is") if self.hops else Choices()
        return own | Choices(frozenset(texts))

    def is_possible(self, samples: Samples) -> bool:
        """Return whether any unit may follow."""
        return any(map(self.values, self._operators)) or any(True for _ in self._following(samples))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        if not unit.startswith("<"):
            yield from (Comparing(self, operator) for operator in self._operators if operator == unit)
            return
        if self.hops:
            yield from Comparing(self, "is").after(unit, samples)
        hop = hop_of(unit)
        if len(self.hops) < MOST_HOPS and hop.predicate in samples.readable(self.ends) and self._allows(hop, samples):
            reached = samples.follow(self.ends, hop, MOST_VALUES)
            if reached is not None:
                yield replace(self, ends=reached, hops=(*self.hops, hop))

    def values(self, operator: Operator) -> Choices:
        """Return the values that an operator may compare with.

        For yes or no, any entity may be asked for: if only the true ones could, each answer would be yes. Any entity
        may also be the value if the sample does not have all values.
        """
        ends, is_asked = self.ends, self.of.head == "ask"
        if operator != "is":
            return Choices(literals=orders_of(ends.members, ends.kind))
        if is_asked and not ends.has_facts:
            return Choices()
        names = frozenset(f"<{member}>" for member in ends.members)
        return Choices(names, subjects=ends.has_facts and (is_asked or not ends.is_whole))

    @property
    def _operators(self) -> tuple[Operator, ...]:
        if self.hops:
            return _OPERATORS[1:]  # `is` is left out
        return _OPERATORS if self.has_word and not self.of.is_ranked else ()

    def _following(self, samples: Samples) -> Iterator[Hop]:
        """Yield the hops that may follow."""
        if len(self.hops) < MOST_HOPS:
            every = (Hop(name, sign) for name in samples.readable(self.ends) for sign in _SIGNS)
            yield from (hop for hop in every if self._allows(hop, samples))

    def _allows(self, hop: Hop, samples: Samples) -> bool:
        """Return whether values can follow a hop, given that members have its predicate."""
        if hop.closure:
            return samples.can_repeat(self.ends, hop.predicate)
        if self.of.head != "ask":
            return True
        reached = samples.follow(self.ends, hop, MOST_VALUES)
        return reached is not None and (reached.has_facts or bool(orders_of(reached.members, reached.kind)))


@dataclass(frozen=True, slots=True)
class Comparing(Reading):
    """A line before the value of a filter, after its operator."""

    filter: Filtering
    operator: Operator

    def choices(self, samples: Samples) -> Choices:
        return self.filter.values(self.operator)

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        values, name, of = self.choices(samples), name_of(unit), self.filter.of
        if unit in values.texts or values.literals or (values.subjects and samples.predicates(name)):
            members = samples.narrow(of.members, WalkFilter(self.filter.hops, self.operator, name))
            yield replace(of, members=members, filters=of.filters + 1)


@dataclass(frozen=True, slots=True)
class Sorting(Reading):
    """A line after `by`, and maybe `count`."""

    of: Walked
    is_counted: bool = False

    def choices(self, samples: Samples) -> Choices:
        predicates = samples.all_predicates(self.of.members) or samples.predicates(self.of.start or "")
        if not self.is_counted:
            predicates = {name: n for name, n in predicates.items() if samples.is_ordered(self.of.members, name)}
        return Choices(frozenset([*(f"<{name}>" for name in predicates), *([] if self.is_counted else ["count"])]))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        yield replace(self, is_counted=True) if unit == "count" else Sorted()


@dataclass(frozen=True, slots=True)
class Sorted(Reading):
    """A line before its end."""

    def choices(self, samples: Samples) -> Choices:
        return Choices(frozenset([END]))

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        yield Ended()


@dataclass(frozen=True, slots=True)
class Ended(Reading):
    """A whole line."""

    def choices(self, samples: Samples) -> Choices:
        return Choices()

    def after(self, unit: str, samples: Samples) -> Iterator[Reading]:
        yield from ()
