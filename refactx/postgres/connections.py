"""Connections to a database: their address, settings, time limits and errors, and which server answers on them."""

import os
import re
import selectors
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import psycopg
from psycopg import pq
from psycopg.abc import Buffer, Loader, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.crdb import CrdbConnection
from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader

from refactx.errors import DatabaseError, IndexNotFoundError, InputError, RefactxError, without_password
from refactx.sql import query

_GONE = ("08", "57", "53300", "40001")
"""SQLSTATEs after which a lookup is tried again: connection lost, shutdown, too many connections, and a conflict on a
standby. (Not 57014, cancelled by the statement timeout: `read_error`.)"""

_ROWS_AT_ONCE = 10_000

GRACE_SECONDS = 2.0
"""The seconds after its statement timeout in which a server may still answer, before it counts as gone."""

FORGOTTEN = 2
"""How often a name is forgotten before no statement has one any more."""

CONNECT_SECONDS = 10
"""The seconds to wait for a server that does not answer."""

_STARTING = re.compile("the database system is (?:starting up|in recovery mode|not yet accepting connections)")

_Poll = getattr(selectors, "PollSelector", selectors.SelectSelector)  # Windows has the second alone

UNSUPPORTED = "unsupported startup parameter"
"""What PgBouncer says of a parameter of the address that it does not take."""

PAUSE_SECONDS = 0.5
"""The seconds between two attempts to reach a server that went away."""

KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""Parameters that report the loss of a machine or network within half a minute instead of hours."""

_LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")

_NEUTRAL = {"sslcertmode": "allow", "min_protocol_version": "3.0", "max_protocol_version": "3.0"}
"""Values of parameters that have neither a default nor an empty value in libpq."""

_UNNAMED = ("PGDATESTYLE", "PGTZ", "PGGEQO")
"""Variables of the environment that libpq sends to the server, and which no parameter replaces."""

_SHOWN = ("user", "host", "port", "dbname")


def is_gone(error: psycopg.Error) -> bool:
    """Return whether the reason of an error is the database and not the statement."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(_GONE) and state != "57014"


def read_error(error: psycopg.Error, index: str | None, seconds: float) -> RefactxError:
    """Return the error to raise if PostgreSQL refuses to read an index (None: any), after some seconds."""
    name = "the index" if index is None else f"index {index!r}"
    reason = without_password(" ".join(str(error).split()))
    match error.sqlstate:
        case "42P01":  # undefined_table
            return IndexNotFoundError(f"{name} was dropped or replaced: open it again")
        case "57014":  # query_canceled
            return DatabaseError(
                f"PostgreSQL stopped a lookup in {name} after {seconds:.1f} s ({reason}): the server is overloaded, or "
                "a table is locked. Ask again, or allow more time (the user or the database may have its own limit) "
                "with REFACTX_LOOKUP_SECONDS, or with ?options=-c%20statement_timeout%3D60s at the end of --db"
            )
        case "42501":  # insufficient_privilege
            return DatabaseError(
                f"the user of --db may not read {name} ({reason}): GRANT USAGE ON SCHEMA refactx and GRANT SELECT ON "
                "ALL TABLES IN SCHEMA refactx to that user, with ALTER DEFAULT PRIVILEGES for future tables, as in "
                "docs/how-to/roles-and-limits.md"
            )
    return DatabaseError(f"PostgreSQL refused to read {name}: {reason}. See the server's log")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, by the moment at which it was started, in microseconds; after a restart it is another.

    `started` is None if a pooler is in between: then each transaction may be of another server.
    """

    started: str | None

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler is in between."""
        return self.started is None


POOLED = Server(None)
"""What a pooler leads to."""


def address_of(url: str, info: psycopg.ConnectionInfo) -> str:
    """Return the address with the one host that a connection has reached.

    If the name of the host has several addresses, the result has the one of the connection.
    """
    given = conninfo_to_dict(url)
    for name in ("host", "hostaddr", "port", "load_balance_hosts"):
        given.pop(name, None)
    place = {"host": info.host, "hostaddr": info.hostaddr or "", "port": str(info.port)}
    return make_conninfo("", **(given | place), load_balance_hosts="disable")


def names_several(url: str) -> bool:
    """Return whether an address names several hosts.

    >>> names_several("postgresql://a,b/kb"), names_several("host=a dbname=kb")
    (True, False)
    """
    given = conninfo_to_dict(url)
    return any("," in str(given.get(name) or "") for name in ("host", "hostaddr"))


def check_kind(connection: psycopg.Connection[Any]) -> None:
    """Raise DatabaseError, with the reason, if the server is none of PostgreSQL's, though it speaks its protocol."""
    pgconn = connection.pgconn
    if CrdbConnection.is_crdb(pgconn):
        raise DatabaseError(
            "the server is CockroachDB, whose advisory locks lock nothing, so that two writers could change an index at "
            "once: give the address of a PostgreSQL server with --db"
        )
    if b"-YB-" in (pgconn.parameter_status(b"server_version") or b""):
        raise DatabaseError(
            "the server is YugabyteDB, which does not take COPY with FREEZE, by which the rows of an index are stored: "
            "give the address of a PostgreSQL server with --db"
        )


