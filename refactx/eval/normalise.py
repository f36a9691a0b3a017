"""The normal form of an answer: texts with the same meaning become the same tokens.

`normalise` folds case, accents and look-alike signs; writes dates as `1956-10-20` (with slashes only where one number can
be no month: 5/10/1956 is October or May), numbers without thousands separators (`1,234`, `1 234 567`, `1.234.567`),
small number words as digits, and units as their symbols; and removes punctuation and, before a word, the articles `a`,
`an`, `the`. Two tokens that are not equal may still agree: a gold year agrees with a date in that year, and a gold
1 January with its bare year, since a truthy Wikidata dump writes a year as its 1 January (`agrees`).
"""

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from functools import lru_cache

Tokens = tuple[str, ...]

_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
]  # fmt: skip
_MONTH = "|".join(f"{month}|{month[:3]}" if month != "may" else month for month in _MONTHS) + "|sept"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
_OF_ERA = r"\d{1,4}(?:ad|bce)"  # a year with an era, as `with_iso_dates` writes it; without era it needs more digits
_DATES = (
    re.compile(rf"\b{_DAY}(?:\s+of)?\s+(?P<month>{_MONTH})\b\.?,?\s+(?P<year>\d{{3,4}}|{_OF_ERA})\b"),
    re.compile(rf"\b(?P<month>{_MONTH})\b\.?\s+{_DAY},?\s+(?P<year>\d{{3,4}}|{_OF_ERA})\b"),
    re.compile(rf"\b(?P<month>{_MONTH})\b\.?,?\s+(?P<year>\d{{4}}|{_OF_ERA})\b"),
    re.compile(
        r"(?:(?<![\w-])(?P<sign>-))?\b(?P<year>\d{4})(?P<between>[-/.])(?P<month>\d{1,2})(?P=between)(?P<day>\d{1,2})"
        r"(?:t\d\d:\d\d:\d\d(?:\.\d+)?z?)?\b"
    ),
    re.compile(r"(?<![\w.-])(?P<day>\d{1,2})\. ?(?P<month>\d{1,2})\. ?(?P<year>\d{4})(?![\w-]|\.\d)"),
    re.compile(r"(?<![\w./-])(?P<day>1[3-9]|2\d|3[01])([-/])(?P<month>\d{1,2})\2(?P<year>\d{4})(?![\w/-])"),
    re.compile(r"(?<![\w./-])(?P<month>\d{1,2})([-/])(?P<day>1[3-9]|2\d|3[01])\2(?P<year>\d{4})(?![\w/-])"),
)
_BEFORE_CHRIST = re.compile(r"\b(\d{1,4}(?:-\d\d){0,2})\s*(?:b\.\s?c\.(?:\s?e\.)?|bce?\b)")
_ANNO_DOMINI = re.compile(r"\b(?:ad|a\.d\.)\s*(\d{1,4})\b|\b(\d{1,4})\s*(?:ad|ce|a\.d\.|c\.e\.)(?!\w)")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*°\s*([nsew])\b")
_ZONE = re.compile(r"\b(?:utc|gmt)\s*(?:([+±-])\s*)?(\d{1,2})(?::?(\d\d))?\b")
_INITIALS = re.compile(r"\b[^\W\d_]\.(?:\s?[^\W\d_]\.)+|\b(?:[^\W\d_]\.)+[^\W\d_]\b")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_BARE_FRACTION = re.compile(r"(?<!\S)([-+]?)\.(?=\d)")
_WITH_UNIT = re.compile(r"(?<![\w.-])(\d+(?:\.\d+)?)(km2?|m2?|cm|mm|mi|ft|ha|kg|lbs?)\b")
"""A number joined to a unit, without units that may be part of a name: `iPhone 5s`, `5G`."""
_SPACED_THOUSANDS = re.compile("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")
_MILLIONS = re.compile(r"(?<![\w.,-])\d{1,3}(?:(?: \d{3}){2,}|(?:\.\d{3}){2,})(?![\w-]|[., ]\d)")
_ONE_SPACE = re.compile(r"-?\d{1,3} \d{3}(?=\W*$|\.\d+$| [^\d\s]+$)")
"""A text that is a number with one space in it, and perhaps a unit: within a text, `747 400` may be two numbers."""
_TOKEN = re.compile(
    r"\d+-\d\d(?:-\d\d)?(?:bce)?(?!\w)|\d+bce\b|utc[+-]\d+(?::\d\d)?"  # dates, years, time zones
    r"|(?<![\w-])[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)|\d+\.\d+"  # numbers
    r"|[^\W_]+[+#]*|%"
)
_DATE = re.compile(  # not `1939-45`; a year of fewer than four digits has a month only before Christ
    r"(?P<year>\d{4}|\d{1,3}(?=$|.*bce$))(?:-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>\d\d))?)?(?P<bce>bce)?"
)
_ARTICLES = frozenset(("a", "an", "the"))
_SIGNS = str.maketrans(dict.fromkeys("‐‑‒–—−", "-") | dict.fromkeys("‘’ʼʻʾʿ`´", "'") | {"&": " and ", "_": " "})
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"})
"""Plain forms of letters that Unicode does not decompose; case folding already makes ß into ss."""
_SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS = {word: number for number, word in enumerate(_SMALL)} | {w: 10 * n for n, w in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_LONGEST_NUMBER = 20
"""The most words of one number."""
_JOINING = frozenset(("and", *_SCALES))
"""Words after which a number word continues the same number."""
_WORDS_AFTER = rf"\s+and(?=(?:[\s-]+(?:{'|'.join(_WORDS)}))+\b(?!\s+(?:%s)\b))"
AND_IN_NUMBER = "(?:{}|(?:{}){})".format(
    "(?<=hundred)" + _WORDS_AFTER % "hundred",
    "|".join(f"(?<={scale})" for scale in _SCALES if scale != "hundred"),
    _WORDS_AFTER % "|".join(_SCALES),
)
"""A regular expression for the `and` within a number in words, in a folded text."""
UNITS = {
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
_UNIT_OF = {name: unit for unit, names in UNITS.items() for name in (unit, *names.split())}
_SQUARE = {("square", "km"): "km2", ("sq", "km"): "km2", ("square", "m"): "m2", ("sq", "m"): "m2"}
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def fold(text: str) -> str:
    """Return `text` without case and accents (of Latin, Greek and Cyrillic), with plain letters, dashes, quotes and
    spaces.

    >>> fold("Élan – São Tomé’s"), fold("ŁÓDŹ, Hawaiʻi")
    ("elan - sao tome's", "lodz, hawai'i")
    """
    text = unicodedata.normalize("NFKC", _SPACED_THOUSANDS.sub("", text)).translate(_SIGNS).casefold()
    decomposed = unicodedata.normalize("NFD", text)
    plain = "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f")
    return unicodedata.normalize("NFC", plain.translate(_LETTERS))


def with_iso_dates(text: str) -> str:
    """Return a folded text with dates as `1956-10-20` or `1956-10`, and years before the common era as `200bce`.

    A year with a sign is astronomical, as in XSD 1.1: 0000 is 1 BCE.

    >>> with_iso_dates("october 20, 1956 or 20th of oct. 1956 or october 1956 or 1956-10-20t00:00:00z")
    '1956-10-20 or 1956-10-20 or 1956-10 or 1956-10-20'
    >>> with_iso_dates("200 bc, ad 79")
    '200bce, 79'
    >>> with_iso_dates("-0043-03-15t00:00:00z or 15 march 44 bc or march 15, 44 b.c.; august 19, 14 ad")
    '44-03-15bce or 44-03-15bce or 44-03-15bce; 0014-08-19'
    """
    text = _ANNO_DOMINI.sub(lambda m: f"{m[1] or m[2]}ad", _BEFORE_CHRIST.sub(r"\1bce", text))
    for pattern in _DATES:
        text = pattern.sub(_iso, text)
    return _ANNO_DOMINI.sub(lambda m: m[1] or m[2], text)


def _iso(match: re.Match[str]) -> str:
    parts = match.groupdict()
    month, day = parts["month"], parts.get("day")
    number = int(month) if month.isdigit() else 1 + next(n for n, m in enumerate(_MONTHS) if m.startswith(month[:3]))
    if not 1 <= number <= 12 or (day is not None and not 1 <= int(day) <= 31):
        return match[0]
    year, before = int(re.sub(r"\D", "", parts["year"])), parts["year"].endswith("bce")
    if parts.get("sign") or year == 0:
        year, before = year + 1, True
    written = f"{year if before else f'{year:04}'}-{number:02}{'' if day is None else f'-{int(day):02}'}"
    return f"{written}bce" if before else written


@lru_cache(1 << 14)  # the same names are compared with many items
def normalise(text: str) -> Tokens:
    """Return the normal form of an answer, its tokens; empty if it has nothing but punctuation.

    >>> normalise("The “Rhône”, 1,234.50 km & 5 million people")
    ('rhone', '1234.5', 'km', 'and', '5000000', 'people')
    >>> normalise("J. K. Rowling") == normalise("JK Rowling"), normalise("Washington, D.C.")
    (True, ('washington', 'dc'))
    >>> normalise("twenty-one square kilometres"), normalise("UTC−05:00"), normalise("21°S")
    (('21', 'km2'), ('utc-5',), ('-21',))
    >>> normalise("1 234 567"), normalise("1.234.567"), normalise("12 500 m"), normalise("20.10.1956")
    (('1234567',), ('1234567',), ('12500', 'm'), ('1956-10-20',))
    >>> normalise("The A"), normalise("A"), normalise("Serie A"), normalise("A Star Is Born")
    (('a',), ('a',), ('serie', 'a'), ('star', 'is', 'born'))
    """
    text = with_iso_dates(fold(text))
    text = _DEGREES.sub(lambda m: f" {'-' if m[2] in 'sw' else ''}{m[1]} ", text)
    text = _INITIALS.sub(lambda m: re.sub(r"[.\s]", "", m[0]), _ZONE.sub(_zone, text)).replace("'", "")
    text = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text).replace("per cent", "percent")
    text = _MILLIONS.sub(lambda m: re.sub(r"\D", "", m[0]), text)
    text = _ONE_SPACE.sub(lambda m: m[0].replace(" ", ""), text.strip(), count=1) if _ONE_SPACE.match(text) else text
    text = _WITH_UNIT.sub(r"\1 \2", _BARE_FRACTION.sub(r"\g<1>0.", text))
    tokens = join_number_words([plain_number(token) for token in _TOKEN.findall(text)])
    tokens = shorten_units(tokens)
    # The last word is not an article: `Serie A`, `The The`.
    return tuple(t for n, t in enumerate(tokens, 1) if t not in _ARTICLES or n == len(tokens))


