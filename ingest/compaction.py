"""All segments of an index made one, and the name tables of its knowledge base one, while readers go on.

The new tables are filled in a transaction of their own, not ready. Then one transaction changes nothing but the catalogue:
the new segment is shown and the old ones are not ready any more. Their tables are dropped last, each as soon as no reader
is in it; readers that meet a missing table take up the new segment (`refactx.index.index`).
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from refactx.errors import CorruptIndexError
from refactx.index.index import Index
from refactx.index.names import Named, pack_blocks, unpack_block
from refactx.postgres.building import add_name_table, add_segment, show_names, show_segment
from refactx.postgres.changes import changing, name_tables, note_change, remove_unfinished
from refactx.postgres.database import Database
from refactx.postgres.locks import PATIENCE, Connection
from refactx.postgres.tables import copy_rows
from refactx.postgres.writer import writing
from refactx.tree.codec import RowCodec
from refactx.tree.matrix import from_block
from refactx.tree.scan import surviving

from .encoding.encoded import WholeFacts
from .encoding.spilled_facts import SpilledFacts
from .progress import Clock, Progress, timings
from .segment.level_cutter import Row, Shape
from .segment.load import ZSTD_LEVEL, Learned, load_segment
from .work_folder import names_of, work_folder

_CACHE_BYTES = 16 << 20  # each row is read once


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """Which index to compact, with how much of the machine."""

    index: str
    workers: int = 2
    shape: Shape = field(default_factory=Shape)
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Compacted:
    """A finished compaction: how many segments and name tables there were, and how many facts there are."""

    index: str
    segments: int
    name_tables: int
    facts: int
    seconds: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """As the command prints it with `--json`."""
        return {
            **{key: getattr(self, key) for key in ("index", "segments", "name_tables", "facts")},
            **timings(self.seconds),
        }


def compact(database: Database, work: Path, options: CompactOptions) -> Compacted:
    """Make one segment of all of an index's: its rows are those of an ingest of the facts that are left, none if none is.

    Readers see the old segments or the new one. `work` is a folder for temporary files: the token ids of all facts, 4 bytes
    each. Raises IndexNotFoundError if there is no such index, IndexExistsError while it is written.
    """
    with (
        writing(database, options.index, work) as connection,
        changing(connection, database, options.index) as entry,
        work_folder(work, *names_of(connection), options.index, "compact") as folder,
    ):
        clock, progress = Clock(), Progress(options.quiet)
        index, tables = Index(database, entry, _CACHE_BYTES), name_tables(connection, entry)
        signs = [sign for sign, _ in index.segments]
        result = Compacted(options.index, len(signs), len(tables), index.facts, clock.seconds)
        merge_names = len(tables) > 1
        if signs in ([], [1]) and not merge_names:
            return result
        with clock.step("merge"), progress:
            facts = _merged(index, folder, progress)
        segment = names = None
        with connection.transaction():
            if len(facts) and signs != [1]:
                segment = add_segment(connection, entry["id"], 1)
            if merge_names:
                names = add_name_table(connection, entry["knowledge_base"])
        try:
            described = None
            with clock.step("load"), progress, connection.transaction():
                if segment is not None:
                    described = load_segment(
                        *(connection, segment, facts, Learned.of(facts), folder),
                        shape=options.shape,
                        workers=options.workers,
                        progress=lambda done: progress.advance("load", done, len(facts)),
                    )
                if names is not None:
                    copy_rows(connection, "names", names, _merged_names(database, tables))
            with connection.transaction():
                if signs != [1]:
                    _hide(connection, "segments", "index_id", entry["id"])
                if segment is not None and described is not None:
                    show_segment(connection, segment, described)
                if names is not None:
                    _hide(connection, "name_tables", "knowledge_base", entry["knowledge_base"])
                    show_names(connection, names)
                note = {"change": "compact", "segments": len(signs), "facts": len(facts)}
                created = datetime.now(UTC).isoformat(timespec="seconds")
                note_change(connection, entry, {**note, "created": created})
        except BaseException:
            if not connection.broken and not connection.closed:
                remove_unfinished(connection, entry)
            raise
        with clock.step("drop"):
            remove_unfinished(connection, entry, PATIENCE)
        return result


def _merged(index: Index, work: Path, progress: Progress) -> WholeFacts:
    """The surviving facts, in files."""
    spilled = SpilledFacts(work)
    for block in surviving(index.segments):
        spilled.append(*from_block(block))
        progress.advance("merge", len(block), index.facts)
    facts = spilled.finish()
    if len(facts) != index.facts:
        raise CorruptIndexError(
            f"index {index.name!r}: {len(facts):,} facts are left, the catalogue says {index.facts:,}. Ingest it again"
        )
    return facts


def _merged_names(database: Database, tables: tuple[int, ...]) -> Iterator[Row]:
    """The blocks of one name table with what all of some say, of which the later ones count more."""
    with database.connection() as connection, connection.transaction():
        # The latest first: of equal names the first one that comes is taken.
        streams = [_names(connection, table, -table) for table in tables]
        yield from pack_blocks(_first_of_each(heapq.merge(*streams)), RowCodec(level=ZSTD_LEVEL))


def _names(connection: Connection, table: int, rank: int) -> Iterator[tuple[bytes, int, str, Named]]:
    codec = RowCodec()
    with connection.cursor(f"refactx_names_{table}", binary=True) as cursor:
        for key, block in cursor.execute(f"SELECT key, block FROM refactx.names_{table} ORDER BY key".encode()):
            for name, named in unpack_block(key, block, codec, f"block of names {key!r}").items():
                yield name.encode(), rank, name, named


def _first_of_each(names: Iterator[tuple[bytes, int, str, Named]]) -> Iterator[tuple[str, Named]]:
    last = None
    for _, _, name, named in names:
        if name != last:
            yield name, named
        last = name


def _hide(connection: Connection, table: str, column: str, number: int) -> None:
    connection.execute(f"UPDATE refactx.{table} SET ready = false WHERE {column} = %s AND ready".encode(), [number])
