"""A pool of connections to one database, which retries lookups while the database is away.

Lookups use pooled connections in autocommit with prepared statements, and each has a time limit
(`refactx.postgres.limits`). If the database goes away, a lookup waits and is tried again: it gives the right answer or
an error. Commands that may take long have a session of their own, without limits. After `fork` the child makes a pool
of its own.
"""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from refactx.errors import DatabaseError, without_password
from refactx.postgres.bounded import BoundedConnection
from refactx.postgres.errors import is_gone, read_error
from refactx.postgres.limits import LOOKUP_SECONDS, Limits, limits_of_environment
from refactx.postgres.sessions import (
    CONNECT_SECONDS,
    KEEPALIVE,
    PAUSE_SECONDS,
    Connection,
    add_defaults,
    check_address,
    connect,
    open_session,
)
from refactx.sql import query

Value = TypeVar("Value")

_log = logging.getLogger(__name__)


_GRACE_SECONDS = 2.0
"""The seconds after its statement timeout in which a server may still answer, before it counts as gone."""


class Database:
    """A pool of connections to one database. `url` is a libpq URL or connection string.

    `limits`: by default those of the environment. `revive` is called before each attempt to reach a database that went
    away. Raises DatabaseError if the database cannot be reached, InputError if the address cannot be read.
    """

    def __init__(self, url: str, limits: Limits | None = None, revive: Callable[[], object] = lambda: None) -> None:
        check_address(url)
        self.url = url
        self._limits = limits_of_environment() if limits is None else limits
        self._revive = revive
        self._lock = threading.Lock()
        self._pool: ConnectionPool[BoundedConnection] | None = None
        self._process = os.getpid()
        try:  # so that a wrong address is reported at once
            self._own_pool()
        except psycopg.Error as error:
            raise self._unreachable(error) from None

    @property
    def address(self) -> tuple[str, str, str]:
        """The host, the port and the name of the database, with libpq's defaults."""
        return self.retry(lambda connection: _address(connection.info))

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Open a session outside the pool, for commands that may take long (`open_session`). Raises DatabaseError."""
        try:
            with open_session(self.url) as connection:
                yield connection
        except psycopg.Error as error:
            if is_gone(error):
                raise self._unreachable(error) from None
            raise read_error(error, None, 0.0) from error

    def retry(self, action: Callable[[BoundedConnection], Value], index: str | None = None) -> Value:
        """Run a lookup within the time limit. While the database is away, wait and try again, within the limits.

        `index`: its name, for error messages. Raises DatabaseError, and IndexNotFoundError if a table does not exist.
        """
        deadline: float | None = None
        while True:
            pool, started = None, time.monotonic()
            try:
                pool = self._own_pool()
                with pool.connection() as connection:
                    return action(connection)
            except psycopg.Error as error:
                if not is_gone(error):
                    raise read_error(error, index, time.monotonic() - started) from error
                if deadline is None:
                    deadline = time.monotonic() + self._limits.outage
                elif time.monotonic() > deadline:
                    raise self._unreachable(error, waited=True) from None
                else:  # it was reached and went away again: pause
                    time.sleep(PAUSE_SECONDS)
                self._forget(pool)  # first, or after an error the next lookup would wait for this pool's time-out
                self._wait(deadline)

    def retry_unlimited(self, action: Callable[[BoundedConnection], Value], index: str | None = None) -> Value:
        """Do the same as `retry`, without a time limit: for commands that read whole tables."""

        def unlimited(connection: BoundedConnection) -> Value:
            seconds, connection.answer_seconds = connection.answer_seconds, None
            try:
                with connection.transaction():
                    connection.execute("SET LOCAL statement_timeout = 0")
                    return action(connection)
            finally:
                connection.answer_seconds = seconds

        return self.retry(unlimited, index)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._pool is not None and self._process == os.getpid():
                self._pool.close()
            self._pool = None

    def _own_pool(self) -> ConnectionPool[BoundedConnection]:
        with self._lock:
            if self._pool is None or self._process != os.getpid():
                # After a fork the inherited sockets are the parent's: they are neither used nor closed.
                self._pool, self._process = self._new_pool(), os.getpid()
            return self._pool

    def _new_pool(self) -> ConnectionPool[BoundedConnection]:
        self._reach()  # its error says what is wrong; that of a pool is only a timeout
        return ConnectionPool(
            add_defaults(self.url, **KEEPALIVE, tcp_user_timeout=20_000),
            min_size=1,
            max_size=8,
            open=True,
            timeout=CONNECT_SECONDS,
            kwargs={"autocommit": True},
            configure=self._limit,
            connection_class=BoundedConnection,
        )

    def _reach(self, seconds: float | None = None) -> None:
        """Connect once, within `seconds` (at least two, the minimum of libpq)."""
        bound = {} if seconds is None else {"connect_timeout": max(2, math.ceil(seconds))}
        conninfo = make_conninfo(add_defaults(self.url), **bound)
        connect(conninfo, CONNECT_SECONDS if seconds is None else seconds).close()

    def _limit(self, connection: BoundedConnection) -> None:
        """Set a connection's statement timeout, unless the address sets one.

        If the limits have none, a timeout of the role, database or server takes precedence over the default.
        """
        is_given = self._limits.lookup is not None
        seconds = LOOKUP_SECONDS if self._limits.lookup is None else self._limits.lookup
        row = connection.execute(
            query("limit_lookups").encode(), {"is_given": is_given, "value": f"{round(seconds * 1000)}ms"}
        ).fetchone()
        seconds = float(row[0]) if row else 0.0
        connection.answer_seconds = seconds + _GRACE_SECONDS if seconds else None

    def _wait(self, deadline: float) -> None:
        """Return when the database takes connections. Raises DatabaseError after the deadline."""
        error = self._attempt(deadline)
        if error is None:
            return
        _log.warning("the database went away: waiting for it for at most %g s", self._limits.outage)
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(PAUSE_SECONDS, left))
            error = self._attempt(deadline)
            if error is None:
                _log.warning("the database is back")
                return
        raise self._unreachable(error, waited=True)

    def _attempt(self, deadline: float) -> Exception | None:
        """Try to reach the database before the deadline. Return the error if that fails."""
        try:
            self._revive()
            self._reach(min(CONNECT_SECONDS, deadline - time.monotonic()))
        except (psycopg.Error, DatabaseError) as error:
            return error
        return None

    def _forget(self, pool: ConnectionPool[BoundedConnection] | None) -> None:
        """Discard a pool with broken connections: to make a new one takes less time than the pool's own attempts."""
        with self._lock:
            if pool is None or self._pool is not pool:
                return
            self._pool = None
        pool.close()

    def _unreachable(self, error: Exception, waited: bool = False) -> DatabaseError:
        address, reason = map(without_password, (self.url, " ".join(str(error).split()).rstrip(".?!")))
        if waited:
            return DatabaseError(
                f"the database {address} went away and was not back within {self._limits.outage:g} s: {reason}. "
                "Start it, and ask again (REFACTX_OUTAGE_SECONDS sets how long to wait for it)"
            )
        return DatabaseError(f"cannot reach the database {address}: {reason}. Is it running, and is --db right?")


def _address(info: psycopg.ConnectionInfo) -> tuple[str, str, str]:
    return info.host, str(info.port), info.dbname
