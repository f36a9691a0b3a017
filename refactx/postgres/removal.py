"""The removal of indexes: by name, after a replacement, or after a killed ingest."""

import logging
from functools import partial

import psycopg

from refactx.errors import (
    DatabaseError,
    IndexNotFoundError,
)
from refactx.postgres.catalogue import list_indexes, numbers
from refactx.postgres.locks import PATIENCE, Connection, drop_when_unread, name_lock
from refactx.postgres.memory.records import discard_memories
from refactx.postgres.rights import check_rights
from refactx.postgres.tables import drop_tables

_log = logging.getLogger(__name__)


def discard_unfinished(connection: Connection, name: str) -> None:
    """Remove the indexes of a name in state `building`.

    One that was replaced, and that a session still reads, is left to the next ingest of the name.
    """
    for entry in list_indexes(connection, name, every=True):
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


def drop(connection: Connection, name: str, patience: float = PATIENCE, *, unfinished: bool = False) -> None:
    """Remove the indexes of a name, ready or not; with `unfinished`, only those that are not ready.

    Raises IndexNotFoundError if there is none, IndexExistsError while one is being written, DatabaseError if the role
    lacks a right, or if a session uses one of the tables for all of `patience` seconds.
    """
    check_rights(connection, name)
    entries = [
        entry for entry in list_indexes(connection, name, every=True) if not unfinished or entry.state == "building"
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
    sessions = numbers(
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
        segments = numbers(connection, "SELECT id FROM refactx.segments WHERE index_id = ANY(%s)", [indexes])
        drop_tables(connection, "pieces", segments)
        discard_memories(connection, indexes)
        bases = numbers(connection, "SELECT knowledge_base FROM refactx.indexes WHERE id = ANY(%s)", [indexes])
        connection.execute("DELETE FROM refactx.indexes WHERE id = ANY(%s)", [indexes])
        # Locked before they are read: another index may be joining a knowledge base at this moment.
        connection.execute("SELECT FROM refactx.knowledge_bases WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [bases])
        unused = numbers(
            connection,
            "SELECT id FROM refactx.knowledge_bases AS k WHERE id = ANY(%s)"
            " AND NOT EXISTS (SELECT FROM refactx.indexes AS i WHERE i.knowledge_base = k.id)",
            [bases],
        )
        names = numbers(connection, "SELECT id FROM refactx.name_tables WHERE knowledge_base = ANY(%s)", [unused])
        drop_tables(connection, "names", names)
        connection.execute("DELETE FROM refactx.knowledge_bases WHERE id = ANY(%s)", [unused])
        connection.execute(
            "DELETE FROM refactx.tokenizers AS t WHERE NOT EXISTS"
            " (SELECT FROM refactx.indexes AS i WHERE i.fingerprint = t.fingerprint)"
        )