def _zone(match: re.Match[str]) -> str:
    sign, hours, minutes = match.groups()
    if int(hours) == 0 and not int(minutes or 0):
        return "utc"
    return f"utc{'-' if sign == '-' else '+'}{int(hours)}{f':{minutes}' if int(minutes or 0) else ''}"


def is_quantity(tokens: Tokens) -> bool:
    """Return whether the tokens are a number and a unit.

    >>> is_quantity(normalise("170 cm")), is_quantity(normalise("3 Idiots"))
    (True, False)
    """
    return len(tokens) == 2 and NUMBER.fullmatch(tokens[0]) is not None and tokens[1] in UNITS


def agrees(gold: str, said: str) -> bool:
    """Return whether a token of an answer agrees with a token of a gold answer.

    >>> [agrees("1956", "1956-10-20"), agrees("1956-01-01", "1956"), agrees("1956-10-20", "1956"), agrees("195", "1956")]
    [True, True, False, False]
    >>> [agrees("1939", "1939-45"), agrees("0800-01-01", "800"), agrees("200-01-01bce", "200bce"), agrees("08", "8")]
    [False, True, True, False]
    """
    if gold == said:
        return True
    if not (gold[:1].isdigit() and said[:1].isdigit()):  # neither is a date
        return False
    one, other = _DATE.fullmatch(gold), _DATE.fullmatch(said)
    if not one or not other or int(one["year"]) != int(other["year"]) or one["bce"] != other["bce"]:
        return False
    if other["month"]:
        return one["month"] in (None, other["month"]) and one["day"] in (None, other["day"])
    return one["month"] == one["day"] == "01"


