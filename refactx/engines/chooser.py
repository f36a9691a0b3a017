"""The protocol of choosing facts: by the model itself, by beam search, or by the noisy channel.

The writing of a text (`refactx.engines.row`) uses nothing but this protocol. What needs lookups or the model is a
generator of requests (`refactx.engines.requests`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.states import State
from refactx.engines.engine import IdPath, Logits, TreeReading
from refactx.engines.requests import Steps


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reading:
    """A text that the model has read to its end, and then maybe the ids `ahead`, which are not yet text.

    `logits`: float32[1 + len(ahead), vocabulary], after the text and after each of `ahead`; `written`: int64[n], the
    ids of the text; `room`: the most ids that may follow; `trees`: how the engine reads trees of continuations.
    """

    logits: Logits
    written: NDArray[np.int64]
    room: int
    trees: TreeReading
    ahead: IdPath = ()

    @property
    def position(self) -> int:
        """The position of the text's next id."""
        return len(self.written)


class Chosen(NamedTuple):
    """The next `ids` of a text; the engine has `read` the first of them (a number), but not all."""

    ids: Sequence[int] = ()
    read: int = 0


NOTHING = Chosen()
"""The choice to leave the next id to the model."""


class FactChooser(Protocol):
    """A way to choose facts within a text. One object serves one text."""

    @property
    def needs(self) -> TreeReading:
        """The way in which the engine must read trees."""
        ...

    @property
    def examples(self) -> Sequence[IdPath]:
        """The ids of each text of examples that it reads continuations of (`OpenTree.of_examples`)."""
        ...

    def without_trees(self) -> "FactChooser":
        """Return the chooser for engines that lack what this one needs. Raise ModelError if there is none."""
        ...

    def decides(self, state: State) -> bool:
        """Return whether it searches for the next ids after `state`: then `choose` can use ids that were read ahead."""
        ...

    def choose(self, state: State, reading: Reading) -> Steps[Chosen]:
        """Return the next ids of the text; `NOTHING` if the model is to choose the next id.

        If it `decides`, the sequence has afterwards read the text and the first `Chosen.read` ids, but not `ahead`.
        """
        ...

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        """Return ids that have to follow without a forward pass. `at_fact_end`: the last id completed a fact."""
        ...

    def guess(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Steps[Sequence[int]]:
        """Return draft tokens for the text, which the next pass of the model verifies.

        `ids`: int64[n], the text so far; `unread`: how many of its last ids that pass reads besides the draft;
        `greedy`: whether the model's likeliest id is always chosen.
        """
        ...
