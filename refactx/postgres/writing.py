"""Writing: the session of a writer, the building, change and removal of indexes, and the migration of a catalogue.

The tables of an index and its entry in state `building` are committed first, so that what a killed ingest leaves can be
listed (`refactx index list --all`) and dropped. The rows, their B-tree and the change of state are one transaction. The
writer holds the lock on the name of the index (`refactx.postgres.locks`). `refactx.postgres.writing` changes a ready
index.

A new segment's table is committed empty and not ready, then filled and shown in one transaction. So readers see all of
it or nothing, and what a killed writer leaves is found and removed by the next change or by `refactx index drop`.
"""

import logging
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import zstandard
from psycopg import sql
from psycopg.types.json import Jsonb

from refactx.errors import DatabaseError, IndexExistsError, IndexNotFoundError, InputError, RefactxError
from refactx.paths import INDEX_FILE, WORK
from refactx.postgres import catalogue
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.locks import (
    DROP_SECONDS,
    Connection,
    check_rights,
    drop_when_unread,
    knowledge_base_lock,
    name_lock,
)
from refactx.postgres.memory import discard_memories
from refactx.sql import query
from refactx.tokenizer import FactTokenizer
from refactx.tree.codes import FORMAT_VERSION


@contextmanager
def writing(database: Database, index: str, work: Path) -> Iterator[Connection]:
    """Open a connection, in autocommit mode and without time limits, to write an index with files in `work`.

    Raises DatabaseError if the role lacks a right or PostgreSQL refuses, and RefactxError if `work` cannot be written
    or the catalogue has another version.
    """
    try:
        with database.session() as connection:
            check_rights(connection, index)
            catalogue.check_catalogue(connection)
            yield connection
    except psycopg.Error as error:
        raise DatabaseError(
            f"PostgreSQL could not store index {index!r}: {database.reason(error)}. Readers see no "
            "incomplete change: run the same command again"
        ) from error
    except OSError as error:
        raise RefactxError(
            f"cannot write in {work} ({error}): free disk space there, or give another --work-dir"
        ) from error


@contextmanager
def changing(connection: Connection, database: Database, name: str) -> Iterator[CatalogueEntry]:
    """Hold a ready index and the names of its knowledge base for a change, and return its catalogue entry.

    Raises IndexNotFoundError if there is no such index, IndexExistsError if another process is writing it.
    """
    with name_lock(connection, name):
        entry = catalogue.find_index(database, name)
        with knowledge_base_lock(connection, entry.knowledge_base):
            remove_unfinished(connection, entry)
            yield entry


def remove_unfinished(connection: Connection, entry: CatalogueEntry, patience: float = 0) -> None:
    """Remove the segments and name tables of an index that are not ready: those of killed writers and of compactions.

    The caller holds both locks and is in no transaction. If a reader uses one of the tables for all of `patience`
    seconds, all are left to the next change.
    """

    def remove() -> None:
        segments = catalogue.numbers(
            connection, "DELETE FROM refactx.segments WHERE index_id = %s AND NOT ready RETURNING id", [entry.id]
        )
        tables = catalogue.numbers(
            connection,
            "DELETE FROM refactx.name_tables WHERE knowledge_base = %s AND NOT ready RETURNING id",
            [entry.knowledge_base],
        )
        catalogue.drop_tables(connection, "pieces", segments)
        catalogue.drop_tables(connection, "names", tables)

    drop_when_unread(connection, remove, patience)


@contextmanager
def or_removed(connection: Connection, entry: CatalogueEntry) -> Iterator[None]:
    """Remove what is unfinished of an index if the block fails, unless the connection has."""
    try:
        yield
    except BaseException:
        if not connection.broken and not connection.closed:
            remove_unfinished(connection, entry)
        raise


