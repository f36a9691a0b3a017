"""Values of walks in SPARQL, and back: numbers, dates and places as facts have them, and as typed literals.

A date of a fact may be a year or a month. It compares as the period that it is (`refactx.walks.values`).
"""

import re
from calendar import monthrange
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from pyoxigraph import Literal

from refactx.iris import XSD
from refactx.walks.language import Operator, QueryError, ValueKind
from refactx.walks.values import Coordinates, Day, parse_coordinates, parse_quantity, parse_time

NUMBERS = frozenset(XSD + name for name in ("decimal", "integer", "long", "int", "double", "float"))
DATES = frozenset(XSD + name for name in ("dateTime", "date"))

_LEXICAL_DATE = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)(?:T00:00:00(?:\.0+)?)?(?:Z|[+-]00:00)?", re.ASCII)
SIGNS = {"is": "=", "equals": "=", "over": ">", "under": "<", "from": ">=", "up to": "<="}
_GLOBES = {"mercury": "Q308", "venus": "Q313", "moon": "Q405", "mars": "Q111"}
_DIGITS = 18
"""A number of more digits is written as a double: SPARQL engines have decimals of 18 digits (XSD 1.1 asks for 16)."""


def is_value(text: str) -> bool:
    """Return whether a literal of a fact can be read as something else than text."""
    return any(parse(text) is not None for parse in (parse_time, parse_quantity, parse_coordinates))


def comparison(variable: str, operator: Operator, value: str, kind: ValueKind) -> str:
    """Return the expression of a filter that compares a variable, which is a literal of a kind, with a value of a fact.

    >>> comparison("?v", "over", "30", "quantity")
    '?v > 30'
    >>> comparison("?v", "under", "1956-10-20", "time")
    '?v < "1956-10-20T00:00:00Z"^^xsd:dateTime'

    Raises QueryError if values of the kind do not compare so.
    """
    sign, is_open = SIGNS[operator], kind in ("mixed", "literal")
    options = []
    if (kind == "quantity" or is_open) and (number := parse_quantity(value)) is not None:
        options.append(f"{variable} {sign} {_number(number)}")
    if (kind == "time" or is_open) and (period := parse_time(value)) is not None and len(period.end) == 3:
        exact = operator == "is" and period.first[0] > 0
        options.append(
            f"{variable} = {_written(value)}" if exact else in_time(variable, sign, period.first, period.end)
        )
    if options:  # 1956 is an amount or a year, if nobody knows which
        return options[0] if len(options) == 1 else f"{options[0]} || {options[1]}"
    if sign != "=" or (operator == "equals" and kind in ("quantity", "time")):
        raise QueryError(f"{operator} <{value}> cannot be compared: give a number such as 1.5, or a date as 1956-10-20")
    if kind != "text" and (point := parse_coordinates(value)) is not None:
        return f"{variable} = {_point(point)}"
    if operator == "is":
        return f"STR({variable}) = {Literal(value)}"
    return f"LCASE(STR({variable})) = {Literal(value.lower())}"


def number_text(lexical: str) -> str | None:
    """Return the lexical form of a number as facts have numbers; None if it is no finite number.

    >>> [number_text(text) for text in ("+5", "2.53509908054e-08", "348480000.0", "INF")]
    ['5', '0.0000000253509908054', '348480000', None]
    """
    try:
        number = Decimal(lexical)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > 400:
        return None
    text = format(number, "f")
    if "." in text and not text.rpartition(".")[2].strip("0"):
        text = text.partition(".")[0]
    return text


def lexical_day(lexical: str) -> Day | None:
    """Return the day of an xsd:dateTime at midnight, or of an xsd:date; None for others.

    >>> lexical_day("1956-10-20T00:00:00Z")
    (1956, 10, 20)
    """
    match = _LEXICAL_DATE.fullmatch(lexical)
    day = (int(match[1]), int(match[2]), int(match[3])) if match else None
    return day if day and 1 <= day[1] <= 12 and 1 <= day[2] <= _last(day[0], day[1]) else None


def date_text(lexical: str) -> str | None:
    """Return the fact that an xsd:dateTime or xsd:date is written for, which need be no day of the calendar; None for other
    times and for those before the common era.

    >>> [date_text(f"{day}T00:00:00Z") for day in ("1956-10-20", "1942-02-29", "1956-00-00", "-0043-03-15")]
    ['1956-10-20', '1942-02-29', '1956', None]
    """
    match = _LEXICAL_DATE.fullmatch(lexical)
    if match is None or int(match[1]) <= 0:
        return None
    year, month, day = int(match[1]), match[2], match[3]
    return f"{year:04}-{month}-{day}" if day != "00" else f"{year:04}-{month}" if month != "00" else str(year)


