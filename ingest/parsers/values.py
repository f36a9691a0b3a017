"""The format of literals as people write them (dates, numbers, coordinates), and the matching of language tags."""

import math
import re
from collections.abc import Sequence
from decimal import Decimal

from refactx.index.names import LITERAL_KINDS

VALUE_KINDS = LITERAL_KINDS
"""The kinds of literals; the staged claims have their places in this tuple."""
NO_LANGUAGE = 255
"""The place of the language of a text that has none, or is for all languages."""

_XSD = "http://www.w3.org/2001/XMLSchema#"
STRING = _XSD + "string"
DATES = frozenset(_XSD + name for name in ("dateTime", "date", "dateTimeStamp"))
DECIMALS = frozenset((_XSD + "decimal", _XSD + "integer", _XSD + "long", _XSD + "int", _XSD + "nonNegativeInteger"))
_FLOATS = frozenset((_XSD + "double", _XSD + "float"))
_YEARS = {_XSD + "gYear": "-00-00", _XSD + "gYearMonth": "-00"}
_VERBATIM = frozenset(_XSD + name for name in ("boolean", "time", "duration"))
_INTEGERS = frozenset(
    _XSD + name
    for sort in ("short", "byte", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte")
    for name in (sort, "positiveInteger", "negativeInteger", "nonPositiveInteger")
)
_WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"

_DATE = re.compile(r"([+-]?)(\d{4,999})-(\d\d)-(\d\d)(?:T(\d\d:\d\d:\d\d(?:\.\d+)?))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_DECIMAL = re.compile(r"\s*\+?(-?)(\d+(?:\.\d*)?|\.\d+)\s*", re.ASCII)
_POINT = re.compile(r"\s*(?:<([^<>\s]*)>\s*)?point\s*\(\s*(\S+)\s+(\S+)\s*\)\s*", re.ASCII | re.IGNORECASE)
_MIDNIGHT = re.compile(r"00:00:00(?:\.0+)?")
_FLOAT_DIGITS = 17
"""No double needs more significant digits (IEEE 754): those of a longer decimal are noise of a conversion from one."""
_WRITTEN_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WRITTEN_DATE = re.compile(r"-?\d{4,}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)?")
_GLOBES = {"Q2": "", "Q308": " (Mercury)", "Q313": " (Venus)", "Q405": " (Moon)", "Q111": " (Mars)"}
_GLOBE = re.compile(r"https?://www\.wikidata\.org/entity/(Q[1-9]\d*)", re.ASCII)
# OGC's IRIs of systems of degrees, with any version of their register: CRS84, and EPSG 4326, which has latitude first.
_DEGREES = re.compile(
    r"(?:https?://www\.opengis\.net/def/crs/|urn:(?:x-)?ogc:def:crs:)(?:OGC[/:][\d.]*[/:]CRS84|(EPSG)[/:][\d.]*[/:]4326)",
    re.ASCII | re.IGNORECASE,
)
_MILLENNIUM, _CENTURY, _DECADE, _YEAR, _DAY, _FINEST = 6, 7, 8, 9, 11, 14
_MAX_LATITUDE, _MAX_LONGITUDE = 90, 360  # the longitude of other bodies goes round to 360


def language_rank(tag: str, languages: Sequence[str]) -> int | None:
    """Return how well a language tag fits languages in order of preference, 0 best; None if it fits none.

    Best are the languages themselves, regardless of case; then `mul`, "for all languages", unless it has a place among
    them; last the variants of each language, which begin with it and a hyphen. So Wikidata does, whose English falls
    back to `mul`, and never to `en-gb` or `en-ca`.

    >>> [language_rank(tag, ("en",)) for tag in ("en", "mul", "EN-gb", "enm", "de")]
    [0, 1, 2, None, None]
    >>> [language_rank(tag, ("mul", "en-gb", "en")) for tag in ("mul", "en-gb", "en", "en-ca")]
    [0, 1, 2, 5]
    """
    tag = tag.lower()
    order = languages if "mul" in languages else (*languages, "mul")
    if tag in order:
        return order.index(tag)
    variants = (at for at, language in enumerate(languages, len(order)) if tag.startswith(f"{language}-"))
    return next(variants, None)


def language_place(tag: str | None, languages: Sequence[str]) -> int:
    """Return the place in `languages` of a tag, or of what it is a variant of; `NO_LANGUAGE` for none and for `mul`.

    >>> [language_place(tag, ("en", "mul", "de")) for tag in ("en", "de-AT", "mul", None)]
    [0, 2, 255, 255]
    """
    tag = (tag or "mul").lower()
    if tag in languages and tag != "mul":
        return languages.index(tag)
    return next((at for at, language in enumerate(languages) if tag.startswith(f"{language}-")), NO_LANGUAGE)


def value_kind(language: str | None, datatype: str | None) -> int:
    """Return the place in `VALUE_KINDS` of the kind of a literal, given its language or datatype IRI.

    >>> VALUE_KINDS[value_kind("en", None)], VALUE_KINDS[value_kind(None, "http://www.w3.org/2001/XMLSchema#gYear")]
    ('text', 'time')
    >>> VALUE_KINDS[value_kind(None, "http://www.w3.org/2001/XMLSchema#boolean")]
    'literal'
    """
    kind = "literal"
    if language is not None or datatype is None or datatype == STRING:
        kind = "text"
    elif datatype in DATES or datatype in _YEARS:
        kind = "time"
    elif datatype in DECIMALS or datatype in _FLOATS or datatype in _INTEGERS:
        kind = "quantity"
    elif datatype == _WKT:
        kind = "coordinates"
    return VALUE_KINDS.index(kind)


def kind_of_text(text: str) -> int:
    """Return the place in `VALUE_KINDS` of the kind of a value, by its text. A number with leading zeros is a code.

    >>> [VALUE_KINDS[kind_of_text(text)] for text in ("1886", "-0.5", "2014-05-11", "008", "NA")]
    ['quantity', 'quantity', 'time', 'text', 'text']
    """
    if _WRITTEN_NUMBER.fullmatch(text):
        return VALUE_KINDS.index("quantity")
    return VALUE_KINDS.index("time" if _WRITTEN_DATE.fullmatch(text) else "text")


def format_literal(text: str, datatype: str | None, *, known_only: bool = True) -> str | None:
    """Return a literal without a language as people write it; None if its datatype is unknown or its value malformed.

    `datatype` is a full IRI; None for a plain string. Strings are returned as they are; so are, unless `known_only`,
    values of datatypes that are not known, such as a vocabulary's own for its codes.

    >>> format_literal("+175", "http://www.w3.org/2001/XMLSchema#decimal")
    '175'
    >>> format_literal("Point(13.38 52.51)", "http://www.opengis.net/ont/geosparql#wktLiteral")
    '52.51°N, 13.38°E'
    """
    if datatype is None or datatype == STRING or datatype in _VERBATIM:
        return text
    if datatype in DECIMALS:
        return format_decimal(text) or format_double(text)  # data has decimals such as 2.65e+09, which XSD forbids
    if datatype in DATES:
        return format_date(text)
    if datatype in _YEARS:
        return format_date(text.strip().removesuffix("Z") + _YEARS[datatype])
    if datatype == _WKT:
        return format_point(text)
    if datatype in _FLOATS:
        return format_double(text)
    if known_only:
        return None
    return format_decimal(text) if datatype in _INTEGERS else text


def format_date(text: str) -> str | None:
    """Return an xsd:dateTime or xsd:date as people write it; None if it is neither.

    A truthy dump has no precision: a year is written like its 1 January. The date is therefore kept whole, unless its
    month or day is 00, which marks a year or a month. Before the common era, 1 January is read as a year. Years follow
    XSD 1.1 (https://www.w3.org/TR/xmlschema11-2/#dateTime), as Wikibase's RDF export does: 0000 is 1 BCE, so the year
    -0199 is 200 BCE. A time of day other than midnight stays.

    >>> days = ("1956-10-20", "1956-10-00", "1956-00-00", "-0199-01-01", "-0043-03-15")
    >>> [format_date(f"{day}T00:00:00Z") for day in days]
    ['1956-10-20', '1956-10', '1956', '200 BCE', '44-03-15 BCE']
    >>> [format_date(text) for text in ("2001-01-01T12:30:00Z", "12345-00-00T00:00:00Z", "someday")]
    ['2001-01-01T12:30:00Z', '12345', None]
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    sign, year, month, day, time, zone = match.groups()
    if int(month) > 12 or int(day) > 31:
        return None
    number = -int(year) if sign == "-" else int(year)
    before = number <= 0
    if before:
        year = str(1 - number)
    elif month == "00" or len(year) > 4:
        year = str(number)
    clock = "" if time is None or _MIDNIGHT.fullmatch(time) else f"T{time}{zone or ''}"
    if clock:
        written = f"{year}-{month}-{day}{clock}"
    elif month == "00" or (before and month == day == "01"):
        written = year
    else:
        written = f"{year}-{month}" if day == "00" else f"{year}-{month}-{day}"
    return f"{written} BCE" if before else written


def format_time(text: str, precision: int) -> str | None:
    """Return an xsd:dateTime of Wikidata as precisely as it is known; None if it is malformed.

    `precision`: Wikibase's, 11 a day, 10 a month, 9 a year, 8 a decade, 7 a century, 6 a millennium. Up to a year, years
    before the common era follow XSD 1.1, as in `format_date`; coarser ones have their own number.

    >>> [format_time("1986-05-01T00:00:00Z", precision) for precision in (11, 10, 9, 8, 7, 6)]
    ['1986-05-01', '1986-05', '1986', '1980s', '20th century', '2nd millennium']
    >>> format_time("-0752-01-01T00:00:00Z", 9), format_time("-0500-01-01T00:00:00Z", 7), format_time("-13798000000-01-01", 3)
    ('753 BCE', '5th century BCE', '13798000000 BCE')
    """
    match = _DATE.fullmatch(text.strip())
    if match is None or int(match[3]) > 12 or int(match[4]) > 31 or not 0 <= precision <= _FINEST:
        return None
    sign, year, month, day, time, _ = match.groups()
    number = int(year)
    before = sign == "-" or not number
    if precision >= _DAY:
        if before and month == day == "01" and (time is None or _MIDNIGHT.fullmatch(time)):
            return f"{number + 1}-01-01 BCE"
        return format_date(text)
    if precision >= _YEAR:
        return format_date(f"{sign}{year}-{month if precision > _YEAR else '00'}-00")
    unit = {_DECADE: 10, _CENTURY: 100, _MILLENNIUM: 1000}.get(precision)
    if precision == _DECADE:
        written = f"{number // 10}0s"
    elif unit is not None:
        written = f"{_ordinal(-(-number // unit))} {'century' if precision == _CENTURY else 'millennium'}"
    else:
        written = str(number)
    return f"{written} BCE" if before else written


def _ordinal(number: int) -> str:
    """Return an ordinal number.

    >>> [_ordinal(number) for number in (1, 2, 12, 21, 103)]
    ['1st', '2nd', '12th', '21st', '103rd']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def time_of_json(text: str, precision: int, *, julian: bool) -> str | None:
    """Return a time of Wikidata's JSON as its RDF has it; None if it is malformed.

    Months and days that are unknown are 1, years before the common era follow XSD 1.1 up to the precision of a year, days
    that the month does not have are its last one, and days of the Julian calendar become those of the Gregorian.

    >>> time_of_json("+1582-10-05T00:00:00Z", 11, julian=True), time_of_json("-0753-00-00T00:00:00Z", 9, julian=False)
    ('1582-10-15T00:00:00Z', '-0752-01-01T00:00:00Z')
    """
    match = _DATE.fullmatch(text)
    if match is None or int(match[3]) > 12 or int(match[4]) > 31 or not 0 <= precision <= _FINEST:
        return None
    sign, digits, month, day, time, _ = match.groups()
    before = sign == "-" and int(digits) > 0
    if precision < _YEAR:
        return f"{'-' if before else ''}{_four(int(digits))}-01-01T{time or '00:00:00'}Z"
    year, moon, sun = (1 - int(digits) if before else int(digits)), int(month) or 1, int(day) or 1
    if precision == _YEAR:
        moon = sun = 1
    if precision >= _DAY and julian:
        year, moon, sun = _from_julian(year, moon, sun)
    elif sun > 28:  # the shortest month
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        sun = min(sun, (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[moon - 1])
    return f"{'-' if year < 0 else ''}{_four(abs(year))}-{moon:02}-{sun:02}T{time or '00:00:00'}Z"


def _four(year: int) -> str:
    return f"{year:04}"


def _from_julian(year: int, month: int, day: int) -> tuple[int, int, int]:
    """Return a day of the Julian calendar in the Gregorian; the year 0 is 1 BCE.

    >>> _from_julian(1732, 2, 11), _from_julian(-43, 3, 15)
    ((1732, 2, 22), (-43, 3, 13))
    """
    shifted, since_march = year - (month < 3), (month - 3) % 12  # a year begins in March, and ends with a leap day
    days = 365 * shifted + shifted // 4 + (153 * since_march + 2) // 5 + day - 3
    era, of_era = divmod(days, 146_097)
    of_years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    rest = of_era - (365 * of_years + of_years // 4 - of_years // 100)
    since_march = (5 * rest + 2) // 153
    return (
        400 * era + of_years + (since_march > 9),
        (since_march + 2) % 12 + 1,
        rest - (153 * since_march + 2) // 5 + 1,
    )


def format_decimal(text: str) -> str | None:
    """Return an xsd:decimal without its plus sign and without the noise of a conversion from binary; None for others.

    >>> [format_decimal(text) for text in ("+0.440", "-5", "+19.768000000000000682121026329696178436279296875")]
    ['0.440', '-5', '19.768']
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    if len(digits) > _FLOAT_DIGITS and "." in digits and len(digits.replace(".", "").lstrip("0")) > _FLOAT_DIGITS:
        number = float(digits)
        digits = digits if math.isinf(number) else _positional(number)
    if digits[0] == ".":
        digits = "0" + digits
    if digits[-1] == ".":
        digits = digits[:-1]
    return digits if not sign or not digits.strip("0.") else sign + digits


def format_double(text: str) -> str | None:
    """Return an xsd:double as the shortest decimal that reads back as the same number; None for other texts.

    >>> [format_double(text) for text in ("1.5E3", "+0.1", "6.02E23", "-INF", "much")]
    ['1500', '0.1', '6.02e+23', '-INF', None]
    """
    if text in ("INF", "+INF", "-INF", "NaN"):
        return text.lstrip("+")
    try:
        number = float(text) if re.fullmatch(r"\s*[-+.\deE]+\s*", text, re.ASCII) else math.nan
    except ValueError:
        return None
    if math.isnan(number) or math.isinf(number):
        return None
    if number and not 1e-4 <= abs(number) < 1e16:
        return repr(number)
    return _positional(number)


def format_point(text: str) -> str | None:
    """Return a WKT point as `latitude, longitude` in degrees; None for other texts, and for points in other units.

    Longitude is first, as in CRS84, the system of points that name none; in EPSG 4326 it is second. A point may name
    these systems, or the body that it is on, by its IRI in Wikidata: for one other than Earth its name is added, or its
    id if it is not one of the nearest. Any other system is unknown.

    >>> [format_point(text) for text in ("<http://www.wikidata.org/entity/Q405> Point(-15.4 -3)", "POINT(0 -0.5)")]
    ['3°S, 15.4°W (Moon)', '0.5°S, 0°E']
    >>> format_point("<http://www.opengis.net/def/crs/EPSG/0/4326> Point(52.51 13.38)")
    '52.51°N, 13.38°E'
    """
    match = _POINT.fullmatch(text)
    if match is None:
        return None
    system, *numbers = match.groups()
    longitude, latitude = (format_decimal(n) or format_double(n) for n in numbers)
    body = ""
    if system is not None and (degrees := _DEGREES.fullmatch(system)):
        longitude, latitude = (latitude, longitude) if degrees[1] else (longitude, latitude)
    elif system is not None:
        globe = _GLOBE.fullmatch(system)
        if globe is None:
            return None
        body = _GLOBES.get(globe[1], f" ({globe[1]})")
    if longitude is None or latitude is None:
        return None
    if not (abs(float(latitude)) <= _MAX_LATITUDE and abs(float(longitude)) <= _MAX_LONGITUDE):
        return None
    return f"{_degrees(latitude, 'N', 'S')}, {_degrees(longitude, 'E', 'W')}{body}"


def _degrees(number: str, positive: str, negative: str) -> str:
    return f"{number[1:]}°{negative}" if number[0] == "-" else f"{number}°{positive}"


def _positional(number: float) -> str:
    """Return the shortest decimal of a float, without an exponent and without `.0`; `-0.0` is `0`."""
    text = format(Decimal(repr(number)), "f")
    text = text[:-2] if text.endswith(".0") else text
    return "0" if text == "-0" else text
