"""Compaction: the segments of an index merged into one, and its name tables into one, while readers continue.

The new tables are filled in a transaction of their own, in which they are not ready. A second transaction changes only
the catalogue: the new segment becomes ready, and the old ones no longer are. The old tables are dropped last, each as
soon as no reader uses it; a reader that finds a table missing opens the new segment (`refactx.index.index`).
"""

import heapq
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar, Unpack

from refactx.errors import CorruptIndexError
from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.index.names import (
    FIRST_KEY,
    Named,
    is_id_key,
    language_of,
    pack_blocks,
    pack_id_blocks,
    unpack_block,
    unpack_ids,
)
from refactx.ingest.build import RowJob, RowJobOptions, index_change
from refactx.ingest.encoding import CHOSEN, SequenceWriter, WholeFacts
from refactx.ingest.publish import load_segment
from refactx.ingest.report import ProgressBars, timings
from refactx.ingest.segment.builder import ZSTD_LEVEL
from refactx.ingest.segment.cutting import KeyedRow
from refactx.postgres import writing
from refactx.postgres.catalogue import copy_rows
from refactx.postgres.database import Database
from refactx.postgres.entry import read_mark
from refactx.postgres.locks import DROP_SECONDS, Connection
from refactx.tree.bulk import from_matrix, surviving
from refactx.tree.codes import RowCodec

_CACHE_BYTES = 16 << 20  # each row is read once

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """The result of `compact`: segments and name tables before it, facts of the index, and seconds by step."""

    index: str
    segments: int
    name_tables: int
    facts: int
    seconds: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), **timings(self.seconds)}


def compact(database: Database, *, index: str, work: Path, **options: Unpack[RowJobOptions]) -> CompactResult:
    """Merge all segments of an index into one, with the rows that an ingest of the remaining facts would give.

    Readers see the old segments or the new one. If no fact remains, there is no segment.

    Args:
        database, index: the database, and the name of the index in it.
        work: a folder for temporary files: the token ids of all facts, 4 bytes each.
        resources: how many threads to use, and whether to show progress (`memory` is not used).
        shape: how large the rows of the tree may be.

    Raises:
        IndexNotFoundError: there is no such index.
        IndexExistsError: another process is writing it.
        CorruptIndexError: the number of facts is not that of the catalogue, or a row is damaged.
    """
    with index_change(database, index, work, "compact") as (connection, entry, folder):
        job = RowJob(work=folder, **options)
        clock, bars, before = job.clock, job.bars(), read_mark(connection, entry)
        opened = Index(DatabaseSource(database, entry), cache_bytes=_CACHE_BYTES)
        signs, tables = [sign for sign, _ in opened.segments], writing.name_tables(connection, entry)
        result = CompactResult(
            index=index, segments=len(signs), name_tables=len(tables), facts=opened.facts, seconds=clock.seconds
        )
        if signs in ([], [1]) and len(tables) < 2:
            return result
        with clock.step("merge"), bars:
            facts = _merge_facts(opened, folder, bars)
        with connection.transaction():
            segment = writing.add_segment(connection, entry.id, 1) if len(facts) and signs != [1] else None
            names = writing.add_name_table(connection, entry.knowledge_base) if len(tables) > 1 else None
        with writing.or_removed(connection, entry):
            with clock.step("load"), bars, connection.transaction():
                if segment is not None:
                    described = load_segment(connection, segment, facts, job, bars=bars)
                if names is not None:
                    copy_rows(connection, "names", names, merge_names(database, tables))
            with connection.transaction():
                if signs != [1]:
                    writing.hide(connection, "segments", "index_id", entry.id)
                if segment is not None:
                    writing.show_segment(connection, segment, described)
                if names is not None:
                    writing.hide(connection, "name_tables", "knowledge_base", entry.knowledge_base)
                    writing.show_names(connection, names)
                note = {
                    "change": "compact",
                    "segments": len(signs),
                    "facts": len(facts),
                    "created": datetime.now(UTC).isoformat(timespec="seconds"),
                    "before": before.to_json(),
                    "after": read_mark(connection, entry).to_json(),
                }
                writing.note_change(connection, entry, note)
        with clock.step("drop"):
            writing.remove_unfinished(connection, entry, DROP_SECONDS)
        return result


def _merge_facts(index: Index, work: Path, bars: ProgressBars) -> WholeFacts:
    """Write the remaining facts to files."""
    spilled = SequenceWriter(work, CHOSEN)
    for block in surviving(index.segments):
        spilled.append(*from_matrix(block))
        bars.advance("merge", len(block), index.facts)
    facts = WholeFacts(*spilled.finish())
    if len(facts) != index.facts:
        raise CorruptIndexError(
            f"index {index.name!r} has {len(facts):,} facts, and its catalogue entry says {index.facts:,}. "
            "Ingest the index again"
        )
    return facts


def merge_names(database: Database, tables: tuple[int, ...]) -> Iterator[KeyedRow]:
    """Yield the rows of one table with the names of several tables; an entry in a later table wins.

    A table has all its names by id, or none, if it was made before there were such rows: then the result has none.
    """
    codec = RowCodec(level=ZSTD_LEVEL)
    with database.connection() as connection, connection.transaction():
        statements = (f"SELECT key FROM refactx.names_{table} ORDER BY key LIMIT 1".encode() for table in tables)
        first_rows = (connection.execute(statement).fetchone() for statement in statements)
        # The latest table has the least rank, so its entry is the first of equal ones.
        if all(row is None or is_id_key(row[0]) for row in first_rows):
            ids = [_read_ids(connection, table, -table) for table in tables]
            merged = _drop_repeated(heapq.merge(*ids))
            for language, rows in groupby(merged, key=lambda row: row[0][0]):
                yield from pack_id_blocks(((number, name) for (_, number), name in rows), codec, language)
        names = [_read_names(connection, table, -table) for table in tables]
        yield from pack_blocks(((key.decode(), named) for key, named in _drop_repeated(heapq.merge(*names))), codec)


def _read_ids(connection: Connection, table: int, rank: int) -> Iterator[tuple[tuple[str, int], int, str]]:
    """Yield the names by id of a table in ascending order, then its labels, as ((language, number), rank, name)."""
    codec = RowCodec()
    for key, block in _read_rows(connection, table, "<"):
        numbers, names = unpack_ids(key, block, codec, f"block of ids {key.hex()}")
        for number, name in zip(numbers.tolist(), names, strict=True):
            yield (language_of(key), number), rank, name


def _read_names(connection: Connection, table: int, rank: int) -> Iterator[tuple[bytes, int, Named]]:
    """Yield the names of a table in ascending order, as (UTF-8, rank, what it names)."""
    codec = RowCodec()
    for key, block in _read_rows(connection, table, ">="):
        for name, named in unpack_block(key, block, codec, f"block of names {key!r}").items():
            yield name.encode(), rank, named


def _read_rows(connection: Connection, table: int, side: str) -> Iterator[KeyedRow]:
    """Yield the rows of a table before the first name (`side` is `<`) or from it on (`>=`)."""
    statement = f"SELECT key, block FROM refactx.names_{table} WHERE key {side} %b ORDER BY key"
    with connection.cursor(f"refactx_names_{table}", binary=True) as cursor:
        yield from cursor.execute(statement.encode(), [FIRST_KEY])


def _drop_repeated(entries: Iterator[tuple[Key, int, Value]]) -> Iterator[tuple[Key, Value]]:
    """Yield key and value of the first of entries with equal keys."""
    last = None
    for key, _, value in entries:
        if key != last:
            yield key, value
        last = key