def filters_of_days(bounds: Sequence[tuple[str, Day]]) -> list[tuple[Operator, str]]:
    """Return operators and dates of facts for the comparisons (`=`, `<`, `<=`, `>`, `>=`) of one variable with days.

    Two comparisons that bound a year, a month or a day become `equals`.

    >>> filters_of_days([(">=", (2011, 1, 1)), ("<", (2012, 1, 1))])
    [('equals', '2011')]
    >>> filters_of_days([(">=", (2011, 1, 1))]), filters_of_days([(">", (2011, 1, 1))])
    ([('over', '2010')], [('over', '2011-01-01')])
    """
    found: list[tuple[Operator, str]] = []
    starts = [_next(day) if sign == ">" else day for sign, day in bounds if sign in (">", ">=")]
    ends = [_next(day) if sign == "<=" else day for sign, day in bounds if sign in ("<", "<=")]
    if len(starts) == len(ends) == 1:
        for length in (1, 2, 3):
            if _first(starts[0], length) == starts[0] and _next(starts[0], length) == ends[0]:
                found, starts, ends = [("equals", _text(starts[0], length))], [], []
                break
    found += [("equals", _text(day, 3)) for sign, day in bounds if sign == "="]
    for start in starts:
        year, month, number = start
        if number <= 1:
            year, month = (year, month - 1) if month > 1 else (year - 1, 12)
        before = (year, month, number - 1 if number > 1 else _last(year, month))
        length = next(length for length in (1, 2, 3) if _next(_first(before, length), length) == start)
        found.append(("over", _text(before, length)))
    for end in ends:
        found.append(("under", _text(end, next(length for length in (1, 2, 3) if _first(end, length) == end))))
    return found


def _number(number: Decimal) -> str:
    text = format(number, "f") if abs(number.adjusted()) < _DIGITS else ""
    return text if text and sum(map(str.isdigit, text)) <= _DIGITS else f"{number:E}"


def in_time(variable: str, sign: str, first: Day, end: Day) -> str:
    """Return the expression that a variable is before, after or in a span of time (`<`, `>`, `=`), or not before it or not
    after it (`>=`, `<=`). The span ends before `end`. Raises QueryError for a time of day.
    """
    if len(first) > 3 or len(end) > 3:
        raise QueryError("a time of day has no SPARQL: give a day")
    # The end of a period may be a day after the last of a month, or day or month 0.
    year, month, day = end[0] + (end[1] > 12), end[1] % 12 if end[1] > 12 else max(end[1], 1), max(end[2], 1)
    after = _next((year, month, day - 1)) if day > _last(year, month) else (year, month, day)
    if _next(first) == after:
        return f"{variable} {sign} {_typed(first)}"
    if sign in ("<", ">="):
        return f"{variable} {sign} {_typed(first)}"
    if sign in (">", "<="):
        return f"{variable} {'>=' if sign == '>' else '<'} {_typed(after)}"
    return f"{variable} >= {_typed(first)} && {variable} < {_typed(after)}"


def _typed(day: Day) -> str:
    sign, year = ("-" if day[0] < 0 else ""), abs(day[0])
    return f'"{sign}{year:04}-{day[1]:02}-{day[2]:02}T00:00:00Z"^^xsd:dateTime'


def _written(date: str) -> str:
    """Return the literal that a date of the common era is written for: a month or day of 00 marks a year or a month."""
    year, *rest = date.split("-")
    return f'"{"-".join([year.zfill(4), *rest, "00", "00"][:3])}T00:00:00Z"^^xsd:dateTime'


def _point(point: Coordinates) -> str:
    globe = f"<http://www.wikidata.org/entity/{_GLOBES.get(point.globe, point.globe.upper())}> " if point.globe else ""
    return f'"{globe}Point({point.east:f} {point.north:f})"^^geo:wktLiteral'


def _text(day: Day, length: int) -> str:
    """Return the date of a fact: `length` is the number of parts, of which year is the first."""
    year = str(1 - day[0]) if day[0] <= 0 else str(day[0]) if length == 1 else f"{day[0]:04}"
    parts = [year, *(f"{part:02}" for part in day[1:])][:length]
    return "-".join(parts) + (" BCE" if day[0] <= 0 else "")


def _last(year: int, month: int) -> int:
    return monthrange(2000 + year % 400, month)[1]  # the calendar repeats after 400 years


def _first(day: Day, length: int) -> Day:
    return (day[0], day[1] if length > 1 else 1, day[2] if length > 2 else 1)


def _next(day: Day, length: int = 3) -> Day:
    """Return the day that is one year, month or day (lengths 1, 2, 3) later."""
    year, month, number = day
    if length == 1:
        return (year + 1, month, number)
    if length == 2 or number >= _last(year, month):
        return (year + month // 12, month % 12 + 1, 1)
    return (year, month, number + 1)
