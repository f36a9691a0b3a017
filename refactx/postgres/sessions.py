"""Connections to a database: the check of its address, the settings of a session, and waiting for a server to start."""

import os
import re
import time
from typing import Any

import psycopg
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


def check_address(url: str) -> None:
    """Raise InputError if an address cannot be read.

    The message has no part of the address, which may contain the password; libpq's own message may have.
    """
    authority = url.partition("://")[2].partition("/")[0]
    if authority.count("@") > 1:  # libpq would read the end of the password as a host
        raise InputError("the database's address has more than one @: write an @ in the password as %40")
    try:
        ports = str(conninfo_to_dict(url).get("port") or "")
        if all(port.isdigit() or not port for port in ports.split(",")):
            return
    except psycopg.ProgrammingError:
        pass
    raise InputError(
        "the database's address cannot be read: expected postgresql://user:password@host:port/database, with special "
        "characters in the password as %20 (a space), %25 (%), %2F (/) and the like, or "
        "host=... dbname=... password='...'"
    )


def open_session(url: str) -> BoundedConnection:
    """Open a connection in autocommit mode, without time limits for statements and transactions.

    It is for writers, and for readers of whole tables. Through a pooler, which gives the session to other clients too,
    nothing is set in it, and nothing prepared. Raises psycopg.Error, and DatabaseError if the server is none of
    PostgreSQL's.
    """
    conninfo = add_defaults(url, **KEEPALIVE)
    given = conninfo_to_dict(url).get("options") or os.environ.get("PGOPTIONS", "")
    options = " ".join([str(given), *(f"-c {name}=0" for name in _LIMITS)]).strip()
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
        except psycopg.OperationalError as error:  # an error of connecting has no SQLSTATE
            if time.monotonic() > deadline or not _STARTING.search(str(error)):
                raise
        time.sleep(PAUSE_SECONDS / 5)


def add_defaults(url: str, **defaults: int | str) -> str:
    """Return the address with the parameters of libpq that it does not set. Raises psycopg.ProgrammingError."""
    given = conninfo_to_dict(url)
    # In a database of encoding SQL_ASCII, psycopg returns text as bytes if no client encoding is set.
    encoding = {} if "PGCLIENTENCODING" in os.environ else {"client_encoding": "utf8"}
    defaults = {"connect_timeout": CONNECT_SECONDS, **encoding, **defaults}
    return make_conninfo(url, **{name: value for name, value in defaults.items() if name not in given})
