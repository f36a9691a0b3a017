"""Number words and units in the tokens of an answer: `three thousand` is 3000, `kilometres` is km."""

import re
from decimal import Decimal, InvalidOperation

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


NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


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
