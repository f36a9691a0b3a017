"""PostgreSQL: connections, and the rows of a segment. The only module of inference that speaks to a database.

Connections are pooled, in autocommit, and look rows up by a prepared statement. A server that restarts in mid-use costs a
lookup that is tried again, never a wrong answer. A pool does not survive `fork`: the child makes its own.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from refactx.errors import DatabaseError, IndexNotFoundError, InputError, RefactxError, without_password
from refactx.sql import query

Result = TypeVar("Result")

CATALOGUE_VERSION = 2
"""Of the tables that describe indexes (sql/schema.sql), as `refactx.catalogue` has it."""

CONNECT_SECONDS = 10
"""How long to wait for a server that does not answer, before giving up."""

RETRY_SECONDS = 30
"""How long a lookup waits for a server that went away (a restart takes some seconds)."""


class Database:
    """A pool of connections to one database. `url` is a libpq URL or connection string."""

    def __init__(self, url: str) -> None:
        authority = url.partition("://")[2].partition("/")[0]
        if authority.count("@") > 1:  # libpq would take half of the password for a host, and print it
            raise InputError("the database's address has more than one @: write an @ in the password as %40")
        self.url = url
        self._lock = threading.Lock()
        self._pool: ConnectionPool[psycopg.Connection[Any]] | None = None
        self._process = os.getpid()
        with self.connection():  # a bad address is told at once
            pass

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection in autocommit mode. Raises DatabaseError when there is none to be had."""
        try:
            with self._own_pool().connection() as connection:
                yield connection
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise self._unreachable(error) from None
        except psycopg.Error as error:
            raise _refused(error) from error

    def retry(self, action: Callable[[psycopg.Connection[Any]], Result]) -> Result:
        """Do something that only reads; once more, and again for `RETRY_SECONDS`, if the connection breaks under it."""
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                with self._own_pool().connection(timeout=RETRY_SECONDS) as connection:
                    return action(connection)
            except (psycopg.OperationalError, PoolTimeout) as error:
                if time.monotonic() > deadline or isinstance(error, PoolTimeout):
                    raise self._unreachable(error) from None
                self._own_pool().check()
            except psycopg.errors.UndefinedTable:
                raise IndexNotFoundError("the index was dropped or replaced: open it again") from None
            except psycopg.Error as error:
                raise _refused(error) from error

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            if self._pool is not None and self._process == os.getpid():
                self._pool.close()
            self._pool = None

    def _own_pool(self) -> ConnectionPool[psycopg.Connection[Any]]:
        with self._lock:
            if self._pool is None or self._process != os.getpid():
                # After a fork the inherited sockets are the parent's: they are left alone, neither used nor closed.
                self._pool, self._process = self._new_pool(), os.getpid()
            return self._pool

    def _new_pool(self) -> ConnectionPool[psycopg.Connection[Any]]:
        try:  # one plain connection first: its error says what is wrong, a pool's only that it took too long
            psycopg.connect(self.url, connect_timeout=CONNECT_SECONDS).close()
        except psycopg.Error as error:
            raise self._unreachable(error) from None
        return ConnectionPool(
            self.url, min_size=1, max_size=8, open=True, timeout=CONNECT_SECONDS, kwargs={"autocommit": True}
        )

    def _unreachable(self, error: Exception) -> DatabaseError:
        reason = " ".join(str(error).split()).rstrip(".?!")
        return DatabaseError(
            without_password(f"cannot reach the database {self.url}: {reason}. Is it running, and is --db right?")
        )


def _refused(error: psycopg.Error) -> DatabaseError:
    reason = without_password(" ".join(str(error).split()))
    return DatabaseError(f"PostgreSQL refused: {reason}. Has the user of --db the rights it needs?")


