"""The facts of an index: its segments merged in one pass, each fact with its signed sum.

Every segment comes in ascending order, a block at a time (`refactx.tree.lookup`). What no segment can add to any more is
summed up and given out, so memory holds one block a segment, however large they are.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.lookup import fact_blocks
from refactx.tree.matrix import CELLS, Block, keys
from refactx.tree.stored import StoredTree

_ROWS = 8192


def surviving(segments: Sequence[tuple[int, StoredTree]]) -> Iterator[Block]:
    """The facts whose signed sum over the segments is 1, ascending, as blocks of any size, never empty.

    Raises CorruptIndexError where a sum is neither 0 nor 1.
    """
    streams = [_Stream(sign, _gathered(fact_blocks(tree)), tree.name) for sign, tree in segments]
    streams = [stream for stream in streams if stream.more()]
    while streams:
        horizon = min(stream.keys[-1] for stream in streams)  # every stream is known up to here
        yield from _summed([(stream.sign, stream.take(horizon)) for stream in streams], streams[0].name)
        streams = [stream for stream in streams if stream.more()]


class _Stream:
    """A segment's facts, of which the next ones are in `block`."""

    def __init__(self, sign: int, blocks: Iterator[Block], name: str) -> None:
        self.sign, self.name, self._blocks = sign, name, blocks
        self.block: Block = np.zeros((0, 1), np.uint32)
        self.keys: NDArray[np.bytes_] = keys(self.block)

    def more(self) -> bool:
        """Whether there is anything left; then `block` has some of it."""
        while not len(self.block):
            following = next(self._blocks, None)
            if following is None:
                return False
            self.block, self.keys = following, keys(following)
        return True

    def take(self, horizon: np.bytes_) -> Block:
        """The facts up to `horizon`."""
        count = int(np.searchsorted(self.keys, horizon, "right"))
        taken, self.block, self.keys = self.block[:count], self.block[count:], self.keys[count:]
        return taken


def _summed(parts: list[tuple[int, Block]], name: str) -> Iterator[Block]:
    parts = [(sign, block) for sign, block in parts if len(block)]
    if len(parts) == 1 and parts[0][0] > 0:
        yield parts[0][1]
        return
    rows = _stacked([block for _, block in parts])
    signs = np.repeat([sign for sign, _ in parts], [len(block) for _, block in parts])
    row_keys = keys(rows)
    order = np.argsort(row_keys, kind="stable")
    row_keys = row_keys[order]
    starts = np.flatnonzero(np.append(True, row_keys[1:] != row_keys[:-1]))
    sums = np.add.reduceat(signs[order], starts)
    wrong = np.flatnonzero((sums < 0) | (sums > 1))
    if len(wrong):
        row = rows[order[starts[wrong[0]]]]
        fact = (row[row > 0].astype(np.int64) - 1).tolist()
        raise CorruptIndexError(
            f"index {name!r} has the fact {fact} {sums[wrong[0]]} times, not once or never. Ingest the index again"
        )
    if (sums == 1).any():
        yield rows[order[starts[sums == 1]]]


def _gathered(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same rows in larger blocks: sorting and comparing cost as much for ten rows as for a thousand."""
    waiting: list[Block] = []
    count = width = 0
    for block in blocks:
        wider = max(width, block.shape[1])
        if waiting and (count + len(block) > _ROWS or (count + len(block)) * wider > CELLS):
            yield _stacked(waiting)
            waiting, count, wider = [], 0, block.shape[1]
        waiting.append(block)
        count, width = count + len(block), wider
    if waiting:
        yield _stacked(waiting)


def _stacked(blocks: list[Block]) -> Block:
    """Blocks one below the other, as wide as the widest."""
    if len(blocks) == 1:
        return blocks[0]
    stacked = np.zeros((sum(map(len, blocks)), max(block.shape[1] for block in blocks)), np.uint32)
    at = 0
    for block in blocks:
        stacked[at : at + len(block), : block.shape[1]] = block
        at += len(block)
    return stacked
