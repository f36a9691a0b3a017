"""The writing of a thought before an answer: its budget, and how it is closed.

A thought is text with facts like any other, but for what belongs to answers: the lines after facts that the channel
writes, and the end of the text. It is closed by its mark, which the model writes, or which is written for it when the
budget is spent, when the thought repeats itself, when the last fact of a limit is written, or in place of the end of
the text. A fact that has begun is written to its end before that. Then the answer begins, as a text does: it may have
the facts of the thought again, since it shows its own proof.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.states import Closing, Free, InFact, InQuery, InTerminator, State, Written
from refactx.decoding.thoughts import ThoughtReader, ThoughtTokens
from refactx.engines.engine import Choice, FactChooser, IdPath, ScoreReading, Steps, TreeReading
from refactx.selection.plain import Line


class Thought:
    """The thought of one text while it is written.

    `most`: the most ids of it; `is_begun`: whether the prompt has opened it; `answer`: the ids with which the answer
    begins after the last fact of a limit. `count`: how many ids it has; `stop`: where in the text's ids the answer begins.
    """

    def __init__(self, tokens: ThoughtTokens, *, most: int, is_begun: bool, answer: Sequence[int] = ()) -> None:
        self._tokens, self._most, self._answer = tokens, most, tuple(answer)
        self._reader = ThoughtReader(tokens, is_open=is_begun)
        self._said, self._written, self._is_answered = bytearray(), 0, False
        self.count = self.stop = 0
        self.repeats = False
        """Whether it repeats itself, which ends it."""
        self.facts: tuple[Written, ...] = ()
        """Its facts once it is closed, but for those of a limit, which the state of the text keeps."""

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return self._reader.is_open

    @property
    def text(self) -> str:
        """What it says, without its marks."""
        return self._said.decode("utf-8", "replace").strip()

    def add(self, token: int, piece: bytes, state: State, at_fact_end: bool) -> State:
        """Take the next id of the text, its bytes, and the state after it. Return the state to continue with.

        A thought does not go on in the answer that a limit of facts forces: it is closed first.
        """
        self._written += 1
        was_open, follows = self.is_open, self._reader.awaits_rest
        if at_fact_end or isinstance(state, InFact | InTerminator | InQuery | Closing):
            said = [*self._reader.interrupt(), (piece, self.is_open)]
        else:
            said = self._reader.read(token, piece)
        for data, in_thought in said:
            self._said += data if in_thought else b""
        if was_open or self.is_open:
            self.count += 1
        if was_open or self.is_open or follows:
            self.stop = self._written
        if self.is_open and isinstance(state, Closing):
            self._is_answered = True
            return Free(facts=state.facts)
        if self.stop == self._written and not self.is_open and isinstance(state, Free):
            # The token of a mark may have no text: no word continues after it. The answer may have the same facts.
            if self._is_answered:
                return Free(facts=state.facts)
            self.facts = (*self.facts, *state.facts)
            return Free()
        return state

    def closing(self, is_at_end: bool) -> Sequence[int]:
        """Return the ids that close it now; empty if it may go on. `is_at_end`: whether the text would end here."""
        if self._is_answered:
            return (*self._tokens.closing, *self._answer)
        is_spent = self.count >= self._most and not self._reader.is_in_mark
        return self._tokens.closing if is_at_end or self.repeats or is_spent else ()

    def following(self) -> Sequence[int]:
        """Return the ids that have to follow the mark that the model has just written."""
        return self._tokens.following if self._reader.awaits_rest else ()


class ThinkingChooser:
    """A `refactx.engines.engine.FactChooser` of a text that begins with a thought.

    `thinking`, `answering`: what chooses in the thought and after it; `ends`: the ids that end a text; `line`: as in
    `FreeChooser`, for an answer that would end without one.
    """

    def __init__(
        self, thought: Thought, thinking: FactChooser, answering: FactChooser, ends: Collection[int], line: Line
    ) -> None:
        self._thought, self._thinking, self._answering, self._line = thought, thinking, answering, line
        self._ends = np.array(sorted(ends), np.int64)

    @property
    def needs(self) -> TreeReading:
        return self._answering.needs

    @property
    def examples(self) -> Sequence[IdPath]:
        return self._answering.examples

    def without_trees(self) -> FactChooser:
        thinking, answering = self._thinking.without_trees(), self._answering.without_trees()
        return ThinkingChooser(self._thought, thinking, answering, self._ends.tolist(), self._line)

    @property
    def _chooser(self) -> FactChooser:
        return self._thinking if self._thought.is_open else self._answering

    def decides(self, state: State) -> bool:
        return self._chooser.decides(state)

    def choose(self, state: State, reading: ScoreReading) -> Steps[Choice]:
        likeliest = int(reading.logits[0].argmax())
        if not (self._thought.is_open and isinstance(state, Free)):
            chosen = yield from self._chooser.choose(state, reading)
            if chosen.ids or not (self._thought.stop and isinstance(state, Free)):
                return chosen
            return Choice(self._line(reading.written, likeliest))
        closing = self._thought.closing(likeliest in self._ends)
        if not closing:
            reading.logits[0, self._ends[self._ends < reading.logits.shape[1]]] = -np.inf
        return Choice(closing)

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        if rest := self._thought.following():
            return rest
        if not self._thought.is_open:
            return (yield from self._answering.following(state, at_fact_end))
        return (yield from self._thinking.following(state, False))

    def draft(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Sequence[int]:
        return self._chooser.draft(state, ids, unread, greedy)
