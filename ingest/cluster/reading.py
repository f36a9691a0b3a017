"""The first stage on a cluster: lines → staged rows, parsed in splits by the parsers of one machine.

A split is a part of a file (also of one in bzip2) that begins and ends between lines. No task knows the number of its
first line, so it counts from one, and the driver adds up the splits of a file in order.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from refactx.errors import InputError
from refactx.ingest.cluster.session import SQL_TYPES, ClusterTables, Versions, check_versions, versions_here
from refactx.ingest.parsers.formats import (
    BLOCK_PARSERS,
    FORMATS,
    OTHER_GRAPH,
    RDF_KINDS,
    LineAccount,
    check_syntax,
    malformed,
    no_statement,
    recognise_format,
)
from refactx.ingest.parsers.parsed import Parsed, cast_rows
from refactx.ingest.report import REPORTED_FAULTS
from refactx.ingest.source_options import Selection
from refactx.ingest.sources import Format, format_by_name

_FIRST_LINES = 1000
_ACCOUNT = "account"
# All tables in one, since the rows of a task have one form: each column of a table stands in one of its type.
_PLACES = {
    "claims": {"subject": "a", "property": "b", "object": "c", "text": "x", "kind": "k"},
    "terms": {"entity": "a", "kind": "k", "rank": "r", "language": "l", "text": "x"},
    "redirects": {"entity": "a", "target": "b"},
    "left_out": {"property": "a", "reason": "x"},
    "ready": {"subject": "x", "predicate": "y", "object": "z"},
    "ready_statements": {"subject": "x", "predicate": "y", "object": "z", "tail": "w"},
    "statements": {"statement": "a", "subject": "b", "property": "c"},
    "ranks": {"statement": "a", "rank": "r"},
    "snaks": {
        **{"statement": "a", "property": "b", "is_main": "m", "object": "c"},
        **{"text": "x", "kind": "k", "unit": "d", "value": "e"},
    },
    "value_nodes": {"value": "a", "field": "k", "text": "x", "entity": "b"},
    "referred": {"statement": "a", "reference": "b"},
    "reference_urls": {"reference": "a", "place": "k", "url": "x"},
}
_TYPES = {
    **{**dict.fromkeys("abcde", pa.int64()), **dict.fromkeys("wxyz", pa.string())},
    **{**dict.fromkeys("krl", pa.int16()), "m": pa.bool_()},
}
_WIDE = pa.schema({"part": pa.string(), **_TYPES})
_WIDE_SQL = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in _WIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """A file of a source. `name`: the source as it was given, or the path of one of its files. `key`: a number for the
    file, in rows; `bytes`, `changed`: its size, and when it was written."""

    name: str
    path: str
    key: int
    format: Format
    bytes: int
    changed: str

    def identity(self) -> dict[str, Any]:
        """Return what distinguishes this file from others, and from itself after a change."""
        return {name: value for name, value in asdict(self).items() if name != "key"}


def files_of(spark: Any, sources: Sequence[str]) -> tuple[ClusterFile, ...]:
    """Return the files of sources (paths or URIs of files, folders, or patterns such as `part-*.nt.bz2`), in order.

    Raises InputError if there is none, or one cannot be read on a cluster.
    """
    if not sources:
        raise InputError("no source was given: expected at least one file, such as s3a://bucket/truthy.nt.bz2")
    files = [file for source in sources for file in _files_of(spark, source)]
    seen = set[str]()
    for file in files:
        if file.path in seen:
            raise InputError(f"{file.path} is given more than once: name it once")
        seen.add(file.path)
    return tuple(files)


def _files_of(spark: Any, source: str) -> list[ClusterFile]:
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import expr

    columns = "_metadata.file_path AS path", "_metadata.file_size", "_metadata.file_modification_time"
    try:
        listed = spark.read.format("binaryFile").load(source).select(*map(expr, columns))
        rows = sorted(map(tuple, listed.select("*", expr("xxhash64(path)")).collect()))
    except PySparkException as error:
        raise InputError(
            f"{source} cannot be read by the cluster: {str(error).splitlines()[0]:.300}: give a path or URI that all its "
            "machines can read"
        ) from error
    if not rows:
        raise InputError(f"{source} has no file: check its name")
    return [
        ClusterFile(
            name=source if len(rows) == 1 else path,
            path=path,
            key=key,
            format=_format_of(spark, source, path),
            bytes=size,
            changed=str(changed),
        )
        for path, size, changed, key in rows
    ]


def _format_of(spark: Any, source: str, path: str) -> Format:
    named = format_by_name(path.rpartition("/")[2])
    start = b""
    if named in (None, "ready-made facts", "N3"):
        lines = spark.read.text(path).limit(_FIRST_LINES).collect()
        start = "\n".join(row[0] for row in lines).encode()
    found = recognise_format(path, named, start)
    if found not in BLOCK_PARSERS:
        raise InputError(
            f"{source} is {found}, which a cluster does not read: give N-Triples, lines of Wikidata's JSON or of facts, or "
            "ingest without --cluster"
        )
    return found


@dataclass(slots=True, kw_only=True)
class SplitAccount:
    """What became of the lines of a split. `file`: a file's key; `start`: where the split begins in it, in bytes.

    `faults`: the first malformed lines, with their numbers in the split; `of_file`: how many lines of the file it has,
    whatever was counted as a line; the rest as in `LineAccount`.
    """

    file: int
    start: int
    of_file: int = 0
    lines: int = 0
    statements: int = 0
    rows: int = 0
    cut: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, parsed: Parsed) -> None:
        """Add the lines of a parsed block."""
        self.lines += parsed.lines
        self.statements += parsed.statements
        self.rows += sum(map(len, parsed.tables.values()))
        self.cut += parsed.cut
        self.dropped += parsed.dropped
        self.malformed += len(parsed.faults)
        self.faults += parsed.faults[: REPORTED_FAULTS - len(self.faults)]
        self.notes += parsed.notes

    def to_row(self) -> pa.Table:
        """Return the account as a row of the wide table."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return _wide(_ACCOUNT, {"x": pa.array([json.dumps(values)])}, 1)


