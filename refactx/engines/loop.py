"""The loop that writes texts: forced tokens need no forward pass, draft tokens are verified in passes made anyway.

More than four of five ids of a fact have no alternative in the tree. They are appended at once, and the model reads
such a chain in one pass, which takes little longer than one id: a text takes one pass for each unforced id, and one
more. A chooser of facts (`refactx.engines.chooser`) adds chains of its own and draft tokens; a draft token counts only
if the model chooses the same.

Rows of a batch advance independently, each with its pending ids, in passes of the most efficient width (`best_width`).
A row that is done leaves the batch.

The loop does not depend on the library that runs the model, nor on how an id is picked: both are passed in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InFact, InTerminator, State
from refactx.engines.chooser import FactChooser, Reading
from refactx.engines.engine import Engine, Feed, Logits

PASS_IDS = 16
"""The fixed cost of a pass, as the number of ids that take as long (docs/results/benchmarks.md, "Decoding")."""


class Row:
    """One text while it is written.

    `number`: its place in the batch; `sequence`: its number in the engine; `ids`: int64[capacity], of which the first
    `length` are the text; `pending`: the last ids of the text, which the model has not read; `at_fact_end`: whether the
    last id completes a fact.
    """

    __slots__ = ("at_fact_end", "done", "ids", "length", "number", "pending", "sequence", "state")

    def __init__(self, *, number: int, sequence: int, prompt: Sequence[int], state: State, capacity: int) -> None:
        self.number, self.sequence, self.state, self.length = number, sequence, state, len(prompt)
        self.ids = np.zeros(max(capacity, self.length + 1), np.int64)
        self.ids[: self.length] = prompt
        self.pending: list[int] = []
        self.done = self.at_fact_end = False

    @property
    def written(self) -> NDArray[np.int64]:
        """The ids so far, prompt included: int64[length]."""
        return self.ids[: self.length]


class Picker(Protocol):
    """A way to pick the next id of rows from logits."""

    @property
    def greedy(self) -> bool:
        """Whether it always picks the likeliest id."""
        ...

    def pick(self, rows: Sequence[Row], logits: Logits) -> Sequence[int]:
        """Return the next id of each row; rows have one length. `logits`: float32[rows, vocabulary]."""
        ...

    def skip(self) -> None:
        """Take note that the next id of a single row was forced, not picked."""
        ...


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions that the loop calls after each id. `is_done`: whether a row has ended; `on_token`: takes the id."""

    is_done: Callable[[Row], bool]
    on_token: Callable[[int], object]


