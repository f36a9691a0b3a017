"""The words of a question that name an entity or a number, and what takes their place."""

import re
from decimal import Decimal
from string import capwords

from refactx.fact import ALIAS, ALIAS_OF
from refactx.linking.names import bare_name
from refactx.walks.language import FactSet
from refactx.walks.values import parse_quantity

LONGEST = 8
"""The most words of a name."""

NUMBER = re.compile(r"(?<![\w.:/])[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_WORD = re.compile(r"[\w.'’-]*\w")
_ARTICLE = re.compile(r"\b(a|an)(\s+)$", re.IGNORECASE)

Span = tuple[int, int]


def find_name(text: str, name: str, facts: FactSet) -> list[Span]:
    """Return where a question has an entity's name without its description, or else an alias of it, longest first."""
    plain = text.replace("_", " ")
    label = re.escape(bare_name(name))
    spans = [match.span() for match in re.finditer(rf"(?<!\w){label}(?!\w)", plain, re.IGNORECASE)]
    return spans or _find_alias(plain, name, facts)


def _find_alias(text: str, name: str, facts: FactSet) -> list[Span]:
    words = [match.span() for match in _WORD.finditer(text)]
    spans = [
        (words[first][0], words[last][1])
        for first in range(len(words))
        for last in range(first, min(first + LONGEST, len(words)))
    ]
    asked = [
        (span, (f"{written}{ALIAS}", ALIAS_OF, name))
        for span in spans
        for written in dict.fromkeys((text[slice(*span)], capwords(text[slice(*span)]), text[slice(*span)].upper()))
    ]
    holds = facts.hold([fact for _, fact in asked])
    found = dict.fromkeys(span for (span, _), true in zip(asked, holds, strict=True) if true)
    longest = max((end - start for start, end in found), default=0)
    return [span for span in found if span[1] - span[0] == longest]


def find_number(text: str, value: str) -> list[Span]:
    """Return where a text has a number, however it is written.

    >>> find_number("Is it 28,200 or 28200.0?", "28200")
    [(6, 12), (16, 23)]
    """
    wanted = parse_quantity(value)
    return [match.span() for match in NUMBER.finditer(text) if parse_quantity(match[0]) == wanted is not None]


def replace_span(text: str, span: Span, new: str) -> str:
    """Return a text with other words in place of some, after an article that fits them.

    >>> replace_span("Is he a poet?", (8, 12), "actor"), replace_span("Is it an opera?", (9, 14), "ballet")
    ('Is he an actor?', 'Is it a ballet?')
    """
    before, after = text[: span[0]], text[span[1] :]
    article = _ARTICLE.search(before)
    if article:
        fitting = "an" if new[:1].lower() in "aeiou" else "a"
        before = f"{before[: article.start()]}{fitting}{article[2]}"
    return f"{before}{new}{after}"


def like(number: Decimal, written: str) -> str:
    """Return a number as another is written: with as many decimals, an exponent, or commas between thousands.

    >>> like(Decimal("0.37716"), "0.4192"), like(Decimal("1234567.2"), "1,000"), like(Decimal("3.1e-8"), "2.50e-08")
    ('0.3772', '1,234,567', '3.10e-08')
    """
    mantissa, exponent, _ = written.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    if exponent:
        return f"{float(number):.{decimals}e}"
    return f"{number:,.{decimals}f}" if "," in written else f"{number:.{decimals}f}"
