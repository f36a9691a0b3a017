"""The rows of a segment: looked up by key in its table, or all in memory."""

from collections.abc import Sequence
from datetime import datetime
from time import perf_counter

from refactx.errors import IndexNotFoundError
from refactx.postgres.connections import Server, TimeLimitedConnection
from refactx.postgres.database import Database, PreparedStatement

_KNOWN = "FROM refactx.segments AS s{} WHERE s.id = {} AND s.ready AND s.created = '{}'"


class SegmentRows:
    """The rows of one segment: a `RowSource`. `round_trips` counts the queries; `seconds`: how long those for one row took.

    `created`: when the segment was made. `server`: the one whose catalogue has it. Through a pooler, each query also asks
    whether the server that answers has this segment, complete; IndexNotFoundError says that it has not.
    """

    def __init__(self, database: Database, index: str, segment: int, *, created: datetime, server: Server) -> None:
        self.server, self.created = server, created
        self._database, self._index, self.segment = database, index, segment
        self._table = f"refactx.pieces_{segment}"
        self._own = PreparedStatement.of(f"SELECT piece FROM {self._table} WHERE key = $1")
        known = _KNOWN.format("{}", segment, created.isoformat())
        self._known = PreparedStatement.of(
            f"SELECT (SELECT piece FROM {self._table} WHERE key = $1) {known.format('')}"
        )
        self._some = f"SELECT key, piece FROM {self._table} WHERE key = ANY(%b)".encode()
        self._known_some = (
            f"SELECT p.key, p.piece {known.format(f' LEFT JOIN {self._table} AS p ON p.key = ANY(%b)')}".encode()
        )
        self._count = f"SELECT count(*) FROM {self._table}".encode()
        self._known_count = f"SELECT (SELECT count(*) FROM {self._table}) {known.format('')}".encode()
        self.everything = f"SELECT s.id, p.key, p.piece {known.format(f' CROSS JOIN {self._table} AS p')}"
        self._in_memory: dict[bytes, bytes] | None = None
        self.round_trips, self.seconds = 0, 0.0

    def hold(self, rows: dict[bytes, bytes]) -> None:
        """Use these rows, all of the segment, instead of queries."""
        self._in_memory = rows

    def fetch(self, key: bytes) -> bytes | None:
        """Return the row with a key; None if there is none."""
        if self._in_memory is not None:
            return self._in_memory.get(key)
        self.round_trips += 1
        started = perf_counter()
        row = self._database.retry(lambda connection: self._lookup(connection, key), self._index, server=self.server)
        self.seconds += perf_counter() - started
        return row

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the rows with some keys, in one query; without the keys that have no row."""
        if self._in_memory is not None:
            return {key: self._in_memory[key] for key in keys if key in self._in_memory}
        self.round_trips += 1
        statement = self._known_some if self._is_pooled else self._some
        rows = self._database.retry(
            lambda connection: connection.execute(statement, [list(keys)], binary=True).fetchall(),
            self._index,
            server=self.server,
        )
        if self._is_pooled and not rows:
            raise self._unknown()
        return {key: piece for key, piece in rows if key is not None}

    def count(self) -> int:
        statement = self._known_count if self._is_pooled else self._count
        row = self._database.retry_unlimited(
            lambda connection: connection.execute(statement).fetchone(), self._index, server=self.server
        )
        if row is None:
            raise self._unknown()
        return int(row[0])

    def _lookup(self, connection: TimeLimitedConnection, key: bytes) -> bytes | None:
        if not self._is_pooled:
            result = self._own.run(connection, [key])
            return result.get_value(0, 0) if result.ntuples else None
        result = self._known.run(connection, [key])
        if not result.ntuples:
            raise self._unknown()
        return result.get_value(0, 0)

    @property
    def _is_pooled(self) -> bool:
        return self.server.is_pooled

    def _unknown(self) -> IndexNotFoundError:
        return IndexNotFoundError(f"index {self._index!r} was dropped or replaced: open it again")


def hold_all(database: Database, sources: Sequence[SegmentRows]) -> None:
    """Read all rows of some (small) segments with one query, so that lookups in them take none.

    Segments that the server does not have any more stay as they are.
    """
    statement = " UNION ALL ".join(source.everything for source in sources)
    found: dict[int, dict[bytes, bytes]] = {}
    try:
        rows = database.retry(
            lambda connection: connection.execute(statement.encode(), binary=True).fetchall(), server=sources[0].server
        )
    except IndexNotFoundError:  # the index was compacted this moment: whoever reads a segment will notice
        return
    for number, key, piece in rows:
        found.setdefault(number, {})[key] = piece
    for source in sources:
        if source.segment in found:
            source.hold(found[source.segment])
