"""PostgreSQL: connections, and the rows of a segment. The only module of inference that speaks to a database.

Lookups share pooled connections in autocommit, prepared statements, and a time limit for each (`refactx.postgres.limits`). A
database that goes away is waited for, and the lookup tried again: never a wrong answer. Whatever may take long has a
session of its own, without limits. A pool does not survive `fork`: the child makes its own.
"""

import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from refactx.errors import DatabaseError, InputError, RefactxError, without_password
from refactx.postgres.bounded import BoundedConnection
from refactx.postgres.errors import explained, is_gone
from refactx.postgres.limits import LOOKUP_SECONDS, Limits, limits_of_environment
from refactx.sql import query

Result = TypeVar("Result")
Connection = psycopg.Connection[Any]

_log = logging.getLogger(__name__)

CATALOGUE_VERSION = 2
"""Of the tables that describe indexes (sql/schema.sql), as `refactx.catalogue` has it."""

CONNECT_SECONDS = 10
"""How long to wait for a server that does not answer, before giving up."""

_ABOUT_TO = re.compile("the database system is (?:starting up|in recovery mode|not yet accepting connections)")
_PAUSE_SECONDS = 0.5
"""Between two attempts to reach a server that went away."""

_GRACE_SECONDS = 2.0
"""How much longer than its statement timeout a server has for its answer, before it counts as gone."""

_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""A server whose machine or network is gone is noticed within half a minute instead of hours."""

_LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")


class Database:
    """A pool of connections to one database. `url` is a libpq URL or connection string.

    `limits`: by default those of the environment. `revive` is called before each attempt to reach a database that went
    away. Raises DatabaseError if the database cannot be reached.
    """

    def __init__(self, url: str, limits: Limits | None = None, revive: Callable[[], object] = lambda: None) -> None:
        _check_address(url)
        self.url = url
        self._limits = limits_of_environment() if limits is None else limits
        self._revive = revive
        self._lock = threading.Lock()
        self._pool: ConnectionPool[BoundedConnection] | None = None
        self._process = os.getpid()
        try:  # a bad address is told at once
            self._own_pool()
        except psycopg.Error as error:
            raise self._unreachable(error) from None

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A session of its own, for what may take long (`open_session`). Raises DatabaseError when there is none to be had."""
        try:
            with open_session(self.url) as connection:
                yield connection
        except psycopg.Error as error:
            if is_gone(error):
                raise self._unreachable(error) from None
            raise explained(error, None, 0.0) from error

    def retry(self, action: Callable[[BoundedConnection], Result], index: str | None = None) -> Result:
        """Look something up within the time limit, again and again if the database goes away, for as long as the limits say.

        `index`: what errors call it. Raises DatabaseError, or IndexNotFoundError if a table is not there (any more).
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
                    raise explained(error, index, time.monotonic() - started) from error
                if deadline is None:
                    deadline = time.monotonic() + self._limits.outage
                elif time.monotonic() > deadline:
                    raise self._unreachable(error, waited=True) from None
                else:  # it was reached a moment ago and went away again: no reason to hurry
                    time.sleep(_PAUSE_SECONDS)
                self._wait(deadline)
            self._forget(pool)

    def retry_unlimited(self, action: Callable[[BoundedConnection], Result], index: str | None = None) -> Result:
        """`retry` for what reads whole tables: as long as it takes."""

        def unlimited(connection: BoundedConnection) -> Result:
            seconds, connection.answer_seconds = connection.answer_seconds, None
            try:
                with connection.transaction():
                    connection.execute("SET LOCAL statement_timeout = 0")
                    return action(connection)
            finally:
                connection.answer_seconds = seconds

        return self.retry(unlimited, index)

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            if self._pool is not None and self._process == os.getpid():
                self._pool.close()
            self._pool = None

    def _own_pool(self) -> ConnectionPool[BoundedConnection]:
        with self._lock:
            if self._pool is None or self._process != os.getpid():
                # After a fork the inherited sockets are the parent's: they are left alone, neither used nor closed.
                self._pool, self._process = self._new_pool(), os.getpid()
            return self._pool

    def _new_pool(self) -> ConnectionPool[BoundedConnection]:
        self._reach()  # its error says what is wrong, a pool's only that it took too long
        return ConnectionPool(
            _with_defaults(self.url, **_KEEPALIVE, tcp_user_timeout=20_000),
            min_size=1,
            max_size=8,
            open=True,
            timeout=CONNECT_SECONDS,
            kwargs={"autocommit": True},
            configure=self._limit,
            connection_class=BoundedConnection,
        )

    def _reach(self, seconds: float | None = None) -> None:
        """Connect once; `seconds`: at most so many, but two at least, below which libpq does not go."""
        bound = {} if seconds is None else {"connect_timeout": max(2, math.ceil(seconds))}
        _connect(
            make_conninfo(_with_defaults(self.url), **bound), CONNECT_SECONDS if seconds is None else seconds
        ).close()

    def _limit(self, connection: BoundedConnection) -> None:
        """Set a connection's statement timeout, unless the address does, or (if none was given) the server's settings do."""
        told = self._limits.lookup is not None
        seconds = LOOKUP_SECONDS if self._limits.lookup is None else self._limits.lookup
        row = connection.execute(
            query("limit_lookups").encode(), {"told": told, "value": f"{round(seconds * 1000)}ms"}
        ).fetchone()
        seconds = float(row[0]) if row else 0.0
        connection.answer_seconds = seconds + _GRACE_SECONDS if seconds else None

    def _wait(self, deadline: float) -> None:
        """Return when the database takes connections: at once, or before the deadline. Raises DatabaseError behind that."""
        error = self._attempt(deadline)
        if error is None:
            return
        _log.warning("the database went away: waiting for it, %g s at most", self._limits.outage)
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(_PAUSE_SECONDS, left))
            error = self._attempt(deadline)
            if error is None:
                _log.warning("the database is back")
                return
        raise self._unreachable(error, waited=True)

    def _attempt(self, deadline: float) -> Exception | None:
        """Try to reach the database before the deadline: None, or why it failed."""
        try:
            self._revive()
            self._reach(min(CONNECT_SECONDS, deadline - time.monotonic()))
        except (psycopg.Error, DatabaseError) as error:
            return error
        return None

    def _forget(self, pool: ConnectionPool[BoundedConnection] | None) -> None:
        """Take a pool with broken connections out of use: a new one is quicker than its own attempts to mend them."""
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
                "Start it, and ask again (REFACTX_OUTAGE_SECONDS sets how long it is waited for)"
            )
        return DatabaseError(f"cannot reach the database {address}: {reason}. Is it running, and is --db right?")


def _check_address(url: str) -> None:
    """Raise InputError for an address that can't be read, without any of it: what libpq says of one may hold the password."""
    authority = url.partition("://")[2].partition("/")[0]
    if authority.count("@") > 1:  # libpq would take half of the password for a host
        raise InputError("the database's address has more than one @: write an @ in the password as %40")
    try:
        ports = str(conninfo_to_dict(url).get("port") or "")
        if all(port.isdigit() or not port for port in ports.split(",")):
            return
    except psycopg.ProgrammingError:
        pass
    raise InputError(
        "the database's address cannot be read: expected postgresql://user:password@host:port/database, with what is special "
        "in the password as %20 (a space), %25 (%), %2F (/) and the like, or host=... dbname=... password='...'"
    )


