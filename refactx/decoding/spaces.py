"""Tokens that begin with a space, and their counterparts without it.

Facts are encoded after the trigger, so the first token of each has the space between the two: `Fact:` + ` <`. A prompt
that ends in `Fact: ` has that space already. There, the first token is written without it, as `<`.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from refactx.decoding.states import InFact
from refactx.tree.children import Children


class Spaces:
    """The pairs of tokens of a vocabulary that differ in a space at the beginning.

    >>> spaces = Spaces([b"<", b" <", b"a"])
    >>> spaces.with_space(0), spaces.without_space(1), spaces.without_space(2)
    (1, 0, None)
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes

    def with_space(self, token: int) -> int:
        """Return the token with a space before the text of `token`. Raise KeyError if there is none."""
        return self._ids[b" " + self._token_bytes[token]]

    def without_space(self, token: int) -> int | None:
        """Return the token with the text of `token` without the space at its beginning; None if there is none."""
        piece = self._token_bytes[token] if token < len(self._token_bytes) else b""
        return self._ids.get(piece[1:]) if piece[:1] == b" " else None

    def without(self, state: InFact) -> InFact:
        """Return the state before the first token of a fact, as the one after a space.

        It stays as it is if a fact begins with a token that has no counterpart.
        """
        children = state.children
        found = [self.without_space(token) for token in children.tokens.tolist()]
        if None in found:
            return state
        tokens = np.array(found, np.int32)
        order = tokens.argsort()
        return replace(
            state, after_space=True, children=Children(tokens[order], children.leaves[order], children.terminal)
        )

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        return {piece: token for token, piece in enumerate(self._token_bytes) if piece}
