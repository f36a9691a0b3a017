"""Numbers and times that a model writes by itself, as values of filters: which tokens may continue one.

A value is ` <`, a quantity or a time as facts write it, and `>`. It need not be a literal of the index, since `over <30>`
compares with any number. Its tokens are not those of a tokenizer's own encoding alone: any tokens that write it will do.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

import numpy as np

from refactx.tree.tree import Tokens
from refactx.walks.values import Ordered

_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_WHOLE: dict[Ordered, re.Pattern[str]] = {
    "quantity": re.compile(r"-?\d{1,15}(\.\d{1,9})?", re.ASCII),
    "time": re.compile(rf"\d{{1,4}}( BCE|-{_MONTH}(-{_DAY})?)?", re.ASCII),
}
_BEGUN: dict[Ordered, re.Pattern[str]] = {
    "quantity": re.compile(r"-?(\d{1,15}(\.\d{0,9})?)?", re.ASCII),
    "time": re.compile(rf"\d{{0,4}}|\d{{1,4}}( (B(CE?)?)?|-([01]|{_MONTH})?|-{_MONTH}-([0-3]|{_DAY})?)", re.ASCII),
}
_PIECE = re.compile(rb" ?<?[-0-9. BCE]*>?")
_OPENED, _CLOSED = " <", ">"


class Literals:
    """The tokens that write quantities and times in brackets. `token_bytes`: the bytes of each id, by id."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes

    def text_of(self, ids: Iterable[int]) -> str | None:
        """Return the text of ids; None if one of them has no text, as special tokens."""
        table = self._token_bytes
        pieces = [table[token] if token < len(table) else b"" for token in ids]
        return b"".join(pieces).decode("utf-8", "replace") if all(pieces) else None

    def after(self, begun: str, kinds: Collection[Ordered]) -> Tokens:
        """Return the ids that may continue a value of which `begun` is written: int32[n], ascending.

        >>> literals = Literals([b" <", b" ", b"<", b"1", b"x", b"90>", b">", b"-"])
        >>> literals.after("", ["time"]).tolist(), literals.after(" <", ["time"]).tolist()
        ([0, 1], [3, 5])
        >>> literals.after(" <1", ["time"]).tolist(), literals.after(" <1", ["quantity"]).tolist()
        ([1, 3, 5, 6, 7], [3, 5, 6])
        """
        found = [token for token, piece in self._pieces if may_begin(begun + piece, kinds)]
        return np.array(found, np.int32)

    @cached_property
    def _pieces(self) -> list[tuple[int, str]]:
        return [
            (token, piece.decode())
            for token, piece in enumerate(self._token_bytes)
            if piece and _PIECE.fullmatch(piece)
        ]


def may_begin(text: str, kinds: Collection[Ordered]) -> bool:
    """Return whether a text is the beginning of a value of one of some kinds, or all of it.

    >>> may_begin(" <199", ["time"]), may_begin(" <1990-13", ["time"]), may_begin(" <>", ["quantity"])
    (True, False, False)
    """
    if len(text) <= len(_OPENED):
        return _OPENED.startswith(text)
    body = text.removeprefix(_OPENED)
    if body == text:
        return False
    patterns = _WHOLE if body.endswith(_CLOSED) else _BEGUN
    return any(patterns[kind].fullmatch(body.removesuffix(_CLOSED)) for kind in kinds)
