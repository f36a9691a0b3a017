"""The rows of a segment, built from sorted token sequences level by level, each in one pass over its entries.

At every level the large nodes, those with more entries than a piece may hold, are lifted to the level above. Below them
are subtrees that fit, and neighbouring subtrees share a piece until it is full. So pieces are full whatever the
branching, and a walk reads one row a level. `refactx.tree.piece` describes the layout, docs/explanation/tree.md has
its figures.

Where a piece begins decides where the next one does: the beginnings of a cutter's pieces are a chain. Chains that begin
elsewhere meet soon, since a new subtree that does not fit begins a piece in both, and are one from there on. So a range
is cut from its first subtree, in any process, and `joined` replaces the few pieces before its chain meets the true one.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from refactx.ingest.encoding import EncodedFacts, SortedFacts
from refactx.ingest.parallel import in_processes
from refactx.ingest.segment.cutting import (
    DEFAULT_SHAPE,
    CollectedEntries,
    Entries,
    FactEntries,
    KeyedRow,
    LevelCutter,
    Lifted,
    Packing,
    Shape,
    SpilledEntries,
    frontier_depths,
    learn,
    packed,
)
from refactx.tree.codes import Offsets, RowCodec, shared_lengths, shared_seed

PIECES_UNTIL_CHAINS_MEET = 32
"""How many pieces of the true chain are cut at a time until it meets that of a range: on Wikidata the median is 2."""
RANGE = 1_000_000
"""The most facts of a range: the few pieces that are cut twice are under 1% of it."""
LEAST_IN_PROCESSES = 500_000
"""With fewer facts, processes take longer to start than they save."""
ZSTD_LEVEL = 9
"""Rows are 2% larger than at level 19, and built in half the time (docs/results/benchmarks.md)."""


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


class SegmentBuilder:
    """A builder of the rows of one segment. `levels` is known when `rows` is exhausted.

    `work`: a folder for the entries above the facts. `cut`: the pieces of the facts, if they are cut elsewhere: those of one
    cutter that goes through all facts, in order. `workers`: processes that cut the level of facts, if there are many,
    else threads that pack rows; the rows are the same. `advance` is called with the number of facts that were done since
    the last call.
    """

    def __init__(
        self,
        facts: SortedFacts,
        packing: Packing,
        *,
        work: Path,
        shape: Shape = DEFAULT_SHAPE,
        cut: Iterable[CutRange] | None = None,
        workers: int = 2,
        advance: Callable[[int], object] = lambda done: None,
    ) -> None:
        self._facts, self._packing, self._work, self._shape = facts, packing, work, shape
        self._cut, self._workers, self._advance = cut, workers, advance
        self.levels = 0

    def rows(self) -> Iterator[KeyedRow]:
        """Yield the key and the row of every piece, in the order of the keys."""
        entries: Entries = FactEntries(self._facts)
        with tempfile.TemporaryDirectory(dir=self._work, prefix="levels-") as folder:
            shrinks = True
            while True:
                level, self.levels = self.levels, self.levels + 1
                capacity = self._shape.inner if level else self._shape.facts
                is_root = len(entries) <= max(capacity, self._shape.root if level else 0) or not shrinks
                above = SpilledEntries(Path(folder, str(level + 1)))
                if level == 0 and not is_root and self._cut is not None:
                    yield from self._parts(self._cut, above)
                elif level == 0 and self._workers > 1 and len(entries) >= LEAST_IN_PROCESSES:
                    ranges = ranges_of(len(entries), min(RANGE, -(-len(entries) // self._workers)))
                    shared = entries, self._packing, self._shape
                    cut = in_processes(cut_bounds, shared, ranges, self._workers)
                    yield from self._parts(joined(cut, *shared), above)
                else:
                    yield from self._level(level, entries, capacity, is_root, above)
                above.finish()
                if is_root:
                    return
                shrinks = len(above) < self._shape.worthwhile * len(entries)
                entries = above

    def _level(
        self, level: int, entries: Entries, capacity: int, is_root: bool, above: SpilledEntries
    ) -> Iterator[KeyedRow]:
        cutter = LevelCutter(
            level=level,
            entries=entries,
            capacity=capacity,
            code_bytes=self._shape.code_bytes,
            is_root=is_root,
            codes=self._packing.codes,
            above=above,
        )
        with ThreadPoolExecutor(self._workers) as pool:
            for batch in cutter.batches():
                yield from pool.map(partial(packed, self._packing), batch.pieces)
                if level == 0:
                    self._advance(cutter.take_progress())

    def _parts(self, parts: Iterable[CutRange], above: SpilledEntries) -> Iterator[KeyedRow]:
        for part in parts:
            above.append(part.lifted)
            yield from part.rows
            self._advance(part.stop - part.start)


@dataclass(frozen=True, slots=True)
class Learned:
    """What all rows of a segment share, learnt from its facts.

    `packing`: for building rows. `codes`, `dictionary`: the token numbering and the zstd dictionary as the catalogue
    stores them.
    """

    packing: Packing
    codes: bytes
    dictionary: bytes

    @classmethod
    def of(cls, facts: EncodedFacts) -> "Learned":
        codes, dictionary = learn(facts, ZSTD_LEVEL)
        code_bytes = codes.frequent.astype("<i4").tobytes()
        codec = RowCodec(dictionary, ZSTD_LEVEL, shared_seed(code_bytes, dictionary))
        return cls(Packing(codes, codec), code_bytes, dictionary)
