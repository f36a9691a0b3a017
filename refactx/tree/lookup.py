"""The lookup of many sequences in a segment at once, piece by piece.

It reads each row once. Entries above level 0 are written out as a matrix (`refactx.tree.matrix`), facts are searched
as they are stored (`refactx.tree.piece_search`). A million facts take about a second; a walk by `children` takes ten
microseconds a token.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refactx.tree.arrays import Offsets, offsets_of
from refactx.tree.children import Tokens
from refactx.tree.matrix import EntryMatrix, keys, matrices, row_keys, to_matrix
from refactx.tree.piece import NEW_PIECE, TERMINAL, Piece
from refactx.tree.piece_search import Targets, search
from refactx.tree.stored import StoredTree

AHEAD = 256
"""Rows that are read in one round trip and searched together: some 8 MB."""


def contained(tree: StoredTree, tokens: Tokens, offsets: Offsets) -> NDArray[np.bool_]:
    """Return which of n distinct, ascending sequences are facts of a segment: bool[n].

    `tokens`: int32, those of all sequences; `offsets`: int64[n + 1], where each begins.
    """
    found = np.zeros(len(offsets) - 1, np.bool_)
    if len(found):
        targets, below = Targets(to_matrix(tokens, offsets), np.diff(offsets)), _Below([], [], [])
        _look_up(tree, tree.root_key, targets, np.arange(len(found)), found, below)
        below.search(tree, targets, found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Below:
    """The lookups that are left for pieces of facts: their `keys`, the targets of each, and how many each has."""

    keys: list[bytes]
    targets: list[Offsets]
    counts: list[Offsets]

    def search(self, tree: StoredTree, targets: Targets, found: NDArray[np.bool_]) -> None:
        """Set `found` for the targets that are facts.

        It takes `AHEAD` pieces at a time, whatever pieces are above them, since fewer take as long.
        """
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
    """Set `found` for those targets of `which` that are facts below the piece under a key.

    Lookups in pieces of facts are added to `left`, in ascending order.
    """
    piece = tree.piece(key)
    entry = np.full(len(which), -1)
    begun: list[bytes] = []  # the keys of the lower pieces that begin here
    for start, matrix in _written(tree, key, piece):
        # The last entry that does not come after the target is, at level 0, the only one that can equal it; above, the
        # only one with which it can begin. (To compare as many tokens of a target as the matrix is wide is enough: a
        # sequence that begins with an entry comes after it.)
        width = matrix.shape[1]
        wanted = targets.matrix[:, : width + 1][which]
        at = np.searchsorted(keys(matrix), keys(wanted[:, :width]), "right") - 1
        reached = np.flatnonzero(at >= 0)
        at = at[reached]
        must_end = np.True_ if piece.level == 0 else piece.kinds[start + at] == TERMINAL
        entry[reached] = np.where(_matches(matrix[at], wanted[reached], must_end), start + at, -1)
        if piece.level:
            begun += row_keys(piece.level - 1, matrix[piece.kinds[start : start + len(matrix)] == NEW_PIECE])
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


def _matches(entries: EntryMatrix, targets: EntryMatrix, must_end: NDArray[np.bool_] | np.bool_) -> NDArray[np.bool_]:
    """Return, row by row, whether a target begins with an entry, and equals it if `must_end`."""
    width = entries.shape[1]
    same = np.zeros(entries.shape, np.uint32)
    shared = min(width, targets.shape[1])
    same[:, :shared] = targets[:, :shared]
    longer = targets[:, width] > 0 if targets.shape[1] > width else np.False_
    whole = (entries == same).all(1) & ~longer
    begun: NDArray[np.bool_] = ((entries == same) | (entries == 0)).all(1)
    return np.where(must_end, whole, begun)


def _written(tree: StoredTree, key: bytes, piece: Piece) -> Iterator[tuple[int, EntryMatrix]]:
    """Yield the matrices of a piece. Raise CorruptIndexError, which names the row, if it is damaged."""
    try:
        yield from matrices(piece, tree.codes)
    except (ValueError, IndexError) as error:
        raise tree.damaged(key, str(error)) from error


def _check_below(tree: StoredTree, key: bytes, piece: Piece, below: list[bytes]) -> None:
    level = bytes([piece.level - 1])
    if any(one[:1] != level for one in below):
        raise tree.damaged(key, "it refers to a row that is not of the level below")
