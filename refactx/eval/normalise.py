"""The normal form of an answer: words that mean the same become the same tokens.

`normalise` folds case, accents and look-alike signs; writes dates as `1956-10-20`, numbers without thousands separators
and small number words as digits, units by their symbols; and drops punctuation and the articles `a`, `an`, `the`. Two
tokens that are not equal may still agree: a gold year agrees with a date in that year, and a gold 1 January with its
bare year, since a truthy Wikidata dump writes a year as its 1 January (`agrees`).
"""

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from functools import lru_cache

Tokens = tuple[str, ...]

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH = "|".join(f"{month}|{month[:3]}" if month != "may" else month for month in _MONTHS) + "|sept"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DATES = (
    re.compile(rf"\b{_DAY}(?:\s+of)?\s+(?P<month>{_MONTH})\b\.?,?\s+(?P<year>\d{{3,4}})\b"),
    re.compile(rf"\b(?P<month>{_MONTH})\b\.?\s+{_DAY},?\s+(?P<year>\d{{3,4}})\b"),
    re.compile(rf"\b(?P<month>{_MONTH})\b\.?,?\s+(?P<year>\d{{4}})\b"),
    re.compile(r"\b(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?:t\d\d:\d\d:\d\d(?:\.\d+)?z?)?\b"),
)
_BEFORE_CHRIST = re.compile(r"\b(\d{1,4}(?:-\d\d-\d\d)?)\s*(?:b\.\s?c\.(?:\s?e\.)?|bce?\b)")
_ANNO_DOMINI = re.compile(r"\b(?:ad|a\.d\.)\s*(\d{1,4})\b|\b(\d{1,4})\s*(?:ad|ce|a\.d\.|c\.e\.)(?!\w)")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*°\s*([nsew])\b")
_ZONE = re.compile(r"\b(?:utc|gmt)\s*(?:([+±-])\s*)?(\d{1,2})(?::?(\d\d))?\b")
_INITIALS = re.compile(r"\b[^\W\d_]\.(?:\s?[^\W\d_]\.)+|\b(?:[^\W\d_]\.)+[^\W\d_]\b")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_SPACED_THOUSANDS = re.compile("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")
_TOKEN = re.compile(
    r"\d+-\d\d(?:-\d\d)?(?:bce)?(?!\w)|\d+bce\b|utc[+-]\d+(?::\d\d)?"  # dates, years, time zones
    r"|(?<![\w-])[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)|\d+\.\d+"  # numbers
    r"|[^\W_]+[+#]*|%"
)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_DATE = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")
_YEAR = re.compile(r"\d{4}")
_ARTICLES = frozenset(("a", "an", "the"))
_SIGNS = str.maketrans(dict.fromkeys("‐‑‒–—−", "-") | dict.fromkeys("‘’ʼ`´", "'") | {"&": " and ", "_": " "})

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS = {word: number for number, word in enumerate(_SMALL)} | {w: 10 * n for n, w in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}

_UNITS = {
    "%": "percent",
    "km": "kilometre kilometres kilometer kilometers kms",
    "m": "metre metres meter meters",
    "cm": "centimetre centimetres centimeter centimeters",
    "mm": "millimetre millimetres millimeter millimeters",
    "mi": "mile miles",
    "ft": "foot feet",
    "in": "inch inches",
    "km2": "",
    "m2": "",
    "ha": "hectare hectares",
    "kg": "kilogram kilograms kilogramme kilogrammes kgs",
    "g": "gram grams gramme grammes",
    "t": "tonne tonnes",
    "lb": "pound pounds lbs",
    "s": "second seconds sec",
    "min": "minute minutes mins",
    "h": "hour hours hrs",
    "day": "days",
    "month": "months",
    "year": "years",
    "usd": "dollar dollars",
    "eur": "euro euros",
    "people": "inhabitants persons person residents",
}
_UNIT_OF = {name: unit for unit, names in _UNITS.items() for name in (unit, *names.split())}
_SQUARE = {("square", "km"): "km2", ("sq", "km"): "km2", ("square", "m"): "m2", ("sq", "m"): "m2"}


def fold(text: str) -> str:
    """`text` without case, accents (those of Latin, Greek and Cyrillic), and with plain dashes, quotes and spaces.

    >>> fold("Élan – São Tomé’s")
    "elan - sao tome's"
    """
    text = unicodedata.normalize("NFKC", _SPACED_THOUSANDS.sub("", text)).translate(_SIGNS).casefold()
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f"))


def with_iso_dates(text: str) -> str:
    """A folded text with its dates as `1956-10-20`, `1956-10`, and years before the common era as `200bce`.

    >>> with_iso_dates("october 20, 1956 or 20th of oct. 1956 or october 1956 or 1956-10-20t00:00:00z")
    '1956-10-20 or 1956-10-20 or 1956-10 or 1956-10-20'
    >>> with_iso_dates("200 bc, ad 79")
    '200bce, 79'
    """
    for pattern in _DATES:
        text = pattern.sub(_iso, text)
    return _ANNO_DOMINI.sub(lambda m: m[1] or m[2], _BEFORE_CHRIST.sub(r"\1bce", text))


