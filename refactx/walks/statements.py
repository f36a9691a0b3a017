"""Statements, which are facts with qualifiers: when they hold, and which of them the conditions of a hop admit.

Times are periods as `refactx.walks.values` reads them. A statement holds in a period if it overlaps it: without an
end it lasts, with an unknown one it is known to hold only when it began; without a start, but with an end, it has always
held. One that says no time is never known to hold at one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from refactx.fact import QUALIFIER_NAMES
from refactx.walks.language import DURATION, FactSet, QueryError, Statement, StatementFilter, ValueKind
from refactx.walks.values import Comparison, Day, parse_time, time_between

EARLIEST, LATEST = (-(10**9), 0, 0), (10**9, 0, 0)
TIME_IDS = {"starts": ("P580", "P571"), "ends": ("P582", "P576"), "points": ("P585",), "ordinals": ("P1545",)}
"""The ids of qualifiers of Wikidata with times, and of the one that numbers statements."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, from its first day to a bound after its last. `is_bound`: something has to begin in it."""

    first: Day
    end: Day
    is_bound: bool = False

    def has(self, other: "Span | None") -> bool:
        """Return whether what lasts for another span holds in this one, or begins in it.

        >>> year = Span((1990, 1, 1), (1991, 0, 0))
        >>> year.has(Span((1984, 1, 1), LATEST)), year.has(Span((1991, 1, 1), LATEST)), year.has(None)
        (True, False, False)
        """
        if other is None or (self.is_bound and other.first == EARLIEST):
            return False
        return other.first < self.end and (self.first <= other.first if self.is_bound else other.end > self.first)


def span_of(first: str, last: str) -> Span:
    """Return the span from the beginning of one time to the end of another. Raise QueryError if one is no time, or if the
    second is before the first."""
    begin, end = parse_time(first), parse_time(last)
    if begin is None or end is None:
        raise QueryError(f"<{last if begin else first}> is no time: write a year, month or day, as in `at <1990-05>`")
    if end.end <= begin.first:
        raise QueryError(f"<{last}> is before <{first}>: write the earlier time first")
    return Span(begin.first, end.end)


@dataclass(frozen=True, slots=True)
class TimeNames:
    """The names of an index's qualifiers that have times, and of those that number statements."""

    starts: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset()
    points: frozenset[str] = frozenset()
    ordinals: frozenset[str] = frozenset()

    @classmethod
    def of(cls, facts: FactSet) -> Self:
        """Return the names of an index: those of Wikidata's qualifiers, and what tables and graphs call such."""
        named = facts.names([id_ for some in TIME_IDS.values() for id_ in some])
        return cls(
            **{
                kind: frozenset([*(named[id_] for id_ in some if id_ in named), *QUALIFIER_NAMES[kind]])
                for kind, some in TIME_IDS.items()
            }
        )

    @property
    def all(self) -> frozenset[str]:
        return self.starts | self.ends | self.points

    def has_ended(self, statement: Statement) -> bool:
        """Return whether a statement has an end that is unknown, or no time that is read, such as `1950s`."""
        return any(parse_time(value) is None for value in statement.values(self.ends))

    def span(self, statement: Statement) -> Span | None:
        """Return when a statement certainly holds; None if it does not say so."""
        starts, ends, points = (
            [period for value in statement.values(names) if (period := parse_time(value)) is not None]
            for names in (self.starts, self.ends, self.points)
        )
        if not (starts or ends or points or self.has_ended(statement)):
            return None
        if starts or ends or not points:
            first = min((one.first for one in starts), default=EARLIEST)
            if ends and not starts and statement.values(self.starts):  # it began at a time that is not read
                first = min(one.first for one in ends)
            if not ends and self.has_ended(statement):
                return Span(first, max((one.end for one in starts), default=EARLIEST))
            return Span(first, max((one.end for one in ends), default=LATEST))
        return Span(min(one.first for one in points), max(one.end for one in points))

    def begun(self, statements: Sequence[Statement], place: int) -> list[Statement]:
        """Return the statements at a place in the order in which they begin: 1 is the first, -1 the last."""
        spans = [(span.first, one) for one in statements if (span := self.span(one)) and span.first != EARLIEST]
        order = sorted({first for first, _ in spans})
        if len(order) < abs(place):
            return []
        return [one for first, one in spans if first == order[place if place < 0 else place - 1]]

    def current(self, statements: Sequence[Statement]) -> list[Statement]:
        """Return the statements that hold now: those of the best rank if there are others, or else those without an end."""
        best = [one for one in statements if one.is_best]
        if len(best) < len(statements):
            return best
        return [one for one in statements if (span := self.span(one)) is None or span.end == LATEST]

    def values(self, statement: Statement, qualifier: str) -> list[str]:
        """Return the values of a qualifier, or how long a statement holds; none if it does not say so."""
        if qualifier != DURATION:
            return statement.values([qualifier])
        starts, ends = (
            sorted(
                (period.first, value) for value in statement.values(names) if (period := parse_time(value)) is not None
            )
            for names in (self.starts, self.ends)
        )
        lasting = time_between(starts[0][1], ends[-1][1]) if starts and ends else None
        return [] if lasting is None else [lasting]


def statements_of(facts: FactSet, subject: str, predicate: str, objects: Iterable[str] = ()) -> list[Statement]:
    """Return a subject's facts with a predicate as statements; those without qualifiers are left out if their object has
    others. The qualifiers of inverse facts are those of the facts that they were made from.

    `objects`: those of a hub's inverse facts, which the index does not have.
    """
    described = facts.describe([predicate]).get(predicate)
    forwards = facts.inverse_of(predicate) if described is not None and described.inverse else None
    if forwards is None:
        found = [Statement(value, qualifiers) for _, value, qualifiers in facts.statements([subject], predicate)]
    else:
        found = [Statement(value) for value in objects or (value for _, value in facts.objects([subject], predicate))]
        back = facts.statements([one.object for one in found], forwards)
        found += [Statement(other, qualifiers) for other, value, qualifiers in back if value == subject]
    best = {one.object for one in found if not one.qualifiers}
    qualified = {one.object for one in found if one.qualifiers}
    return [
        Statement(one.object, one.qualifiers, one.object in best)
        for one in dict.fromkeys(found)
        if one.qualifiers or one.object not in qualified
    ]


def admitted(
    statements: Sequence[Statement],
    where: Sequence[StatementFilter],
    names: TimeNames,
    kind_of: Callable[[str], ValueKind],
) -> list[Statement]:
    """Return the statements of one subject and predicate that conditions admit, one condition after another.

    `kind_of`: returns the kind of a qualifier's values. Raises QueryError for a time that is none, and for values that do
    not compare.
    """
    some = list(statements)
    for one in where:
        match one.word:
            case "at" | "between":
                span = span_of(one.values[0], one.values[-1])
                some = [each for each in some if span.has(names.span(each))]
            case "now":
                some = names.current(some)
            case "earliest" | "latest":
                some = names.begun(some, 1 if one.word == "earliest" else -1)
            case "being":
                some = [each for each in some if each.object == one.values[0]]
            case "with":
                name, value = one.values
                comparison = Comparison(one.operator, value, kind_of(name), f"<{name}>")
                some = [each for each in some if any(map(comparison.matches, each.values([name])))]
    return some
