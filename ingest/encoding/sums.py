"""The selection of facts by their signed sum over the segments of an index: which it has, and which not."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.index.index import Index
from refactx.ingest.encoding.encoded import EncodedFacts, SpilledFacts, WholeFacts
from refactx.ingest.progress import ProgressBars
from refactx.tree.arrays import Offsets, select
from refactx.tree.children import Tokens
from refactx.tree.lookup import contained

BATCH = 65_536
"""The facts that are looked up at a time."""


def multiplicities(index: Index, tokens: Tokens, offsets: Offsets) -> NDArray[np.int64]:
    """Return the signed sum of each of n distinct, ascending sequences over an index's segments: int64[n], 0 or 1.

    Raises CorruptIndexError if a sum is neither 0 nor 1.
    """
    sums = np.zeros(len(offsets) - 1, np.int64)
    for sign, tree in index.segments:
        sums += sign * contained(tree, tokens, offsets)
    if ((sums < 0) | (sums > 1)).any():
        raise CorruptIndexError(
            f"index {index.name!r} has a fact whose signed sum over its segments is not 0 or 1. Ingest the index again"
        )
    return sums


def select_by_sum(index: Index, facts: EncodedFacts, wanted: int, work: Path, bars: ProgressBars) -> WholeFacts:
    """Write to files those of the facts whose signed sum over the segments is `wanted`."""
    chosen = SpilledFacts(work)
    for low in range(0, len(facts), BATCH):
        tokens, offsets = facts.read_tokens(low, min(low + BATCH, len(facts)))
        picked = np.flatnonzero(multiplicities(index, tokens, offsets) == wanted)
        chosen.append(*select(tokens, offsets, picked))
        bars.advance("look up", len(offsets) - 1, len(facts))
    return chosen.finish()