def note_change(
    connection: Connection, entry: CatalogueEntry, change: dict[str, Any], sources: Sequence[str] = ()
) -> None:
    """Add a change to the account of an index (`report["changes"]`), and its sources to those of the index."""
    done = connection.execute(
        """UPDATE refactx.indexes SET source = source || %s,
            report = report || jsonb_build_object('changes', coalesce(report -> 'changes', '[]') || %s::jsonb)
        WHERE id = %s""",
        [list(sources), Jsonb([change]), entry.id],
    )
    if done.rowcount != 1:
        raise AssertionError("an index was dropped while its lock was held")


def count_change(connection: Connection, entry: CatalogueEntry) -> None:
    """Count the change of a single fact, which has no account of its own: there may be a million."""
    connection.execute(
        "UPDATE refactx.indexes SET report = report || jsonb_build_object('remembered', "
        "coalesce((report ->> 'remembered')::bigint, 0) + 1) WHERE id = %s",
        [entry.id],
    )


def add_to_report(connection: Connection, entry: CatalogueEntry, key: str, added: Mapping[str, Any]) -> None:
    """Add entries to the object `report[key]` in the account of an index. Make the object if it is missing."""
    connection.execute(
        """UPDATE refactx.indexes SET
            report = report ||
                jsonb_build_object(%(key)s::text, coalesce(report -> %(key)s::text, '{}') || %(added)s::jsonb)
        WHERE id = %(id)s""",
        {"key": key, "added": Jsonb(dict(added)), "id": entry.id},
    )


def note_statements(connection: Connection, entry: CatalogueEntry, added: int) -> None:
    """Add to the number of facts with qualifiers in the account of an index, so that readers expect them."""
    connection.execute(
        """UPDATE refactx.indexes SET report = report
            || jsonb_build_object('statements', coalesce((report ->> 'statements')::bigint, 0) + %s) WHERE id = %s""",
        [added, entry.id],
    )


def name_tables(connection: Connection, entry: CatalogueEntry) -> tuple[int, ...]:
    """Return the ready name tables of an index's knowledge base, the oldest first."""
    return tuple(
        catalogue.numbers(
            connection,
            "SELECT id FROM refactx.name_tables WHERE knowledge_base = %s AND ready ORDER BY id",
            [entry.knowledge_base],
        )
    )


_log = logging.getLogger(__name__)


def discard_unfinished(connection: Connection, name: str) -> None:
    """Remove the indexes of a name in state `building`.

    One that was replaced, and that a session still reads, is left to the next ingest of the name.
    """
    for entry in catalogue.list_indexes(connection, name, every=True):
        if entry.state == "building":
            drop_when_unread(connection, partial(discard, connection, [entry.id]))


def remove_unshown(connection: Connection, index: int, name: str) -> None:
    """Remove the index of a failed ingest.

    If Ctrl-C came during the commit, that index is ready, and the index that it replaced is removed. What cannot be
    removed now is left to the next ingest of the name.
    """
    try:
        row = connection.execute("SELECT state FROM refactx.indexes WHERE id = %s", [index]).fetchone()
        if row == ("ready",):
            discard_unfinished(connection, name)
        else:
            discard(connection, [index])
    except psycopg.Error as error:  # the connection may still be busy with the commit
        _log.info("the next ingest of index %r will remove what this one left: %s", name, error)


def drop(connection: Connection, name: str, patience: float = DROP_SECONDS, *, unfinished: bool = False) -> None:
    """Remove the indexes of a name, ready or not; with `unfinished`, only those that are not ready.

    Raises IndexNotFoundError if there is none, IndexExistsError while one is being written, DatabaseError if the role
    lacks a right, or if a session uses one of the tables for all of `patience` seconds.
    """
    check_rights(connection, name)
    entries = [
        entry
        for entry in catalogue.list_indexes(connection, name, every=True)
        if not unfinished or entry.state == "building"
    ]
    if not entries:
        kind = "unfinished index" if unfinished else "index"
        raise IndexNotFoundError(f"there is no {kind} {name!r}: `refactx index list --all` shows them")
    ids = [entry.id for entry in entries]
    with name_lock(connection, name):
        if not drop_when_unread(connection, partial(discard, connection, ids), patience):
            raise DatabaseError(
                f"index {name!r} was not dropped: its tables are being read, for example by an export"
                f"{_describe_readers(connection, ids)}. Drop it when that has ended"
            )


