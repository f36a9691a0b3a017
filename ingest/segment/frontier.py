"""The large nodes of a level: for each entry, the depth of the deepest node above it that needs more than a piece."""

import numpy as np
from numpy.typing import NDArray


def frontier_depths(shared: NDArray[np.int32], capacity: int) -> NDArray[np.int32]:
    """Return the depth of the deepest node above each of n sorted sequences that has more than `capacity` of them.

    `shared` (int32[n]): how many leading tokens each has in common with the one before. A node at depth d with more
    than `capacity` sequences is a window of capacity + 1 neighbours that all share d tokens, so the result (int32[n])
    is a sliding maximum over sliding minima of `shared`; -1 if not even the root has that many.

    >>> frontier_depths(np.array([0, 3, 3, 0], np.int32), 2).tolist()
    [3, 3, 3, 0]
    """
    count = len(shared)
    if count <= capacity:
        return np.full(count, -1, np.int32)
    window = _reduce_windows(shared[1:], capacity, np.minimum)
    padding = np.full(capacity, -1, np.int32)
    return _reduce_windows(np.concatenate([padding, window, padding]), capacity + 1, np.maximum)


def _reduce_windows(values: NDArray[np.int32], width: int, reduce: np.ufunc) -> NDArray[np.int32]:
    """Return the minimum or maximum of every window of `width` values, in log2(width) passes (`reduce` is
    idempotent)."""
    done, span = values, 1
    while span * 2 <= width:
        done = reduce(done[:-span], done[span:])
        span *= 2
    if span < width:
        last = len(values) - width + 1
        done = reduce(done[:last], done[width - span : width - span + last])
    return done
