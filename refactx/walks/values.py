"""The values of literals: times, quantities and coordinates as facts write them, text, and how they compare.

**Times.** A value such as `1956` or `1956-10` is a period, and a literal counts by its first moment: it is *under* a
value if that is before the period, *equals* it within the period, and is *over* it afterwards. So exactly one of the
three holds: `1956-10-20` equals `1956`, and `1956` is under `1956-10-20`. (A truthy dump writes a year as its 1
January, so a literal does not say how precise it is.) A time of day counts as it is written, in whatever zone.

**Quantities** compare as decimal numbers of any size; amounts with units, if their units convert (`refactx.walks.units`),
and with a number without a unit by their numbers. **Coordinates** are equal or not, and **text**
compares without the case of letters. A name is compared without its description in parentheses; it also equals itself
with it. If the kind of a predicate's objects is not known, a literal has every kind that it can be read as: `1956` is a
time and a quantity. So has text that is sorted, or compared by *over* or *under*: a graph may have numbers without a
datatype.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal

from refactx.linking.names import bare_name
from refactx.walks.language import BOUNDS, Operator, QueryError, ValueKind
from refactx.walks.units import converted

Day = tuple[int, ...]
"""Year, month and day, and the microseconds after midnight if there are some. 1 BCE is the year 0, 200 BCE is -199. Days
compare as the tuples do."""

Ordered = Literal["time", "quantity"]
"""The kinds of literals that have an order."""

_CLOCK = r"[T ](?:([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d+))?)?)(?:Z|[+-]\d\d:?\d\d)?"
_TIME = re.compile(rf"(\d+)(?:-(\d\d)(?:-(\d\d)(?:{_CLOCK})?)?)?( BCE?)?", re.ASCII)
_QUANTITY = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][-+]?\d{1,4})?", re.ASCII)
_COORDINATES = re.compile(r"(\d+(?:\.\d+)?)°([NS]), (\d+(?:\.\d+)?)°([EW])(?: \((.+)\))?", re.ASCII)
_LONGEST_NUMBER = 1000  # Python refuses to read whole numbers of more than 4,300 digits, and a part has at most 1,000
INITIAL = re.compile(r"(?<=\b\w)(?![\w.'’])")
"""Where a full stop may be missing after a letter that is a word: `J R R Tolkien`."""
TRUTH = {"true": True, "yes": True, "x": True, "false": False, "no": False}
"""What literals in lower case say that graphs and tables have for a condition."""
_LIKE = 0.8
"""The least share of letters, as difflib counts them, in which two names or words are alike."""
_LITTLE_WORDS = frozenset(("the", "and", "for", "der", "die", "das", "von", "van", "les", "des", "del", "los", "las"))
_PLURALS: dict[ValueKind, str] = {
    "entity": "entities",
    "mixed": "entities and literals",
    "time": "times",
    "quantity": "quantities",
    "coordinates": "coordinates",
    "text": "texts",
    "literal": "literals",
}


@dataclass(frozen=True, slots=True)
class Period:
    """A moment, a day, a month or a year: where it begins, and a bound that is after its end and before the next one."""

    first: Day
    end: Day


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A place: degrees north and east, and the body on which it is, in lower case; empty for the Earth."""

    north: Decimal
    east: Decimal
    globe: str


def parse_time(text: str) -> Period | None:
    """Return the period that a text names, as facts write it; None if it is not a time.

    >>> parse_time("1956-10")
    Period(first=(1956, 10, 1), end=(1956, 11, 0))
    >>> parse_time("200 BCE").first, parse_time("44-03-15 BCE").first, parse_time("1956-13")
    ((-199, 1, 1), (-43, 3, 15), None)
    >>> parse_time("2024-03-01T10:30:00Z"), parse_time("2024-03-01 00:00").first
    (Period(first=(2024, 3, 1, 37800000000), end=(2024, 3, 1, 37801000000)), (2024, 3, 1))
    """
    match = _TIME.fullmatch(text)
    if match is None or len(text) > _LONGEST_NUMBER:
        return None
    year, month, day = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    if (match[2] and not 1 <= month <= 12) or (match[3] and not 1 <= day <= 31):
        return None
    year = 1 - year if match[8] else year
    if match[4]:
        hours, minutes, seconds, fraction = (match[place] or "" for place in (4, 5, 6, 7))
        clock = (3600 * int(hours) + 60 * int(minutes) + int(seconds or 0)) * 10**6 + int(fraction.ljust(6, "0")[:6])
        size = 1 if fraction else 10**6 if seconds else 60 * 10**6
        return Period((year, month, day, clock) if clock else (year, month, day), (year, month, day, clock + size))
    end = (year, month, day + 1) if day else (year, month + 1, 0) if month else (year + 1, 0, 0)
    return Period((year, month or 1, day or 1), end)


