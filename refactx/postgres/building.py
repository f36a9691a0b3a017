"""An index's life in the database: begun, filled, published, dropped; visible to readers only when it is complete.

Its tables and its `building` entry are committed first, so that whatever a killed ingest leaves behind can be seen
(`refactx index list --all`) and dropped. Rows, B-tree and the change of state are one transaction. All of it under the lock
on its name (`ingest.locks`). What changes a ready index is in `ingest.changes`.
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import zstandard
from psycopg import sql
from psycopg.types.json import Jsonb

from refactx.errors import DatabaseError, IndexExistsError, IndexNotFoundError, InputError
from refactx.postgres.database import check_catalogue, list_indexes
from refactx.postgres.locks import PATIENCE, Connection, name_lock, when_unread
from refactx.postgres.rights import check_rights
from refactx.postgres.tables import create_table, drop_tables
from refactx.sql import query
from refactx.tokenizer import FactTokenizer
from refactx.tree.codec import FORMAT_VERSION

_log = logging.getLogger(__name__)


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
    """The numbers of an index that is being built, of its segment, and of the table for its names; None where it has those of
    a knowledge base that is there."""

    index: int
    segment: int
    names: int | None


def check_name(name: str) -> None:
    """Raise InputError unless a name is one that can be read and typed."""
    if not name or name != name.strip() or not name.isprintable():
        raise InputError(f"{name!r} is no name for an index: give --index a word without space at its ends")


def check_free(connection: Connection, name: str, replace: bool) -> None:
    """Raise IndexExistsError if a ready index has the name and is not to be replaced."""
    if list_indexes(connection, name) and not replace:
        raise IndexExistsError(f"index {name!r} exists: give --replace to build it anew, or another --index")


def make_schema(connection: Connection) -> None:
    """Make the catalogue's tables, where they are missing. Raises RefactxError if they are of another version."""
    with connection.transaction():
        # Two first ingests at once would both create the schema.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('refactx'))")
        check_catalogue(connection)
        connection.execute(query("schema").encode())


def begin(connection: Connection, header: Header, knowledge_base: int | None = None) -> Begun:
    """Commit an empty index in state `building`, after removing what killed ingests left under its name.

    It shares the names of `knowledge_base`, if that is given; otherwise it gets a knowledge base of its own.
    """
    clear_way(connection, header.name)
    with connection.transaction():
        names = None
        if knowledge_base is None:
            knowledge_base = add_knowledge_base(connection)
            names = add_name_table(connection, knowledge_base)
        index = add_index(connection, header, knowledge_base)
        return Begun(index, add_segment(connection, index, 1), names)


def clear_way(connection: Connection, name: str) -> None:
    """Make the catalogue's tables, where they are missing, and remove what killed ingests left under a name."""
    make_schema(connection)
    discard_unfinished(connection, name)


def discard_unfinished(connection: Connection, name: str) -> None:
    """Remove the indexes in state `building` under a name. One that was replaced while somebody read it, and still does, is
    left to the next ingest of the name."""
    for entry in list_indexes(connection, name, every=True):
        if entry["state"] == "building":
            when_unread(connection, partial(discard, connection, [entry["id"]]))


def remove_unshown(connection: Connection, index: int, name: str) -> None:
    """Behind a failed ingest remove what no reader will see: its index, or if that has been shown already, because Ctrl-C came
    during the commit, the one that it replaced. What cannot be removed now is left to the next ingest of the name."""
    try:
        row = connection.execute("SELECT state FROM refactx.indexes WHERE id = %s", [index]).fetchone()
        if row == ("ready",):
            discard_unfinished(connection, name)
        else:
            discard(connection, [index])
    except psycopg.Error as error:  # the connection may still be busy with the commit
        _log.info("what the ingest of index %r left is removed by the next one: %s", name, error)


def add_knowledge_base(connection: Connection) -> int:
    """A new knowledge base, without names; gives its number."""
    return number(connection, "INSERT INTO refactx.knowledge_bases DEFAULT VALUES RETURNING id", [])


def add_index(connection: Connection, header: Header, knowledge_base: int) -> int:
    """A new index of a knowledge base, in state `building` and without segments; gives its number."""
    tokenizer = header.tokenizer
    connection.execute(
        "INSERT INTO refactx.tokenizers VALUES (%s, %s) ON CONFLICT DO NOTHING",
        [tokenizer.fingerprint, zstandard.ZstdCompressor(level=9).compress(tokenizer.serialized.encode())],
    )
    return number(
        connection,
        """INSERT INTO refactx.indexes
            (name, state, format, tokenizer, fingerprint, vocabulary_size, trigger, terminator, source, knowledge_base)
        VALUES (%s, 'building', %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id""",
        [header.name, FORMAT_VERSION, header.tokenizer_name, tokenizer.fingerprint, len(tokenizer.token_bytes)]
        + [header.trigger, header.terminator, list(header.source), knowledge_base],
    )


def add_segment(connection: Connection, index: int, sign: int) -> int:
    """A new segment of an index, empty and not ready, with its table; gives its number."""
    segment = number(
        connection, "INSERT INTO refactx.segments (index_id, sign) VALUES (%s, %s) RETURNING id", [index, sign]
    )
    create_table(connection, "pieces", segment)
    return segment


def add_name_table(connection: Connection, knowledge_base: int) -> int:
    """A new table for names of a knowledge base, empty and not ready; gives its number."""
    names = number(
        connection, "INSERT INTO refactx.name_tables (knowledge_base) VALUES (%s) RETURNING id", [knowledge_base]
    )
    create_table(connection, "names", names)
    return names


