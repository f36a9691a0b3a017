"""The cut of sorted facts on a cluster: tasks cut the runs that they read, and the driver what lies between runs.

A task reads facts of a part in order, from some place to another, and cuts what has neighbours enough on either side. It
also hands over the facts at both ends of its run. The driver cuts these, and follows the true chain of pieces into the
run until the two meet (`refactx.ingest.segment.ranges`), so the pieces are those of one machine, however a cluster
divides the facts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from refactx.ingest.cluster.cut_rows import PlainFacts, dump_facts, dump_range, gap, load_facts, load_range
from refactx.ingest.cluster.facts import PlacedFacts
from refactx.ingest.cluster.runs import Run, RunTooShortError
from refactx.ingest.cluster.sorting import SortedParts
from refactx.ingest.cluster.versions import Versions, check_versions, versions_here
from refactx.ingest.segment.levels import EntryBatch
from refactx.ingest.segment.packing import Packing, Shape
from refactx.ingest.segment.ranges import PIECES_UNTIL_CHAINS_MEET, CutRange, cut_range, joined
from refactx.tree.arrays import offsets_of

RANGE = 1 << 17
"""The facts that a task cuts at a time: 1.6 MB of rows."""

CutRow = tuple[int, int, int, bytes]
"""What a task writes: part, first place in it, kind, and data (`refactx.ingest.cluster.cut_rows`)."""

_FACTS, _RANGE = 0, 1
"""The kinds of rows that tasks write: facts as they are come before a range that begins at the same place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTask:
    """What all tasks that cut share: how rows are packed, the shape of pieces, and how many facts are cut at a time."""

    packing: Packing
    shape: Shape
    facts_at_a_time: int = RANGE
    driver: Versions = field(default_factory=versions_here)


def cut_runs(spark: Any, facts: SortedParts, task: CutTask, folder: str) -> None:
    """Cut sorted facts, and write what the driver needs of each run to a folder."""
    rows = spark.read.parquet(facts.folder).select("part", "at", "ids")
    cut = rows.mapInArrow(partial(cut_task, task), "part INT, at BIGINT, kind INT, data BINARY")
    cut.write.mode("overwrite").parquet(folder)


def cut_rows(spark: Any, folder: str) -> Iterator[CutRow]:
    """Yield what tasks wrote, in order."""
    ordered = spark.read.parquet(folder).orderBy("part", "at", "kind")
    return (tuple(row) for row in ordered.toLocalIterator(prefetchPartitions=True))


def pieces_of(rows: Iterable[CutRow], facts: PlacedFacts, task: CutTask) -> Iterator[CutRange]:
    """Yield all pieces of the facts in order, from what tasks wrote: those of one cutter that goes through all facts."""
    held = _HeldFacts(facts, 2 * task.shape.facts)
    return joined(_ranges(rows, facts, held), held, task.packing, task.shape)


def _ranges(rows: Iterable[CutRow], facts: PlacedFacts, held: "_HeldFacts") -> Iterator[CutRange]:
    """Yield neighbouring ranges that cover all facts: those that tasks cut, and the gaps between them."""
    covered = 0
    for part, _, kind, data in rows:
        shift = facts.start_of(part)
        if kind == _FACTS:
            held.add(load_facts(data, shift))
            continue
        cut = load_range(data, shift)
        if covered < cut.start:
            yield gap(covered, cut.start)
        yield cut
        covered = cut.stop
        held.forget(covered)
    if covered < len(facts):
        yield gap(covered, len(facts))


def cut_task(task: CutTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows for the driver of each run in a task's facts (`part, at, ids`)."""
    check_versions(task.driver)
    for part, start, keys in _runs(batches):
        for at, kind, data in _cut_run(Run(start, keys), task):
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array([part], pa.int32()),
                    "at": pa.array([at], pa.int64()),
                    "kind": pa.array([kind], pa.int32()),
                    "data": pa.array([data], pa.binary()),
                }
            )


