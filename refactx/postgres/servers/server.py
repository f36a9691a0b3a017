"""The server that answers on a connection, and whether a pooler is in between."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.crdb import CrdbConnection

from refactx.errors import DatabaseError


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
