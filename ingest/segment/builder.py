"""The rows of a segment, built from sorted token sequences level by level, each in one pass over its entries.

At every level the large nodes, those with more entries than a piece may hold, are lifted to the level above. Below them
are subtrees that fit, and neighbouring subtrees share a piece until it is full. So pieces are full whatever the
branching, and a walk reads one row a level. `refactx.tree.piece` describes the layout, docs/explanation/tree.md has
its figures.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from refactx.ingest.encoding.encoded import SortedFacts
from refactx.ingest.parallel import in_processes
from refactx.ingest.segment.level_cutter import LevelCutter
from refactx.ingest.segment.levels import Entries, FactEntries, SpilledEntries
from refactx.ingest.segment.packing import DEFAULT_SHAPE, KeyedRow, Packing, Shape, packed
from refactx.ingest.segment.ranges import CutRange, cut_bounds, joined, ranges_of

RANGE = 1_000_000
"""The most facts of a range: the few pieces that are cut twice are under 1% of it."""

LEAST_IN_PROCESSES = 500_000
"""With fewer facts, processes take longer to start than they save."""


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
                    yield from self._parts(self._cut_in_processes(entries), above)
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

    def _cut_in_processes(self, facts: Entries) -> Iterator[CutRange]:
        """Cut the facts, of which there are more than a piece holds."""
        ranges = ranges_of(len(facts), min(RANGE, -(-len(facts) // self._workers)))
        cut = in_processes(cut_bounds, (facts, self._packing, self._shape), ranges, self._workers)
        return joined(cut, facts, self._packing, self._shape)

    def _parts(self, parts: Iterable[CutRange], above: SpilledEntries) -> Iterator[KeyedRow]:
        for part in parts:
            above.append(part.lifted)
            yield from part.rows
            self._advance(part.stop - part.start)
