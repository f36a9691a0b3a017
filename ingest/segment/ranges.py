"""Level 0 of the tree cut in ranges, each by itself, with the pieces of one cutter that goes through all facts.

Where a piece begins decides where the next one does: the beginnings of a cutter's pieces are a chain. Chains that begin
elsewhere meet soon, since a new subtree that does not fit begins a piece in both, and are one from there on. So a range
is cut from its first subtree, in any process, and `joined` replaces the few pieces before its chain meets the true one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from refactx.ingest.segment.frontier import frontier_depths
from refactx.ingest.segment.level_cutter import LevelCutter
from refactx.ingest.segment.levels import CollectedEntries, Entries, Lifted
from refactx.ingest.segment.packing import KeyedRow, Packing, Shape, packed
from refactx.tree.arrays import Offsets, shared_lengths

PIECES_UNTIL_CHAINS_MEET = 32
"""How many pieces of the true chain are cut at a time until it meets that of a range: on Wikidata the median is 2."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CutRange:
    """The pieces that begin at facts `start` to `stop` - 1, and perhaps more of the next range's at the end.

    `begins`: int64[n], the facts at which pieces begin; `end`: where the next one does. `rows`: those of the pieces that
    have facts; `rows_before`: int64[n + 1], how many come before each beginning, and before `end`. `lifted`,
    `lifted_before`: likewise the entries of the level above.
    """

    start: int
    stop: int
    begins: Offsets
    end: int
    rows: list[KeyedRow]
    rows_before: Offsets
    lifted: Lifted
    lifted_before: Offsets

    def part(self, low: int, high: int) -> "CutRange":
        """Return what begins at `begins[low]` to `begins[high - 1]`."""
        rows, lifted = self.rows_before, self.lifted_before
        ends = np.append(self.begins, self.end)
        return CutRange(
            start=int(ends[low]),
            stop=int(ends[high]),
            begins=self.begins[low:high],
            end=int(ends[high]),
            rows=self.rows[rows[low] : rows[high]],
            rows_before=rows[low : high + 1] - rows[low],
            lifted=self.lifted.part(int(lifted[low]), int(lifted[high])),
            lifted_before=lifted[low : high + 1] - lifted[low],
        )


def ranges_of(count: int, size: int) -> list[tuple[int, int]]:
    """Return neighbouring ranges of `count` facts, of at most `size` facts and nearly equal.

    >>> ranges_of(10, 4)
    [(0, 3), (3, 6), (6, 10)]
    """
    parts = max(1, -(-count // size))
    ends = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(ends))


def cut_range(facts: Entries, start: int, stop: int, packing: Packing, shape: Shape) -> CutRange:
    """Return the pieces of a range of facts.

    Its first piece begins at the first subtree at `start` or after it: that is `start` itself if a piece of another range
    ends there. Facts are read from `shape.facts` + 1 before `start` to a few pieces after `stop`.
    """
    begin = _first_subtree(facts, start, shape.facts)
    above = CollectedEntries()
    cutter = LevelCutter(
        level=0,
        entries=facts,
        capacity=shape.facts,
        code_bytes=shape.code_bytes,
        is_root=False,
        codes=packing.codes,
        above=above,
        start=begin,
        stop=stop,
    )
    rows = list[KeyedRow]()
    begins, rows_before, lifted_before = [list[Offsets]() for _ in range(3)]
    lifted = 0
    for batch in cutter.batches():
        begins.append(batch.begins)
        rows_before.append(batch.pieces_before + len(rows))
        lifted_before.append(batch.lifted_before + lifted)
        rows += [packed(packing, piece) for piece in batch.pieces]
        lifted = above.count
    found = CutRange(
        start=start,
        stop=stop,
        begins=_joined(begins),
        end=cutter.done,
        rows=rows,
        rows_before=np.append(_joined(rows_before), len(rows)),
        lifted=above.lifted(),
        lifted_before=np.append(_joined(lifted_before), lifted),
    )
    within = int(np.searchsorted(found.begins, stop))
    return found if within == len(found.begins) else replace(found.part(0, within), start=start, stop=stop)


def cut_bounds(shared: tuple[Entries, Packing, Shape], bounds: tuple[int, int]) -> CutRange:
    """Return the pieces of a range, as `cut_range`, of facts with their packing and shape."""
    facts, packing, shape = shared
    return cut_range(facts, *bounds, packing, shape)


def joined(ranges: Iterable[CutRange], facts: Entries, packing: Packing, shape: Shape) -> Iterator[CutRange]:
    """Yield the pieces of one cutter that goes through all facts, from those of neighbouring ranges, in order."""
    at = 0
    for one in ranges:
        while at < one.stop:
            place = int(np.searchsorted(one.begins, at))
            if place < len(one.begins) and one.begins[place] == at:
                part = one.part(place, len(one.begins))
            else:
                true = cut_range(facts, at, min(one.stop, at + PIECES_UNTIL_CHAINS_MEET * shape.facts), packing, shape)
                meet = np.flatnonzero(np.isin(true.begins, one.begins))
                part = true.part(0, int(meet[0])) if len(meet) else true
            yield part
            at = part.end


def _first_subtree(facts: Entries, start: int, capacity: int) -> int:
    """Return the first fact at `start` or after it at which a subtree that fits into a piece begins, or a lifted fact."""
    if start == 0:
        return 0
    # A subtree that fits has at most `capacity` facts, and as many on either side show whether a node is large.
    low, high = max(0, start - capacity - 1), min(len(facts), start + 2 * capacity + 2)
    batch = facts.read(low, high)
    shared = shared_lengths(batch.tokens, batch.offsets)
    begins = np.flatnonzero((shared <= frontier_depths(shared, capacity))[start - low :])
    return start + int(begins[0]) if len(begins) else len(facts)


def _joined(arrays: list[Offsets]) -> Offsets:
    return np.concatenate([np.empty(0, np.int64), *arrays])
