"""The text of one generation as it comes, told apart into free text and facts."""

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from refactx.decoding.machine import Free, InFact, InTerminator, Machine, State
from refactx.tokenizer import FactTokenizer


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text. `in_fact`: it stands between a trigger and the end of the fact's terminator, and `completes` it."""

    text: str
    in_fact: bool = False
    completes: bool = False


class FactStream:
    """A Transformers streamer (`generate(streamer=...)`) that hands on pieces of text, in order, for one generation.

    `machine`: None where there are no facts. Bytes that are no character yet are kept until they are one.
    """

    def __init__(self, tokenizer: FactTokenizer, machine: Machine | None, on_piece: Callable[[Piece], object]) -> None:
        self._tokenizer, self._machine, self._on_piece = tokenizer, machine, on_piece
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state: State = Free()
        self._position: int | None = None  # None: the prompt has not come

    def put(self, value: Any) -> None:
        """The prompt's ids, int64[1, length], at first; then each id, int64[1]."""
        ids: list[int] = value.flatten().tolist()
        if self._position is None:
            self._position = len(ids)
            if self._machine is not None:
                self._state = self._machine.run(ids, len(ids))
            return
        for token in ids:
            self._next(token)

    def end(self) -> None:
        """The generation is over: hand on what is left."""
        self._say(b"", final=True)

    def _next(self, token: int) -> None:
        table = self._tokenizer.token_bytes
        piece = table[token] if token < len(table) else b""
        if self._machine is None or self._position is None:
            return self._say(piece)
        before = self._state
        self._state = self._machine.advance(before, token, self._position)
        self._position += 1
        if not isinstance(before, InFact | InTerminator):
            return self._say(piece)
        if len(self._state.facts) == len(before.facts):
            return self._say(piece, in_fact=True)
        done = before.done if isinstance(before, InTerminator) else 0
        end = self._machine.terminator.size - done
        self._say(piece[:end], in_fact=True, completes=True)
        return self._say(piece[end:])

    def _say(self, data: bytes, in_fact: bool = False, completes: bool = False, final: bool = False) -> None:
        text = self._decoder.decode(data, final)
        if text or completes:
            self._on_piece(Piece(text, in_fact, completes))
