"""The scan of an index for facts that end in certain parts, which no prefix leads to: some 700,000 facts a second."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from refactx.index.index import token_sequences
from refactx.query.tree_walks import Segments
from refactx.tree.bulk import surviving
from refactx.tree.tree import Path

AT_ONCE = 8192
"""Facts that are decoded one by one between two checks whether to continue."""


def begins_of(segments: Segments, ends: Sequence[Path], lasts: Callable[[], bool]) -> Iterator[tuple[Path, int]]:
    """Yield the token ids before one of some ends, and the number of that end, for each fact that has it.

    No end may be the end of another one. The scan stops if `lasts`, which is called now and then, returns False. Raises
    as `refactx.tree.bulk.surviving` does.
    """
    wanted = [np.array(end, np.uint32) + np.uint32(1) for end in ends]  # as entry matrices have token ids
    for matrix in surviving(segments):
        lengths = (matrix > 0).sum(1)
        for number, end in enumerate(wanted):
            rows = np.flatnonzero(lengths > len(end))
            for back, token in enumerate(end[::-1], 1):
                rows = rows[matrix[rows, lengths[rows] - back] == token]
                if not len(rows):
                    break
            for row, length in zip(rows.tolist(), (lengths[rows] - len(end)).tolist(), strict=True):
                yield tuple((matrix[row, :length].astype(np.int64) - 1).tolist()), number
        if not lasts():
            return


def sequences(segments: Segments, lasts: Callable[[], bool]) -> Iterator[Path]:
    """Yield the token ids of every fact, in order; stop if `lasts` returns False. Raises as `begins_of` does."""
    for number, tokens in enumerate(token_sequences(segments), 1):
        yield tokens
        if number % AT_ONCE == 0 and not lasts():
            return
