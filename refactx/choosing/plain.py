"""The choice of facts by the model itself: its next id among those that the tree allows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.choosing.guesses import draft_tokens, end_of_fact
from refactx.decoding.machine import Machine
from refactx.decoding.states import State
from refactx.engines.chooser import NOTHING, Chosen, Reading
from refactx.engines.engine import IdPath, TreeReading
from refactx.engines.requests import Steps


class PlainChooser:
    """A `refactx.engines.chooser.FactChooser` that leaves every choice to the model, and appends forced tokens."""

    needs = TreeReading.NONE
    examples: Sequence[IdPath] = ()

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def without_trees(self) -> "PlainChooser":
        return self

    def decides(self, state: State) -> bool:
        return False

    def choose(self, state: State, reading: Reading) -> Steps[Chosen]:
        return NOTHING
        yield

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        token = self._machine.forced(state)
        return () if token is None else (token,)
        yield

    def guess(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Steps[Sequence[int]]:
        if not greedy:
            return ()
        return draft_tokens(self._machine, state, ids, unread) or end_of_fact(self._machine, state, ids)
        yield
