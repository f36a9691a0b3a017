"""What members have: the values by which they are sorted, summed and grouped, and with which a table shows them.

As in SPARQL with ORDER BY, members without such values are left out, and of several values of a member the best counts.
Members that are equal are in the order of their names. A sum has each value of each member once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from refactx.walks.checks import check_hops, check_qualifier
from refactx.walks.language import DURATION, Groups, Hop, MemberValue, QueryError, ValueKind
from refactx.walks.sets import Members, Proof, StatementEdge, Walks, facts_of
from refactx.walks.values import (
    Comparison,
    amount_in,
    common_unit,
    order_of,
    sort_key,
    time_between,
    written_number,
)

Edges = Mapping[str, Sequence[StatementEdge]]
"""Members with the statements by which they were reached."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A member with a value that it has, and the facts that lead to that; none of a count of its own facts."""

    member: str
    value: str
    proof: tuple[Proof, ...] = ()


@dataclass(frozen=True, slots=True)
class Measure:
    """What members have of one kind. `last`: the hop that leads to them; `edges`: its statements, for their qualifiers."""

    walks: Walks
    by: MemberValue
    last: Hop | None = None
    edges: Edges | None = None

    @property
    def kind(self) -> ValueKind:
        """The kind of its values."""
        if self.by.its:
            return self.walks.kind_of_qualifier(self.by.predicate)
        return "quantity" if self.by.counted else self.walks.kind(self.by.predicate)

    @property
    def title(self) -> str:
        """Its name in a table."""
        return f"{'count ' if self.by.counted else ''}{'/'.join(self.by.path) or 'duration'}"

    @property
    def place(self) -> str:
        """Its name in an error."""
        return "/".join(f"<{name or 'duration'}>" for name in self.by.path)

    def of(self, members: Sequence[str]) -> list[Measured]:
        """Return the values of some members, member by member. Counts of none are left out."""
        by, walks = self.by, self.walks
        if by.its:
            edges = self.edges or {}
            return [
                Measured(member, value, (edge.proof,))
                for member in members
                for edge in edges.get(member, ())
                for value in walks.names.values(edge.statement, by.predicate)
            ]
        if by.via:
            return list(self._of_path(members))
        if by.counted:
            counts = walks.counts(members, by.predicate)
            return [Measured(member, str(count)) for member, count in zip(members, counts, strict=True) if count]
        pairs = walks.pairs(members, by.predicate)
        return [Measured(member, value, (((member, by.predicate, value), ()),)) for member, value in pairs]

    def _of_path(self, members: Sequence[str]) -> Iterator[Measured]:
        by, walks = self.by, self.walks
        walks.ends(members, by.hops)  # reads what is on the way at once
        for member in members:
            found: Members = {member: None}
            for hop in by.hops:
                found = walks.follow(found, hop)
            ways = [(value, tuple(reversed(list(facts_of(trail))))) for value, trail in found.items()]
            if not by.counted:
                yield from (Measured(member, value, way) for value, way in ways)
            elif ways:
                yield Measured(member, str(len(ways)), tuple(fact for _, way in ways for fact in way))

    def check(self, members: Sequence[str], *, must_have: bool = True) -> None:
        """Raise QueryError, with names that are near, if none of some members has a value. `must_have`: also if the index has
        such a predicate."""
        if not self.by.its:
            check_hops(self.walks, self.by.hops, members, must_have=must_have)
        elif self.last is not None and self.by.predicate != DURATION:
            check_qualifier(self.walks, self.last.predicate, self.by.predicate, must_have=must_have)

    def keys(self, found: Sequence[Measured]) -> tuple[list[tuple[Any, Measured]], str]:
        """Return values with what they compare by, all numbers or all times, and the unit of these numbers.

        Raises QueryError if the values have no common order.
        """
        texts = [one.value for one in found]
        order = order_of(texts, self.kind, self.place)
        unit = common_unit(texts, self.place) if order == "quantity" else ""
        keyed = [(key, one) for one in found if (key := sort_key(one.value, order, unit)) is not None]
        if found and not keyed:
            raise QueryError(f"the values of {self.place} cannot be sorted: <{found[0].value}> is no {order}")
        return keyed, unit

    def ranked(self, members: Sequence[str], *, most: bool, limit: int) -> list[Measured]:
        """Return at most `limit` members, those with the most or least first. Raises QueryError as `keys` does, and if none has
        a value."""
        order_of((), self.kind, self.place)  # before anything is read: some kinds have no order
        names, best = sorted(members), dict[str, tuple[Any, Measured]]()
        keyed, _ = self.keys(self.of(names))
        for key, one in keyed:
            if one.member not in best or (key > best[one.member][0] if most else key < best[one.member][0]):
                best[one.member] = key, one
        if not best:
            self.check(names)
        in_order = sorted(best.values(), key=lambda one: one[0], reverse=most)
        return [one for _, one in in_order][:limit]

    def numbers(self, members: Sequence[str]) -> tuple[list[tuple[Decimal, Measured]], str]:
        """Return the numbers of some members, each of a member once, and their unit. Raises QueryError if they are none."""
        found = list(dict.fromkeys(self.of(sorted(members))))
        keyed, unit = self.keys(found)
        if any(not isinstance(key, Decimal) for key, _ in keyed):
            raise QueryError(f"the values of {self.place} are times, which have no sum: ask for most or least")
        once = {(one.member, one.value): (key, one) for key, one in keyed}
        if members and not once:
            self.check(members)
        return list(once.values()), unit


