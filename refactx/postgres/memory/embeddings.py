"""The embeddings of a memory's entries: which are missing, their storage, and the HNSW index for nearest neighbours."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from refactx.postgres.locks import Connection
from refactx.postgres.memory.pgvector import halfvec
from refactx.postgres.memory.records import MemoryRecord

_PARITIES = {"entities": 0, "relations": 1}
_GRAPH_BYTES = 1 << 30
"""The most memory for building an HNSW index: 600,000 embeddings of 384 numbers. With more entries it takes longer."""
_OF_ENTRY = 600
"""Bytes that an entry of an HNSW index takes beside its numbers, while it is built."""


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
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY new_embeddings FROM STDIN (FORMAT binary)") as copy,
        ):
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
