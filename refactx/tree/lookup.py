"""All facts of a segment in ascending order, and which of some sequences are among them: a piece at a time.

Both read each row once and write its entries out as a matrix (`refactx.tree.matrix`), the second only above the facts
(`refactx.tree.piece_search`): a million facts in about a second, where a walk by `children` takes ten microseconds a token.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.children import Tokens
from refactx.tree.matrix import Block, blocks, keys, row_keys, to_block
from refactx.tree.piece import NEW_PIECE, SAME_PIECE, TERMINAL, Piece
from refactx.tree.piece_search import Targets, search
from refactx.tree.ragged import Offsets, offsets_of
from refactx.tree.stored import StoredTree

AHEAD = 256
"""Rows read in one round trip, and searched together: some 8 MB."""


def fact_blocks(tree: StoredTree) -> Iterator[Block]:
    """The facts of a segment in ascending order, as blocks of any size.

    Raises CorruptIndexError if the levels contradict each other or the count of the catalogue.
    """
    count = 0
    for block in _under(tree, tree.root_key, 0, len(tree.piece(tree.root_key))):
        count += len(block)
        yield block
    if count != tree.facts:
        raise CorruptIndexError(
            f"index {tree.name!r}: {count:,} facts were read of a segment of {tree.facts:,}. Ingest the index again"
        )


def _under(tree: StoredTree, key: bytes, low: int, high: int) -> Iterator[Block]:
    """The facts under entries [low, high) of the piece under a key."""
    piece = tree.piece(key)
    if high > len(piece):
        raise tree.damaged(key, f"entry {high - 1} is missing")
    open_key, done = piece.carried_key, piece.carried_items
    for start, block in _written(tree, key, piece):
        first, last = max(low, start) - start, min(high, start + len(block)) - start
        if piece.level == 0:
            if first < last:
                yield block[first:last]
            continue
        kinds = piece.kinds[start : start + len(block)]
        items = np.append(0, np.cumsum(piece.items[start : start + len(block)], dtype=np.int64))
        begun = row_keys(piece.level - 1, block[kinds == NEW_PIECE])
        begins = 0
        bounds = np.unique(np.concatenate([[0], np.flatnonzero(kinds != SAME_PIECE), [len(block)]])).tolist()
        for begin, end in pairwise(bounds):
            if kinds[begin] == NEW_PIECE:
                if begins % AHEAD == 0:
                    tree.load(begun[begins : begins + AHEAD])
                open_key, done, begins = begun[begins], 0, begins + 1
            inside_low, inside_high = max(begin, first), min(end, last)
            if inside_low < inside_high:
                if inside_low == begin and kinds[begin] == TERMINAL:
                    yield block[begin : begin + 1]
                skipped, taken = int(items[inside_low] - items[begin]), int(items[inside_high] - items[inside_low])
                if taken:
                    _check_below(tree, key, piece, [open_key])
                    yield from _under(tree, open_key, done + skipped, done + skipped + taken)
            done += int(items[end] - items[begin])


def contained(tree: StoredTree, tokens: Tokens, offsets: Offsets) -> NDArray[np.bool_]:
    """Which of some distinct, ascending sequences (`tokens` int32, `offsets` int64[n + 1]) are facts of a segment: bool[n]."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    if len(found):
        targets, below = Targets(to_block(tokens, offsets), np.diff(offsets)), _Below([], [], [])
        _look_up(tree, tree.root_key, targets, np.arange(len(found)), found, below)
        below.search(tree, targets, found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Below:
    """What is left to look up in pieces of facts: their `keys`, the targets in question, and how many of these in each."""

    keys: list[bytes]
    targets: list[Offsets]
    counts: list[Offsets]

    def search(self, tree: StoredTree, targets: Targets, found: NDArray[np.bool_]) -> None:
        """Set `found` for those that are there. `AHEAD` pieces at once, whatever they hang below: fewer cost as much."""
        if not self.keys:
            return
        which, counts = np.concatenate(self.targets), np.concatenate(self.counts)
        bounds = offsets_of(counts)
        for low in range(0, len(self.keys), AHEAD):
            ahead = self.keys[low : low + AHEAD]
            high = low + len(ahead)
            inside = which[bounds[low] : bounds[high]]
            try:
                found[inside] = search(tree.members(ahead), counts[low:high], targets, inside, tree.codes)
            except (ValueError, IndexError) as error:
                raise tree.damaged(ahead[0], f"it or one of the next {len(ahead)}: {error}") from error


def _look_up(
    tree: StoredTree, key: bytes, targets: Targets, which: Offsets, found: NDArray[np.bool_], left: _Below
) -> None:
    """Set `found` for those of some targets, `which`, that are facts under the piece under a key; what pieces of facts decide
    is added to `left`, in order."""
    piece = tree.piece(key)
    entry = np.full(len(which), -1)
    begun: list[bytes] = []  # the keys of the lower pieces that begin here
    for start, block in _written(tree, key, piece):
        # The last entry that is not behind the target: at level 0 itself; above, what it begins with, if anything is.
        # (Of a target no more is compared than is as wide as the block: what begins with an entry comes behind it.)
        width = block.shape[1]
        wanted = targets.block[:, : width + 1][which]
        at = np.searchsorted(keys(block), keys(wanted[:, :width]), "right") - 1
        reached = np.flatnonzero(at >= 0)
        at = at[reached]
        must_end = np.True_ if piece.level == 0 else piece.kinds[start + at] == TERMINAL
        entry[reached] = np.where(_matches(block[at], wanted[reached], must_end), start + at, -1)
        if piece.level:
            begun += row_keys(piece.level - 1, block[piece.kinds[start : start + len(block)] == NEW_PIECE])
    there = entry >= 0
    which, entry = which[there], entry[there]
    ends_here = np.full(len(entry), True) if piece.level == 0 else piece.kinds[entry] == TERMINAL
    found[which[ends_here]] = True
    which, entry = which[~ends_here], entry[~ends_here]
    if not len(which):
        return
    lower = np.searchsorted(np.flatnonzero(piece.kinds == NEW_PIECE), entry, "right") - 1
    numbers, groups = np.unique(lower, return_index=True)  # ascending, as targets are
    below = [begun[number] if number >= 0 else piece.carried_key for number in numbers.tolist()]
    _check_below(tree, key, piece, below)
    if piece.level == 1:
        left.keys.extend(below)
        left.targets.append(which)
        left.counts.append(np.diff(groups, append=len(which)))
        return
    inside = np.split(which, groups[1:])
    for number, (one, rows) in enumerate(zip(below, inside, strict=True)):
        if number % AHEAD == 0:
            tree.load(below[number : number + AHEAD])
        _look_up(tree, one, targets, rows, found, left)


def _matches(entries: Block, targets: Block, must_end: NDArray[np.bool_] | np.bool_) -> NDArray[np.bool_]:
    """Row by row, whether a target begins with an entry and, where it must, ends with it too."""
    width = entries.shape[1]
    same = np.zeros(entries.shape, np.uint32)
    shared = min(width, targets.shape[1])
    same[:, :shared] = targets[:, :shared]
    longer = targets[:, width] > 0 if targets.shape[1] > width else np.False_
    whole = (entries == same).all(1) & ~longer
    begun: NDArray[np.bool_] = ((entries == same) | (entries == 0)).all(1)
    return np.where(must_end, whole, begun)


def _written(tree: StoredTree, key: bytes, piece: Piece) -> Iterator[tuple[int, Block]]:
    """`blocks`, with the row named if it is damaged."""
    try:
        yield from blocks(piece, tree.codes)
    except (ValueError, IndexError) as error:
        raise tree.damaged(key, str(error)) from error


def _check_below(tree: StoredTree, key: bytes, piece: Piece, below: list[bytes]) -> None:
    level = bytes([piece.level - 1])
    if any(one[:1] != level for one in below):
        raise tree.damaged(key, "it leads to no row of the level below")