class TextLoop:
    """The loop for the rows of one `generate` call, which end at `max_length` ids or when `hooks` say so."""

    def __init__(
        self, *, machine: Machine, chooser: FactChooser, picker: Picker, engine: Engine, hooks: Hooks, max_length: int
    ) -> None:
        self._machine, self._chooser, self._picker, self._engine = machine, chooser, picker, engine
        self._hooks, self._max_length = hooks, max_length
        self._alone = True  # whether the batch has one row
        self._ahead: list[int] = []  # the ids that the model has read after the text, for a chooser that decides

    def write(self, rows: list[Row], logits: Sequence[Logits] = ()) -> None:
        """Write every row to its end. `logits`: those after each prompt, float32[1, vocabulary].

        Without logits, all rows must have pending ids.
        """
        self._alone = len(rows) == 1
        while True:
            if logits:
                self._choose([(row, after) for row, after in zip(rows, logits, strict=True) if not row.pending])
            for row in rows:
                if row.done:
                    self._engine.drop(row.sequence)
            rows = [row for row in rows if not row.done]
            if not rows:
                return
            width = best_width([len(row.pending) for row in rows])
            guess = self._guess(rows)
            logits = self._engine.feed(
                [Feed(row.sequence, row.pending[:width] + guess, last=len(guess) + 1) for row in rows]
            )
            for row in rows:
                row.pending = row.pending[width:]
            if guess:
                logits = [self._check(rows[0], guess, logits[0])]

    def _guess(self, rows: list[Row]) -> list[int]:
        if not self._alone or not self._engine.can_forget:
            return []
        row = rows[0]
        guess = self._chooser.guess(row.state, row.written, len(row.pending), self._picker.greedy)
        return list(guess[: max(0, self._max_length - row.length - 1)])

    def _check(self, row: Row, guess: list[int], logits: Logits) -> Logits:
        """Choose id by id as long as the guess (the draft tokens) is right.

        `logits`: those before the guess and after each of its ids. The engine forgets the wrong rest of the guess,
        unless the chooser decides what follows, since that can use it. Returns the logits after the last id of the text
        that the model has read, and after each id of the rest if that is kept.
        """
        right = 0
        while right < len(guess) and not (row.pending or row.done or self._chooser.decides(row.state)):
            self._choose([(row, logits[right : right + 1])])
            same = _common_length(row.pending, guess[right:])
            right, row.pending = right + same, row.pending[same:]
        if not (row.pending or row.done) and self._chooser.decides(row.state):
            self._ahead = guess[right:]
            return logits[right:]
        if row.done and not row.pending:  # the last id must not be in the cache: whoever continues the text feeds it
            right -= 1
            row.pending = guess[right : right + 1]
        self._engine.forget(row.sequence, len(guess) - right)
        return logits[right : right + 1]

    def _choose(self, ready: list[tuple[Row, Logits]]) -> None:
        """Append the next id of each row that is `ready` (the model has read all of it), and the forced ids after it."""
        if self._alone and ready:
            row, logits = ready[0]
            ahead, self._ahead = tuple(self._ahead), []
            reading = Reading(
                engine=self._engine,
                sequence=row.sequence,
                logits=logits,
                position=row.length,
                room=self._max_length - row.length,
                ahead=ahead,
            )
            chosen = self._chooser.choose(row.state, reading)
            self._append_read(row, chosen.ids, chosen.read)
            if chosen.ids:
                self._append_following(row)
                return
        for rows, after in _of_one_length(ready):
            for row, token in zip(rows, self._picker.pick(rows, after), strict=True):
                self._append(row, token)
                self._append_following(row)

    def _append_following(self, row: Row) -> None:
        """Append the ids that have to follow."""
        while not row.done and (ids := self._chooser.following(row.state, row.at_fact_end)):
            for token in ids:
                if self._alone:
                    self._picker.skip()
                self._append(row, token)

    def _append_read(self, row: Row, ids: Sequence[int], read: int) -> None:
        """Append ids, of which the engine has read the first `read`, but not all."""
        for token in ids:
            self._append(row, token)
        if read:
            surplus = max(0, read + 1 - len(row.pending))  # the text may end within them
            self._engine.forget(row.sequence, surplus)
            row.pending = row.pending[read - surplus :]

    def _append(self, row: Row, token: int) -> None:
        if row.done:
            return
        row.ids[row.length] = token
        before = row.state
        row.state = self._machine.advance(before, token, row.length)
        row.at_fact_end = isinstance(before, InFact | InTerminator) and isinstance(row.state, Free)
        row.length += 1
        row.pending.append(token)
        self._hooks.on_token(token)
        row.done = self._hooks.is_done(row)


def _of_one_length(ready: list[tuple[Row, Logits]]) -> list[tuple[list[Row], Logits]]:
    """Return groups of rows of one length with their logits, [rows, vocabulary]: processors take rectangles of ids."""
    by_length: dict[int, list[tuple[Row, Logits]]] = {}
    for row, logits in ready:
        by_length.setdefault(row.length, []).append((row, logits[0]))
    return [([row for row, _ in group], np.stack([after for _, after in group])) for group in by_length.values()]


def _common_length(some: Sequence[int], others: Sequence[int]) -> int:
    """Return the length of the longest common prefix."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(some), len(others)))


def best_width(pending: Sequence[int]) -> int:
    """Return the most efficient width of a pass, the most ids per time, given the number of pending ids of each row.

    The width is the most ids of a row that a pass reads. Rows with fewer ids are padded.

    >>> best_width([1, 1, 1, 30]), best_width([30])
    (30, 30)
    >>> best_width([1] * 15 + [30])
    1
    """

    def rate(width: int) -> float:
        return sum(min(count, width) for count in pending) / (PASS_IDS + width * len(pending))

    return max(sorted(set(pending)), key=rate)
