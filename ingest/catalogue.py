"""An index's life in the database: begun, filled, published, dropped; visible to readers only when it is complete.

Its tables and its `building` entry are committed first, so that whatever a killed ingest leaves behind can be seen
(`refactx index list --all`) and dropped. Rows, B-tree and the change of state are one transaction. A lock on the name, held
by the ingest's session, tells a second ingest into it; PostgreSQL frees it when the session ends, however that is.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import zstandard
from psycopg import sql
from psycopg.types.json import Jsonb

from refactx.codec import FORMAT_VERSION
from refactx.errors import IndexExistsError, IndexNotFoundError, InputError
from refactx.postgres import list_indexes, table
from refactx.sql import query
from refactx.tokenizer import FactTokenizer

from .rights import check_rights

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Header:
    """What an index is called and made of."""

    name: str
    tokenizer_name: str
    tokenizer: FactTokenizer
    trigger: str
    terminator: str
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Begun:
    """The numbers of an index that is being built and of its segment."""

    index: int
    segment: int


@contextmanager
def name_lock(connection: Connection, name: str) -> Iterator[None]:
    """Hold a name for writing. Raises IndexExistsError at once if another session holds it."""
    row = connection.execute("SELECT pg_try_advisory_lock(hashtext('refactx'), hashtext(%s))", [name]).fetchone()
    if row != (True,):
        raise IndexExistsError(f"another process is writing index {name!r}: wait for it, or choose another --index")
    try:
        yield
    finally:
        if not connection.broken:
            connection.execute("SELECT pg_advisory_unlock(hashtext('refactx'), hashtext(%s))", [name])


def check_name(name: str) -> None:
    """Raise InputError unless a name is one that can be read and typed."""
    if not name or name != name.strip() or not name.isprintable():
        raise InputError(f"{name!r} is no name for an index: give --index a word without space at its ends")


def check_free(connection: Connection, name: str, replace: bool) -> None:
    """Raise IndexExistsError if a ready index has the name and is not to be replaced."""
    if not replace and list_indexes(connection, name):
        raise IndexExistsError(f"index {name!r} exists: give --replace to build it anew, or another --index")


def begin(connection: Connection, header: Header) -> Begun:
    """Commit an empty index in state `building`, after removing what killed ingests left under its name."""
    with connection.transaction():
        # Two first ingests at once would both create the schema.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('refactx'))")
        connection.execute(query("schema").encode())
    discard(
        connection, [e["id"] for e in list_indexes(connection, header.name, every=True) if e["state"] == "building"]
    )
    tokenizer = header.tokenizer
    with connection.transaction():
        connection.execute(
            "INSERT INTO refactx.tokenizers VALUES (%s, %s) ON CONFLICT DO NOTHING",
            [tokenizer.fingerprint, zstandard.ZstdCompressor(level=9).compress(tokenizer.serialized.encode())],
        )
        index = _number(
            connection,
            """INSERT INTO refactx.indexes
                (name, state, format, tokenizer, fingerprint, vocabulary_size, trigger, terminator, source)
            VALUES (%s, 'building', %s, %s, %s, %s, %s, %s, %s) RETURNING id""",
            [header.name, FORMAT_VERSION, header.tokenizer_name, tokenizer.fingerprint, len(tokenizer.token_bytes)]
            + [header.trigger, header.terminator, list(header.source)],
        )
        segment = _number(
            connection, "INSERT INTO refactx.segments (index_id, sign) VALUES (%s, 1) RETURNING id", [index]
        )
        connection.execute(
            sql.SQL(query("create_segment")).format(pieces=table("pieces", segment), names=table("names", index))
        )
    return Begun(index, segment)


def copy_rows(connection: Connection, name: str, number: int, rows: Iterable[tuple[bytes, bytes]]) -> int:
    """Fill the table `name`_`number` with keys and values in the order of the keys, then make its B-tree; gives the count."""
    where = sql.Identifier("refactx", f"{name}_{number}")
    # Truncated in the same transaction, so that rows go in frozen, and past the write-ahead log where it is minimal.
    connection.execute(sql.SQL("TRUNCATE {}").format(where))
    count = 0
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.SQL("COPY {} FROM STDIN (FORMAT binary, FREEZE)").format(where)) as copy,
    ):
        copy.set_types(["bytea", "bytea"])
        for row in rows:
            copy.write_row(row)
            count += 1
    connection.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (key)").format(where))
    return count


def publish(
    connection: Connection, begun: Begun, segment: dict[str, Any], report: dict[str, Any], replace: bool
) -> None:
    """Describe the segment, drop the index that had the name (if `replace`), and show this one, in the caller's transaction."""
    assignments = sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(c), sql.Placeholder(c)) for c in segment)
    connection.execute(
        sql.SQL("UPDATE refactx.segments SET {} WHERE id = %(id)s").format(assignments),
        {**segment, "id": begun.segment},
    )
    name = connection.execute("SELECT name FROM refactx.indexes WHERE id = %s", [begun.index]).fetchone()
    if name is None:
        raise IndexNotFoundError("the index was dropped while it was being built: run the ingest again")
    check_free(connection, name[0], replace)
    discard(connection, [entry["id"] for entry in list_indexes(connection, name[0])])
    connection.execute(
        "UPDATE refactx.indexes SET state = 'ready', report = %s, created = now() WHERE id = %s",
        [Jsonb(report), begun.index],
    )


def drop(connection: Connection, name: str) -> None:
    """Remove an index, complete or not. Raises IndexNotFoundError if there is none, IndexExistsError while it is written,
    DatabaseError if the role may not."""
    check_rights(connection, name)
    entries = list_indexes(connection, name, every=True)
    if not entries:
        raise IndexNotFoundError(f"there is no index {name!r}: `refactx index list --all` shows them")
    with name_lock(connection, name):
        discard(connection, [entry["id"] for entry in entries])


def discard(connection: Connection, indexes: list[int]) -> None:
    """Remove indexes with their tables, and the tokenizers that none needs any more."""
    if not indexes:
        return
    with connection.transaction():
        segments = connection.execute("SELECT id FROM refactx.segments WHERE index_id = ANY(%s)", [indexes]).fetchall()
        for prefix, numbers in (("pieces", [row[0] for row in segments]), ("names", indexes)):
            for number in numbers:
                connection.execute(
                    sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier("refactx", f"{prefix}_{number}"))
                )
        connection.execute("DELETE FROM refactx.indexes WHERE id = ANY(%s)", [indexes])
        connection.execute(
            "DELETE FROM refactx.tokenizers AS t WHERE NOT EXISTS"
            " (SELECT FROM refactx.indexes AS i WHERE i.fingerprint = t.fingerprint)"
        )


def _number(connection: Connection, statement: str, values: list[Any]) -> int:
    row = connection.execute(statement.encode(), values).fetchone()
    if row is None:
        raise RuntimeError("INSERT ... RETURNING gave nothing")
    return int(row[0])