def open_session(url: str) -> Connection:
    """A connection in autocommit mode in which statements and transactions may take as long as they take.

    For writers, and for whoever reads all there is. Raises psycopg.Error.
    """
    given = conninfo_to_dict(url).get("options") or os.environ.get("PGOPTIONS", "")
    options = " ".join([str(given), *(f"-c {name}=0" for name in _LIMITS)]).strip()
    conninfo = make_conninfo(_with_defaults(url, **_KEEPALIVE), options=options)
    connection = _connect(conninfo, CONNECT_SECONDS, autocommit=True)
    if connection.info.server_version >= 170000:
        connection.execute("SET transaction_timeout = 0")
    return connection


def _connect(conninfo: str, seconds: float, *, autocommit: bool = False) -> Connection:
    """A connection. A server that is about to take some, since it starts or recovers, is given so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return psycopg.connect(conninfo, autocommit=autocommit)
        except psycopg.OperationalError as error:  # which has no SQLSTATE yet
            if time.monotonic() > deadline or not _ABOUT_TO.search(str(error)):
                raise
        time.sleep(_PAUSE_SECONDS / 5)


def _with_defaults(url: str, **defaults: int | str) -> str:
    """The address with these of libpq's parameters where it has none of its own. Raises psycopg.ProgrammingError."""
    given = conninfo_to_dict(url)
    # In a database of encoding SQL_ASCII, psycopg gives bytes for text where no client encoding is set.
    encoding = {} if "PGCLIENTENCODING" in os.environ else {"client_encoding": "utf8"}
    defaults = {"connect_timeout": CONNECT_SECONDS, **encoding, **defaults}
    return make_conninfo(url, **{name: value for name, value in defaults.items() if name not in given})


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
        return self._database.retry(lambda connection: self._lookup(connection, key), self._index)

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The rows under some keys, in one query; those that are not there are left out."""
        if self._held is not None:
            return {key: self._held[key] for key in keys if key in self._held}
        self.round_trips += 1
        statement = f"SELECT key, piece FROM refactx.pieces_{self._segment} WHERE key = ANY(%b)".encode()
        return dict(
            self._database.retry(
                lambda connection: connection.execute(statement, [list(keys)], binary=True).fetchall(), self._index
            )
        )

    def count(self) -> int:
        """How many rows there are."""
        statement = f"SELECT count(*) FROM refactx.pieces_{self._segment}".encode()
        row = self._database.retry_unlimited(lambda connection: connection.execute(statement).fetchone(), self._index)
        return int(row[0]) if row else 0

    def _lookup(self, connection: BoundedConnection, key: bytes) -> bytes | None:
        # libpq by psycopg's own low-level interface: a cursor for each lookup costs as much again as the lookup.
        pgconn = connection.pgconn
        for _ in range(2):
            backend = pgconn.backend_pid
            if self._prepared.get(id(pgconn)) != backend:
                pgconn.send_prepare(self._statement, self._query)
                self._checked(connection.result())
                self._prepared[id(pgconn)] = backend
            pgconn.send_query_prepared(self._statement, [key], [pq.Format.BINARY], pq.Format.BINARY)
            result = self._checked(connection.result())
            if result is not None:
                return result.get_value(0, 0) if result.ntuples else None
            del self._prepared[id(pgconn)]  # another connection's, by its number alone (a server counts them anew)
        raise DatabaseError(
            f"PostgreSQL forgets prepared statements: read index {self._index!r} without a proxy between"
        )

    def _checked(self, result: pq.abc.PGresult | None) -> pq.abc.PGresult | None:
        """A result that is sound; None if the statement is not prepared. Raises psycopg.Error."""
        if result is None:
            raise psycopg.OperationalError("the connection broke")
        if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            return result
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        if state == "26000":  # invalid_sql_statement_name
            return None
        if state == "42P05":  # duplicate_prepared_statement: prepared by another object on this connection
            return result
        message = " ".join(result.error_message.decode("utf-8", "replace").split()) or "the connection broke"
        try:
            raise psycopg.errors.lookup(state)(message)
        except KeyError:
            raise psycopg.OperationalError(message) from None


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