def combined(numbers: Iterable[Decimal], unit: str, *, average: bool) -> str:
    """Return the sum of numbers, or their average, as a literal has it.

    >>> combined([Decimal(1), Decimal(2)], "metre", average=True)
    '1.5 metre'
    """
    found = list(numbers)
    total = sum(found, Decimal(0))
    return written_number(total / len(found) if average and found else total, unit)


def difference(one: Sequence[str], other: Sequence[str], kind: ValueKind, place: str) -> str:
    """Return how much more one value is than another: a number with its unit, or years, months or days.

    Raises QueryError unless there is one value of each, and they are of one kind.

    >>> difference(["6650 kilometre"], ["6400 kilometre"], "quantity", "<length>")
    '250 kilometre'
    >>> difference(["1994"], ["1990-05"], "time", "<date of birth>")
    '4 years'
    """
    for some in (one, other):
        if len(set(some)) != 1:
            found = ", ".join(f"<{value}>" for value in some[:3]) if some else "none"
            raise QueryError(f"a difference is one of two values, but one side of {place} has {found}: narrow it")
    order = order_of([one[0], other[0]], kind, place)
    none = QueryError(f"the values of {place} are <{one[0]}> and <{other[0]}>, which have no difference")
    if order == "time":
        if (between := time_between(other[0], one[0])) is None:
            raise none
        return between
    unit = common_unit([one[0], other[0]], place)
    first, second = amount_in(one[0], unit), amount_in(other[0], unit)
    if first is None or second is None:
        raise none
    return written_number(first - second, unit)


def grouped(walks: Walks, members: Sequence[str], hops: Sequence[Hop]) -> dict[str, list[str]]:
    """Return groups of members by what hops lead to from them, in the order of the groups' names."""
    found = dict[str, list[str]]()
    for member, ends in walks.ends(members, hops).items():
        for group in ends:
            found.setdefault(group, []).append(member)
    return {group: found[group] for group in sorted(found)}


def group_numbers(
    groups: Mapping[str, Sequence[str]], measure: Measure | None, *, average: bool
) -> tuple[dict[str, Decimal], str, list[Proof]]:
    """Return the number of each group, without those that have none, their unit, and facts with the values: how many members
    it has, or the sum or average of their values. Raises QueryError as `Measure.numbers` does."""
    if measure is None:
        return {group: Decimal(len(some)) for group, some in groups.items()}, "", []
    found, unit = measure.numbers(list(dict.fromkeys(name for some in groups.values() for name in some)))
    of_member = dict[str, list[Decimal]]()
    for number, one in found:
        of_member.setdefault(one.member, []).append(number)
    numbers = dict[str, Decimal]()
    for group, some in groups.items():
        every = [number for name in some for number in of_member.get(name, ())]
        if every:
            numbers[group] = sum(every, Decimal(0)) / (len(every) if average else 1)
    return numbers, unit, [fact for _, one in found for fact in one.proof]


def bounded(groups: Mapping[str, Decimal], per: Groups, unit: str) -> list[tuple[str, Decimal]]:
    """Return the groups, with their numbers, that a bound admits, those with the most or least first if that is asked for.

    Raises QueryError if the bound is no number.
    """
    is_admitted: Callable[[str], bool | None] = lambda text: True  # noqa: E731
    if per.operator:
        is_admitted = Comparison(per.operator, per.value, "quantity", "the groups").matches
    found = [(group, number) for group, number in groups.items() if is_admitted(f"{number:f} {unit}".strip())]
    if per.order:
        found.sort(key=lambda one: one[1], reverse=per.order == "most")
    return found[: per.limit or None]


class TableRow(NamedTuple):
    """A row of a table: the place of its member, and the values in each column."""

    place: int
    cells: tuple[tuple[str, ...], ...]


def table(
    members: Sequence[str], columns: Sequence[Measure], edges: Edges | None
) -> tuple[list[TableRow], list[Proof]]:
    """Return the rows of a table of members, and the facts that prove them: a row for each member, or for each of its
    statements (`edges`). Raises QueryError for a column that the index does not have."""
    proof, found = list[Proof](), list[dict[str, dict[str, None]]]()
    for column in columns:
        cells = dict[str, dict[str, None]]()
        for one in column.of(list(dict.fromkeys(members))):
            cells.setdefault(one.member, {})[one.value] = None
            proof += one.proof
        if members and not cells:
            column.check(members, must_have=False)
        found.append(cells)
    rows = list[TableRow]()
    for place, member in enumerate(members):
        statements: Sequence[StatementEdge | None] = [None] if edges is None else edges.get(member, ())
        for edge in statements:
            row = (
                column.walks.names.values(edge.statement, column.by.predicate)
                if edge is not None and column.by.its
                else cells.get(member, ("0",) if column.by.counted else ())
                for column, cells in zip(columns, found, strict=True)
            )
            rows.append(TableRow(place, tuple(map(tuple, row))))
    return rows, proof
