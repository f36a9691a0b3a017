"""Who may write: one session an index's name, and one a knowledge base.

Advisory locks of a session: PostgreSQL frees them when the session ends, however it ends. None waits for another: what is
taken is told at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from refactx.errors import IndexExistsError

Connection = psycopg.Connection[Any]


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


@contextmanager
def _held(connection: Connection, key: tuple[str, str, object], taken: str) -> Iterator[None]:
    space, number, value = key
    row = connection.execute(f"SELECT pg_try_advisory_lock({space}, {number})".encode(), [value]).fetchone()
    if row != (True,):
        raise IndexExistsError(taken)
    try:
        yield
    finally:
        if not connection.broken:
            connection.execute(f"SELECT pg_advisory_unlock({space}, {number})".encode(), [value])
