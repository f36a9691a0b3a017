"""The locks and the rights of writers.

They are advisory locks, which PostgreSQL releases when the session ends, however it ends. They do not wait: if another
session holds a lock, that is an error at once.

Reading needs USAGE on the schema and SELECT on its tables. Writing needs the ownership of the tables, since it adds and
drops some, and CREATE on the schema, or on the database if the schema does not exist. docs/how-to/roles-and-limits.md
has the GRANTs.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.rows import dict_row

from refactx.errors import DatabaseError, IndexExistsError
from refactx.sql import query

Connection = psycopg.Connection[Any]

DROP_SECONDS = 5.0
"""The seconds to wait for readers of tables that are to be dropped."""

_WAIT_MILLISECONDS = 100

_SEGMENTS = """SELECT 'pieces_' || s.id FROM refactx.segments AS s JOIN refactx.indexes AS i ON i.id = s.index_id
WHERE i.name = %s"""

_MEMORIES = """SELECT 'memory_' || m.id FROM refactx.memories AS m JOIN refactx.indexes AS i ON i.id = m.index_id
WHERE i.name = %s"""


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


def drop_when_unread(connection: Connection, drop: Callable[[], object], patience: float = DROP_SECONDS) -> bool:
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


def check_rights(connection: psycopg.Connection[Any], index: str | None = None) -> None:
    """Raise DatabaseError, with the GRANT that helps, unless the connection's role may write.

    `index`: the name of an index to make, change or drop. The role must own its tables too, if there are any.
    """
    rights = _rights(connection, [])
    if rights["process"] != connection.info.backend_pid:  # the server's own process, of which it tells each client
        raise DatabaseError(
            f"a pooler or proxy is between this command and database {rights['database']}, and would give the session, "
            "with the locks of a writer, to other clients: give the server's own address with --db"
        )
    _check(rights)
    if index is not None and rights["schema_exists"]:
        tables: list[str] = []
        for catalogue, statement in (("segments", _SEGMENTS), ("memories", _MEMORIES)):
            present = connection.execute("SELECT to_regclass('refactx.' || %s) IS NOT NULL", [catalogue]).fetchone()
            if present == (True,):
                tables += [row[0] for row in connection.execute(statement.encode(), [index]).fetchall()]
        if tables:
            _check(_rights(connection, tables))


def _rights(connection: psycopg.Connection[Any], tables: list[str]) -> dict[str, Any]:
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(query("rights").encode(), {"tables": tables}).fetchone()
    if row is None:
        raise RuntimeError("SELECT without FROM gave no row")
    return row


def _check(rights: dict[str, Any]) -> None:
    role, database = rights["role"], rights["database"]
    if rights["standby"]:
        raise DatabaseError(
            f"database {database} is a standby, which can only be read: give the address of its primary server "
            "with --db, or target_session_attrs=primary at the end of an address that names both"
        )
    if rights["read_only_by_client"]:
        raise DatabaseError(
            f"transactions in database {database} are read-only by the options of this connection: leave "
            "default_transaction_read_only out of PGOPTIONS in the environment, or of the end of --db"
        )
    if rights["read_only"]:
        raise DatabaseError(
            f"role {role} has read-only transactions in database {database}: write as another role, or have an "
            f"administrator run ALTER ROLE {role} SET default_transaction_read_only = off"
        )
    if not rights["schema_exists"] and not rights["may_create_schema"]:
        raise DatabaseError(
            f"role {role} may not create the schema refactx in database {database}: have its owner run "
            f"GRANT CREATE ON DATABASE {database} TO {role}, or CREATE SCHEMA refactx AUTHORIZATION {role}"
        )
    # Before the right to create tables, which does not help a role that may not change these.
    if rights["foreign_table"] is not None:
        table, owner = rights["foreign_table"], rights["foreign_owner"]
        helps = (
            f"have it run ALTER TABLE {table} OWNER TO {role}"
            if rights["foreign_superuser"]
            else f"have an administrator run GRANT {owner} TO {role}, and write as that role "
            f"({_as_role(rights['foreign_role'])} at the end of --db)"
        )
        raise DatabaseError(f"role {role} may not write here: table {table} belongs to role {owner}, so {helps}")
    if rights["schema_exists"] and not rights["may_create_tables"]:
        raise DatabaseError(
            f"role {role} may not create tables in the schema refactx of database {database}: have the schema's owner "
            f"run GRANT USAGE, CREATE ON SCHEMA refactx TO {role}, or write as that owner"
        )
    if rights["other_owner"] is not None:  # new tables would not have the default privileges of that owner
        owner = rights["other_owner"]
        raise DatabaseError(
            f"the tables of schema refactx belong to role {owner}, and readers of those could not read tables of role "
            f"{role}: write as role {owner} ({_as_role(owner)} at the end of --db)"
        )


def _as_role(role: str) -> str:
    """Return the parameter of a database's address that sets another role.

    >>> _as_role("kb writer")
    '?options=-c%20role%3Dkb%5C%20writer'
    """
    return "?options=-c%20role%3D" + quote(role.replace("\\", "\\\\").replace(" ", "\\ "), safe="")