def time_between(first: str, last: str) -> str | None:
    """Return how much later one time is than another, in years, months or days: as exact as the vaguer of the two is. None
    if one is no time.

    >>> time_between("1990", "1994-05"), time_between("1990-05", "1990-06"), time_between("1990-03-01", "1990-02-27")
    ('4 years', '1 month', '-2 days')
    """
    begin, end = parse_time(first), parse_time(last)
    if begin is None or end is None:
        return None
    years, months = end.first[0] - begin.first[0], end.first[1] - begin.first[1]
    size, unit = [
        (years, "year"),
        (12 * years + months, "month"),
        (day_number(end.first) - day_number(begin.first), "day"),
    ][min(re.split("[T ]", text)[0].count("-") for text in (first, last))]
    return f"{size} {unit}{'' if abs(size) == 1 else 's'}"


def day_number(day: Day) -> int:
    """Return the number of a day in the Gregorian calendar, continued to all years.

    >>> day_number((1970, 1, 1)) - day_number((1969, 12, 31)), day_number((1, 3, 1)) - day_number((0, 2, 28))
    (1, 367)
    """
    year, month, number = day[:3]
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + number


def parse_quantity(text: str) -> Decimal | None:
    """Return the number that a text is, with or without commas between thousands; None if it is not a number.

    >>> parse_quantity("-0.440"), parse_quantity("13,798"), parse_quantity("5 km")
    (Decimal('-0.440'), Decimal('13798'), None)
    """
    if not _QUANTITY.fullmatch(text):
        return None
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:  # an exponent beyond what the library holds
        return None


def parse_amount(text: str) -> tuple[Decimal, str] | None:
    """Return a number with the unit after it, which may be empty; None of what is no amount.

    >>> parse_amount("4478 metre"), parse_amount("-0.440"), parse_amount("Up 2")
    ((Decimal('4478'), 'metre'), (Decimal('-0.440'), ''), None)
    """
    number, _, unit = text.partition(" ")
    amount = parse_quantity(number)
    return None if amount is None or unit[:1].isdigit() else (amount, unit)


def amount_in(text: str, unit: str) -> Decimal | None:
    """Return the number of an amount in a unit, whatever its own is if that is empty; None if it cannot be converted.

    >>> amount_in("4478 metre", "metre"), amount_in("4478 metre", ""), amount_in("4478", "metre")
    (Decimal('4478'), Decimal('4478'), None)
    """
    amount = parse_amount(text)
    return amount[0] if amount and not unit else converted(*amount, unit) if amount else None


def common_unit(values: Iterable[str], place: str) -> str:
    """Return the unit in which amounts compare; empty if none has one. Raise QueryError if there is none.

    `place`: where they come from, such as `<height>`.
    """
    units = list(dict.fromkeys(amount[1] for value in values if (amount := parse_amount(value)) is not None))
    odd = next((unit for unit in units[1:] if converted(Decimal(1), unit, units[0]) is None), None)
    if odd is not None:
        first, other = (f"in <{unit}>" if unit else "without a unit" for unit in (units[0], odd))
        raise QueryError(f"the values of {place} cannot be compared: some are {first}, and others {other}")
    return units[0] if units else ""


def written_number(number: Decimal, unit: str = "") -> str:
    """Return a number that was computed as a literal has it, rounded to six decimals, with its unit.

    >>> written_number(Decimal(10) / 3), written_number(Decimal("7.50"), "metre"), written_number(Decimal("3E+2"))
    ('3.333333', '7.5 metre', '300')
    """
    text = f"{number:z.6f}".rstrip("0").rstrip(".")
    return f"{text} {unit}" if unit else text


def parse_coordinates(text: str) -> Coordinates | None:
    """Return the place that a text names, as facts write it; None if it is not one.

    >>> parse_coordinates("3°S, 15.4°W (Moon)")
    Coordinates(north=Decimal('-3'), east=Decimal('-15.4'), globe='moon')
    """
    match = _COORDINATES.fullmatch(text)
    if match is None:
        return None
    north, east = Decimal(match[1]), Decimal(match[3])
    globe = (match[5] or "").casefold()
    return Coordinates(-north if match[2] == "S" else north, -east if match[4] == "W" else east, globe)


