"""Memories in the database: entries of names with embeddings beside an index, and the queries on them.

The record and its empty table are committed first. Entries and embeddings follow in batches, each committed, so that
the next build continues where a killed one ended. A memory is ready when it was finished once. If the index changes, it
stays as it is until the next build, and its record says how many changes it has followed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from psycopg.rows import class_row

from refactx.errors import DatabaseError, IndexNotFoundError
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.locks import Connection, check_rights, drop_when_unread, memory_lock
from refactx.sql import query

OLDEST = (0, 7)
"""The first version with `halfvec`: half the room, and embeddings of up to 4,000 numbers in an HNSW index."""

MOST_NUMBERS = 4000
"""The widest embedding that an HNSW index takes."""

_INSTALLED = """SELECT e.extversion, n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'"""

_OTHERWISE = "Without it names are found as they are written, or by their letters: leave out the memory"

_LIST = """
SELECT m.id, i.name AS index, m.encoder, m.fingerprint, m.width, m.aliases, m.ready, m.created,
    (
        SELECT count(*) FROM jsonb_array_elements(coalesce(i.report -> 'changes', '[]')) AS c
        WHERE c ->> 'change' <> 'compact'
    ) - m.changes AS behind,
    coalesce(pg_total_relation_size(to_regclass('refactx.memory_' || m.id)), 0)::bigint AS bytes
FROM refactx.memories AS m JOIN refactx.indexes AS i ON i.id = m.index_id
WHERE m.index_id = %s ORDER BY m.id
"""

_CHANGES = """SELECT count(*) FROM refactx.indexes AS i, jsonb_array_elements(coalesce(i.report -> 'changes', '[]')) AS c
WHERE i.id = %s AND c ->> 'change' <> 'compact'"""

_PARITIES = {"entities": 0, "relations": 1}

_GRAPH_BYTES = 1 << 30
"""The most memory for building an HNSW index: 600,000 embeddings of 384 numbers. With more entries it takes longer."""

_OF_ENTRY = 600
"""Bytes that an entry of an HNSW index takes beside its numbers, while it is built."""

MOST_NAMESAKES = 1000
"""The most entries of the labels of one lookup."""

BEAM = 100
"""The candidates that a search of an HNSW index keeps (`hnsw.ef_search`), of which the nearest are the result."""


@contextmanager
def memory_session(database: Database, index: str) -> Iterator[Connection]:
    """Open a connection, in autocommit mode and without time limits, to write the memories of an index.

    Raises DatabaseError if the role lacks a right or PostgreSQL refuses, IndexNotFoundError if the index is dropped
    meanwhile.
    """
    try:
        with database.session() as connection:
            check_rights(connection, index)
            yield connection
    except (psycopg.errors.UndefinedTable, psycopg.errors.ForeignKeyViolation) as error:
        raise IndexNotFoundError(
            f"index {index!r}, or its memory, was dropped meanwhile: run the command again"
        ) from error
    except psycopg.Error as error:
        raise DatabaseError(
            f"PostgreSQL could not store a memory of index {index!r}: {database.reason(error)}. What is stored stays: run the "
            "same command again"
        ) from error


def find_pgvector(connection: psycopg.Connection[Any]) -> str:
    """Return the schema in which a database has pgvector. Raises DatabaseError if it has none, or one that is too old."""
    row = connection.execute(_INSTALLED).fetchone()
    database = connection.info.dbname
    if row is None:
        raise DatabaseError(
            f"database {database} has no extension vector (pgvector), which a memory needs. {_OTHERWISE}"
        )
    version, schema = row
    if _numbers(version) < OLDEST:
        raise DatabaseError(
            f"database {database} has pgvector {version}, and a memory needs {OLDEST[0]}.{OLDEST[1]} or newer: have an "
            f"administrator upgrade it, and run ALTER EXTENSION vector UPDATE"
        )
    return str(schema)


