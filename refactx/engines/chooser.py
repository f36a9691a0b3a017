"""The protocol of choosing facts: by the model itself, by beam search, or by the noisy channel.

The loop that writes texts (`refactx.engines.loop`) uses nothing but this protocol.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.states import State
from refactx.engines.engine import Engine, IdPath, Logits


class TreeReading(IntEnum):
    """The ways in which an engine can read trees of continuations: none, as rows of a batch, or by tree attention."""

    NONE = 0
    ROWS = 1
    ATTENTION = 2


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reading:
    """A model that has read a text to its end, and then maybe the ids `ahead`, which are not yet text.

    `logits`: float32[1 + len(ahead), vocabulary], after the text and after each of `ahead`; `position`: that of the
    text's next id; `room`: the most ids that may follow.
    """

    engine: Engine
    sequence: int
    logits: Logits
    position: int
    room: int
    ahead: IdPath = ()


class Chosen(NamedTuple):
    """The next `ids` of a text; the engine has `read` the first of them (a number), but not all."""

    ids: Sequence[int] = ()
    read: int = 0


NOTHING = Chosen()
"""The choice to leave the next id to the model."""


class FactChooser(Protocol):
    """A way to choose facts within a text. One object serves one `generate` call."""

    @property
    def needs(self) -> TreeReading:
        """The way in which the engine must read trees. If it is more than NONE, there may be one row only."""
        ...

    def without_trees(self) -> "FactChooser":
        """Return the chooser for engines that lack what this one needs. Raise ModelError if there is none."""
        ...

    def decides(self, state: State) -> bool:
        """Return whether it searches for the next ids after `state`: then `choose` can use ids that were read ahead."""
        ...

    def choose(self, state: State, reading: Reading) -> Chosen:
        """Return the next ids of a single row's text; `NOTHING` if the model is to choose the next id.

        If it `decides`, the sequence has afterwards read the text and the first `Chosen.read` ids, but not `ahead`.
        """
        ...

    def following(self, state: State, at_fact_end: bool) -> Sequence[int]:
        """Return ids that have to follow without a forward pass. `at_fact_end`: the last id completed a fact."""
        ...

    def guess(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Sequence[int]:
        """Return draft tokens for a single row's text, which the next pass of the model verifies.

        `ids`: int64[n], the text so far; `unread`: how many of its last ids that pass reads besides the draft;
        `greedy`: whether the model's likeliest id is always chosen.
        """
        ...