class SegmentRows:
    """The rows of one segment in its table: a `RowSource`. `round_trips` counts the queries sent."""

    def __init__(self, database: Database, index: str, segment: int) -> None:
        self._database, self._index, self._segment = database, index, segment
        self._statement = f"refactx_piece_{segment}".encode()
        self._query = f"SELECT piece FROM refactx.pieces_{segment} WHERE key = $1".encode()
        self._prepared: dict[int, int] = {}  # backend process id by connection
        self._held: dict[bytes, bytes] | None = None
        self.round_trips = 0

    def hold(self, rows: dict[bytes, bytes]) -> None:
        """Take all rows of the segment, so that none is fetched any more."""
        self._held = rows

    def fetch(self, key: bytes) -> bytes | None:
        """The row under a key; None if there is none."""
        if self._held is not None:
            return self._held.get(key)
        self.round_trips += 1
        return self._database.retry(lambda connection: self._lookup(connection.pgconn, key))

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The rows under some keys, in one query; those that are not there are left out."""
        if self._held is not None:
            return {key: self._held[key] for key in keys if key in self._held}
        self.round_trips += 1
        statement = f"SELECT key, piece FROM refactx.pieces_{self._segment} WHERE key = ANY(%s)".encode()
        return dict(
            self._database.retry(lambda connection: connection.execute(statement, [list(keys)], binary=True).fetchall())
        )

    def count(self) -> int:
        """How many rows there are."""
        statement = f"SELECT count(*) FROM refactx.pieces_{self._segment}".encode()
        row = self._database.retry(lambda connection: connection.execute(statement).fetchone())
        return int(row[0]) if row else 0

    def _lookup(self, pgconn: pq.abc.PGconn, key: bytes) -> bytes | None:
        # libpq by psycopg's own low-level interface: a cursor for each lookup costs as much again as the lookup.
        backend = pgconn.backend_pid
        if self._prepared.get(id(pgconn)) != backend:
            self._check(pgconn.prepare(self._statement, self._query))
            self._prepared[id(pgconn)] = backend
        result = pgconn.exec_prepared(self._statement, [key], [pq.Format.BINARY], pq.Format.BINARY)
        self._check(result)
        return result.get_value(0, 0) if result.ntuples else None

    def _check(self, result: pq.abc.PGresult) -> None:
        if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            return
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        if state == "42P01":  # undefined_table
            raise IndexNotFoundError(f"index {self._index!r} was dropped or replaced: open it again")
        if state == "42P05":  # duplicate_prepared_statement: prepared by another object on this connection
            return
        message = " ".join(result.error_message.decode("utf-8", "replace").split()) or "the connection broke"
        if not state or state[:2] in ("08", "57"):
            raise psycopg.OperationalError(message)
        raise DatabaseError(f"PostgreSQL refused to read index {self._index!r}: {message}")


def all_rows(database: Database, segments: Sequence[int]) -> dict[int, dict[bytes, bytes]]:
    """All rows of some (small) segments by segment and key, in one query."""
    statement = " UNION ALL ".join(f"SELECT {number}, key, piece FROM refactx.pieces_{number}" for number in segments)
    found: dict[int, dict[bytes, bytes]] = {number: {} for number in segments}
    for number, key, piece in database.retry(
        lambda connection: connection.execute(statement.encode(), binary=True).fetchall()
    ):
        found[number][key] = piece
    return found


def catalogue_version(connection: psycopg.Connection[Any]) -> int | None:
    """The version of the catalogue in a database; None if it has none yet."""
    found = connection.execute("SELECT to_regclass('refactx.segments'), to_regclass('refactx.catalogue')").fetchone()
    if found is None or found[0] is None:
        return None
    row = connection.execute("SELECT version FROM refactx.catalogue").fetchone() if found[1] else None
    return int(row[0]) if row else 1


def check_catalogue(connection: psycopg.Connection[Any]) -> bool:
    """Whether there is a catalogue. Raises RefactxError, which says what to do, if it is of another version than ours."""
    version = catalogue_version(connection)
    if version is not None and version < CATALOGUE_VERSION:
        raise RefactxError(
            f"this database was written by an older refactx (catalogue {version}, expected {CATALOGUE_VERSION}): "
            "run `refactx index migrate`, with the same --db"
        )
    if version is not None and version > CATALOGUE_VERSION:
        raise RefactxError(
            f"this database was written by a newer refactx (catalogue {version}, expected {CATALOGUE_VERSION}): "
            "upgrade refactx"
        )
    return version is not None


def list_indexes(
    connection: psycopg.Connection[Any], name: str | None = None, every: bool = False
) -> list[dict[str, Any]]:
    """The catalogue: a dictionary for each ready index (with `every`, also for those being built), by name.

    Raises RefactxError if the catalogue is of another version (`check_catalogue`).
    """
    if not check_catalogue(connection):
        return []
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query("list_indexes").encode(), {"name": name, "all": every}).fetchall()
