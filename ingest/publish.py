"""The last step of building an index: its segment and its names become visible in one transaction."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from refactx.index.names import Named, pack_blocks, pack_id_blocks
from refactx.ingest.build import Build, RowJob
from refactx.ingest.encoding import EncodedFacts
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.report import ProgressBars, Report, timings
from refactx.ingest.segment.builder import ZSTD_LEVEL, CutRange, Learned, SegmentBuilder
from refactx.ingest.segment.cutting import KeyedRow
from refactx.postgres.catalogue import Hub, add_hubs, copy_rows, list_indexes
from refactx.postgres.locks import Connection
from refactx.postgres.writing import begin, discard_unfinished, publish, remove_unshown
from refactx.tree.codes import RowCodec

_SHOWN = (
    *("facts", "claims", "descriptions", "aliases", "derived", "lines_read", "kept", "dropped", "cut", "malformed"),
    *("notes", "entities", "names", "names_by_language", "collisions", "not_inverted", "hubs", "selection"),
)
"""What the JSON of a result has of its report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The result of `ingest` or `retokenise`.

    `report`: the account of the sources. `tokens`: those of all facts. `seconds`: by step. `size`: bytes of the tree in
    the database, with its B-tree and TOAST. `names_size`: bytes of the table of names.
    """

    index: str
    report: Report
    tokens: int
    seconds: dict[str, float]
    size: int
    names_size: int

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            **{name: getattr(self.report, name) for name in _SHOWN},
            "tokens": self.tokens,
            **timings(self.seconds),
            "bytes": self.size,
            "bytes_per_fact": round(self.size / self.report.facts, 3),
            "names_bytes": self.names_size,
        }


def publish_index(
    connection: Connection,
    build: Build,
    facts: EncodedFacts,
    report: Report,
    *,
    sources: tuple[str, ...],
    learned: Learned | None = None,
    cut: Iterable[CutRange] | None = None,
    names: Callable[[], Iterable[KeyedRow]] = tuple,
    hubs: Iterable[Hub] = (),
    knowledge_base: int | None = None,
) -> IngestResult:
    """Load a new index and make it visible to readers.

    `report`: the account of its `sources`. `learned`, `cut`: what its rows share, and the pieces of its facts, if they are
    cut elsewhere (`refactx.ingest.segment.builder`). `names`: the blocks of its names. `hubs`: its hubs. `knowledge_base`:
    one in the catalogue, whose names it shares instead. `build.replace`: remove a ready index of the same name in the same
    transaction.
    """
    bars = build.bars()
    begun = begin(connection, build.header(sources), knowledge_base)
    try:
        with build.clock.step("load"), bars, connection.transaction():
            described = load_segment(connection, begun.segment, facts, build, learned=learned, cut=cut, bars=bars)
            if begun.names is not None:
                copy_rows(connection, "names", begun.names, names())
            add_hubs(connection, begun.index, hubs)
            publish(connection, begun, described, asdict(report), build.replace)
    except BaseException:
        if not connection.broken and not connection.closed:
            remove_unshown(connection, begun.index, build.index)
        raise
    discard_unfinished(connection, build.index)  # the replaced index
    entry = list_indexes(connection, build.index)[0]
    return IngestResult(
        index=build.index,
        report=report,
        tokens=entry.tokens,
        seconds=build.clock.seconds,
        size=entry.tree_bytes,
        names_size=entry.names_bytes,
    )


def load_segment(
    connection: Connection,
    segment: int,
    facts: EncodedFacts,
    job: RowJob,
    *,
    learned: Learned | None = None,
    cut: Iterable[CutRange] | None = None,
    bars: ProgressBars | None = None,
) -> dict[str, Any]:
    """Fill the table of a segment, in the caller's transaction. `cut`: as in `SegmentBuilder`; `learned`: with what that was.

    Returns:
        The columns of its row in the table `refactx.segments` (`refactx.postgres.writing.show_segment`).
    """
    learned = learned or Learned.of(facts)
    builder = SegmentBuilder(
        facts,
        learned.packing,
        work=job.work,
        shape=job.shape,
        cut=cut,
        workers=job.resources.workers,
        advance=lambda done: None if bars is None else bars.advance("load", done, len(facts)),
    )
    copy_rows(connection, "pieces", segment, builder.rows())
    return {
        "levels": builder.levels,
        "cut": job.shape.facts,
        "facts": len(facts),
        "tokens": facts.token_count(),
        "codes": learned.codes,
        "dictionary": learned.dictionary,
    }


def has_names(folder: Path, file: str = "names.parquet") -> bool:
    """Return whether a knowledge base in a folder names any entity, or another of its files has rows."""
    return bool(parquet.read_metadata(folder / file).num_rows)


def write_labels(folder: Path, language: str, labels: Mapping[int, str]) -> None:
    """Write the files of a knowledge base that has labels in one language alone, by the numbers of what they name."""
    numbers, strings = pa.int64(), pa.string()
    rows = sorted(labels.items())
    columns = {
        "language": [language] * len(rows),
        "entity": [one for one, _ in rows],
        "label": [one for _, one in rows],
    }
    table = pa.table(columns, pa.schema([("language", strings), ("entity", numbers), ("label", strings)]))
    names = pa.schema([("name", strings), ("id", strings), ("object_kind", strings), ("entity", numbers)])
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, folder / "labels.parquet")
    parquet.write_table(names.empty_table(), folder / "names.parquet")
    parquet.write_table(names.empty_table().select(["entity", "name"]), folder / "ids.parquet")


def name_rows(folder: Path) -> Iterator[KeyedRow]:
    """Yield the rows of a name table for a knowledge base in a folder: names by id, labels, then ids by name."""
    codec = RowCodec(level=ZSTD_LEVEL)
    ids = ((row["entity"], row["name"]) for row in _rows_of(folder / "ids.parquet"))
    yield from pack_id_blocks(ids, codec)
    for language, rows in groupby(_rows_of(folder / "labels.parquet"), key=itemgetter("language")):
        yield from pack_id_blocks(((row["entity"], row["label"]) for row in rows), codec, language)
    names = (
        (row["name"], Named(row["id"], row["object_kind"], row["entity"])) for row in _rows_of(folder / "names.parquet")
    )
    yield from pack_blocks(names, codec)


def hubs_of(knowledge: KnowledgeBase) -> Iterator[Hub]:
    """Yield the hubs of a knowledge base on disk."""
    return (Hub(**row) for row in _rows_of(knowledge.folder / "hubs.parquet"))


def _rows_of(path: Path) -> Iterator[dict[str, Any]]:
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()