def join_number_words(tokens: list[str]) -> list[str]:
    """Return the tokens with numbers in words as digits: `twenty one` as 21, `5.3 million` as 5300000."""
    written: list[str] = []
    end = 0  # of the last number in words
    for at, token in enumerate(tokens):
        if at < end:
            continue
        value, width = _spelt(tokens[at : at + _LONGEST_NUMBER])
        if width:
            written.append(str(value))
            end = at + width
        elif token in _SCALES and written and NUMBER.fullmatch(written[-1]) and len(written[-1]) <= 40:
            written[-1] = plain_number(f"{Decimal(written[-1]) * _SCALES[token]:f}")
        else:
            written.append(token)
    return written


def _spelt(tokens: list[str]) -> tuple[int, int]:
    """Return the number in words with which tokens begin, and how many tokens it has: 0 if they begin otherwise.

    >>> _spelt("two thousand five hundred and twenty one nights".split()), _spelt("a million".split()), _spelt(["a"])
    ((2521, 7), (1000000, 2), (0, 0))
    """
    whole = part = width = 0  # part: the number after the last thousand or million
    before = ""
    for at, word in enumerate(tokens):
        value = _WORDS.get(word)
        if value is not None and (at == 0 or before in _JOINING or (before in _TENS and 0 < value < 10)):
            part += value
        elif word == "a" and at == 0 and set(tokens[1:2]) & _SCALES.keys():
            part = 1
        elif word == "hundred":
            if not 0 < part < 100:
                break
            part *= 100
        elif word in _SCALES and at:
            whole, part = whole + part * _SCALES[word] if part else whole * _SCALES[word], 0
        elif not (word == "and" and before in _SCALES and _continues(before, tokens[at + 1 :])):
            break
        before, width = word, at + 1
    return whole + part, width


