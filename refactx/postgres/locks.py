"""Who may write: one session an index's name, and one a knowledge base.

Advisory locks of a session: PostgreSQL frees them when the session ends, however it ends. None waits for another: what is
taken is told at once.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from refactx.errors import IndexExistsError

Connection = psycopg.Connection[Any]

PATIENCE = 5.0
"""Seconds for which tables that are to be dropped are waited for."""

_WAIT_MILLISECONDS = 100


@contextmanager
def name_lock(connection: Connection, name: str) -> Iterator[None]:
    """Hold a name for writing. Raises IndexExistsError at once if another session holds it."""
    with _held(
        connection,
        ("hashtext('refactx')", "hashtext(%s)", name),
        f"another process is writing index {name!r}: wait for it, or choose another --index",
    ):
        yield


@contextmanager
def knowledge_base_lock(connection: Connection, number: int) -> Iterator[None]:
    """Hold a knowledge base: its names, and what is read from its indexes to write another, stay as they are.

    Raises IndexExistsError at once if another session holds it.
    """
    with _held(
        connection,
        ("hashtext('refactx knowledge base')", "%s", number),
        "another process is changing an index of the same knowledge base: wait for it",
    ):
        yield


def when_unread(connection: Connection, drop: Callable[[], object], patience: float = PATIENCE) -> bool:
    """Drop tables, in a transaction of its own, once nobody is in one of them; False if somebody was for all of `patience`
    seconds (an export reads in one transaction).

    Whoever comes after a session that waits for a table waits too, so it is tried again and again, for a tenth of a second.
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
def _held(connection: Connection, key: tuple[str, str, object], taken: str) -> Iterator[None]:
    space, number, value = key
    row = connection.execute(f"SELECT pg_try_advisory_lock({space}, {number})".encode(), [value]).fetchone()
    if row != (True,):
        raise IndexExistsError(taken)
    try:
        yield
    finally:
        with suppress(psycopg.Error):  # gone, or busy with what Ctrl-C came upon: the end of the session frees it
            connection.execute(f"SELECT pg_advisory_unlock({space}, {number})".encode(), [value])
