"""The choice of facts by beam search: the likeliest whole fact at each trigger, in text that is greedy or sampled."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.choosing.beam_search import FactBeams, search_fact
from refactx.choosing.guesses import draft_tokens, line_after_fact
from refactx.decoding.machine import Machine
from refactx.decoding.states import Closing, InFact, InQuery, InTerminator, State
from refactx.engines.chooser import NOTHING, Chosen, FactChooser, Reading
from refactx.engines.engine import IdPath, TreeReading
from refactx.engines.requests import Steps
from refactx.errors import ModelError

_UNABLE = (
    "fact beams need a decoder-only model with position ids, a dynamic cache of keys and values without a sliding "
    "window, attention sdpa or eager, no scores or attentions returned, no guidance and no SynthID watermark: leave out "
    "fact_beams, or use num_beams"
)


class BeamChooser:
    """A `refactx.engines.chooser.FactChooser` that searches for each fact with beams."""

    needs = TreeReading.SHARED
    examples: Sequence[IdPath] = ()

    def __init__(self, machine: Machine, options: FactBeams) -> None:
        self._machine, self._options = machine, options
        self._earlier: Sequence[IdPath] = ()  # the paths of the last fact's search

    def without_trees(self) -> FactChooser:
        raise ModelError(_UNABLE)

    def decides(self, state: State) -> bool:
        return isinstance(state, InFact | InTerminator)

    def choose(self, state: State, reading: Reading) -> Steps[Chosen]:
        if not isinstance(state, InFact | InTerminator):
            return NOTHING
        found = yield from search_fact(self._machine, state, reading, self._options, self._earlier)
        self._earlier = found.paths
        return Chosen(found.ids, found.read)

    def following(self, state: State, at_fact_end: bool) -> Steps[Sequence[int]]:
        """Return the forced id after the last fact that a limit allows, or in a query; the search writes those of facts."""
        token = self._machine.forced(state) if isinstance(state, Closing | InQuery) else None
        return () if token is None else (token,)
        yield

    def guess(self, state: State, ids: NDArray[np.int64], unread: int, greedy: bool) -> Steps[Sequence[int]]:
        if isinstance(state, InFact):  # the first pass of the search reads this id anyway
            token = self._machine.forced(state)
            return () if token is None else (token,)
        if not greedy:
            return ()
        return draft_tokens(self._machine, state, ids, unread) or line_after_fact(self._machine, state, ids)
        yield
