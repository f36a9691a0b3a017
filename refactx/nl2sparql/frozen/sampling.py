"""Texts that match a regular expression."""

import re
from collections.abc import Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_MOST = 8


def samples(pattern: str) -> Iterator[str]:
    """Yield texts for a regular expression, the plainest first: one for each alternative at its beginning, at most 8.

    >>> list(samples("^(corpo|testa)$")), list(samples("in.*bile")), list(samples("[àè]s+"))
    (['corpo', 'testa'], ['inbile'], ['às'])
    """
    try:
        tree = parser.parse(pattern)
    except re.error:
        return
    seen: dict[str, None] = {}
    for number in range(_MOST):
        seen[_text(tree, number)] = None
    yield from seen


def _text(tree: Any, choice: int) -> str:
    """Return the shortest text of a parsed expression. `choice`: which alternative is taken."""
    found = []
    for code, value in tree:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            found.append(chr(value) if code == codes.LITERAL else ("b" if value == ord("a") else "a"))
        elif code == codes.ANY:
            found.append("a")
        elif code == codes.IN:
            found.append(_of_class(value))
        elif code == codes.BRANCH:
            branches = value[1]
            found.append(_text(branches[choice % len(branches)], choice))
        elif code == codes.SUBPATTERN:
            found.append(_text(value[3], choice))
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            low, _, inner = value
            found.append(_text(inner, choice) * low)
    return "".join(found)


def _of_class(members: Any) -> str:
    """Return a character of a class such as `[àè]`, `[^a]` or `\\s`."""
    if members[0][0] == codes.NEGATE:
        barred = {value for code, value in members[1:] if code == codes.LITERAL}
        return next(letter for letter in "abcdefghij-" if ord(letter) not in barred)
    code, value = members[0]
    if code == codes.LITERAL:
        return chr(value)
    if code == codes.RANGE:
        return chr(value[0])
    return {codes.CATEGORY_SPACE: " ", codes.CATEGORY_DIGIT: "1"}.get(value, "a")