def _continues(scale: str, tokens: list[str]) -> bool:
    """Return whether the tokens after a scale and `and` are of the same number: not in `one thousand and two thousand`."""
    words = next((n for n, token in enumerate(tokens) if token not in _WORDS), len(tokens))
    others = ["hundred"] if scale == "hundred" else _SCALES
    return words > 0 and not set(tokens[words : words + 1]) & set(others)


def shorten_units(tokens: list[str]) -> list[str]:
    """Return the tokens with units directly after numbers as their symbols: `5 kilometres` as `5 km`."""
    written: list[str] = []
    for token in tokens:
        unit = _UNIT_OF.get(token)
        if unit and written and NUMBER.fullmatch(written[-1]):
            written.append(unit)
        elif unit and len(written) > 1 and (written[-1], unit) in _SQUARE and NUMBER.fullmatch(written[-2]):
            written[-1] = _SQUARE[written[-1], unit]
        else:
            written.append(token)
    return written


def plain_number(token: str) -> str:
    """Return a number without plus sign, exponent and trailing zeros, but with leading zeros, as in postal codes.

    Other tokens are returned unchanged.
    """
    if not NUMBER.fullmatch(token) or not any(sign in token for sign in "+.e"):
        return token
    try:
        number = Decimal(token)
    except InvalidOperation:  # the exponent is too large
        return token
    if abs(number.adjusted()) > 40:
        return token
    written = f"{number:f}"
    return written.rstrip("0").rstrip(".") if "." in written else written
