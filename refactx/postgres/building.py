"""The building of an index: its entry and empty tables, and the transaction that shows it to readers.

The tables of an index and its entry in state `building` are committed first, so that what a killed ingest leaves can be
listed (`refactx index list --all`) and dropped. The rows, their B-tree and the change of state are one transaction. The
writer holds the lock on the name of the index (`refactx.postgres.locks`). `refactx.postgres.changes` changes a ready
index.
"""

from dataclasses import dataclass
from typing import Any

import zstandard
from psycopg import sql
from psycopg.types.json import Jsonb

from refactx.errors import (
    IndexExistsError,
    IndexNotFoundError,
    InputError,
)
from refactx.paths import INDEX_FILE
from refactx.postgres.catalogue import check_catalogue, list_indexes, number
from refactx.postgres.locks import Connection
from refactx.postgres.removal import discard_unfinished
from refactx.postgres.tables import create_table
from refactx.sql import query
from refactx.tokenizer import FactTokenizer
from refactx.tree.codec import FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHeader:
    """The columns of a new catalogue entry: name, tokenizer, trigger, terminator and sources."""

    name: str
    tokenizer_name: str
    tokenizer: FactTokenizer
    trigger: str
    terminator: str
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnfinishedIndex:
    """The ids of an index in state `building`, of its segment, and of its name table.

    `names` is None if the index shares the names of an existing knowledge base.
    """

    index: int
    segment: int
    names: int | None


def check_name(name: str) -> None:
    """Raise InputError unless a name is printable, has no space at its ends, and does not look like that of a file."""
    if name.endswith(INDEX_FILE) or name.startswith(("/", "./", "../")):
        raise InputError(f"{name!r} is the path of an index file, not a name for an index: give another --index")
    if not name or name != name.strip() or not name.isprintable():
        raise InputError(
            f"{name!r} is not a valid name for an index: give --index printable text without spaces at its ends"
        )


def check_free(connection: Connection, name: str, replace: bool) -> None:
    """Raise IndexExistsError if a ready index has the name and is not to be replaced."""
    if list_indexes(connection, name) and not replace:
        raise IndexExistsError(f"index {name!r} exists: give --replace to rebuild it, or another --index")


def make_schema(connection: Connection) -> None:
    """Make the tables of the catalogue that are missing. Raises RefactxError if the catalogue has another version."""
    with connection.transaction():
        # Without the lock, two first ingests at once would both create the schema.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('refactx'))")
        check_catalogue(connection)
        connection.execute(query("schema").encode())


def begin(connection: Connection, header: IndexHeader, knowledge_base: int | None = None) -> UnfinishedIndex:
    """Commit an empty index in state `building`, after removing unfinished indexes of its name.

    It shares the names of `knowledge_base` if that is given, and gets a knowledge base of its own otherwise.
    """
    prepare_catalogue(connection, header.name)
    with connection.transaction():
        names = None
        if knowledge_base is None:
            knowledge_base = add_knowledge_base(connection)
            names = add_name_table(connection, knowledge_base)
        index = add_index(connection, header, knowledge_base)
        return UnfinishedIndex(index, add_segment(connection, index, 1), names)


def prepare_catalogue(connection: Connection, name: str) -> None:
    """Make the tables of the catalogue that are missing, and remove the unfinished indexes of a name."""
    make_schema(connection)
    discard_unfinished(connection, name)


def add_knowledge_base(connection: Connection) -> int:
    """Add a knowledge base without names. Return its id."""
    return number(connection, "INSERT INTO refactx.knowledge_bases DEFAULT VALUES RETURNING id", [])


def add_index(connection: Connection, header: IndexHeader, knowledge_base: int) -> int:
    """Add an index of a knowledge base, in state `building` and without segments. Return its id."""
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
    """Add a segment to an index, not ready, with an empty table. Return its id."""
    segment = number(
        connection, "INSERT INTO refactx.segments (index_id, sign) VALUES (%s, %s) RETURNING id", [index, sign]
    )
    create_table(connection, "pieces", segment)
    return segment


def add_name_table(connection: Connection, knowledge_base: int) -> int:
    """Add a name table to a knowledge base, not ready and empty. Return its id."""
    names = number(
        connection, "INSERT INTO refactx.name_tables (knowledge_base) VALUES (%s) RETURNING id", [knowledge_base]
    )
    create_table(connection, "names", names)
    return names


def show_segment(connection: Connection, segment: int, columns: dict[str, Any]) -> None:
    """Set columns of a segment in `refactx.segments`, and make it ready."""
    assignments = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder(column)) for column in columns
    )
    connection.execute(
        sql.SQL("UPDATE refactx.segments SET ready = true, {} WHERE id = %(id)s").format(assignments),
        {**columns, "id": segment},
    )


def show_names(connection: Connection, names: int | None) -> None:
    """Make a name table ready, if there is one."""
    connection.execute("UPDATE refactx.name_tables SET ready = true WHERE id = %s", [names])


def publish(
    connection: Connection, unfinished: UnfinishedIndex, segment: dict[str, Any], report: dict[str, Any], replace: bool
) -> None:
    """Show an index with one segment in the caller's transaction, in place of the one with its name (if `replace`).

    `segment`: the columns of the segment, as `show_segment` takes them.
    """
    show_segment(connection, unfinished.segment, segment)
    show_names(connection, unfinished.names)
    show_index(connection, unfinished.index, report, replace)


def show_index(connection: Connection, index: int, report: dict[str, Any], replace: bool) -> None:
    """Make an index ready in the caller's transaction. With `replace`, the one that has its name becomes unfinished.

    The caller drops that one afterwards (`discard_unfinished`), since to drop it here could mean to wait for its
    readers. Raises IndexExistsError if another index has the name and `replace` is false.
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
