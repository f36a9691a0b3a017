"""Where a fact begins and ends in text, for a tokenizer that cuts text as it likes.

The *trigger* (`Fact:`) is found in bytes, never in ids: it may come as `Fact` + `:`, as ` Fact:`, or with a white space
behind it in one token (Qwen's `:\\n`). It counts when no word goes on into it (`inFact:` is not one) and nothing but
white space follows it in the token that completes it: behind `Fact:\\n` the next token is a fact's first, since
otherwise a model could write what looks like a fact and is none; `Fact:**` is ordinary text.

The *terminator* (` .`) is not in the tree. A table says which tokens begin it, go on with it, or complete it with
nothing but white space behind it: with Qwen ` .` before a newline is the single token ` .\\n`, and an index that
forces the token ` .` makes the model stop there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refactx.errors import ModelError
from refactx.tree.children import Tokens

_LONGEST_CHARACTER = 4  # bytes, in UTF-8


@dataclass(frozen=True, slots=True)
class Trigger:
    """The text that starts a fact, as UTF-8 bytes; not empty.

    >>> trigger = Trigger(b"Fact:")
    >>> trigger.completed(b"so: Fa", b"ct:\\n"), trigger.completed(b"", b"inFact:"), trigger.completed(b"Fact", b":**")
    (True, False, False)
    """

    text: bytes

    def tail(self, data: bytes) -> bytes:
        """The end of `data` that decides whether a trigger is complete later on."""
        return data[-(len(self.text) - 1 + _LONGEST_CHARACTER) :]

    def completed(self, tail: bytes, piece: bytes) -> bool:
        """Whether `piece` (the bytes of one token) completes the trigger behind the text that ends in `tail`."""
        if self.text[-1] not in piece:  # nearly every token: the trigger has to end inside the piece
            return False
        data = tail + piece
        at = data.rfind(self.text, max(0, len(tail) - len(self.text) + 1))
        return at >= 0 and self.counts(data[:at], data[at + len(self.text) :])

    def counts(self, before: bytes, behind: bytes) -> bool:
        """Whether the trigger's text between `before` and `behind` (the rest of its last token) is a trigger."""
        if behind and not behind.isspace():
            return False
        character = before[-_LONGEST_CHARACTER:].decode("utf-8", "replace")[-1:]
        return not (_in_word(character) and _in_word(self.text.decode()[:1]))


def _in_word(character: str) -> bool:
    # Caseless scripts (Chinese, Arabic) need no space before a Latin word, so no boundary is asked behind them.
    return character == "_" or character.isdigit() or character.lower() != character.upper()


@dataclass(frozen=True, slots=True, eq=False)
class Terminator:
    """The tokens that write the terminator, by how many of its bytes are written.

    `steps[done]`: token id to the number of terminator bytes written after it (`size`: complete); `tokens[done]`: its
    keys as int32[n], ascending. `done` runs from 0 to `size - 1`. A token that only begins the terminator is listed
    where some token can go on with it.
    """

    size: int
    steps: Sequence[Mapping[int, int]]
    tokens: Sequence[Tokens]

    @classmethod
    def of(cls, text: bytes, token_bytes: Sequence[bytes]) -> "Terminator":
        """The table for `text` (not empty) and the bytes of each id.

        Raises ModelError where no tokens of the vocabulary write the terminator.

        >>> table = Terminator.of(b" .", [b"", b" ", b".", b" .", b" .\\n", b" .x", b".\\n "])
        >>> table.steps[0], table.steps[1]
        ({1: 1, 3: 2, 4: 2}, {2: 2, 6: 2})
        """
        size = len(text)
        steps: list[dict[int, int]] = [{} for _ in text]
        for done in reversed(range(size)):  # from the end: whether a token can be gone on with is known by then
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
                f"no tokens of this tokenizer write the terminator {text.decode()!r}, so no fact could end; "
                "build the index with another terminator"
            )
        tokens = [np.array(sorted(step), np.int32) for step in steps]
        for ids in tokens:
            ids.setflags(write=False)
        return cls(size, steps, tokens)
