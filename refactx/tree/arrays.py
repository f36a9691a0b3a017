"""Ragged arrays: sequences of different lengths in one flat array, with the offsets at which they begin."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from refactx.tree.children import Tokens

Offsets = NDArray[np.int64]


def ragged(starts: Offsets, lengths: Offsets) -> Offsets:
    """Return the positions `starts[i], ..., starts[i] + lengths[i] - 1` for every i, one after another.

    >>> ragged(np.array([10, 50]), np.array([2, 3])).tolist()
    [10, 11, 50, 51, 52]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def offsets_of(lengths: Offsets) -> Offsets:
    """Return where each sequence begins in the flat array, and where the last one ends: int64[n + 1].

    >>> offsets_of(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


Integer = TypeVar("Integer", bound=np.integer)


def select(tokens: Tokens, offsets: Offsets, chosen: Offsets) -> tuple[Tokens, Offsets]:
    """Return the sequences `chosen` (their numbers) of a ragged array, as a ragged array.

    >>> select(np.array([1, 2, 3], np.int32), np.array([0, 2, 3]), np.array([1]))
    (array([3], dtype=int32), array([0, 1]))
    """
    lengths = np.diff(offsets)[chosen]
    return tokens[ragged(offsets[:-1][chosen], lengths)], offsets_of(lengths)


def shared_lengths(tokens: Tokens, offsets: Offsets) -> NDArray[np.int32]:
    """Return how many leading tokens each sequence shares with the one before: int32[n]; 0 for the first.

    >>> shared_lengths(np.array([1, 2, 1, 2, 3, 1, 4], np.int32), np.array([0, 2, 5, 7])).tolist()
    [0, 2, 1]
    """
    count = len(offsets) - 1
    shared = np.zeros(count, np.int32)
    if count < 2:
        return shared
    lengths = np.diff(offsets)
    shorter = np.minimum(lengths[1:], lengths[:-1])
    still_equal = np.arange(1, count)
    depth = 0
    while len(still_equal):  # one step for each depth, over the pairs that are equal so far
        still_equal = still_equal[shorter[still_equal - 1] > depth]
        same = tokens[offsets[still_equal] + depth] == tokens[offsets[still_equal - 1] + depth]
        still_equal = still_equal[same]
        depth += 1
        shared[still_equal] = depth
    return shared
