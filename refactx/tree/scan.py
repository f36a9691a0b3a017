"""The scan of all facts of an index: its segments merged in one pass, each fact with its signed sum.

Every segment is read in ascending order, a matrix at a time (`refactx.tree.matrix`). Facts that no segment can add to
any more are summed and yielded, so memory holds one matrix for each segment, whatever their sizes.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.lookup import AHEAD, _check_below, _written
from refactx.tree.matrix import CELLS, EntryMatrix, keys, row_keys
from refactx.tree.piece import NEW_PIECE, SAME_PIECE, TERMINAL
from refactx.tree.stored import StoredTree

_ROWS = 8192


def surviving(segments: Sequence[tuple[int, StoredTree]]) -> Iterator[EntryMatrix]:
    """Yield the facts whose signed sum over the segments is 1, ascending, as matrices of any size, never empty.

    Raises CorruptIndexError if a sum is neither 0 nor 1.
    """
    return (matrix for _, matrix in _merged(segments, least=0))


def changed(segments: Sequence[tuple[int, StoredTree]]) -> Iterator[tuple[int, EntryMatrix]]:
    """Yield the facts whose signed sum over some segments of an index is 1 or -1: what these segments add to the others
    and what they take away. The sums are yielded with matrices of any size, never empty, each sum's facts ascending.

    Raises CorruptIndexError if a sum is none of -1, 0 and 1.
    """
    return _merged(segments, least=-1)


def _merged(segments: Sequence[tuple[int, StoredTree]], least: int) -> Iterator[tuple[int, EntryMatrix]]:
    streams = [_Stream(sign, _gathered(fact_matrices(tree)), tree.name) for sign, tree in segments]
    streams = [stream for stream in streams if stream.more()]
    while streams:
        horizon = min(stream.keys[-1] for stream in streams)  # the next facts of every stream are known up to here
        yield from _summed([(stream.sign, stream.take(horizon)) for stream in streams], streams[0].name, least)
        streams = [stream for stream in streams if stream.more()]


class _Stream:
    """The facts of a segment; `matrix` has the next ones."""

    def __init__(self, sign: int, matrices: Iterator[EntryMatrix], name: str) -> None:
        self.sign, self.name, self._matrices = sign, name, matrices
        self.matrix: EntryMatrix = np.zeros((0, 1), np.uint32)
        self.keys: NDArray[np.bytes_] = keys(self.matrix)

    def more(self) -> bool:
        """Return whether any facts are left; if so, `matrix` is not empty."""
        while not len(self.matrix):
            following = next(self._matrices, None)
            if following is None:
                return False
            self.matrix, self.keys = following, keys(following)
        return True

    def take(self, horizon: np.bytes_) -> EntryMatrix:
        """Remove and return the facts up to `horizon`."""
        count = int(np.searchsorted(self.keys, horizon, "right"))
        taken, self.matrix, self.keys = self.matrix[:count], self.matrix[count:], self.keys[count:]
        return taken


def _summed(parts: list[tuple[int, EntryMatrix]], name: str, least: int) -> Iterator[tuple[int, EntryMatrix]]:
    """Yield the facts of each signed sum but 0 as one matrix. Raise CorruptIndexError for sums below `least` or above
    1."""
    parts = [(sign, matrix) for sign, matrix in parts if len(matrix)]
    if len(parts) == 1 and parts[0][0] >= least:
        yield parts[0]
        return
    rows = _stacked([matrix for _, matrix in parts])
    signs = np.repeat([sign for sign, _ in parts], [len(matrix) for _, matrix in parts])
    row_keys = keys(rows)
    order = np.argsort(row_keys, kind="stable")
    row_keys = row_keys[order]
    starts = np.flatnonzero(np.append(True, row_keys[1:] != row_keys[:-1]))
    sums = np.add.reduceat(signs[order], starts)
    wrong = np.flatnonzero((sums < least) | (sums > 1))
    if len(wrong):
        row = rows[order[starts[wrong[0]]]]
        fact = (row[row > 0].astype(np.int64) - 1).tolist()
        raise CorruptIndexError(
            f"index {name!r} has the fact with the token ids {fact} {sums[wrong[0]]} times, not once or never. "
            "Ingest the index again"
        )
    for sign in (1, -1):
        if (sums == sign).any():
            yield sign, rows[order[starts[sums == sign]]]


def _gathered(matrices: Iterator[EntryMatrix]) -> Iterator[EntryMatrix]:
    """Yield the same rows in larger matrices: sorting and comparing take as long for ten rows as for a thousand."""
    waiting: list[EntryMatrix] = []
    count = width = 0
    for matrix in matrices:
        wider = max(width, matrix.shape[1])
        if waiting and (count + len(matrix) > _ROWS or (count + len(matrix)) * wider > CELLS):
            yield _stacked(waiting)
            waiting, count, wider = [], 0, matrix.shape[1]
        waiting.append(matrix)
        count, width = count + len(matrix), wider
    if waiting:
        yield _stacked(waiting)


def _stacked(matrices: list[EntryMatrix]) -> EntryMatrix:
    """Return matrices one below the other, as wide as the widest."""
    if len(matrices) == 1:
        return matrices[0]
    stacked = np.zeros((sum(map(len, matrices)), max(matrix.shape[1] for matrix in matrices)), np.uint32)
    at = 0
    for matrix in matrices:
        stacked[at : at + len(matrix), : matrix.shape[1]] = matrix
        at += len(matrix)
    return stacked


def fact_matrices(tree: StoredTree) -> Iterator[EntryMatrix]:
    """Yield the facts of a segment in ascending order, as matrices of any size.

    Raises CorruptIndexError if the levels contradict each other, or the number of facts in the catalogue.
    """
    count = 0
    for matrix in _under(tree, tree.root_key, 0, len(tree.piece(tree.root_key))):
        count += len(matrix)
        yield matrix
    if count != tree.facts:
        raise CorruptIndexError(
            f"index {tree.name!r}: a segment has {count:,} facts, {tree.facts:,} in the catalogue. Ingest the index again"
        )


def _under(tree: StoredTree, key: bytes, low: int, high: int) -> Iterator[EntryMatrix]:
    """Yield the facts under entries [low, high) of the piece under a key."""
    piece = tree.piece(key)
    if high > len(piece):
        raise tree.damaged(key, f"entry {high - 1} is missing")
    open_key, done = piece.carried_key, piece.carried_items
    for start, matrix in _written(tree, key, piece):
        first, last = max(low, start) - start, min(high, start + len(matrix)) - start
        if piece.level == 0:
            if first < last:
                yield matrix[first:last]
            continue
        kinds = piece.kinds[start : start + len(matrix)]
        items = np.append(0, np.cumsum(piece.items[start : start + len(matrix)], dtype=np.int64))
        begun = row_keys(piece.level - 1, matrix[kinds == NEW_PIECE])
        begins = 0
        bounds = np.unique(np.concatenate([[0], np.flatnonzero(kinds != SAME_PIECE), [len(matrix)]])).tolist()
        for begin, end in pairwise(bounds):
            if kinds[begin] == NEW_PIECE:
                if begins % AHEAD == 0:
                    tree.load(begun[begins : begins + AHEAD])
                open_key, done, begins = begun[begins], 0, begins + 1
            inside_low, inside_high = max(begin, first), min(end, last)
            if inside_low < inside_high:
                if inside_low == begin and kinds[begin] == TERMINAL:
                    yield matrix[begin : begin + 1]
                skipped, taken = int(items[inside_low] - items[begin]), int(items[inside_high] - items[inside_low])
                if taken:
                    _check_below(tree, key, piece, [open_key])
                    yield from _under(tree, open_key, done + skipped, done + skipped + taken)
            done += int(items[end] - items[begin])
