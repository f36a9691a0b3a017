"""The choice of the next id of a row from its logits, in numpy: the likeliest id, or a sample."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from refactx.decoding.states import State
from refactx.engines.engine import Logits
from refactx.engines.row import Row
from refactx.tree.children import Tokens

Allowed = Callable[[State], Tokens | None]
"""A function that returns the ids that may follow a state, int32[n]; None if any may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Options of sampling.

    `temperature`: 0 for the likeliest id, else scores are divided by it; then only the `top_k` likeliest ids count, and
    of these the likeliest ones with a total probability of `top_p` (None: all). `seed`: None for another text each time.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None


GREEDY_SAMPLING = Sampling()


class Sampler:
    """A `refactx.engines.row.Picker` with random numbers of its own.

    `allowed`: returns the ids that may follow a state, int32[n]; None if any may.

    >>> Sampler(Sampling()).greedy
    True
    """

    def __init__(self, sampling: Sampling, allowed: Allowed | None = None) -> None:
        self._sampling, self._allowed = sampling, allowed
        self._random = np.random.default_rng(sampling.seed)

    @property
    def greedy(self) -> bool:
        return self._sampling.temperature == 0

    def pick(self, row: Row, logits: Logits) -> int:
        tokens = None if self._allowed is None else self._allowed(row.state)
        if tokens is not None:
            tokens = tokens[tokens < len(logits)]
            if not len(tokens):  # off the tree: nothing may follow, and the last id does the least harm
                return int(row.written[-1])
            logits = logits[tokens]
        at = int(logits.argmax()) if self.greedy else self._draw(logits)
        return at if tokens is None else int(tokens[at])

    def skip(self) -> None:
        """Do nothing: forced ids take no random numbers."""

    def _draw(self, logits: Logits) -> int:
        """Return the place of a sample."""
        options = self._sampling
        order = np.argsort(-logits, kind="stable")[: options.top_k]
        scores = logits[order].astype(np.float64) / options.temperature
        weights = np.exp(scores - scores[0])
        sums = np.cumsum(weights)
        if options.top_p is not None:
            kept = 1 + int(np.searchsorted(sums, options.top_p * sums[-1]))
            sums = sums[:kept]
        at = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        return int(order[min(at, len(sums) - 1)])
