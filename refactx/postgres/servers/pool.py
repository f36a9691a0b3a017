"""A pool of connections to one server."""

import threading

import psycopg
from psycopg_pool import ConnectionPool

from refactx.postgres.bounded import GRACE_SECONDS, BoundedConnection, NamedStatements
from refactx.postgres.limits import LOOKUP_SECONDS
from refactx.postgres.servers.server import POOLED, Server
from refactx.postgres.sessions import CONNECT_SECONDS, KEEPALIVE, add_defaults
from refactx.sql import query


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
            connection_class=BoundedConnection,
        )
        self.connection = self._pool.connection
        self._statements = NamedStatements()

    def is_of(self, server: Server) -> bool:
        """Return whether connections are to a server; if there is none yet, they will be."""
        with self._lock:
            self._server = self._server or server
            return self._server == server

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def _configure(self, connection: BoundedConnection) -> None:
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