def read_lines(
    spark: Any, files: Sequence[ClusterFile], selection: Selection, *, strict: bool, folder: str
) -> LineAccount:
    """Parse all files into staged rows in a folder, and return the account of their lines.

    Raises InputError if a file is not what its name says, and for the first malformed line if `strict` is set.
    """
    frames = []
    for form in BLOCK_PARSERS:
        paths = [file.path for file in files if file.format == form]
        if paths:
            places = "_metadata.file_path", "_metadata.file_block_start"
            lines = spark.read.text(paths).selectExpr(
                f"xxhash64({places[0]}) AS file", f"{places[1]} AS start", "value"
            )
            frames.append(lines.mapInArrow(partial(parse_splits, versions_here(), form, selection), _WIDE_SQL))
    rows = reduce(lambda one, other: one.unionAll(other), frames)
    rows.write.mode("overwrite").partitionBy("part").parquet(folder)
    kept = spark.read.schema(_WIDE_SQL).parquet(folder).where(f"part = '{_ACCOUNT}'").select("x")
    return whole_account(files, [row[0] for row in kept.collect()], strict=strict)


def view_staged(spark: Any, tables: ClusterTables, folder: str) -> None:
    """Make the staged tables views of a session."""
    spark.read.schema(_WIDE_SQL).parquet(folder).createOrReplaceTempView("staged")
    for name, places in _PLACES.items():
        columns = ", ".join(f"{place} AS {column}" for column, place in places.items())
        tables.view(name, f"SELECT {columns} FROM staged WHERE part = '{name}'")


def parse_splits(
    driver: Versions, form: Format, selection: Selection, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the wide rows of a task's lines (`file, start, value`), and after each split its account."""
    check_versions(driver)
    account: SplitAccount | None = None
    for batch in batches:
        for file, start, values in _splits(batch):
            if account is None or (account.file, account.start) != (file, start):
                if account is not None:
                    yield from account.to_row().to_batches()
                account = SplitAccount(file=file, start=start)
            lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")
            parsed = BLOCK_PARSERS[form](lines[0].as_py() + b"\n", account.of_file + 1, selection, f"{file}:{start}")
            account.add(parsed)
            account.of_file += len(values)
            for name, rows in parsed.tables.items():
                exact = cast_rows(name, rows)
                columns = {place: exact[column] for column, place in _PLACES[name].items()}
                yield from _wide(name, columns, len(rows)).to_batches()
    if account is not None:
        yield from account.to_row().to_batches()


def _splits(batch: pa.RecordBatch) -> Iterator[tuple[int, int, pa.Array]]:
    """Yield the file, the start and the lines (binary) of each split that a batch has lines of."""
    files, starts, values = batch.columns
    changes = pc.or_(pc.not_equal(files[1:], files[:-1]), pc.not_equal(starts[1:], starts[:-1]))
    at = [0, *(place + 1 for place, differs in enumerate(changes.to_pylist()) if differs), len(batch)]
    for low, high in pairwise(at):
        if high > low:
            yield files[low].as_py(), starts[low].as_py(), values[low:high].cast(pa.binary())


def _wide(part: str, columns: Mapping[str, Any], count: int) -> pa.Table:
    """Return rows of the wide table, with null where there is no column."""
    given = [columns[name].cast(kind) if name in columns else pa.nulls(count, kind) for name, kind in _TYPES.items()]
    return pa.table([pa.array([part] * count, pa.string()), *given], schema=_WIDE)


def whole_account(files: Sequence[ClusterFile], rows: Sequence[str], *, strict: bool) -> LineAccount:
    """Return the account of all splits, from their rows, in the order of the files. Raises as `read_lines`."""
    splits = [SplitAccount(**json.loads(row)) for row in rows]
    account = LineAccount()
    for file in files:
        own = sorted((split for split in splits if split.file == file.key), key=lambda split: split.start)
        before, faults = 0, list[tuple[int, str]]()
        for split in own:
            faults += [(before + line, what) for line, what in split.faults]
            before += split.of_file
        if strict and faults:
            raise malformed(file.name, *faults[0])
        check_syntax(file.name, faults)
        if not any(split.statements for split in own):
            first = f"line {faults[0][0]}: {faults[0][1]}" if faults else ""
            raise no_statement(file.name, file.format, FORMATS[file.format].example, first)
        account.add(
            file.name,
            Parsed(
                lines=sum(split.lines for split in own),
                dropped=sum((Counter(split.dropped) for split in own), Counter[str]()),
                faults=faults,
                cut=sum(split.cut for split in own),
                notes=(
                    *dict.fromkeys(note for split in own for note in split.notes),
                    *((OTHER_GRAPH,) if file.format in RDF_KINDS and not any(split.rows for split in own) else ()),
                ),
            ),
        )
        account.dropped["malformed"] += sum(split.malformed for split in own) - len(faults)
    return account