class Comparison:
    """A comparison of literals (or names) with a query's value.

    `operator`, `value`: as in `refactx.walks.language.WalkFilter`; `kind`: of the objects; `place`: where they come from, such
    as `<age>`, for errors. Raises QueryError if objects of the kind cannot be compared so.

    >>> [Comparison("over", "2008", "time", "<date>").matches(day) for day in ("2008-05-01", "2009", "1956")]
    [False, True, False]
    >>> Comparison("starts with", "dan", "entity", "<child>").matches("Danny Boyle (film director)")
    True
    """

    def __init__(self, operator: Operator, value: str, kind: ValueKind, place: str) -> None:
        self._operator, self._value, self._place = operator, value, place
        self._kind: ValueKind = "literal" if kind == "text" and operator in BOUNDS else kind
        self._folded = value.casefold()
        self._time, self._quantity, self._coordinates = _readings(value, self._kind)
        self._unit = ""
        amount = parse_amount(value) if self._kind in ("quantity", "literal", "mixed") else None
        if amount and operator in ("equals", *BOUNDS):
            self._quantity, self._unit = amount
        self._has_reading = (self._time, self._quantity, self._coordinates) != (None, None, None)
        if operator in BOUNDS:
            if kind in ("entity", "coordinates"):
                raise QueryError(f"the values of {place} are {_PLURALS[kind]}, of which none is {operator} another")
            if self._time is None and self._quantity is None:
                raise self._mixed()
        if operator == "equals" and kind in ("time", "quantity", "coordinates") and not self._has_reading:
            raise self._mixed()

    def matches(self, text: str) -> bool | None:
        """Return whether a literal or name compares as asked; None if it has no kind in common with the value."""
        match self._operator:
            case "is":
                return text == self._value
            case "starts with":
                return self._plain(text).startswith(self._folded)
            case "contains":
                return self._folded in self._plain(text)
        time, quantity, coordinates = _readings(text, self._kind)
        if self._time is not None and time is not None:
            before, after = time.first < self._time.first, time.first >= self._time.end
            return self._is_admitted(before, after)
        if self._unit:
            quantity = amount_in(text, self._unit)
        if self._quantity is not None and (quantity is not None or self._unit):
            if quantity is None:
                return None
            return self._is_admitted(quantity < self._quantity, quantity > self._quantity)
        if self._operator != "equals":
            return None
        if self._coordinates is not None and coordinates is not None:
            return coordinates == self._coordinates
        return self._folded in (text.casefold(), self._plain(text))

    def _is_admitted(self, before: bool, after: bool) -> bool:
        admitted = {"under": before, "over": after, "from": not before, "up to": not after}
        return admitted.get(self._operator, not (before or after))

    def check(self, texts: Iterable[str]) -> None:
        """Raise QueryError if there are some texts, and none of them has a kind in common with the value."""
        first = None
        for text in texts:
            if self.matches(text) is not None:
                return
            first = first or text
        if first is not None:
            raise self._mixed(first)

    def _plain(self, text: str) -> str:
        return (text if self._kind == "text" else bare_name(text)).casefold()

    def _mixed(self, example: str | None = None) -> QueryError:
        are = f"are {_PLURALS[self._kind]}" if example is None else f"are such as <{example}>"
        return QueryError(f"the values of {self._place} {are}: <{self._value}> cannot be compared with them")


def _readings(text: str, kind: ValueKind) -> tuple[Period | None, Decimal | None, Coordinates | None]:
    """Return what a text is as a time, as a quantity and as coordinates, if objects of a kind can be that."""
    is_open = kind in ("literal", "mixed")
    return (
        parse_time(text) if is_open or kind == "time" else None,
        amount_in(text, "") if kind == "quantity" else parse_quantity(text) if is_open else None,
        parse_coordinates(text) if is_open or kind == "coordinates" else None,
    )


def order_of(values: Iterable[str], kind: ValueKind, place: str) -> Ordered:
    """Return the kind as which values are sorted, given the kind of a predicate's objects.

    Raises QueryError if the values have no order, or are of several kinds. `place`: where they come from.

    >>> order_of(["1956", "1956-10"], "literal", "<date>"), order_of(["1956", "-1.5"], "literal", "<n>")
    ('time', 'quantity')
    """
    if kind == "time":
        return "time"
    if kind == "quantity":
        return "quantity"
    if kind in ("entity", "coordinates"):
        raise QueryError(f"the values of {place} are {_PLURALS[kind]}, which have no order")
    present = list(values)
    if all(parse_quantity(value) is not None for value in present):
        return "quantity"
    if all(parse_time(value) is not None for value in present):
        return "time"
    odd = next((v for v in present if parse_time(v) is None and parse_quantity(v) is None), None)
    if odd is not None:
        raise QueryError(f"the values of {place} cannot be sorted: <{odd}> is neither a time nor a quantity")
    time = next(value for value in present if parse_quantity(value) is None)
    number = next(value for value in present if parse_time(value) is None)
    raise QueryError(f"the values of {place} cannot be sorted: <{time}> is a time, <{number}> a quantity")


def sort_key(value: str, order: Ordered, unit: str = "") -> Day | Decimal | None:
    """Return what a value is sorted by, amounts in a unit; None if it is not of the kind.

    >>> sort_key("1956-10", "time"), sort_key("-1.50", "quantity"), sort_key("Bob", "time")
    ((1956, 10, 1), Decimal('-1.50'), None)
    """
    if order == "quantity":
        return amount_in(value, unit)
    period = parse_time(value)
    return None if period is None else period.first
