"""A pool of connections to one database, which retries lookups while the database is away.

Lookups use pooled connections in autocommit with prepared statements, and each has a time limit
(`refactx.postgres.entry`). If the database goes away, a lookup waits and is tried again: it gives the right answer or
an error. Commands that may take long have a session of their own, without limits. After `fork` the child makes a pool
of its own.

If the address leads to several servers, all connections are to the one that the first of them reached, for as long as
it can be reached (`refactx.postgres.connections.Server`).

A pooler in transaction mode may give the next statement of a client to another session, in which a name is not known
(26000), or is known already (42P05). PgBouncer knows the names of its clients from version 1.21 on, if
`max_prepared_statements` is set. The names here are made of the statements, so that one name is one statement, whoever
prepared it.
"""

import hashlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from refactx.errors import DatabaseError, without_password
from refactx.postgres.connections import (
    CONNECT_SECONDS,
    FORGOTTEN,
    GRACE_SECONDS,
    KEEPALIVE,
    PAUSE_SECONDS,
    POOLED,
    UNSUPPORTED,
    NamedStatements,
    Server,
    ServerChangedError,
    TimeLimitedConnection,
    add_defaults,
    address_of,
    check_address,
    connect,
    is_gone,
    names_several,
    open_session,
    read_error,
    shown_address,
    variables_of,
)
from refactx.postgres.entry import LOOKUP_SECONDS, Limits, limits_of_environment
from refactx.sql import query

_ATTEMPTS = 3
"""How often a session is opened that must be on the server of the pool."""

_SAME_SERVER_SECONDS = 2.0
"""The seconds to wait for the server that was read so far, if the address names others."""


class ServerPool:
    """A pool of connections to one server, that of the first of them; connections to another server are refused.

    `address`: of the server. `lookup`: the limit of a lookup in seconds (`Limits.lookup`). Through a pooler the
    connections may be of several servers; nothing is set in a session then, and nothing prepared by psycopg.
    """

    def __init__(self, address: str, lookup: float | None) -> None:
        self.address, self._lookup = address, lookup
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._pool = ConnectionPool(
            add_defaults(address, **KEEPALIVE, tcp_user_timeout=20_000),
            min_size=1,
            max_size=8,
            open=True,
            timeout=CONNECT_SECONDS,
            kwargs={"autocommit": True},
            configure=self._configure,
            connection_class=TimeLimitedConnection,
        )
        self.connection = self._pool.connection
        self._statements = NamedStatements()

    def is_of(self, server: Server) -> bool:
        """Return whether connections are to a server; if there is none yet, they will be."""
        with self._lock:
            self._server = self._server or server
            return self._server == server

    def close(self) -> None:
        self._pool.close()

    def _configure(self, connection: TimeLimitedConnection) -> None:
        """Find out what answers on a connection, and set its statement timeout, unless the address sets one.

        If no limit was given, a timeout of the role, database or server takes precedence over the default.
        """
        seconds = LOOKUP_SECONDS if self._lookup is None else self._lookup
        row = connection.execute(
            query("limit_lookups").encode(),
            {
                "is_given": self._lookup is not None,
                "value": f"{round(seconds * 1000)}ms",
                "process": connection.info.backend_pid,
            },
            prepare=False,
        ).fetchone()
        if row is None:
            raise RuntimeError("pg_settings has no statement_timeout")
        limit = float(row[0])
        server = POOLED if row[1] else Server(row[2])
        if not self.is_of(server):
            raise psycopg.OperationalError("the address leads to another server than before")
        connection.server, connection.statements = server, self._statements
        if server.is_pooled:
            connection.prepare_threshold, connection.cancels = None, True
            connection.answer_seconds = limit or None
        elif limit:
            connection.answer_seconds = limit + GRACE_SECONDS


Value = TypeVar("Value")

_log = logging.getLogger(__name__)


