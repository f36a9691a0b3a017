"""Lists of different lengths laid end to end: where each begins, and the positions of some of them."""

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]


def ragged(starts: Offsets, lengths: Offsets) -> Offsets:
    """The positions `starts[i] .. starts[i] + lengths[i] - 1` for every i, one after another.

    >>> ragged(np.array([10, 50]), np.array([2, 3])).tolist()
    [10, 11, 50, 51, 52]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def offsets_of(lengths: Offsets) -> Offsets:
    """Where each of some sequences begins when they are laid end to end, and where the last one ends.

    >>> offsets_of(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
