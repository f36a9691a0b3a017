"""Vectorised arithmetic on many token sequences at once.

A *run* of n sequences is their token ids one after another (`tokens`, int32) and where each begins (`offsets`,
int64[n + 1]). Everything here is numpy over whole runs: a Python loop over tokens would take longer than the tokenizer.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from refactx.tree.children import Tokens
from refactx.tree.ragged import Offsets, offsets_of, ragged

__all__ = ["Offsets", "frontier_depths", "offsets_of", "ragged", "select", "shared_lengths"]

Integer = TypeVar("Integer", bound=np.integer)


def select(tokens: Tokens, offsets: Offsets, chosen: Offsets) -> tuple[Tokens, Offsets]:
    """Some of the sequences of a run, as a run.

    >>> select(np.array([1, 2, 3], np.int32), np.array([0, 2, 3]), np.array([1]))
    (array([3], dtype=int32), array([0, 1]))
    """
    lengths = np.diff(offsets)[chosen]
    return tokens[ragged(offsets[:-1][chosen], lengths)], offsets_of(lengths)


def shared_lengths(tokens: Tokens, offsets: Offsets) -> NDArray[np.int32]:
    """How many leading tokens each sequence has in common with the one before: int32[n]; 0 for the first.

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
    while len(still_equal):  # one step a depth, over the pairs that agree so far
        still_equal = still_equal[shorter[still_equal - 1] > depth]
        same = tokens[offsets[still_equal] + depth] == tokens[offsets[still_equal - 1] + depth]
        still_equal = still_equal[same]
        depth += 1
        shared[still_equal] = depth
    return shared


def frontier_depths(shared: NDArray[np.int32], capacity: int) -> NDArray[np.int32]:
    """For each of n sorted sequences the depth of the deepest node above it that has more than `capacity` of them.

    A node at depth d with more than `capacity` sequences is a window of capacity + 1 neighbours that all share d tokens, so
    the answer is a sliding maximum over sliding minima of `shared`; -1 where not even the root has that many.

    >>> frontier_depths(np.array([0, 3, 3, 0], np.int32), 2).tolist()
    [3, 3, 3, 0]
    """
    count = len(shared)
    if count <= capacity:
        return np.full(count, -1, np.int32)
    window = _sliding(shared[1:], capacity, np.minimum)
    padding = np.full(capacity, -1, np.int32)
    return _sliding(np.concatenate([padding, window, padding]), capacity + 1, np.maximum)


def _sliding(values: NDArray[np.int32], width: int, reduce: np.ufunc) -> NDArray[np.int32]:
    """The minimum or maximum of every window of `width` values, in log2(width) passes (it is idempotent)."""
    done, span = values, 1
    while span * 2 <= width:
        done = reduce(done[:-span], done[span:])
        span *= 2
    if span < width:
        last = len(values) - width + 1
        done = reduce(done[:last], done[width - span : width - span + last])
    return done