def _cut_run(run: Run, task: CutTask) -> Iterator[tuple[int, int, bytes]]:
    """Yield place, kind and bytes of the rows for one run."""
    capacity, size = task.shape.facts, task.facts_at_a_time
    margin = capacity + 1  # facts on either side show whether a node is large
    ahead = 6 * capacity  # that a cutter reads behind the last piece
    head = margin + ahead + PIECES_UNTIL_CHAINS_MEET * capacity + ahead
    run.reaches(run.start + head)
    yield run.start, _FACTS, dump_facts(PlainFacts(run.start, *run.facts(run.start, min(run.end, run.start + head))))
    at, last = run.start + margin, False
    while not last:
        last = not run.reaches(at + size + ahead)
        stop = min(at + size, run.end - ahead)
        if stop <= at:
            break
        try:
            cut = cut_range(run, at, stop, task.packing, task.shape)
        except RunTooShortError:
            break
        yield at, _RANGE, dump_range(replace(cut, stop=cut.end))
        at = cut.end
        run.forget(at - margin)
    run.reaches(1 << 60)
    tail = max(run.start, at - margin)
    yield tail, _FACTS, dump_facts(PlainFacts(tail, *run.facts(tail, run.end)))


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, Iterator[pa.Array]]]:
    """Yield part, first place and keys of each run of neighbouring facts. A run must be read before the next is asked
    for."""
    pieces = chain.from_iterable(map(_neighbours, batches))
    ahead = next(pieces, None)

    def keys(part: int, at: int) -> Iterator[pa.Array]:
        nonlocal ahead
        while ahead is not None and ahead[:2] == (part, at):
            values = ahead[2]
            at += len(values)
            ahead = next(pieces, None)
            yield values

    while ahead is not None:
        part, at, _ = ahead
        yield part, at, keys(part, at)


def _neighbours(batch: pa.RecordBatch) -> Iterator[tuple[int, int, pa.Array]]:
    """Yield part, first place and keys of each stretch of neighbouring facts in a batch."""
    parts, places = batch["part"].to_numpy(), batch["at"].to_numpy()
    begins = np.flatnonzero((np.diff(parts, prepend=-1) != 0) | (np.diff(places, prepend=-2) != 1))
    for low, high in zip(begins.tolist(), [*begins[1:].tolist(), len(parts)], strict=False):
        yield int(parts[low]), int(places[low]), batch["ids"][low:high]


class _HeldFacts:
    """Entries of level 0 for the driver: facts that tasks handed over, and others from the cluster.

    `behind`: how many facts before a place may still be read when all before it is cut.
    """

    def __init__(self, facts: PlacedFacts, behind: int) -> None:
        self._facts, self._behind = facts, behind
        self._held: list[PlainFacts] = []

    def __len__(self) -> int:
        return len(self._facts)

    def add(self, facts: PlainFacts) -> None:
        """Hold facts, which come after those that are held."""
        self._held.append(facts)

    def forget(self, low: int) -> None:
        """Give up facts that end well before `low`."""
        self._held = [one for one in self._held if one.high > low - self._behind]

    def read(self, low: int, high: int) -> EntryBatch:
        tokens, offsets = self._find(low, high) or self._facts.read_tokens(low, high)
        ones = np.ones(high - low, np.int64)
        return EntryBatch(tokens=tokens, offsets=offsets, kinds=np.zeros(high - low, np.uint8), leaves=ones, items=ones)

    def _find(self, low: int, high: int) -> Any:
        """Return facts low to high - 1 from those that are held; None if some are not."""
        tokens, lengths, at = [], [], low
        for one in self._held:
            if one.low <= at < one.high:
                until = min(high, one.high)
                offsets = one.offsets[at - one.low : until - one.low + 1]
                tokens.append(one.tokens[offsets[0] : offsets[-1]])
                lengths.append(np.diff(offsets))
                at = until
            if at == high:
                return np.concatenate(tokens), offsets_of(np.concatenate(lengths))
        return None