class Database:
    """A pool of connections to one database. `url` is a libpq URL or connection string.

    `limits`: by default those of the environment. `revive` is called before each attempt to reach a database that went
    away; `diagnosis` returns what else is known of an error of the server. Raises DatabaseError if the database cannot
    be reached, InputError if the address cannot be read.
    """

    def __init__(
        self,
        url: str,
        limits: Limits | None = None,
        revive: Callable[[], object] = lambda: None,
        diagnosis: Callable[[], str] = lambda: "",
    ) -> None:
        check_address(url)
        self.url, self._diagnosis = url, diagnosis
        self._limits = limits_of_environment() if limits is None else limits
        self._revive = revive
        self._lock = threading.Lock()
        self._pool: ServerPool | None = None
        self._own_address: str | None = None
        self._process = os.getpid()
        try:  # so that a wrong address is reported at once
            self._own_pool()
        except psycopg.Error as error:
            raise self._unreachable(error) from None

    @property
    def address(self) -> tuple[str, str, str]:
        """The host, the port and the name of the database, with libpq's defaults."""
        return self.retry(lambda at: (at.info.host, str(at.info.port), at.info.dbname))

    @property
    def shown(self) -> str:
        """What may be shown of its address: `shown_address`."""
        return shown_address(self.url)

    @property
    def outage_seconds(self) -> float:
        """The time to wait for a database that went away, or for a standby that is behind."""
        return self._limits.outage

    def session(self) -> TimeLimitedConnection:
        """Open a session outside the pool, on the same server (`open_session`).

        Raises psycopg.Error, and DatabaseError if the address leads to another server each time.
        """
        for _ in range(_ATTEMPTS):
            pool = self._own_pool()
            connection = open_session(pool.address)
            if connection.server is not None and pool.is_of(connection.server):
                return connection
            connection.close()
            self._forget(pool)  # the server was started again, or the address leads to several
        raise DatabaseError(
            f"the address {self.shown} leads to another server each time, and this command needs one: "
            "give the address of a server with --db"
        )

    @contextmanager
    def connection(self) -> Iterator[TimeLimitedConnection]:
        """Open a session outside the pool, for commands that may take long (`session`). Raises DatabaseError."""
        try:
            with self.session() as connection:
                yield connection
        except psycopg.Error as error:
            if is_gone(error):
                raise self._unreachable(error) from None
            raise read_error(error, None, 0.0) from error

    def retry(
        self,
        action: Callable[[TimeLimitedConnection], Value],
        index: str | None = None,
        *,
        server: Server | None = None,
    ) -> Value:
        """Run a lookup within the time limit. While the database is away, wait and try again, within the limits.

        `index`: its name, for error messages. `server`: the one that the lookup is for. Raises DatabaseError;
        IndexNotFoundError if a table does not exist; ServerChangedError if the connections are to another server.
        """
        deadline: float | None = None
        while True:
            pool, started = None, time.monotonic()
            try:
                pool = self._own_pool()
                with pool.connection() as connection:
                    if server is not None and connection.server != server:
                        raise ServerChangedError(
                            f"the server of index {index!r} was started again, or another answers: open the index again"
                        )
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

    def retry_unlimited(
        self,
        action: Callable[[TimeLimitedConnection], Value],
        index: str | None = None,
        *,
        server: Server | None = None,
    ) -> Value:
        """Do the same as `retry`, without a time limit: for commands that read whole tables."""

        def unlimited(connection: TimeLimitedConnection) -> Value:
            seconds, connection.answer_seconds = connection.answer_seconds, None
            try:
                with connection.transaction():
                    connection.execute("SET LOCAL statement_timeout = 0")
                    return action(connection)
            finally:
                connection.answer_seconds = seconds

        return self.retry(unlimited, index, server=server)

    def close(self) -> None:
        with self._lock:
            if self._pool is not None and self._process == os.getpid():
                self._pool.close()
            self._pool = None

    def _own_pool(self) -> ServerPool:
        with self._lock:
            if self._pool is None or self._process != os.getpid():
                # After a fork the inherited sockets are the parent's: they are neither used nor closed.
                self._own_address = self._reach()  # its error says what is wrong; that of a pool is only a timeout
                self._pool, self._process = ServerPool(self._own_address, self._limits.lookup), os.getpid()
            return self._pool

    def _reach(self, seconds: float | None = None) -> str:
        """Connect once, within `seconds` (at least two, the minimum of libpq). Return the address of the server.

        It is the same server as before, if that can be reached.
        """
        seconds = CONNECT_SECONDS if seconds is None else seconds
        if self._own_address is not None and names_several(self.url):
            try:
                return self._attempt_at(self._own_address, min(seconds, _SAME_SERVER_SECONDS))
            except psycopg.OperationalError:
                _log.info("another server of the address is tried")
        return self._attempt_at(self.url, seconds)

    def _attempt_at(self, address: str, seconds: float) -> str:
        conninfo = add_defaults(address)
        if seconds != CONNECT_SECONDS:
            conninfo = make_conninfo(conninfo, connect_timeout=max(2, math.ceil(seconds)))
        with connect(conninfo, seconds) as connection:
            return address_of(self.url, connection.info)

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

    def _forget(self, pool: ServerPool | None) -> None:
        """Discard a pool with broken connections: to make a new one takes less time than the pool's own attempts."""
        with self._lock:
            if pool is None or self._pool is not pool:
                return
            self._pool = None
        pool.close()

    def reason(self, error: Exception) -> str:
        """Return the text of an error on one line, with what to do about a full disk of the server."""
        text = without_password(" ".join(str(error).split())).rstrip(".?!")
        if not isinstance(error, psycopg.errors.DiskFull) and not (isinstance(error, psycopg.Error) and is_gone(error)):
            return text
        known = self._diagnosis()
        if known or not isinstance(error, psycopg.errors.DiskFull):
            return f"{text}{known}"
        return f"{text}; free disk space on the database server, in the folder of its data"

    def _unreachable(self, error: Exception, waited: bool = False) -> DatabaseError:
        address, reason = self.shown, self.reason(error)
        if waited:
            return DatabaseError(
                f"the database {address} went away and was not back within {self._limits.outage:g} s: {reason}. "
                "Start it, and ask again (REFACTX_OUTAGE_SECONDS sets how long to wait for it)"
            )
        if UNSUPPORTED in reason:
            return DatabaseError(
                f"the pooler at {address} does not take a parameter of the address ({reason}): leave `options` out, and "
                "set the limit of a lookup with REFACTX_LOOKUP_SECONDS"
            )
        variables = variables_of(self.url)
        hint = f" The environment sets {', '.join(variables)}, which may be the reason" if variables else ""
        return DatabaseError(f"cannot reach the database {address}: {reason}. Is it running, and is --db right?{hint}")


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A query with parameters `$1`, ... of binary values, and its name."""

    text: bytes
    name: bytes

    @classmethod
    def of(cls, text: str) -> "PreparedStatement":
        """Return the statement of a query.

        >>> PreparedStatement.of("SELECT 1").name
        b'refactx_e004ebd5b5532a4b'
        """
        return cls(text.encode(), b"refactx_" + hashlib.sha256(text.encode()).hexdigest()[:16].encode())

    def run(self, connection: TimeLimitedConnection, values: list[bytes]) -> pq.abc.PGresult:
        """Return the result, in binary form. A statement is prepared once on a connection. Raises psycopg.Error."""
        # psycopg's low-level interface to libpq: a cursor for each lookup would double its time.
        pgconn, formats = connection.pgconn, [pq.Format.BINARY] * len(values)
        while connection.statements.forgotten < FORGOTTEN:
            if self.name not in connection.prepared:
                pgconn.send_prepare(self.name, self.text)
                _check(connection.result())
                connection.prepared.add(self.name)
            pgconn.send_query_prepared(self.name, values, formats, pq.Format.BINARY)
            result = _check(connection.result())
            if result is not None:
                return result
            connection.prepared.discard(self.name)
            connection.statements.forgotten += 1
        pgconn.send_query_params(self.text, values, param_formats=formats, result_format=pq.Format.BINARY)
        result = _check(connection.result())
        if result is None:
            raise psycopg.OperationalError("a statement without a name is unknown")
        return result


def _check(result: pq.abc.PGresult | None) -> pq.abc.PGresult | None:
    """Return a successful result; None if the statement is not prepared. Raises psycopg.Error."""
    if result is None:
        raise psycopg.OperationalError("the connection was lost")
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        return result
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    if state == "26000":  # invalid_sql_statement_name
        return None
    if state == "42P05":  # duplicate_prepared_statement: prepared by another client in the session
        return result
    message = " ".join(result.error_message.decode("utf-8", "replace").split()) or "the connection was lost"
    try:
        raise psycopg.errors.lookup(state)(message)
    except KeyError:
        raise psycopg.OperationalError(message) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """An index as a server has it.

    `server`: of the connection; `started`: when the server that answered was started, also behind a pooler;
    `is_standby`: whether it follows another. `changes`: how often the index was changed; None if it is not there.
    `has_statements`: facts may have qualifiers. `names`: numbers and times of its name tables, the latest first.
    `segments`: the columns of `sql/snapshot.sql` from the number on, in the order of the numbers.
    """

    server: Server
    started: str
    is_standby: bool
    changes: int | None
    has_statements: bool
    names: tuple[tuple[int, datetime], ...]
    segments: tuple[Sequence[Any], ...]

    def is_before(self, changes: int, name_table: int) -> bool:
        """Return whether the index has not had so many changes, or not this name table, yet."""
        return self.changes is None or self.changes < changes or self.latest_names < name_table

    @property
    def latest_names(self) -> int:
        """The number of the latest name table; 0: there is none."""
        return self.names[0][0] if self.names else 0


def read_index_state(connection: TimeLimitedConnection, index: int) -> IndexState:
    """Return an index as a connection sees it now, with one query."""
    rows = connection.execute(query("snapshot").encode(), {"index": index}, binary=True).fetchall()
    started, is_standby, changes, has_statements, numbers, times = rows[0][:6]
    if connection.server is None:
        raise RuntimeError("this is no connection of a pool")
    return IndexState(
        server=connection.server,
        started=started,
        is_standby=is_standby,
        changes=changes,
        has_statements=has_statements,
        names=tuple(zip(numbers or (), times or (), strict=True)),
        segments=tuple(row[6:] for row in rows if row[6] is not None),
    )