def make_pgvector(connection: psycopg.Connection[Any]) -> str:
    """Do the same, and create the extension first if the server has it and the database does not."""
    if connection.execute(_INSTALLED).fetchone() is None:
        database = connection.info.dbname
        try:
            # Not in the schema refactx, which comes first for a role of this name.
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        except psycopg.errors.UniqueViolation:  # another session has created it this moment
            pass
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
            raise DatabaseError(
                "this PostgreSQL server has no pgvector, which a memory needs: have an administrator install it (the "
                f"embedded server has it). {_OTHERWISE}"
            ) from None
        except psycopg.errors.InsufficientPrivilege:
            raise DatabaseError(
                f"role {connection.info.user} may not create the extension vector: have a superuser run CREATE EXTENSION "
                f"vector in database {database}"
            ) from None
    return find_pgvector(connection)


def halfvec(schema: str) -> sql.Identifier:
    """Return the type of embeddings, by its schema."""
    return sql.Identifier(schema, "halfvec")


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers.

    >>> _numbers("0.8.5") >= OLDEST, _numbers("0.6.2") >= OLDEST
    (True, False)
    """
    return tuple(int(part) for part in version.split(".") if part.isdigit())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A memory in the catalogue.

    `index`: the name of its index; `encoder`: the encoder's name as the user gave it; `fingerprint`: of its weights;
    `width`: the numbers of an embedding; `aliases`: whether aliases have embeddings; `behind`: how many appends and
    forgets of the index it has not followed; `ready`: whether it was finished once; `bytes`: on disk.
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


def drop_memories(connection: Connection, entry: CatalogueEntry, encoder: str | None = None) -> list[MemoryRecord]:
    """Remove the memories of an index, or those whose encoder has a name. Return their records.

    Raises IndexNotFoundError if there is none, IndexExistsError while one is being built, DatabaseError if a session
    reads one for all of `DROP_SECONDS`.
    """
    found = list_memories(connection, entry)
    chosen = [one for one in found if encoder in (None, one.encoder)]
    if not chosen:
        of = "" if encoder is None else f" of encoder {encoder}"
        known = f" (there are those of {', '.join(one.encoder for one in found)})" if found else ""
        raise IndexNotFoundError(f"index {entry.name!r} has no memory{of}{known}: `refactx memory show` lists them")
    with memory_lock(connection, entry.id, entry.name):
        if not drop_when_unread(connection, partial(_discard, connection, [one.id for one in chosen])):
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
    """Return whether the catalogue has the table of memories: the first build makes it."""
    return connection.execute("SELECT to_regclass('refactx.memories') IS NOT NULL").fetchone() == (True,)


Role = Literal["u", "d", "s", "a"]


class NameRow(NamedTuple):
    """A name of the index, and what it consists of. `number`: of `refactx.entity_ids`; `folded`: a hash of the label
    without regard to case, int64; `place`: of several with a name, the one of the lowest place counts."""

    name: str
    number: int
    label: str
    description: str
    folded: int
    place: int


class PartRow(NamedTuple):
    """A part of a fact that matters: that a `name` is used (`u`); that `other` is its description (`d`) or short
    description (`s`); or that `name` is an alias (`a`) of the name `other`. `folded`: that of an alias."""

    role: Role
    name: str
    other: str | None = None
    folded: int | None = None


def update_entries(
    connection: Connection, memory: MemoryRecord, names: Iterable[NameRow], parts: Iterable[PartRow]
) -> tuple[int, int]:
    """Make the entries of a memory those of the names of an index that its facts use, with descriptions and aliases.

    Return how many were removed and added. Entries that stay keep their embeddings. Readers see all of it or nothing.
    """
    with connection.transaction():
        connection.execute(query("stage_memory").encode())
        for table, rows in (("memory_names", names), ("memory_parts", parts)):
            with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)
            connection.execute(f"ANALYZE {table}".encode())
        statement = sql.SQL(query("update_memory")).format(table=sql.Identifier(f"memory_{memory.id}"))
        ((removed, added),) = connection.execute(statement).fetchall()
        if removed or added:
            connection.execute(sql.SQL("ANALYZE {}").format(memory.table))
        return int(removed), int(added)


class Unembedded(NamedTuple):
    """An entry without an embedding."""

    entry: int
    label: str
    description: str


def count_missing(connection: Connection, memory: MemoryRecord) -> tuple[int, int]:
    """Return how many entries are to have an embedding, and how many of those have none."""
    statement = sql.SQL(
        "SELECT count(*), count(*) FILTER (WHERE embedding IS NULL) FROM {} WHERE %s OR NOT is_alias"
    ).format(memory.table)
    row = connection.execute(statement, [memory.aliases]).fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)


def missing_batches(connection: Connection, memory: MemoryRecord, size: int) -> Iterator[list[Unembedded]]:
    """Yield the entries that have no embedding yet, `size` at a time, in the order of their numbers."""
    statement = sql.SQL(
        "SELECT entry, label, description FROM {} WHERE entry > %s AND embedding IS NULL AND (%s OR NOT is_alias) "
        "ORDER BY entry LIMIT %s"
    ).format(memory.table)
    last = 0
    while rows := connection.execute(statement, [last, memory.aliases, size]).fetchall():
        batch = [Unembedded(*row) for row in rows]
        yield batch
        last = batch[-1].entry


def copy_embeddings(connection: Connection, memory: MemoryRecord) -> int:
    """Take the embeddings of the same texts from other memories of the same encoder. Return how many."""
    others = connection.execute(
        "SELECT id FROM refactx.memories WHERE fingerprint = %s AND width = %s AND id <> %s ORDER BY id",
        [memory.fingerprint, memory.width, memory.id],
    ).fetchall()
    copied = 0
    for (other,) in others:
        statement = sql.SQL(
            """UPDATE {} AS m SET embedding = o.embedding FROM (
                SELECT DISTINCT ON (label, description) label, description, embedding FROM {}
                WHERE embedding IS NOT NULL ORDER BY label, description
            ) AS o
            WHERE m.label = o.label AND m.description = o.description AND m.embedding IS NULL AND (%s OR NOT m.is_alias)"""
        ).format(memory.table, sql.Identifier("refactx", f"memory_{other}"))
        copied += connection.execute(statement, [memory.aliases]).rowcount
    return copied


def store_embeddings(
    connection: Connection, memory: MemoryRecord, entries: Sequence[int], embeddings: NDArray[np.float32], vectors: str
) -> None:
    """Store the embeddings float32[n, width] of n entries, in half precision, in one transaction.

    `vectors`: the schema of pgvector.
    """
    head = np.array([memory.width, 0], ">i2").tobytes()  # the binary format of halfvec: its width, 0, its numbers
    halves = embeddings.astype(">f2")
    with connection.transaction():
        statement = sql.SQL("CREATE TEMP TABLE new_embeddings (entry integer, embedding {}({})) ON COMMIT DROP")
        connection.execute(statement.format(halfvec(vectors), sql.Literal(memory.width)))
        with connection.cursor() as cursor, cursor.copy("COPY new_embeddings FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "bytea"])
            for entry, numbers in zip(entries, halves, strict=True):
                copy.write_row((entry, head + numbers.tobytes()))
        statement = sql.SQL(
            "UPDATE {} AS m SET embedding = n.embedding FROM new_embeddings AS n WHERE m.entry = n.entry"
        )
        connection.execute(statement.format(memory.table))


def build_graphs(connection: Connection, memory: MemoryRecord, vectors: str) -> None:
    """Make the HNSW indexes of a memory that has none yet: one for entities, one for properties."""
    total, _ = count_missing(connection, memory)
    wanted = min(_GRAPH_BYTES, max(64 << 20, total * (2 * memory.width + _OF_ENTRY)))
    for kind, parity in _PARITIES.items():
        name = memory.graph(kind)
        if connection.execute("SELECT to_regclass(%s)", [f"refactx.{name}"]).fetchone() != (None,):
            continue
        statement = sql.SQL("CREATE INDEX {} ON {} USING hnsw (embedding {}) WHERE (number & 1) = {}").format(
            sql.Identifier(name), memory.table, sql.Identifier(vectors, "halfvec_cosine_ops"), sql.Literal(parity)
        )
        try:
            _create(connection, statement, wanted, parallel=True)
        except psycopg.errors.DiskFull:  # shared memory, of which a container may have 64 MB
            _create(connection, statement, wanted, parallel=False)
    connection.execute(sql.SQL("ANALYZE {}").format(memory.table))


def _create(connection: Connection, statement: sql.Composed, memory: int, *, parallel: bool) -> None:
    with connection.transaction():
        connection.execute(f"SET LOCAL maintenance_work_mem = '{memory >> 10}kB'".encode())
        if not parallel:
            connection.execute("SET LOCAL max_parallel_maintenance_workers = 0")
        connection.execute(statement)


class EntryRow(NamedTuple):
    """An entry of a memory. `number`: of its entity or property (`refactx.entity_ids`)."""

    number: int
    label: str
    description: str
    is_alias: bool


class NearRow(NamedTuple):
    """An entry, and the cosine of its embedding with that of the text number `text`."""

    text: int
    similarity: float
    entry: EntryRow


def find_labels(connection: psycopg.Connection[Any], memory: MemoryRecord, folded: Sequence[int]) -> list[EntryRow]:
    """Return the entries whose labels have one of some hashes, with one query."""
    statement = sql.SQL(
        "SELECT number, label, description, is_alias FROM {} WHERE folded = ANY(%s) ORDER BY is_alias, number LIMIT %s"
    ).format(memory.table)
    return [EntryRow(*row) for row in connection.execute(statement, [list(folded), MOST_NAMESAKES]).fetchall()]


def find_nearest(
    connection: psycopg.Connection[Any],
    memory: MemoryRecord,
    embeddings: NDArray[np.float32],
    *,
    relations: bool,
    count: int,
    vectors: str,
) -> list[NearRow]:
    """Return the entries nearest to n embeddings, float32[n, width]: at most `count` of each, the nearest first.

    `relations`: properties, else entities. The search is approximate if there are many (HNSW). `vectors`: the schema
    of pgvector.
    """
    statement = sql.SQL(
        """SELECT q.text, 1 - f.distance, f.number, f.label, f.description, f.is_alias
        FROM unnest(%s::text[]::{halfvec}[]) WITH ORDINALITY AS q (embedding, text) CROSS JOIN LATERAL (
            SELECT number, label, description, is_alias, m.embedding OPERATOR({schema}.<=>) q.embedding AS distance
            FROM {table} AS m WHERE (number & 1) = {parity} AND m.embedding IS NOT NULL ORDER BY distance LIMIT %s
        ) AS f ORDER BY q.text, f.distance"""
    ).format(
        halfvec=halfvec(vectors), schema=sql.Identifier(vectors), table=memory.table, parity=sql.Literal(int(relations))
    )
    with connection.pipeline(), connection.transaction():
        connection.execute(f"SET LOCAL hnsw.ef_search = {max(BEAM, count)}".encode())
        rows = connection.execute(statement, [_texts(embeddings), count], binary=True)
    return [NearRow(int(row[0]) - 1, float(row[1]), EntryRow(*row[2:])) for row in rows.fetchall()]


def similarities(
    connection: psycopg.Connection[Any],
    memory: MemoryRecord,
    embedding: NDArray[np.float32],
    numbers: Sequence[int],
    *,
    vectors: str,
) -> dict[int, float]:
    """Return the largest cosine of an embedding, float32[width], with those of some entities' entries, by number."""
    statement = sql.SQL(
        """SELECT number, max(1 - (embedding OPERATOR({}.<=>) %s::text::{})) FROM {}
        WHERE number = ANY(%s) AND embedding IS NOT NULL GROUP BY number"""
    ).format(sql.Identifier(vectors), halfvec(vectors), memory.table)
    rows = connection.execute(statement, [_texts(embedding[None])[0], list(numbers)], binary=True).fetchall()
    return {int(number): float(similarity) for number, similarity in rows}


def _texts(embeddings: NDArray[np.float32]) -> list[str]:
    """Return embeddings as pgvector reads them.

    >>> _texts(np.array([[0.5, -1]], np.float32))
    ['[0.5,-1.0]']
    """
    return ["[" + ",".join(map(repr, row)) + "]" for row in embeddings.astype(np.float16).tolist()]
