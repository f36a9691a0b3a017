"""The rows of a segment: looked up by key in its table, or all in memory."""

from collections.abc import Sequence
from time import perf_counter

import psycopg
from psycopg import pq

from refactx.errors import DatabaseError
from refactx.postgres.bounded import BoundedConnection
from refactx.postgres.database import Database


class SegmentRows:
    """The rows of one segment: a `RowSource`. `round_trips` counts the queries; `seconds`: how long those for one row took."""

    def __init__(self, database: Database, index: str, segment: int) -> None:
        self._database, self._index, self._segment = database, index, segment
        self._statement = f"refactx_piece_{segment}".encode()
        self._query = f"SELECT piece FROM refactx.pieces_{segment} WHERE key = $1".encode()
        self._prepared: dict[int, int] = {}  # backend process id by connection
        self._held: dict[bytes, bytes] | None = None
        self.round_trips, self.seconds = 0, 0.0

    def hold(self, rows: dict[bytes, bytes]) -> None:
        """Use these rows, all of the segment, instead of queries."""
        self._held = rows

    def fetch(self, key: bytes) -> bytes | None:
        """Return the row with a key; None if there is none."""
        if self._held is not None:
            return self._held.get(key)
        self.round_trips += 1
        started = perf_counter()
        row = self._database.retry(lambda connection: self._lookup(connection, key), self._index)
        self.seconds += perf_counter() - started
        return row

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the rows with some keys, in one query; without the keys that have no row."""
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
        """Return the number of rows in the table."""
        statement = f"SELECT count(*) FROM refactx.pieces_{self._segment}".encode()
        row = self._database.retry_unlimited(lambda connection: connection.execute(statement).fetchone(), self._index)
        return int(row[0]) if row else 0

    def _lookup(self, connection: BoundedConnection, key: bytes) -> bytes | None:
        # psycopg's low-level interface to libpq: a cursor for each lookup would double its time.
        pgconn = connection.pgconn
        for _ in range(2):
            backend = pgconn.backend_pid
            if self._prepared.get(id(pgconn)) != backend:
                pgconn.send_prepare(self._statement, self._query)
                self._check(connection.result())
                self._prepared[id(pgconn)] = backend
            pgconn.send_query_prepared(self._statement, [key], [pq.Format.BINARY], pq.Format.BINARY)
            result = self._check(connection.result())
            if result is not None:
                return result.get_value(0, 0) if result.ntuples else None
            del self._prepared[id(pgconn)]  # of an earlier connection: a new server may assign the same process id
        raise DatabaseError(
            f"PostgreSQL does not keep prepared statements: read index {self._index!r} without a proxy in between"
        )

    def _check(self, result: pq.abc.PGresult | None) -> pq.abc.PGresult | None:
        """Return a successful result; None if the statement is not prepared. Raises psycopg.Error."""
        if result is None:
            raise psycopg.OperationalError("the connection was lost")
        if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            return result
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        if state == "26000":  # invalid_sql_statement_name
            return None
        if state == "42P05":  # duplicate_prepared_statement: prepared by another object on this connection
            return result
        message = " ".join(result.error_message.decode("utf-8", "replace").split()) or "the connection was lost"
        try:
            raise psycopg.errors.lookup(state)(message)
        except KeyError:
            raise psycopg.OperationalError(message) from None


def all_rows(database: Database, segments: Sequence[int]) -> dict[int, dict[bytes, bytes]]:
    """Return all rows of some (small) segments, by segment and key, with one query."""
    statement = " UNION ALL ".join(f"SELECT {number}, key, piece FROM refactx.pieces_{number}" for number in segments)
    found: dict[int, dict[bytes, bytes]] = {number: {} for number in segments}
    for number, key, piece in database.retry(
        lambda connection: connection.execute(statement.encode(), binary=True).fetchall()
    ):
        found[number][key] = piece
    return found
