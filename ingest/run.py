"""One ingest: sources → knowledge base → token sequences → tree → rows, published when it is complete."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
from pyarrow import parquet
from tqdm import tqdm

from refactx.codec import RowCodec, shared_seed
from refactx.errors import DatabaseError, RefactxError, without_password
from refactx.name_blocks import Named, pack_blocks
from refactx.postgres import Database, list_indexes, open_session
from refactx.tokenizer import FactTokenizer

from .build import Packing, Row, SegmentBuilder, Shape
from .catalogue import Header, begin, check_free, check_name, copy_rows, discard, name_lock, publish
from .inputs import Inputs, inputs_of
from .knowledge_base import KnowledgeBase
from .packing import learn
from .report import Report
from .resumable import Steps
from .rights import check_rights
from .selection import Selection
from .work_folder import work_folder

ZSTD_LEVEL = 9
"""2% larger rows than at level 19, built in half the time (docs/benchmarks.md)."""


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
            "seconds": round(sum(self.seconds.values()), 3),
            "seconds_by_step": {step: round(seconds, 3) for step, seconds in self.seconds.items()},
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
    try:
        # A session of its own, not the pool's: it holds the lock on the name.
        with open_session(database.url) as connection, name_lock(connection, options.index):
            check_rights(connection, options.index)
            check_free(connection, options.index, options.replace)
            with work_folder(work, connection.info.host, connection.info.dbname, options.index) as folder:
                return _ingest(inputs, connection, folder, options)
    except psycopg.Error as error:
        reason = without_password(" ".join(str(error).split()))
        raise DatabaseError(f"PostgreSQL could not take index {options.index!r}: {reason}") from error
    except OSError as error:
        raise RefactxError(
            f"cannot write in {work} ({error}): free disk space there, or give another --work-dir"
        ) from error


def _ingest(inputs: Inputs, connection: psycopg.Connection[Any], work: Path, options: Options) -> Result:
    clock = _Clock()
    progress = _Progress(options.quiet)
    steps = Steps(work, inputs, options.selection, options.strict)
    limits: dict[str, Any] = {"memory": options.memory, "workers": options.workers}
    knowledge = steps.knowledge_base(clock.step, progress=not options.quiet, **limits)
    with clock.step("encode"), progress:
        facts = steps.encoded_facts(knowledge, options.tokenizer, options.trigger, progress=progress.advance, **limits)
        codes, dictionary = learn(facts, ZSTD_LEVEL)
    tokens = facts.token_count()
    report = _without_merged(knowledge.report, len(facts))
    names = tuple(str(source.path) for source in inputs.all)
    header = Header(
        options.index, options.tokenizer_name, options.tokenizer, options.trigger, options.terminator, names
    )
    begun = begin(connection, header)
    try:
        with clock.step("load"), progress, connection.transaction():
            code_bytes = codes.frequent.astype("<i4").tobytes()
            builder = SegmentBuilder(
                *(
                    facts,
                    Packing(codes, RowCodec(dictionary, ZSTD_LEVEL, shared_seed(code_bytes, dictionary))),
                    work,
                    options.shape,
                    options.workers,
                ),
                progress=lambda done: progress.advance("load", done, len(facts)),
            )
            copy_rows(connection, "pieces", begun.segment, builder.rows())
            copy_rows(connection, "names", begun.index, _name_rows(knowledge))
            segment = {
                "levels": builder.levels,
                "cut": options.shape.facts,
                "facts": len(facts),
                "tokens": tokens,
                "codes": code_bytes,
                "dictionary": dictionary,
            }
            publish(connection, begun, segment, asdict(report), options.replace)
    except BaseException:
        if not connection.broken and not connection.closed:
            discard(connection, [begun.index])
        raise
    entry = list_indexes(connection, options.index)[0]
    size = entry["table_bytes"] + entry["index_bytes"] + entry["toast_bytes"]
    return Result(options.index, report, tokens, clock.seconds, size, entry["names_bytes"])


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


def _name_rows(knowledge: KnowledgeBase) -> Iterator[Row]:
    """The blocks of names of a knowledge base."""
    with parquet.ParquetFile(knowledge.folder / "names.parquet") as file:
        rows = (
            (row["name"], Named(row["id"], row["object_kind"]))
            for batch in file.iter_batches()
            for row in batch.to_pylist()
        )
        yield from pack_blocks(rows, RowCodec(level=ZSTD_LEVEL))


class _Clock:
    """How long each step took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - start


class _Progress:
    """A progress bar a step, on standard error, where that is a terminal."""

    def __init__(self, quiet: bool) -> None:
        self._disable = True if quiet else None
        self._bars: dict[str, tqdm[Any]] = {}

    def advance(self, step: str, done: int, total: int) -> None:
        if step not in self._bars:
            self._bars[step] = tqdm(total=total, desc=step, unit=" facts", unit_scale=True, disable=self._disable)
        self._bars[step].update(done)

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