def show_segment(connection: Connection, segment: int, described: dict[str, Any]) -> None:
    """Describe a segment by columns of `refactx.segments`, and make it ready."""
    assignments = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder(column)) for column in described
    )
    connection.execute(
        sql.SQL("UPDATE refactx.segments SET ready = true, {} WHERE id = %(id)s").format(assignments),
        {**described, "id": segment},
    )


def show_names(connection: Connection, names: int | None) -> None:
    """Make a name table ready, if there is one."""
    connection.execute("UPDATE refactx.name_tables SET ready = true WHERE id = %s", [names])


def publish(
    connection: Connection, begun: Begun, segment: dict[str, Any], report: dict[str, Any], replace: bool
) -> None:
    """Describe the segment, hide the index that had the name (if `replace`), and show this one, in the caller's transaction."""
    show_segment(connection, begun.segment, segment)
    show_names(connection, begun.names)
    show_index(connection, begun.index, report, replace)


def show_index(connection: Connection, index: int, report: dict[str, Any], replace: bool) -> None:
    """Hide the index that had the name (if `replace`), and make this one ready, in the caller's transaction.

    Behind that `discard_unfinished` drops the hidden one: to drop it here could mean to wait for who reads it.
    """
    name = connection.execute("SELECT name FROM refactx.indexes WHERE id = %s", [index]).fetchone()
    if name is None:
        raise IndexNotFoundError("the index was dropped while it was being built: run the ingest again")
    check_free(connection, name[0], replace)
    connection.execute("UPDATE refactx.indexes SET state = 'building' WHERE name = %s AND state = 'ready'", [name[0]])
    connection.execute(
        "UPDATE refactx.indexes SET state = 'ready', report = %s, created = now() WHERE id = %s",
        [Jsonb(report), index],
    )


def drop(connection: Connection, name: str, patience: float = PATIENCE, *, unfinished: bool = False) -> None:
    """Remove an index, complete or not (`unfinished`: only what killed ingests left of it, or the one that another has
    replaced). Raises IndexNotFoundError if there is none, IndexExistsError while it is written,
    DatabaseError if the role may not, or if for `patience` seconds somebody is in one of its tables, who is not waited for any
    longer."""
    check_rights(connection, name)
    entries = [
        entry for entry in list_indexes(connection, name, every=True) if not unfinished or entry["state"] == "building"
    ]
    if not entries:
        kind = "unfinished index" if unfinished else "index"
        raise IndexNotFoundError(f"there is no {kind} {name!r}: `refactx index list --all` shows them")
    numbers_of = [entry["id"] for entry in entries]
    with name_lock(connection, name):
        if not when_unread(connection, partial(discard, connection, numbers_of), patience):
            raise DatabaseError(
                f"index {name!r} was not dropped: its tables are being read, by an export, say"
                f"{_by_whom(connection, numbers_of)}. Drop it when that has ended"
            )


def _by_whom(connection: Connection, indexes: list[int]) -> str:
    """The sessions that hold tables of some indexes."""
    sessions = numbers(
        connection,
        "SELECT DISTINCT pid FROM pg_locks AS l"
        " JOIN refactx.segments AS s ON l.relation = to_regclass('refactx.pieces_' || s.id)"
        " WHERE s.index_id = ANY(%s) AND l.granted AND l.pid <> pg_backend_pid() ORDER BY pid",
        [indexes],
    )
    return f" (process {', '.join(map(str, sessions))} of the server)" if sessions else ""


def discard(connection: Connection, indexes: list[int]) -> None:
    """Remove indexes with their tables, and the knowledge bases and tokenizers that none needs any more."""
    if not indexes:
        return
    with connection.transaction():
        drop_tables(
            *(connection, "pieces"),
            numbers(connection, "SELECT id FROM refactx.segments WHERE index_id = ANY(%s)", [indexes]),
        )
        bases = numbers(connection, "SELECT knowledge_base FROM refactx.indexes WHERE id = ANY(%s)", [indexes])
        connection.execute("DELETE FROM refactx.indexes WHERE id = ANY(%s)", [indexes])
        # Held first, then looked at: another index may be joining a knowledge base right now.
        connection.execute("SELECT FROM refactx.knowledge_bases WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [bases])
        unused = numbers(
            connection,
            "SELECT id FROM refactx.knowledge_bases AS k WHERE id = ANY(%s)"
            " AND NOT EXISTS (SELECT FROM refactx.indexes AS i WHERE i.knowledge_base = k.id)",
            [bases],
        )
        drop_tables(
            *(connection, "names"),
            numbers(connection, "SELECT id FROM refactx.name_tables WHERE knowledge_base = ANY(%s)", [unused]),
        )
        connection.execute("DELETE FROM refactx.knowledge_bases WHERE id = ANY(%s)", [unused])
        connection.execute(
            "DELETE FROM refactx.tokenizers AS t WHERE NOT EXISTS"
            " (SELECT FROM refactx.indexes AS i WHERE i.fingerprint = t.fingerprint)"
        )


def numbers(connection: Connection, statement: str, values: list[Any]) -> list[int]:
    """The first column of what a query gives."""
    return [int(row[0]) for row in connection.execute(statement.encode(), values).fetchall()]


def number(connection: Connection, statement: str, values: list[Any]) -> int:
    """The one number that a statement gives."""
    (found,) = numbers(connection, statement, values)
    return found
