"""Facts on a cluster: encoded, sorted, and cut into the pieces of an index.

Units are encoded by word and joined to facts, or whole facts if the tokenizer needs that, as on one machine
(`refactx.ingest.encoding`). A sequence is a binary value that sorts like its ids (`as_keys`).

A task reads facts of a part in order, from some place to another, and cuts what has neighbours enough on either side. It
also hands over the facts at both ends of its run. The driver cuts these, and follows the true chain of pieces into the
run until the two meet (`refactx.ingest.segment.builder`), so the pieces are those of one machine, however a cluster
divides the facts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from refactx.ingest.cluster.session import (
    SortedParts,
    Versions,
    check_versions,
    spark_function,
    to_bytes,
    unsorted,
    versions_here,
    write_sorted,
)
from refactx.ingest.encoding import SAMPLE, SortedFacts, encode_units, encode_whole, from_keys, tails, words_join
from refactx.ingest.segment.builder import PIECES_UNTIL_CHAINS_MEET, CutRange, cut_range, joined
from refactx.ingest.segment.cutting import EntryBatch, Lifted, Packing, Shape
from refactx.tokenizer import FactTokenizer
from refactx.tree.codes import Offsets, offsets_of
from refactx.tree.tree import Tokens

_PARTS = "JOIN units s ON s.unit = subject JOIN units p ON p.unit = predicate JOIN units o ON o.unit = object"
_SAMPLE = f"""
SELECT s.text, p.text, {{last}}
FROM (SELECT * FROM facts ORDER BY xxhash64(subject, predicate, object) LIMIT {SAMPLE}) {_PARTS} {{tail}}
"""
_JOINED = f"SELECT DISTINCT concat(s.ids, p.ids, o.ids{{last}}) AS ids FROM facts {_PARTS.replace('units', 'encoded')} {{tail}}"
_TAIL_IDS = {
    "last": ", coalesce(t.ids, CAST('' AS BINARY))",
    "tail": "LEFT JOIN encoded t ON t.unit = tail WHERE tail < 0 OR t.unit IS NOT NULL",
}
_TEXTS = f"SELECT ' <' || s.text || '> <' || p.text || '> <' || {{last}} || '>' AS text FROM facts {_PARTS} {{tail}}"
_FOUND = """
SELECT start + at AS position, ids FROM fact_rows JOIN fact_starts USING (part)
JOIN fact_ranges ON start + at >= low AND start + at < high ORDER BY position
"""
_ENDLESS = 1 << 60
"""The length of a run, for what reads it: the level of facts does not end with a run."""
_NUMBERS = {
    "bounds": pa.int64(),
    "begins": pa.int64(),
    "rows_before": pa.int64(),
    "lifted_before": pa.int64(),
    "tokens": pa.int32(),
    "lengths": pa.int64(),
    "kinds": pa.uint8(),
    "leaves": pa.int64(),
    "items": pa.int64(),
}
_LIFTED = ("tokens", "lengths", "kinds", "leaves", "items")
RANGE = 1 << 17
"""The facts that a task cuts at a time: 1.6 MB of rows."""
_FACTS, _RANGE = 0, 1
"""The kinds of rows that tasks write: facts as they are come before a range that begins at the same place."""


def encode_facts(spark: Any, tokenizer: FactTokenizer, trigger: str, folder: str) -> SortedParts:
    """Write the facts of the views `facts` and `units` as sorted sequences (column `ids`) to a folder.

    Facts that the tokenizer changes are left out. Raises ModelError if it joins the trigger and what follows it.
    """
    shared = versions_here(), tokenizer.serialized
    ends = tails(has_tails="tail" in spark.table("facts").columns)
    if words_join(tokenizer, trigger, [(s, p, o) for s, p, o in spark.sql(_SAMPLE.format(**ends)).collect()]):
        encoded = spark.table("units").mapInArrow(partial(_encode, *shared, None), "unit INT, ids BINARY")
        encoded.write.mode("overwrite").parquet(f"{folder}-units")
        spark.read.parquet(f"{folder}-units").createOrReplaceTempView("encoded")
        facts = spark.sql(_JOINED.format(**(_TAIL_IDS if ends["tail"] else {"last": "", "tail": ""})))
    else:
        facts = spark.sql(_TEXTS.format(**ends)).mapInArrow(partial(_encode, *shared, trigger), "ids BINARY").distinct()
    return write_sorted(spark, facts, "ids", folder)


def count_tokens(spark: Any, facts: SortedParts) -> int:
    """Return how many tokens all facts have."""
    rows = spark.read.parquet(facts.folder).agg(spark_function("sum(length(ids) DIV 4)")).collect()
    return int(rows[0][0] or 0)


@cache
def _tokenizer(serialized: str) -> FactTokenizer:
    """Return a tokenizer, made once in a process of an executor."""
    return FactTokenizer(serialized)


def _encode(
    driver: Versions, serialized: str, trigger: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the ids of texts: of whole facts after a trigger; without one, of units, with their numbers."""
    check_versions(driver)
    for batch in batches:
        if len(batch):
            tokenizer, texts = _tokenizer(serialized), batch["text"]
            keys, kept = encode_units(tokenizer, texts) if trigger is None else encode_whole(tokenizer, trigger, texts)
            columns = {"unit": batch["unit"]} if trigger is None else {}
            yield pa.RecordBatch.from_pydict({**columns, "ids": keys.cast(pa.binary())}).filter(kept)


