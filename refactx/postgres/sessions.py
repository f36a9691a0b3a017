"""Connections to a database: the check of its address, the settings of a session, and waiting for a server to start."""

import os
import re
import time
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from refactx.errors import InputError
from refactx.postgres.bounded import BoundedConnection
from refactx.postgres.servers.server import POOLED, Server, check_kind
from refactx.sql import query

Connection = psycopg.Connection[Any]


CONNECT_SECONDS = 10
"""The seconds to wait for a server that does not answer."""


_STARTING = re.compile("the database system is (?:starting up|in recovery mode|not yet accepting connections)")


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


def open_session(url: str) -> BoundedConnection:
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


def connect(conninfo: str, seconds: float) -> BoundedConnection:
    """Open a connection in autocommit mode. Wait for at most `seconds` while the server starts or recovers.

    Raises as `open_session` does.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection = BoundedConnection.connect(conninfo, autocommit=True)
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
