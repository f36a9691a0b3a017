"""Free text: without facts, but with the line of the answer if it would end without one.

Text with facts gets that line by its channel. Otherwise, the model without the constraint would be compared by unfinished
texts.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.lookups import Lookups
from refactx.decoding.states import Free, State
from refactx.engines.chooser import NOTHING, Chosen, Reading
from refactx.engines.engine import IdPath, TreeReading
from refactx.engines.requests import Steps

Line = Callable[[NDArray[np.int64], int], Sequence[int]]
"""A function that returns the line that has to follow a text, given its ids with the prompt, int64[n], and the likeliest
next id; empty if the model is to choose."""


class FreeGrammar:
    """The grammar in which any id may follow, always."""

    def advancing(self, state: State, token: int, position: int) -> Lookups[State]:
        """Return the state, which does not change."""
        return state
        yield


class FreeChooser:
    """A `refactx.engines.chooser.FactChooser` for text without facts. `line`: returns the line that has to follow."""

    needs = TreeReading.NONE
    examples: Sequence[IdPath] = ()

    def __init__(self, line: Line) -> None:
        self._line = line

    def without_trees(self) -> "FreeChooser":
        return self

    def decides(self, state: State) -> bool:
        return False

    def choose(self, state: State, reading: Reading) -> Steps[Chosen]:
        line = self._line(reading.written, int(reading.logits[0].argmax()))
        return Chosen(line) if line else NOTHING
        yield

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        return ()
        yield

    def guess(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Steps[Sequence[int]]:
        return ()
        yield


FREE = Free()
"""The state of free text."""
