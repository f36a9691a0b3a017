r"""The markers of a fact in text, its trigger and its terminator, for any tokenization of them.

The *trigger* (`Fact:`) is recognised by its bytes, not by ids: it may be written as `Fact` + `:`, as ` Fact:`, or with
white space after it in the same token (Qwen's `:\n`). It counts unless it is the end of a longer word (`inFact:` is no
trigger) or the token that completes it has anything but white space after it. So the token after `Fact:\n` is the
first of a fact: otherwise a model could write text that looks like a fact and is none. `Fact:**` is ordinary text.

The *terminator* (` .`) is not in the tree. A table lists the tokens that begin, continue and complete it, the last with
nothing but white space after it: in Qwen's vocabulary, ` .` before a line end is the single token ` .\n`, and a model
on which the token ` .` is forced ends its text there. If one token writes all of it, no part of it may begin it, since a
tokenizer that has ` .` never encodes it as ` ` and `.`; such ids are accepted in a text that has them.

Facts are encoded after the trigger, so the first token of each has the space between the two: `Fact:` + ` <`. A prompt
that ends in `Fact: ` has that space already. There, the first token is written without it, as `<`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from refactx.decoding.states import InFact
from refactx.errors import ModelError
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import Children, Tokens

_LONGEST_CHARACTER = 4  # bytes, in UTF-8

TEXT = "prompt_text"
"""The attribute of a log record with the part of its message that is of a prompt: logs of a server may have to omit it."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """The text that starts a fact, as UTF-8 bytes, not empty.

    >>> trigger = Trigger(b"Fact:")
    >>> trigger.is_completed(b"so: Fa", b"ct:\\n"), trigger.is_completed(b"", b"inFact:")
    (True, False)
    >>> trigger.is_completed(b"Fact", b":**")
    False
    """

    text: bytes

    @classmethod
    def of(cls, text: str, tokenizer: FactTokenizer) -> "Trigger":
        """Return the trigger with a text. Raise ModelError if the tokenizer cannot write it."""
        if tokenizer.decode_bytes(tokenizer.encode(text)).strip() != text.encode().strip():
            raise ModelError(f"this tokenizer cannot write the trigger {text!r}: choose another trigger")
        return cls(text.encode())

    def tail(self, data: bytes) -> bytes:
        """Return the end of `data` that is needed to decide whether later tokens complete a trigger."""
        return data[-(len(self.text) - 1 + _LONGEST_CHARACTER) :]

    def is_completed(self, tail: bytes, piece: bytes) -> bool:
        """Return whether `piece` (the bytes of one token) completes the trigger after the text that ends in `tail`."""
        if self.text[-1] not in piece:  # nearly every token: the trigger has to end inside the piece
            return False
        data = tail + piece
        at = data.rfind(self.text, max(0, len(tail) - len(self.text) + 1))
        return at >= 0 and self.is_delimited(data[:at], data[at + len(self.text) :])

    def is_delimited(self, before: bytes, rest: bytes) -> bool:
        """Return whether the trigger's text between `before` and `rest` (the end of its last token) is a trigger."""
        if rest and not rest.isspace():
            return False
        character = before[-_LONGEST_CHARACTER:].decode("utf-8", "replace")[-1:]
        return not (_in_word(character) and _in_word(self.text.decode()[:1]))


def _in_word(character: str) -> bool:
    # Caseless scripts (Chinese, Arabic) need no space before a Latin word, so a trigger may follow them directly.
    return character == "_" or character.isdigit() or character.lower() != character.upper()


@dataclass(frozen=True, slots=True, eq=False)
class Terminator:
    """The tokens that write the terminator, by `done`, the number of its bytes that are written: 0 to `size - 1`.

    `steps[done]`: for each token id that is accepted, the number of terminator bytes that are written after it (`size`:
    all); `tokens[done]`: the ids among these that may be chosen, int32[n], ascending: all, but for parts of what one
    token writes. Tokens after which no token can continue are not listed.
    """

    size: int
    steps: Sequence[Mapping[int, int]]
    tokens: Sequence[Tokens]

    @classmethod
    def of(cls, text: bytes, token_bytes: Sequence[bytes]) -> "Terminator":
        """Return the table for `text` (not empty) and the bytes of each id.

        Raises ModelError if no tokens of the vocabulary write the terminator.

        >>> table = Terminator.of(b" .", [b"", b" ", b".", b" .", b" .\\n", b" .x", b".\\n "])
        >>> table.steps[0], table.steps[1]
        ({1: 1, 3: 2, 4: 2}, {2: 2, 6: 2})
        >>> table.tokens[0].tolist(), table.tokens[1].tolist()
        ([3, 4], [2, 6])
        """
        size = len(text)
        steps: list[dict[int, int]] = [{} for _ in text]
        for done in reversed(range(size)):  # from the end, since a token is listed only if others can continue it
            rest = text[done:]
            for token, piece in enumerate(token_bytes):
                if piece[:1] != rest[:1]:
                    continue
                if piece.startswith(rest) and (len(piece) == len(rest) or piece[len(rest) :].isspace()):
                    steps[done][token] = size
                elif len(piece) < len(rest) and rest.startswith(piece) and steps[done + len(piece)]:
                    steps[done][token] = done + len(piece)
        if not steps[0]:
            raise ModelError(
                f"no tokens of this tokenizer write the terminator {text.decode()!r}, so no fact could end: "
                "build the index with another terminator"
            )
        chosen = [sorted(step) for step in steps]
        if text in token_bytes:
            chosen[0] = [token for token in chosen[0] if steps[0][token] == size]
        tokens = [np.array(ids, np.int32) for ids in chosen]
        for ids in tokens:
            ids.setflags(write=False)
        return cls(size, steps, tokens)


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


_log = logging.getLogger(__name__)


class Warnings:
    """The warnings of one machine. `terminator`: that of facts."""

    def __init__(self, terminator: bytes) -> None:
        self._terminator, self._has_warned, self._reported = terminator, False, b""

    def of_no_facts(self, trigger: Trigger, has_facts: bool) -> None:
        """Log a warning that nothing can follow a trigger. `has_facts`: whether the text has facts."""
        if not self._has_warned:
            self._has_warned = True
            found = "a text has all facts of the index already" if has_facts else "the index has no facts"
            _log.warning("%s: the text after %r is not constrained", found, trigger.text.decode())

    def of_unfinished(self, left: bytes) -> None:
        """Log a warning if a prompt ends, after its last trigger, in the beginning of a fact that is not in the index.

        `left`: the text after the trigger.
        """
        begun = left.strip()
        if begun.startswith(b"<") and self._terminator not in left and begun != self._reported:
            self._reported = begun
            shown = begun[-200:].decode("utf-8", "replace")
            _log.warning(
                "the prompt ends in the unfinished fact %r, but no fact of the index begins with these tokens: the text "
                "is not constrained before the next trigger (a prompt that was cut within a word has other tokens)",
                shown,
                extra={TEXT: shown},
            )
