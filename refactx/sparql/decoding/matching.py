"""The matcher of the grammar: llguidance, over the tokens of an index's tokenizer and the placeholders.

llguidance's vocabulary is made of the bytes of each token, so that any tokenizer of an index will do, and no token that
was added to it can be text.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from refactx.errors import ModelError
from refactx.sparql.decoding.lark import grammar
from refactx.sparql.decoding.placeholder import Placeholder
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import Tokens

_SPECIAL = b"\xff"
"""What llguidance takes for the first byte of a special token: it is in no UTF-8 text."""


class Allowed(NamedTuple):
    """What the grammar allows next: `tokens` with text, int32[n], ascending, and `placeholders`."""

    tokens: Tokens
    placeholders: tuple[Placeholder, ...]


class Matcher:
    """The grammar after some tokens and placeholders. It never changes, so threads may share it."""

    def __init__(self, matcher: Any, size: int) -> None:
        self._matcher, self._size = matcher, size
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        found = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int32)
        tokens, above = found[found < size], (found[found >= size] - size).tolist()
        self.allowed = Allowed(tokens, tuple(Placeholder(one) for one in above if one < len(Placeholder)))

    def after(self, token: int) -> "Matcher | None":
        """Return the matcher after one more token; None if the grammar does not allow it."""
        longer = self._matcher.deep_copy()
        if longer.try_consume_tokens([token]) != 1:
            return None
        return Matcher(longer, self._size)

    def after_placeholder(self, placeholder: Placeholder) -> "Matcher | None":
        """Return the matcher after a placeholder; None if the grammar does not allow it."""
        return self.after(self._size + placeholder)


@lru_cache(maxsize=4)
def matcher_of(tokenizer: FactTokenizer) -> Matcher:
    """Return the matcher of a line of which nothing is written. It takes a second for 150,000 tokens.

    Raises ModelError if llguidance refuses the tokenizer.
    """
    added, table = tokenizer.added_tokens, tokenizer.token_bytes
    return new_matcher([b"" if number in added else text for number, text in enumerate(table)], grammar(len(table)))


def new_matcher(table: list[bytes], text: str) -> Matcher:
    """Return the matcher of a grammar. `table`: the bytes of each token, empty for those that are not text.

    Raises ModelError if llguidance refuses them.
    """
    try:
        found = LLTokenizer(TokenizerWrapper(_Vocabulary(table)), slices=[])
        matcher = LLMatcher(found, text)
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"this tokenizer cannot write SPARQL, since llguidance refuses it: {error}") from error
    if matcher.is_error():
        raise ModelError(f"this tokenizer cannot write SPARQL, since llguidance refuses it: {matcher.get_error()}")
    return Matcher(matcher, len(table))


class _Vocabulary:
    """The tokens as `TokenizerWrapper` takes them. The placeholders and an end of sequence follow those of the table."""

    bos_token_id = None

    def __init__(self, table: list[bytes]) -> None:
        size = len(table)
        special = [text or b"%b<|%d|>" % (_SPECIAL, number) for number, text in enumerate(table)]
        self.tokens = [*special, *(b"%b<|%d|>" % (_SPECIAL, size + n) for n in range(len(Placeholder) + 1))]
        self.eos_token_id = len(self.tokens) - 1
        self.special_token_ids = [number for number, text in enumerate(self.tokens) if text[:1] == _SPECIAL]
        self._bytes = {text: number for number, text in enumerate(table) if len(text) == 1}

    def __call__(self, text: bytes) -> list[int]:
        """Return ids of a text. llguidance asks for them to find forced tokens, which the grammar turns off."""
        return [self._bytes[text[at : at + 1]] for at in range(len(text)) if text[at : at + 1] in self._bytes]