class PlacedFacts(SortedFacts, Protocol):
    """Sorted facts in parts."""

    def start_of(self, part: int) -> int:
        """Return the position of the first fact of a part."""


class ClusterFacts:
    """Sorted facts (`refactx.ingest.encoding.EncodedFacts`) in the storage of a cluster, each with all its tokens.

    `read_tokens` asks the cluster, which takes a second or so, except for ranges that `keep` has read.
    """

    def __init__(self, spark: Any, parts: SortedParts, tokens: int) -> None:
        self._spark, self._parts, self._tokens = spark, parts, tokens
        self._starts = parts.starts
        self._kept: dict[tuple[int, int], tuple[Tokens, Offsets]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def token_count(self) -> int:
        return self._tokens

    @property
    def parts(self) -> SortedParts:
        """The parts of the sorted table."""
        return self._parts

    def start_of(self, part: int) -> int:
        return self._starts[part]

    def keep(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read ranges of facts (low to high - 1) in one query, in place of those that were kept."""
        wanted = list(ranges)
        self._kept = dict(zip(wanted, self._read(wanted), strict=True))

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        kept = self._kept.get((low, high))
        return self._read([(low, high)])[0] if kept is None else kept

    def _read(self, ranges: list[tuple[int, int]]) -> list[tuple[Tokens, Offsets]]:
        starts = self._starts
        lows, highs = map(list, zip(*ranges, strict=True))
        self._spark.createDataFrame(
            pa.table({"part": list(starts), "start": list(starts.values())})
        ).createOrReplaceTempView("fact_starts")
        self._spark.createDataFrame(pa.table({"low": lows, "high": highs})).createOrReplaceTempView("fact_ranges")
        self._spark.read.parquet(self._parts.folder).createOrReplaceTempView("fact_rows")
        found = self._spark.sql(_FOUND).distinct().toArrow().sort_by("position")
        positions, ids = found["position"].to_numpy(), found["ids"].combine_chunks()
        read = []
        for low, high in ranges:
            at = int(np.searchsorted(positions, low))
            if not np.array_equal(positions[at : at + high - low], np.arange(low, high)):
                raise unsorted(f"facts {low:,} to {high - 1:,} are not where they were written")
            read.append(from_keys(ids[at : at + high - low]))
        return read


class RunTooShortError(Exception):
    """More of a run was to be read than there is."""


class Run:
    """The facts of a run, from position `start` on; `batches` are their keys (`refactx.ingest.encoding.as_keys`)."""

    def __init__(self, start: int, batches: Iterator[pa.Array]) -> None:
        self.start = self._low = self.end = start
        self._batches = batches
        self._tokens: Tokens = np.empty(0, np.int32)
        self._offsets: Offsets = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return _ENDLESS

    def reaches(self, high: int) -> bool:
        """Return whether the run has facts up to high - 1, after reading as far."""
        tokens, lengths = [self._tokens], [np.diff(self._offsets)]
        while self.end < high and (keys := next(self._batches, None)) is not None:
            more, offsets = from_keys(keys)
            tokens.append(more)
            lengths.append(np.diff(offsets))
            self.end += len(keys)
        if len(tokens) > 1:
            self._tokens, self._offsets = np.concatenate(tokens), offsets_of(np.concatenate(lengths))
        return self.end >= high

    def facts(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        """Return the ids and offsets of facts low to high - 1, which must be held."""
        if low < self._low:
            raise ValueError(f"facts before {self._low:,} are not held, and {low:,} was asked for")
        offsets = self._offsets[low - self._low : high - self._low + 1]
        return self._tokens[offsets[0] : offsets[-1]], offsets - offsets[0]

    def read(self, low: int, high: int) -> EntryBatch:
        """Return facts as entries of level 0. Raises RunTooShortError if the run ends before."""
        if not self.reaches(high):
            raise RunTooShortError
        return EntryBatch.of_facts(*self.facts(low, high))

    def forget(self, low: int) -> None:
        """Give up the facts before `low`."""
        self._tokens, self._offsets = self.facts(low, self.end)
        self._low = low


@dataclass(frozen=True, slots=True, eq=False)
class PlainFacts:
    """Neighbouring facts from position `low` on. `tokens`: int32; `offsets`: int64[n + 1]."""

    low: int
    tokens: Tokens
    offsets: Offsets

    @property
    def high(self) -> int:
        """The position after the last one."""
        return self.low + len(self.offsets) - 1


def dump_facts(facts: PlainFacts) -> bytes:
    """Return facts as bytes for `load_facts`."""
    return _dump({"bounds": np.array([facts.low]), "tokens": facts.tokens, "lengths": np.diff(facts.offsets)})


def load_facts(data: bytes, shift: int) -> PlainFacts:
    """Return the facts that `dump_facts` wrote, `shift` positions further."""
    found = _load(data)
    offsets = np.zeros(len(found["lengths"]) + 1, np.int64)
    np.cumsum(found["lengths"], out=offsets[1:])
    return PlainFacts(int(found["bounds"][0]) + shift, found["tokens"], offsets)


def dump_range(cut: CutRange) -> bytes:
    """Return the pieces of a range as bytes for `load_range`."""
    numbers = {name: getattr(cut, name) for name in ("begins", "rows_before", "lifted_before")}
    numbers |= {name: getattr(cut.lifted, name) for name in _LIFTED}
    rows = {"keys": [key for key, _ in cut.rows], "rows": [row for _, row in cut.rows]}
    return _dump({"bounds": np.array([cut.start, cut.stop, cut.end]), **numbers}, rows)


def load_range(data: bytes, shift: int) -> CutRange:
    """Return the pieces that `dump_range` wrote, `shift` facts further."""
    found = _load(data)
    start, stop, end = (int(bound) + shift for bound in found["bounds"])
    return CutRange(
        start=start,
        stop=stop,
        begins=found["begins"] + shift,
        end=end,
        rows=list(zip(found["keys"], found["rows"], strict=True)),
        rows_before=found["rows_before"],
        lifted=Lifted(**{name: found[name] for name in _LIFTED}),
        lifted_before=found["lifted_before"],
    )


def gap(start: int, stop: int) -> CutRange:
    """Return a range of facts of which no pieces are known."""
    none = np.empty(0, np.int64)
    lifted = Lifted(tokens=none.astype(np.int32), lengths=none, kinds=none.astype(np.uint8), leaves=none, items=none)
    zero = np.zeros(1, np.int64)
    return CutRange(
        start=start, stop=stop, begins=none, end=start, rows=[], rows_before=zero, lifted=lifted, lifted_before=zero
    )


def _dump(numbers: dict[str, Any], rows: dict[str, list[bytes]] | None = None) -> bytes:
    columns = {name: _one(pa.array(values, _NUMBERS[name])) for name, values in numbers.items()}
    columns |= {name: _one(pa.array(values, pa.large_binary())) for name, values in (rows or {}).items()}
    return to_bytes(pa.RecordBatch.from_pydict(columns))


def _one(values: pa.Array) -> pa.Array:
    """Return values as a list in one row."""
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _load(data: bytes) -> dict[str, Any]:
    with pa.ipc.open_stream(data) as reader:
        row = reader.read_all().combine_chunks()
    found = {}
    for name in row.column_names:
        values = row[name].chunk(0).flatten()
        found[name] = values.to_numpy() if name in _NUMBERS else values.to_pylist()
    return found


CutRow = tuple[int, int, int, bytes]
"""What a task writes: part, first place in it, kind, and data (`refactx.ingest.cluster.facts`)."""


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
        return EntryBatch.of_facts(*(self._find(low, high) or self._facts.read_tokens(low, high)))

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
