"""The stream of the text of one generation, split into free text and facts: the events from a writer to a client.

Its facts are read from the states of the sequences, without the database, whose loss may be the error.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InFact, InQuery, InTerminator, State
from refactx.decoding.thoughts import ThoughtReader
from refactx.errors import RefactxError
from refactx.fact import Fact


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of text.

    `in_fact`: it is part of a fact or of its terminator; `completes`: it is the end of the terminator; `fact`: the one that
    it completes; `in_thought`: it is part of a thought, whose marks are left out; `before_answer`: it is other text before
    the answer, where the answer alone is asked for.
    """

    text: str
    in_fact: bool = False
    completes: bool = False
    fact: Fact | None = None
    in_thought: bool = False
    before_answer: bool = False

    @property
    def is_reasoning(self) -> bool:
        """Whether it stands before the answer, and is no part of the content of a reply."""
        return self.in_thought or self.before_answer


@dataclass(frozen=True, slots=True)
class FormPiece:
    """A piece of the answer in the form that was asked for, such as JSON, which follows all other text."""

    text: str


class FactStream:
    """A Transformers streamer (`generate(streamer=...)`) for one generation, which calls `on_piece` for each piece.

    `token_bytes`: the bytes of each id, by id; `machine`: None if there are no facts; `thoughts`: what tells thoughts from
    the rest, None if there are none. Bytes of an incomplete character wait for the rest of it.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        machine: Machine | None,
        on_piece: Callable[[TextPiece], object],
        thoughts: ThoughtReader | None = None,
    ) -> None:
        self._token_bytes, self._machine, self._on_piece = token_bytes, machine, on_piece
        self._thoughts = thoughts
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state: State = Free()
        self._position: int | None = None  # of the next id; None: the prompt is missing

    def put(self, value: Any) -> None:
        """Take the ids of the prompt, int64[1, length], in the first call; then each id, int64[1]."""
        ids: list[int] = value.flatten().tolist()
        if self._position is None:
            self._position = len(ids)
            if self._machine is not None:
                self._state = self._machine.run(ids, len(ids))
            return
        for token in ids:
            after = self._state
            if self._machine is not None:
                after = self._machine.advance(self._state, token, self._position)
            self._position += 1
            self._take(token, after)

    def put_in_state(self, value: Any, state: State) -> None:
        """Take ids as `put` does, one at a time after the prompt, with the state after them: nothing is looked up."""
        ids: list[int] = value.flatten().tolist()
        if self._position is None:
            self._position, self._state = len(ids), state
            return
        self._position += len(ids)
        for token in ids:
            self._take(token, state)

    def end(self) -> None:
        """End the text: pass on the bytes that are left."""
        self._release()
        self._emit(b"", final=True)

    def _take(self, token: int, after: State) -> None:
        table = self._token_bytes
        piece = table[token] if token < len(table) else b""
        before, self._state = self._state, after
        if self._machine is None or not isinstance(before, InFact | InTerminator):
            if self._thoughts is None or isinstance(before, InQuery):
                self._release()
                return self._emit(piece)
            for said, in_thought in self._thoughts.read(token, piece):
                self._emit(said, in_thought=in_thought)
            return None
        self._release()
        if len(after.facts) == len(before.facts):
            return self._emit(piece, in_fact=True)
        done = before.done if isinstance(before, InTerminator) else 0
        end = self._machine.terminator.size - done
        self._emit(piece[:end], in_fact=True, fact=self._machine.facts_of(after)[-1])
        return self._emit(piece[end:])

    def _release(self) -> None:
        """Pass on what was held back as the possible beginning of a mark."""
        for said, in_thought in () if self._thoughts is None else self._thoughts.interrupt():
            self._emit(said, in_thought=in_thought)

    def _emit(
        self,
        data: bytes,
        in_fact: bool = False,
        fact: Fact | None = None,
        final: bool = False,
        in_thought: bool | None = None,
    ) -> None:
        text = self._decoder.decode(data, final)
        if in_thought is None:
            in_thought = self._thoughts is not None and self._thoughts.is_open
        if text or fact is not None:
            self._on_piece(TextPiece(text, in_fact, fact is not None, fact, in_thought))


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """The output so far of a generation that an error ended.

    `ids`: int64[rows, length], prompts included; under beam search the rows are beams, the best of each text first.
    `lengths`: the number of ids of each row without the padding after them. `facts`: those that each row had completed,
    in order. `answers`: if an `Asker` was asked, a `refactx.Answer` for each question; its links have no ids.
    """

    ids: Any
    lengths: tuple[int, ...]
    facts: tuple[tuple[Fact, ...], ...]
    answers: tuple[Any, ...] = ()

    @classmethod
    def of(cls, ids: Any, facts: Iterable[tuple[Fact, ...]]) -> Self:
        """Return the partial output of rows without padding."""
        return cls(ids=ids, lengths=(ids.shape[1],) * len(ids), facts=tuple(facts))


@contextmanager
def attach_partial(so_far: Callable[[], Partial]) -> Iterator[None]:
    """Attach the output so far to a `RefactxError` that leaves the block, unless it has a partial already."""
    try:
        yield
    except RefactxError as error:
        if error.partial is None:
            with suppress(RefactxError):  # the index has something that is no fact: the first error is raised
                error.partial = so_far()
        raise