Value = TypeVar("Value")


@dataclass(slots=True)
class NamedStatements:
    """How often the connections of a pool have forgotten the name of a prepared statement."""

    forgotten: int = 0


class TimeLimitedConnection(psycopg.Connection[Any]):
    """A connection that raises OperationalError if the server does not answer for `answer_seconds` (None: no limit).

    `cancels`: ask the server to cancel the statement then, and wait for `GRACE_SECONDS` more: for a server whose own
    timeout is not set. `server`: what answers. `prepared`: the names of statements that were prepared on it;
    `statements`: whether such names are kept, for all connections of a pool.
    """

    answer_seconds: float | None = None
    cancels = False
    server: Server | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared: set[bytes] = set()
        self.statements = NamedStatements()

    def wait(self, gen: PQGen[Value], interval: float = 0.1, timeout: float | None = None) -> Value:
        """Wait as `psycopg.Connection.wait` does, which every method of psycopg calls, within the limit.

        `timeout` is an argument of psycopg 3.3 and later.
        """
        own = {} if timeout is None else {"timeout": timeout}
        bounded = gen if self.answer_seconds is None else _bound(gen, self.answer_seconds, self._cancel)
        return super().wait(bounded, interval, **own)

    def result(self) -> pq.abc.PGresult | None:
        """Return the result of a command that was sent through `pgconn`, within the limit; None if there is none."""
        pgconn = self.pgconn
        poll, seconds, cancelled = None, self.answer_seconds, False
        while pgconn.is_busy():
            if poll is None:
                poll = _Poll()
                poll.register(pgconn.socket, selectors.EVENT_READ)
            if not poll.select(seconds):
                if cancelled or not self._cancel():
                    raise _no_answer(self.answer_seconds)
                cancelled, seconds = True, GRACE_SECONDS
            pgconn.consume_input()
        result = pgconn.get_result()
        while pgconn.get_result() is not None:  # after the last result the connection is free
            pass
        return result

    def _cancel(self) -> bool:
        """Ask the server to cancel what it does, if `cancels`. Return whether it was asked."""
        if self.cancels:
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=GRACE_SECONDS)
        return self.cancels


def _bound(gen: PQGen[Value], seconds: float, cancel: Callable[[], bool]) -> Generator[Any, Any, Value]:
    """Run a generator of psycopg's. Raise OperationalError if nothing is ready for `seconds`, and after `cancel`."""
    deadline, cancelled = time.monotonic() + seconds, False
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() > deadline:
                if cancelled or not cancel():
                    gen.close()
                    raise _no_answer(seconds)
                deadline, cancelled = time.monotonic() + GRACE_SECONDS, True
            state = gen.send(ready)
    except StopIteration as end:
        value: Value = end.value
        return value


def _no_answer(seconds: float | None) -> psycopg.OperationalError:
    return psycopg.OperationalError(f"the server has not answered for {seconds:g} s")


Connection = psycopg.Connection[Any]


def check_address(url: str) -> None:
    """Raise InputError if an address cannot be read.

    The message has no part of the address, which may contain the password; libpq's own message may have.
    """
    authority = url.partition("://")[2].partition("/")[0]
    if authority.count("@") > 1:  # libpq would read the end of the password as a host
        raise InputError("the database's address has more than one @: write an @ in the password as %40")
    try:
        given = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeError):
        raise unreadable() from None
    ports = str(given.get("port") or "").split(",")
    if "\0" in url or not all(re.fullmatch("[0-9]{0,5}", port) for port in ports):
        raise unreadable()


def unreadable() -> InputError:
    """Return the error for an address that cannot be read."""
    return InputError(
        "the database's address cannot be read: expected postgresql://user:password@host:port/database, with special "
        "characters in the password as %20 (a space), %25 (%), %2F (/) and the like, or "
        "host=... dbname=... password='...'"
    )


def shown_address(url: str) -> str:
    """Return what may be shown of an address: the user, the host, the port and the database, and nothing else.

    >>> shown_address("postgresql://me:secret@db:5433/kb?sslpassword=secret")
    'postgresql://me@db:5433/kb'
    >>> shown_address("host=/tmp user='me' password = 'it\\\\'s' dbname=kb")
    'postgresql:///kb?user=me&host=/tmp'
    """
    given = {name: str(value)[:200] for name, value in conninfo_to_dict(url).items() if name in _SHOWN}
    host, port = given.get("host", ""), given.get("port", "")
    name = quote(given.get("dbname", ""), safe="")
    if not host or set(host + port) & set("/,"):
        shown = {part: given[part] for part in _SHOWN[:3] if part in given}
        return f"postgresql:///{name}{'?' if shown else ''}{urlencode(shown, safe='/,')}"
    user = f"{quote(given['user'], safe='')}@" if "user" in given else ""
    return f"postgresql://{user}{f'[{host}]' if ':' in host else host}{port and f':{port}'}/{name}"


