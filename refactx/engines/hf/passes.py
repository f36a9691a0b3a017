"""The ids of one forward pass over many sequences and trees, and what to read in one pass or in several."""

from collections.abc import Sequence

import numpy as np

from refactx.engines.hf.cells import Places
from refactx.engines.scheduler import PASS_IDS


class PackedPass:
    """What a pass reads: ids with their positions, the cells that each sees, and whether its logits are wanted."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.seen: list[tuple[int, int, Places]] = []  # rows [first, stop) see these cells
        self.wanted: list[int] = []

    def add(self, ids: Sequence[int], position: int, sees: Places, last: int) -> int:
        """Add ids that follow one another, of which the `last` ones want logits. Return the row of the first one."""
        first = len(self.ids)
        self.ids += ids
        self.positions += range(position, position + len(ids))
        self.seen.append((first, first + len(ids), sees))
        self.wanted += range(first + len(ids) - last, first + len(ids))
        return first


def divide(wants: Sequence[tuple[int, Places]], seen_an_id: int) -> list[list[int]]:
    """Return the numbers of what each forward pass reads, so that all passes together take little time.

    `wants`: how many ids are read, and the cells that they see. Each id of a pass attends to the cells of all others, so
    a pass of `n` ids that see `m` cells takes the time of `PASS_IDS + n * (1 + m / seen_an_id)` ids without attention.
    `seen_an_id`: how many seen cells take as long as the rest of an id: some 6 times the hidden size `h`, since a layer
    takes 24 h² operations for an id, and 4 h for a cell that it sees (Hoffmann et al., arXiv 2203.15556, appendix F).

    >>> some, others = np.arange(100), np.arange(500, 9000)
    >>> divide([(1, some), (1, some), (200, others)], 1000)
    [[0, 1], [2]]
    """

    def time(ids: int, cells: Places) -> float:
        return PASS_IDS + ids * (1 + (len(cells) + ids) / seen_an_id)

    groups: list[tuple[int, Places, list[int]]] = []
    for number, (ids, cells) in enumerate(wants):
        if groups:
            before, seen, group = groups[-1]
            union = np.union1d(seen, cells)
            if time(before + ids, union) <= time(before, seen) + time(ids, cells):
                groups[-1] = (before + ids, union, [*group, number])
                continue
        groups.append((ids, cells, [number]))
    return [group for _, _, group in groups]
