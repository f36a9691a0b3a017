"""The locks of writers: at most one session writes an index of a name, or changes a knowledge base.

They are advisory locks, which PostgreSQL releases when the session ends, however it ends. They do not wait: if another
session holds a lock, that is an error at once.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from refactx.errors import IndexExistsError

Connection = psycopg.Connection[Any]

PATIENCE = 5.0
"""The seconds to wait for readers of tables that are to be dropped."""

_WAIT_MILLISECONDS = 100


@contextmanager
def name_lock(connection: Connection, name: str) -> Iterator[None]:
    """Hold the name of an index for writing. Raises IndexExistsError at once if another session holds it."""
    with _advisory_lock(
        connection,
        ("hashtext('refactx')", "hashtext(%s)", name),
        f"another process is writing index {name!r}: wait for it, or choose another --index",
    ):
        yield


@contextmanager
def knowledge_base_lock(connection: Connection, number: int) -> Iterator[None]:
    """Hold a knowledge base: no other session changes its names or indexes.

    Raises IndexExistsError at once if another session holds it.
    """
    with _advisory_lock(
        connection,
        ("hashtext('refactx knowledge base')", "%s", number),
        "another process is changing an index of the same knowledge base: wait for it",
    ):
        yield


@contextmanager
def memory_lock(connection: Connection, number: int, name: str) -> Iterator[None]:
    """Hold the memories of an index, given its number and name. The index itself may be changed meanwhile.

    Raises IndexExistsError at once if another session holds them.
    """
    with _advisory_lock(
        connection,
        ("hashtext('refactx memory')", "%s", number),
        f"another process is building or dropping a memory of index {name!r}: wait for it",
    ):
        yield


def drop_when_unread(connection: Connection, drop: Callable[[], object], patience: float = PATIENCE) -> bool:
    """Drop tables in a transaction of its own, when no session uses them. Return whether that succeeded.

    It fails if a session uses one of them for all of `patience` seconds (an export reads in one transaction). Readers
    queue after a session that waits for a table, so each attempt waits for a tenth of a second only.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = {_WAIT_MILLISECONDS}".encode())
                drop()
                return True
        except psycopg.errors.LockNotAvailable:
            if time.monotonic() > deadline:
                return False


@contextmanager
def _advisory_lock(connection: Connection, key: tuple[str, str, object], taken: str) -> Iterator[None]:
    space, number, value = key
    row = connection.execute(f"SELECT pg_try_advisory_lock({space}, {number})".encode(), [value]).fetchone()
    if row != (True,):
        raise IndexExistsError(taken)
    try:
        yield
    finally:
        # The connection may be lost, or still busy after Ctrl-C: then the end of the session releases the lock.
        with suppress(psycopg.Error):
            connection.execute(f"SELECT pg_advisory_unlock({space}, {number})".encode(), [value])
