"""One ingest: sources → knowledge base → token sequences → tree → rows, published when it is complete."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pyarrow import parquet

from refactx.index.names import Named, pack_blocks
from refactx.postgres.building import Header, begin, check_free, check_name, discard_unfinished, publish, remove_unshown
from refactx.postgres.database import Database, list_indexes
from refactx.postgres.locks import Connection, name_lock
from refactx.postgres.tables import copy_rows
from refactx.postgres.writer import writing
from refactx.tokenizer import FactTokenizer
from refactx.tree.codec import RowCodec

from .encoding.encoded import EncodedFacts
from .knowledge.knowledge_base import KnowledgeBase
from .pipeline import Steps
from .progress import Clock, Progress, timings
from .report import Report
from .segment.level_cutter import Row, Shape
from .segment.load import ZSTD_LEVEL, Learned, load_segment
from .selection import Selection
from .sources.inputs import Inputs, inputs_of
from .work_folder import names_of, work_folder


@dataclass(frozen=True, slots=True)
class Options:
    """How to ingest: under which name, for which tokenizer, which facts, with how much of the machine."""

    index: str
    tokenizer: FactTokenizer
    tokenizer_name: str
    selection: Selection = field(default_factory=Selection)
    replace: bool = False
    strict: bool = False
    trigger: str = "Fact:"
    terminator: str = " ."
    memory: str = "1GB"
    workers: int = 2
    shape: Shape = field(default_factory=Shape)
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """A finished ingest. `size`: bytes of the tree in the database, with its B-tree and TOAST."""

    index: str
    report: Report
    tokens: int
    seconds: dict[str, float]
    size: int
    names_size: int

    def to_json(self) -> dict[str, Any]:
        """As `refactx ingest --json` prints it."""
        report = self.report
        return {
            "index": self.index,
            "facts": report.facts,
            "claims": report.claims,
            "descriptions": report.descriptions,
            "aliases": report.aliases,
            "derived": report.derived,
            "lines_read": report.lines_read,
            "kept": report.kept,
            "dropped": report.dropped,
            "cut": report.cut,
            "malformed": list(report.malformed),
            "notes": list(report.notes),
            "entities": report.entities,
            "names": report.names,
            "collisions": report.collisions,
            "not_inverted": report.not_inverted,
            "selection": report.selection,
            "tokens": self.tokens,
            **timings(self.seconds),
            "bytes": self.size,
            "bytes_per_fact": round(self.size / report.facts, 3),
            "names_bytes": self.names_size,
        }


def ingest(
    sources: Sequence[Path],
    database: Database,
    work: Path,
    options: Options,
    wikipedia: tuple[Path, Path] | None = None,
) -> Result:
    """Build an index from sources of any format (`ingest.formats`). `work` is a folder for temporary files.

    `wikipedia`: English Wikipedia's dumps of the tables `page` and `page_props`, for titles and short descriptions.

    Readers see the index when it is complete, or never. Raises InputError (sources), IndexExistsError (the name is taken or
    being written), DatabaseError (PostgreSQL refused, its disk is full, say).
    """
    check_name(options.index)
    inputs = inputs_of(sources, wikipedia, options.workers)
    with writing(database, options.index, work) as connection, name_lock(connection, options.index):
        check_free(connection, options.index, options.replace)
        with work_folder(work, *names_of(connection), options.index) as folder:
            return _ingest(inputs, connection, folder, options)


def _ingest(inputs: Inputs, connection: Connection, work: Path, options: Options) -> Result:
    clock = Clock()
    progress = Progress(options.quiet)
    steps = Steps(work, inputs, options.selection, options.strict)
    limits: dict[str, Any] = {"memory": options.memory, "workers": options.workers}
    knowledge = steps.knowledge_base(clock.step, progress=not options.quiet, **limits)
    with clock.step("encode"), progress:
        facts = steps.encoded_facts(
            *(knowledge, options.tokenizer, options.tokenizer.fingerprint, options.trigger),
            progress=progress.advance,
            **limits,
        )
        learned = Learned.of(facts)
    sources = tuple(str(source.path) for source in inputs.all)
    ready = ReadyFacts(facts, learned, _without_merged(knowledge.report, len(facts)), sources)
    return publish_index(connection, work, options, ready, clock, names=lambda: name_rows(knowledge))


@dataclass(frozen=True, slots=True)
class ReadyFacts:
    """All that goes into a new index: its facts, and what the catalogue says of where they are from."""

    facts: EncodedFacts
    learned: Learned
    report: Report
    sources: tuple[str, ...]


def publish_index(
    connection: Connection,
    work: Path,
    options: Options,
    ready: ReadyFacts,
    clock: Clock,
    *,
    names: Callable[[], Iterable[Row]] = tuple,
    trigger: tuple[str, str] | None = None,
    knowledge_base: int | None = None,
) -> Result:
    """Load a new index and show it. It gets `names`, or shares those of `knowledge_base`, if that is given.

    `trigger`: with the terminator, where they are not those of the options.
    """
    facts, report, progress = ready.facts, ready.report, Progress(options.quiet)
    around = trigger or (options.trigger, options.terminator)
    header = Header(options.index, options.tokenizer_name, options.tokenizer, *around, ready.sources)
    begun = begin(connection, header, knowledge_base)
    try:
        with clock.step("load"), progress, connection.transaction():
            described = load_segment(
                *(connection, begun.segment, facts, ready.learned, work),
                shape=options.shape,
                workers=options.workers,
                progress=lambda done: progress.advance("load", done, len(facts)),
            )
            if begun.names is not None:
                copy_rows(connection, "names", begun.names, names())
            publish(connection, begun, described, asdict(report), options.replace)
    except BaseException:
        if not connection.broken and not connection.closed:
            remove_unshown(connection, begun.index, options.index)
        raise
    discard_unfinished(connection, options.index)  # the one that was replaced
    entry = list_indexes(connection, options.index)[0]
    size = entry["table_bytes"] + entry["index_bytes"] + entry["toast_bytes"]
    return Result(options.index, report, entry["tokens"], clock.seconds, size, entry["names_bytes"])


def _without_merged(report: Report, facts: int) -> Report:
    """The account after encoding: facts whose tokens are the same (a tokenizer that drops what it doesn't know) are one."""
    merged = report.facts - facts
    if not merged:
        return report
    dropped = dict(sorted({**report.dropped, "same tokens": merged}.items()))
    claims = max(0, report.claims - merged)
    descriptions = facts - report.derived - claims
    return replace(
        report, facts=facts, claims=claims, descriptions=descriptions, kept=report.kept - merged, dropped=dropped
    )


def has_names(knowledge: KnowledgeBase) -> bool:
    """Whether a knowledge base on disk names any entity."""
    return bool(parquet.read_metadata(knowledge.folder / "names.parquet").num_rows)


def name_rows(knowledge: KnowledgeBase) -> Iterator[Row]:
    """The blocks of names of a knowledge base on disk."""
    with parquet.ParquetFile(knowledge.folder / "names.parquet") as file:
        rows = (
            (row["name"], Named(row["id"], row["object_kind"]))
            for batch in file.iter_batches()
            for row in batch.to_pylist()
        )
        yield from pack_blocks(rows, RowCodec(level=ZSTD_LEVEL))