def _iso(match: re.Match[str]) -> str:
    parts = match.groupdict()
    month, day = parts["month"], parts.get("day")
    number = int(month) if month.isdigit() else 1 + next(n for n, m in enumerate(_MONTHS) if m.startswith(month[:3]))
    if not 1 <= number <= 12 or (day is not None and not 1 <= int(day) <= 31):
        return match[0]
    written = f"{int(parts['year']):04}-{number:02}"
    return written if day is None else f"{written}-{int(day):02}"


@lru_cache(1 << 14)  # the same names are compared with many items
def normalise(text: str) -> Tokens:
    """The normal form of an answer: its tokens; empty if nothing but punctuation is left.

    >>> normalise("The “Rhône”, 1,234.50 km & 5 million people")
    ('rhone', '1234.5', 'km', 'and', '5000000', 'people')
    >>> normalise("J. K. Rowling") == normalise("JK Rowling"), normalise("Washington, D.C.")
    (True, ('washington', 'dc'))
    >>> normalise("twenty-one square kilometres"), normalise("UTC−05:00"), normalise("21°S")
    (('21', 'km2'), ('utc-5',), ('-21',))
    >>> normalise("The A"), normalise("A")
    (('a',), ('a',))
    """
    text = with_iso_dates(fold(text))
    text = _DEGREES.sub(lambda m: f" {'-' if m[2] in 'sw' else ''}{m[1]} ", text)
    text = _INITIALS.sub(lambda m: re.sub(r"[.\s]", "", m[0]), _ZONE.sub(_zone, text)).replace("'", "")
    text = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text).replace("per cent", "percent")
    tokens = _numbers([_plain_number(token) for token in _TOKEN.findall(text)])
    tokens = _units(tokens)
    kept = tuple(token for token in tokens if token not in _ARTICLES)
    return kept or tuple(tokens[-1:])


def _zone(match: re.Match[str]) -> str:
    sign, hours, minutes = match.groups()
    if int(hours) == 0 and not int(minutes or 0):
        return "utc"
    return f"utc{'-' if sign == '-' else '+'}{int(hours)}{f':{minutes}' if int(minutes or 0) else ''}"


def _plain_number(token: str) -> str:
    """A number without plus sign, exponent and trailing zeros; leading zeros stay, since postal codes have them."""
    if not _NUMBER.fullmatch(token) or not any(sign in token for sign in "+.e"):
        return token
    try:
        number = Decimal(token)
    except InvalidOperation:  # an exponent out of all bounds
        return token
    if abs(number.adjusted()) > 40:
        return token
    written = f"{number:f}"
    return written.rstrip("0").rstrip(".") if "." in written else written


def _numbers(tokens: list[str]) -> list[str]:
    """Number words as digits, and scales multiplied out: `twenty one` 21, `5.3 million` 5300000."""
    written: list[str] = []
    previous_word = ""
    for token in tokens:
        value = _WORDS.get(token)
        if value is not None and previous_word in _TENS and 0 < value < 10:
            written[-1] = str(int(written[-1]) + value)
        elif value is not None:
            written.append(str(value))
        elif token in _SCALES and written and _NUMBER.fullmatch(written[-1]) and len(written[-1]) <= 40:
            written[-1] = _plain_number(f"{Decimal(written[-1]) * _SCALES[token]:f}")
        else:
            written.append(token)
        previous_word = token
    return written


def _units(tokens: list[str]) -> list[str]:
    """The units right behind numbers by their symbols (`5 kilometres` 5 km); other words stay as they are."""
    written: list[str] = []
    for token in tokens:
        unit = _UNIT_OF.get(token)
        if unit and written and _NUMBER.fullmatch(written[-1]):
            written.append(unit)
        elif unit and len(written) > 1 and (written[-1], unit) in _SQUARE and _NUMBER.fullmatch(written[-2]):
            written[-1] = _SQUARE[written[-1], unit]
        else:
            written.append(token)
    return written


def is_quantity(tokens: Tokens) -> bool:
    """Whether the tokens are a number and a unit.

    >>> is_quantity(normalise("170 cm")), is_quantity(normalise("3 Idiots"))
    (True, False)
    """
    return len(tokens) == 2 and _NUMBER.fullmatch(tokens[0]) is not None and tokens[1] in _UNITS


def agrees(gold: str, said: str) -> bool:
    """Whether a token of an answer says what a token of a gold answer does.

    >>> [agrees("1956", "1956-10-20"), agrees("1956-01-01", "1956"), agrees("1956-10-20", "1956"), agrees("195", "1956")]
    [True, True, False, False]
    """
    if gold == said:
        return True
    if _DATE.fullmatch(said) and (_YEAR.fullmatch(gold) or _DATE.fullmatch(gold)):
        return said.startswith(f"{gold}-")
    return _YEAR.fullmatch(said) is not None and gold == f"{said}-01-01"