def variables_of(url: str) -> list[str]:
    """Return libpq's variables of the environment that take part in a connection."""
    given = conninfo_to_dict(add_defaults(url))
    options = [option for option in pq.Conninfo.get_defaults() if option.envvar]
    known = [option.envvar.decode() for option in options if option.envvar and option.keyword.decode() not in given]
    return [name for name in (*known, *_UNNAMED) if name in os.environ]


def without_environment(url: str) -> str:
    """Return the address with a value for each parameter that a variable of the environment would set, or the service
    that PGSERVICE names. (It has no value for `service` itself, which libpq looks up in any case.)"""
    given, set_here = conninfo_to_dict(url), variables_of(url)
    neutral = {
        option.keyword.decode(): (option.compiled or b"").decode()
        for option in pq.Conninfo.get_defaults()
        if option.envvar and ("PGSERVICE" in set_here or option.envvar.decode() in set_here)
    }
    for name in ("service", "connect_timeout", *given):
        neutral.pop(name, None)
    return make_conninfo(url, **{name: _NEUTRAL.get(name, value) for name, value in neutral.items()})


def open_session(url: str) -> TimeLimitedConnection:
    """Open a connection in autocommit mode, without time limits for statements and transactions.

    It is for writers, and for readers of whole tables. Through a pooler, which gives the session to other clients too,
    nothing is set in it, and nothing prepared. Raises psycopg.Error, and DatabaseError if the server is none of
    PostgreSQL's.
    """
    conninfo = add_defaults(url, **KEEPALIVE)
    given = conninfo_to_dict(url).get("options")
    given = os.environ.get("PGOPTIONS", "") if given is None else str(given)
    options = " ".join([given, *(f"-c {name}=0" for name in _LIMITS)]).strip()
    try:
        connection = connect(make_conninfo(conninfo, options=options), CONNECT_SECONDS)
    except psycopg.OperationalError as error:
        if UNSUPPORTED not in str(error):
            raise
        connection = connect(conninfo, CONNECT_SECONDS)  # PgBouncer takes no options
    row = connection.execute(
        query("unlimit_session").encode(), {"process": connection.info.backend_pid}, prepare=False
    ).fetchone()
    if row is None:
        raise RuntimeError("SELECT without FROM gave no row")
    connection.server = POOLED if row[0] else Server(row[1])
    if connection.server.is_pooled:
        connection.prepare_threshold = None
    return connection


def connect(conninfo: str, seconds: float) -> TimeLimitedConnection:
    """Open a connection in autocommit mode. Wait for at most `seconds` while the server starts or recovers.

    Raises as `open_session` does.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection = TimeLimitedConnection.connect(conninfo, autocommit=True)
            check_kind(connection)
            return connection
        except UnicodeError:  # a host that cannot be one
            raise unreadable() from None
        except psycopg.OperationalError as error:  # an error of connecting has no SQLSTATE
            if time.monotonic() > deadline or not _STARTING.search(str(error)):
                raise
        time.sleep(PAUSE_SECONDS / 5)


def add_defaults(url: str, **defaults: int | str) -> str:
    """Return the address with the parameters of libpq that it does not set. Raises psycopg.ProgrammingError."""
    given = conninfo_to_dict(url)
    # The client encoding is UTF-8, whatever the environment and the address say: no other has all labels, and from a
    # database of encoding SQL_ASCII psycopg would return text as bytes.
    given["client_encoding"] = "utf8"
    defaults = {"connect_timeout": CONNECT_SECONDS, **defaults}
    return make_conninfo("", **{**defaults, **given})


class ServerChangedError(IndexNotFoundError):
    """The connections lead to another server than the one at which an index was opened: open it there again."""


def _or_text(loader: type[Loader]) -> type[Loader]:
    """Return a loader that gives what Python has no date for, such as `infinity` and years before Christ, as text."""

    class OrText(loader):  # type: ignore[misc, valid-type]
        def load(self, data: Buffer) -> object:
            try:
                return super().load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    return OrText


_LOADERS = {
    kind: _or_text(loader)
    for kind, loader in (("date", DateLoader), ("timestamp", TimestampLoader), ("timestamptz", TimestamptzLoader))
}


def _unanswered(url: str, error: psycopg.Error) -> InputError:
    return InputError(
        f"{shown_address(url)} does not answer the query: {without_password(' '.join(str(error).split()))}: correct the "
        "address or --query"
    )


def stream_query(url: str, statement: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Return the names of a query's columns and an iterator over its rows, which closes the connection at its end.

    Nothing can be written. Raises InputError if the database cannot be reached, or refuses the query.
    """
    check_address(url)
    try:
        connection = psycopg.connect(add_defaults(url))
        connection.read_only = True
        for kind, loader in _LOADERS.items():
            connection.adapters.register_loader(kind, loader)
        cursor = connection.cursor("refactx_source")
        cursor.itersize = _ROWS_AT_ONCE
        cursor.execute(statement.encode())
    except psycopg.Error as error:
        raise _unanswered(url, error) from None

    def rows() -> Iterator[tuple[Any, ...]]:
        try:
            with connection:
                yield from cursor
        except psycopg.Error as error:  # a value that cannot be computed, or the end of the connection
            raise _unanswered(url, error) from None

    return [column.name for column in cursor.description or ()], rows()