def _describe_readers(connection: Connection, indexes: list[int]) -> str:
    """Return the sessions that use tables of some indexes, as the end of a message."""
    sessions = catalogue.numbers(
        connection,
        "SELECT DISTINCT pid FROM pg_locks AS l"
        " JOIN refactx.segments AS s ON l.relation = to_regclass('refactx.pieces_' || s.id)"
        " WHERE s.index_id = ANY(%s) AND l.granted AND l.pid <> pg_backend_pid() ORDER BY pid",
        [indexes],
    )
    return f" (process {', '.join(map(str, sessions))} of the server)" if sessions else ""


def discard(connection: Connection, indexes: list[int]) -> None:
    """Remove indexes with their tables, and the knowledge bases and tokenizers that no other index needs."""
    if not indexes:
        return
    with connection.transaction():
        segments = catalogue.numbers(connection, "SELECT id FROM refactx.segments WHERE index_id = ANY(%s)", [indexes])
        catalogue.drop_tables(connection, "pieces", segments)
        discard_memories(connection, indexes)
        bases = catalogue.numbers(
            connection, "SELECT knowledge_base FROM refactx.indexes WHERE id = ANY(%s)", [indexes]
        )
        connection.execute("DELETE FROM refactx.indexes WHERE id = ANY(%s)", [indexes])
        # Locked before they are read: another index may be joining a knowledge base at this moment.
        connection.execute("SELECT FROM refactx.knowledge_bases WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [bases])
        unused = catalogue.numbers(
            connection,
            "SELECT id FROM refactx.knowledge_bases AS k WHERE id = ANY(%s)"
            " AND NOT EXISTS (SELECT FROM refactx.indexes AS i WHERE i.knowledge_base = k.id)",
            [bases],
        )
        names = catalogue.numbers(
            connection, "SELECT id FROM refactx.name_tables WHERE knowledge_base = ANY(%s)", [unused]
        )
        catalogue.drop_tables(connection, "names", names)
        connection.execute("DELETE FROM refactx.knowledge_bases WHERE id = ANY(%s)", [unused])
        connection.execute(
            "DELETE FROM refactx.tokenizers AS t WHERE NOT EXISTS"
            " (SELECT FROM refactx.indexes AS i WHERE i.fingerprint = t.fingerprint)"
        )


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
    """Raise InputError unless a name is printable, has no comma and no space at its ends, and does not look like that of a
    file, or of the folder of temporary files."""
    if name.endswith(INDEX_FILE) or name.startswith(("/", "./", "../")):
        raise InputError(f"{name!r} is the path of an index file, not a name for an index: give another --index")
    if not name or name != name.strip() or not name.isprintable():
        raise InputError(
            f"{name!r} is not a valid name for an index: give --index printable text without spaces at its ends"
        )
    if "," in name:
        raise InputError(
            f"{name!r} stands for several indexes, which are read as one: give --index a name without commas"
        )
    if folded(name) == WORK:
        raise InputError(
            f"{name!r} is the name of the folder of temporary files, not of an index: give another --index"
        )


def folded(name: str) -> str:
    """Return the name of an index without case and width, by which people and file systems may tell two apart or not.

    >>> folded("Dev"), folded("ｄｅｖ")
    ('dev', 'dev')
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def check_free(connection: Connection, name: str, replace: bool) -> None:
    """Raise IndexExistsError if a ready index has the name and is not to be replaced, or a name that is like it."""
    names = [entry.name for entry in catalogue.list_indexes(connection)]
    if name in names and not replace:
        raise IndexExistsError(f"index {name!r} exists: give --replace to rebuild it, or another --index")
    like = next((one for one in names if one != name and folded(one) == folded(name)), None)
    if like is not None and name not in names:
        raise IndexExistsError(
            f"index {like!r} exists, and {name!r} differs from it by case or width alone: give another --index"
        )


def make_schema(connection: Connection) -> None:
    """Make the tables of the catalogue that are missing. Raises RefactxError if the catalogue has another version."""
    with connection.transaction():
        # Without the lock, two first ingests at once would both create the schema.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('refactx'))")
        catalogue.check_catalogue(connection)
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
    return catalogue.number(connection, "INSERT INTO refactx.knowledge_bases DEFAULT VALUES RETURNING id", [])


def add_index(connection: Connection, header: IndexHeader, knowledge_base: int) -> int:
    """Add an index of a knowledge base, in state `building` and without segments. Return its id."""
    tokenizer = header.tokenizer
    connection.execute(
        "INSERT INTO refactx.tokenizers VALUES (%s, %s) ON CONFLICT DO NOTHING",
        [tokenizer.fingerprint, zstandard.ZstdCompressor(level=9).compress(tokenizer.serialized.encode())],
    )
    return catalogue.number(
        connection,
        """INSERT INTO refactx.indexes
            (name, state, format, tokenizer, fingerprint, vocabulary_size, trigger, terminator, source, knowledge_base)
        VALUES (%s, 'building', %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id""",
        [header.name, FORMAT_VERSION, header.tokenizer_name, tokenizer.fingerprint, len(tokenizer.token_bytes)]
        + [header.trigger, header.terminator, list(header.source), knowledge_base],
    )


def add_segment(connection: Connection, index: int, sign: int) -> int:
    """Add a segment to an index, not ready, with an empty table. Return its id."""
    segment = catalogue.number(
        connection, "INSERT INTO refactx.segments (index_id, sign) VALUES (%s, %s) RETURNING id", [index, sign]
    )
    catalogue.create_table(connection, "pieces", segment)
    return segment


def add_name_table(connection: Connection, knowledge_base: int) -> int:
    """Add a name table to a knowledge base, not ready and empty. Return its id."""
    names = catalogue.number(
        connection, "INSERT INTO refactx.name_tables (knowledge_base) VALUES (%s) RETURNING id", [knowledge_base]
    )
    catalogue.create_table(connection, "names", names)
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


def hide(connection: Connection, table: str, column: str, number: int) -> None:
    """Make the ready rows of a catalogue table that have this number not ready."""
    connection.execute(f"UPDATE refactx.{table} SET ready = false WHERE {column} = %s AND ready".encode(), [number])


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
        "UPDATE refactx.indexes SET state = 'ready', report = %s, created = now() WHERE id = %s", [Jsonb(report), index]
    )


def migrate(connection: Connection) -> int:
    """Migrate the catalogue of a database to `CATALOGUE_VERSION`. Return the version that it had.

    Raises IndexNotFoundError if there is no catalogue, IndexExistsError while an index is being written, DatabaseError
    if the role lacks a right, RefactxError if the catalogue is newer.
    """
    check_rights(connection)
    with ExitStack() as locks, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('refactx'))")
        version = catalogue.catalogue_version(connection)
        if version is None:
            raise IndexNotFoundError("there is nothing to migrate: this database has no index. Is --db right?")
        if version >= catalogue.CATALOGUE_VERSION:
            catalogue.check_catalogue(connection)
            return version
        for (name,) in connection.execute("SELECT DISTINCT name FROM refactx.indexes ORDER BY name").fetchall():
            locks.enter_context(name_lock(connection, name))
        connection.execute(query("schema").encode())
        if version < 2:
            connection.execute(query("migrate_to_2").encode())
        connection.execute("UPDATE refactx.catalogue SET version = %s", [catalogue.CATALOGUE_VERSION])
        return version
