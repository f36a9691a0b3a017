"""The memories in the catalogue: the record of each, and how one begins, is finished and goes.

The record and its empty table are committed first. Entries and embeddings follow in batches, each committed, so that
the next build continues where a killed one ended. A memory is ready when it was finished once. If the index changes, it
stays as it is until the next build, and its record says how many changes it has followed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from refactx.errors import DatabaseError, IndexNotFoundError
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.postgres.database import Database
from refactx.postgres.locks import PATIENCE, Connection, drop_when_unread, memory_lock
from refactx.postgres.memory.pgvector import halfvec
from refactx.sql import query

_LIST = """
SELECT m.id, i.name AS index, m.encoder, m.fingerprint, m.width, m.aliases, m.ready, m.created,
    (
        SELECT count(*) FROM jsonb_array_elements(coalesce(i.report -> 'changes', '[]')) AS c
        WHERE c ->> 'change' <> 'compact'
    ) - m.changes AS behind,
    coalesce(pg_total_relation_size(to_regclass('refactx.memory_' || m.id)), 0)::bigint AS bytes,
    coalesce(
        (SELECT jsonb_object_agg(t.kind, t.tau) FROM refactx.memory_thresholds AS t WHERE t.memory_id = m.id), '{}'
    ) AS thresholds
FROM refactx.memories AS m JOIN refactx.indexes AS i ON i.id = m.index_id
WHERE m.index_id = %s ORDER BY m.id
"""
_CHANGES = """SELECT count(*) FROM refactx.indexes AS i, jsonb_array_elements(coalesce(i.report -> 'changes', '[]')) AS c
WHERE i.id = %s AND c ->> 'change' <> 'compact'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A memory in the catalogue.

    `index`: the name of its index; `encoder`: the encoder's name as the user gave it; `fingerprint`: of its weights;
    `width`: the numbers of an embedding; `aliases`: whether aliases have embeddings; `behind`: how many appends and
    forgets of the index it has not followed; `ready`: whether it was finished once; `bytes`: on disk; `thresholds`: those
    that a calibration found, by kind.
    """

    id: int
    index: str
    encoder: str
    fingerprint: str
    width: int
    aliases: bool
    ready: bool
    created: datetime
    behind: int
    bytes: int
    thresholds: Mapping[str, float]

    @property
    def table(self) -> sql.Identifier:
        """The table of its entries."""
        return sql.Identifier("refactx", f"memory_{self.id}")

    def graph(self, kind: str) -> str:
        """Return the name of the HNSW index on its `entities` or `relations`."""
        return f"memory_{self.id}_{kind}"


def list_memories(connection: psycopg.Connection[Any], entry: CatalogueEntry) -> list[MemoryRecord]:
    """Return the memories of an index, ready or not, the oldest first."""
    if not _has_table(connection):
        return []
    with connection.cursor(row_factory=class_row(MemoryRecord)) as cursor:
        return cursor.execute(_LIST.encode(), [entry.id], binary=True).fetchall()


def find_memory(database: Database, entry: CatalogueEntry, fingerprint: str | None = None) -> MemoryRecord | None:
    """Return the ready memory of an index that an encoder made; without `fingerprint`, the latest one. None: none."""
    found = database.retry_unlimited(lambda connection: list_memories(connection, entry), entry.name)
    return next((one for one in found[::-1] if one.ready and fingerprint in (None, one.fingerprint)), None)


def count_changes(connection: Connection, entry: CatalogueEntry) -> int:
    """Return how many appends and forgets an index has had."""
    row = connection.execute(_CHANGES, [entry.id]).fetchone()
    return int(row[0]) if row else 0


def begin_memory(
    connection: Connection,
    entry: CatalogueEntry,
    *,
    encoder: str,
    fingerprint: str,
    width: int,
    aliases: bool,
    vectors: str,
) -> MemoryRecord:
    """Return the memory of an index for an encoder; if there is none, commit an empty one that is not ready.

    `aliases`: whether these are to have embeddings, if they have none yet; `vectors`: the schema of pgvector. The
    caller holds the lock on the memories of the index.
    """
    with connection.transaction():
        row = connection.execute(
            """INSERT INTO refactx.memories (index_id, encoder, fingerprint, width, aliases)
            SELECT id, %(encoder)s, %(fingerprint)s, %(width)s, %(aliases)s FROM refactx.indexes
            WHERE id = %(index)s AND state = 'ready'
            ON CONFLICT (index_id, fingerprint)
            DO UPDATE SET encoder = excluded.encoder, aliases = memories.aliases OR excluded.aliases
            RETURNING id, xmax = 0""",
            {"index": entry.id, "encoder": encoder, "fingerprint": fingerprint, "width": width, "aliases": aliases},
        ).fetchone()
        if row is None:
            raise IndexNotFoundError(f"index {entry.name!r} was dropped or replaced: run the command again")
        number, is_new = row
        if is_new:
            statement = sql.SQL(query("create_memory")).format(
                table=sql.Identifier(f"memory_{number}"), halfvec=halfvec(vectors), width=sql.Literal(width)
            )
            connection.execute(statement)
    return next(one for one in list_memories(connection, entry) if one.id == number)


def finish_memory(connection: Connection, memory: MemoryRecord, changes: int) -> None:
    """Make a memory ready, which has followed some changes of its index."""
    done = connection.execute(
        "UPDATE refactx.memories SET ready = true, changes = %s, created = now() WHERE id = %s", [changes, memory.id]
    )
    if done.rowcount != 1:
        raise IndexNotFoundError(f"index {memory.index!r} was dropped while its memory was being built")


def store_thresholds(connection: Connection, memory: MemoryRecord, thresholds: Mapping[str, float]) -> None:
    """Store thresholds of a memory by kind, in place of those that it has for these kinds."""
    with connection.transaction():
        for kind, tau in thresholds.items():
            connection.execute(
                """INSERT INTO refactx.memory_thresholds VALUES (%s, %s, %s)
                ON CONFLICT (memory_id, kind) DO UPDATE SET tau = excluded.tau""",
                [memory.id, kind, tau],
            )


def drop_memories(
    connection: Connection, entry: CatalogueEntry, encoder: str | None = None, patience: float = PATIENCE
) -> list[MemoryRecord]:
    """Remove the memories of an index, or those whose encoder has a name. Return their records.

    Raises IndexNotFoundError if there is none, IndexExistsError while one is being built, DatabaseError if a session
    reads one for all of `patience` seconds.
    """
    found = list_memories(connection, entry)
    chosen = [one for one in found if encoder in (None, one.encoder)]
    if not chosen:
        of = "" if encoder is None else f" of encoder {encoder}"
        known = f" (there are those of {', '.join(one.encoder for one in found)})" if found else ""
        raise IndexNotFoundError(f"index {entry.name!r} has no memory{of}{known}: `refactx memory show` lists them")
    with memory_lock(connection, entry.id, entry.name):
        if not drop_when_unread(connection, partial(_discard, connection, [one.id for one in chosen]), patience):
            raise DatabaseError(f"the memory of index {entry.name!r} was not dropped: it is being read. Drop it later")
    return chosen


def discard_memories(connection: Connection, indexes: Sequence[int]) -> None:
    """Remove the memories of some indexes, in the caller's transaction."""
    if _has_table(connection):
        rows = connection.execute(
            "SELECT id FROM refactx.memories WHERE index_id = ANY(%s)", [list(indexes)]
        ).fetchall()
        _discard(connection, [number for (number,) in rows])


def _discard(connection: Connection, numbers: Sequence[int]) -> None:
    for number in sorted(numbers):
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier("refactx", f"memory_{number}")))
    connection.execute("DELETE FROM refactx.memories WHERE id = ANY(%s)", [list(numbers)])


def _has_table(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the catalogue has the tables of memories, of which this is the last: the first build makes them."""
    return connection.execute("SELECT to_regclass('refactx.memory_thresholds') IS NOT NULL").fetchone() == (True,)
