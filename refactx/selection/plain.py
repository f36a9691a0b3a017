"""Choosers that leave facts to the model: its next id among those that are allowed, and free text.

They append forced tokens, and draft tokens from what a text repeats: an answer repeats the fact that proves it, a
fact the subject of the last one, and a small model its examples. The model reads the draft in one pass with the ids that
it has to read anyway, and an id counts only if the model would have chosen it, so the text does not change (Saxena,
Prompt Lookup Decoding, 2023; Leviathan et al., arXiv 2211.17192).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.machine import Machine
from refactx.decoding.states import Constraint, Free, FreeText, InFact, State
from refactx.engines.engine import NOTHING, Choice, IdPath, ScoreReading, Steps, TreeReading

MATCHED, MATCHED_IN_SHORT_PASS = 3, 5
"""How many of the latest ids have to match earlier ones; and how many in a pass of at most `SHORT_PASS` ids besides the
draft.

In a short pass, a draft costs more than one or two right ids save. (Of drafts after 3 or 4 matched ids, in passes of 1
or 2 ids, mostly one id was right, rarely 3.)
"""

SHORT_PASS = 3

MOST = 8
"""The most ids of a draft: on a CPU, 8 more ids make a pass of several ids a quarter longer, and a pass of a single id
up to three times as long (docs/results/benchmarks.md, "Engines")."""


def draft_tokens(machine: Machine, state: State, ids: NDArray[np.int64], unread: int) -> list[int]:
    """Return draft tokens after `ids`, int64[n]: those that followed the same latest ids before.

    `state`: that after `ids`; `unread`: how many of them the pass reads besides the draft.
    """
    return [] if has_other_object(machine, state) else repeat_latest(ids, unread)


def repeat_latest(ids: NDArray[np.int64], unread: int) -> list[int]:
    """Return draft tokens after `ids`, as `draft_tokens` does for any text."""
    return repeat(ids, MOST, MATCHED if unread > SHORT_PASS else MATCHED_IN_SHORT_PASS)


def end_of_fact(machine: Machine, state: State, ids: NDArray[np.int64]) -> list[int]:
    """Return draft tokens after `ids`, int64[n], if these end in a fact that lacks its terminator alone; else none.

    They are the terminator and the id after it, as after the last fact; after the first fact, a line end.
    """
    if not (isinstance(state, InFact) and state.is_whole):
        return []
    if not state.facts:
        return machine.source.tokenizer.encode(f"{machine.source.terminator}\n")
    last = state.facts[-1]
    following: list[int] = ids[last.start + len(last.tokens) : last.stop + 1][:MOST].tolist()
    return following


def line_after_fact(machine: Machine, state: State, ids: NDArray[np.int64]) -> list[int]:
    """Return draft tokens after `ids`, int64[n], if these end directly after a fact; else none.

    They are those after the fact before it; after the first fact, a line end and another trigger.
    """
    if not isinstance(state, Free) or not state.facts or state.facts[-1].stop != len(ids):
        return []
    if len(state.facts) == 1:
        return machine.source.tokenizer.encode(f"\n{machine.source.trigger}")
    following: list[int] = ids[state.facts[-2].stop :][:MOST].tolist()
    return following


def has_other_object(machine: Machine, state: State) -> bool:
    """Return whether the state is in an object, and a fact with the same beginning was written.

    Then the ids that followed before are wrong.
    """
    return isinstance(state, InFact) and bool(state.rivals) and machine.text_of(state.prefix).count(b">") == 2


def repeat(ids: NDArray[np.int64], most: int = MOST, matched: int = MATCHED) -> list[int]:
    """Return at most `most` ids that followed the last `matched` of `ids`, int64[n], where these came before.

    >>> repeat(np.array([5, 1, 2, 3, 8, 9, 1, 2, 3]))
    [8, 9, 1, 2, 3]
    """
    if len(ids) <= matched or most < 1:
        return []
    before = ids[:-1]
    found = np.ones(len(before) - matched + 1, np.bool_)
    for at in range(matched):
        found &= before[at : len(before) - matched + 1 + at] == ids[at - matched]
    places = found.nonzero()[0]
    if not len(places):
        return []
    begin = int(places[-1]) + matched
    return [int(number) for number in ids[begin : begin + most]]


class PlainChooser:
    """A `refactx.engines.engine.FactChooser` that leaves every choice to the model, and appends forced tokens."""

    needs = TreeReading.NONE
    examples: Sequence[IdPath] = ()

    def __init__(self, constraint: Constraint[Any]) -> None:
        self._constraint = constraint

    def without_trees(self) -> "PlainChooser":
        return self

    def decides(self, state: State) -> bool:
        return False

    def choose(self, state: State, reading: ScoreReading) -> Steps[Choice]:
        return NOTHING
        yield

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        token = self._constraint.forced(state)
        return () if token is None else (token,)
        yield

    def draft(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Sequence[int]:
        if not greedy:
            return ()
        if not isinstance(self._constraint, Machine):
            return repeat_latest(ids, unread)
        return draft_tokens(self._constraint, state, ids, unread) or end_of_fact(self._constraint, state, ids)


Line = Callable[[NDArray[np.int64], int], Sequence[int]]
"""A function that returns the line that has to follow a text, given its ids with the prompt, int64[n], and the likeliest
next id; empty if the model is to choose."""


class FreeChooser(PlainChooser):
    """A chooser for text without facts. `line`: returns the line that has to follow."""

    def __init__(self, line: Line) -> None:
        super().__init__(FreeText())
        self._line = line

    def choose(self, state: State, reading: ScoreReading) -> Steps[Choice]:
        line = self._line(reading.written, int(reading.logits[0].argmax()))
        return Choice(line) if line else NOTHING
        yield

    def draft(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Sequence[int]:
        return ()
