"""An index in a database, as what an `Index` reads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeGuard, TypeVar

import zstandard

from refactx.errors import CorruptIndexError, DatabaseError, IndexNotFoundError, RefactxError
from refactx.index.names import ReadBlocks
from refactx.index.source import Segment, SegmentSource, Snapshot, StandbyWait, tree_of
from refactx.postgres.catalogue import find_hubs, stored_tokenizer
from refactx.postgres.connections import Server, TimeLimitedConnection
from refactx.postgres.database import Database, IndexState, read_index_state
from refactx.postgres.entry import CatalogueEntry, version_of
from refactx.postgres.segments import SegmentRows, hold_all
from refactx.tokenizer import FactTokenizer, unpack_tokenizer
from refactx.tree.codes import RowCodec, TokenCodes, frequent_tokens, shared_seed
from refactx.tree.stored import StoredTree

Value = TypeVar("Value")

FACTS_IN_MEMORY = 65_536
"""The most facts in the segments whose rows are read when the index is opened: a megabyte. An index of a million facts
changes by some 10,000 a day."""


# An entry is in the last block whose key is not greater than its own. A block that several share is sent once. The
# second parameter keeps blocks of ids, which come first, from a name that is before all blocks of names.
_BLOCKS = """SELECT DISTINCT ON (found.key) found.key, found.block FROM unnest(%b::bytea[]) AS wanted (key)
CROSS JOIN LATERAL (
    SELECT key, block FROM refactx.names_{} AS n WHERE n.key <= wanted.key AND n.key >= %b ORDER BY n.key DESC LIMIT 1
) AS found"""


class DatabaseSource:
    """A ready index in a database, given its entry in the catalogue.

    `on_close`: called after the database is closed.
    """

    def __init__(
        self, database: Database, entry: CatalogueEntry, on_close: Callable[[], object] = lambda: None
    ) -> None:
        self.database, self.entry, self._on_close = database, entry, on_close
        self._seen: IndexState | None = None
        self._changes = len(entry.report.get("changes", ())) + entry.report.get("remembered", 0)
        self._name_tables: dict[int, datetime] = {}

    def snapshot(self, cache_bytes: int, before: Sequence[Segment] = ()) -> Snapshot:
        """Return the index as it is now. Segments in `before` stay open, with their caches.

        Raises IndexNotFoundError if the index is gone, CorruptIndexError if the token codes or the dictionary of a
        segment are damaged, DatabaseError if the server stays behind what was read before.
        """
        now = self._seen = self._read_state()
        self._changes = now.changes or 0
        self._name_tables |= dict(now.names)
        known = {(segment.number, segment.rows.created): segment for segment in before if _is_stored(segment.rows)}
        segments = tuple(known.get((row[0], row[-1])) or self._open_segment(now, row) for row in now.segments)
        for segment in segments:
            if _is_stored(segment.rows):
                segment.rows.server = now.server
        old = {id(segment) for segment in known.values()}
        self._hold_small([segment for segment in segments if id(segment) not in old], segments)
        mark = version_of(self.entry, [(row[0], row[-1]) for row in now.segments], now.names)
        tables = tuple(table for table, _ in now.names)
        return Snapshot(segments, tree_of(segments, cache_bytes), tables, mark, now.has_statements, now.server)

    def _read_state(self) -> IndexState:
        """Return the index as it is now, but not as it was before it was read last: a standby may be behind."""
        database, entry, seen = self.database, self.entry, self._seen
        standby_wait = StandbyWait(entry.name, database.outage_seconds)
        while True:
            now = database.retry(lambda connection: read_index_state(connection, entry.id), entry.name)
            if not now.is_before(self._changes, seen.latest_names if seen else 0):
                return now
            moves_on = not now.is_standby or (seen.started == now.started if seen else not now.server.is_pooled)
            if moves_on and now.changes is None:
                raise self._gone()
            if not now.is_standby:
                raise DatabaseError(
                    f"the server that answers has lost changes of index {entry.name!r}, which were read from another "
                    "server: open the index again, and look for facts that are missing"
                )
            standby_wait.wait()

    def standby_wait(self) -> StandbyWait | None:
        """Return the wait for the server that has a table, if a pooler chooses another one for each query."""
        pooled = self._seen is not None and self._seen.server.is_pooled
        return StandbyWait(self.entry.name, self.database.outage_seconds) if pooled else None

    def _gone(self) -> IndexNotFoundError:
        return IndexNotFoundError(f"index {self.entry.name!r} was dropped or replaced: open it again")

    def prepare_tokenizer(self) -> Callable[[], FactTokenizer]:
        """Read the tokenizer now, since the index may be dropped. The result raises CorruptIndexError if it is damaged."""
        packed, name = self._stored_tokenizer(), self.entry.name

        def load() -> FactTokenizer:
            try:
                return FactTokenizer(unpack_tokenizer(packed))
            except (zstandard.ZstdError, ValueError, RefactxError) as error:
                raise CorruptIndexError(
                    f"index {name!r}: its tokenizer is damaged: {error}. Ingest the index again"
                ) from error

        return load

    def _stored_tokenizer(self) -> bytes:
        standby_wait = self.standby_wait()
        while True:
            try:
                return stored_tokenizer(self.database, self.entry)
            except IndexNotFoundError:
                if standby_wait is None:
                    raise
                standby_wait.wait()

    def read_names(self, find: Callable[[ReadBlocks], Value], *, unlimited: bool = False) -> Value:
        """Return what `find` finds in blocks of the name tables, with a query for each of its calls."""
        retry = self.database.retry_unlimited if unlimited else self.database.retry
        return retry(lambda connection: self._find_names(connection, find), self.entry.name, server=self._server)

    def name_rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of a name table from the key `first` on."""

        def read(connection: TimeLimitedConnection) -> list[tuple[bytes, bytes]]:
            self._confirm(connection, table)
            statement = f"SELECT key, block FROM refactx.names_{table} WHERE key >= %b ORDER BY key".encode()
            rows: list[tuple[bytes, bytes]] = connection.execute(statement, [first], binary=True).fetchall()
            return rows

        return self.database.retry_unlimited(read, self.entry.name, server=self._server)

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of hubs as they are now, with one query."""
        return self.database.retry(
            lambda connection: find_hubs(connection, self.entry, objects), self.entry.name, server=self._server
        )

    @property
    def _server(self) -> Server | None:
        return self._seen.server if self._seen else None

    def _find_names(self, connection: TimeLimitedConnection, find: Callable[[ReadBlocks], Value]) -> Value:
        if connection.server is None or not connection.server.is_pooled:
            return find(partial(_read_blocks, connection))

        def read(table: int, keys: list[bytes], first: bytes) -> Mapping[bytes, bytes]:
            self._confirm(connection, table)
            return _read_blocks(connection, table, keys, first)

        with connection.transaction():  # a pooler does not change the server within one
            return find(read)

    def _confirm(self, connection: TimeLimitedConnection, table: int) -> None:
        """Raise IndexNotFoundError if the server behind a pooler does not have a name table, complete."""
        if connection.server is not None and connection.server.is_pooled:
            statement = "SELECT FROM refactx.name_tables WHERE id = %s AND created = coalesce(%s, created) AND ready"
            values = [table, self._name_tables.get(table)]
            if connection.execute(statement, values).fetchone() is None:
                raise self._gone()

    def _open_segment(self, now: IndexState, row: Sequence[Any]) -> Segment:
        number, sign, levels, facts, tokens, codes, dictionary, created = row
        entry, name = self.entry, self.entry.name
        try:
            frequent = frequent_tokens(codes, entry.vocabulary_size)
        except ValueError as error:
            raise CorruptIndexError(f"index {name!r}: {error}. Ingest the index again") from error
        try:
            codec = RowCodec(dictionary, seed=shared_seed(codes, dictionary))
            codec.prepare()
        except zstandard.ZstdError as error:
            raise CorruptIndexError(f"index {name!r}: its dictionary is damaged. Ingest the index again") from error
        rows = SegmentRows(self.database, name, number, created=created, server=now.server)
        tree = StoredTree(rows, codec, TokenCodes(frequent), levels=levels, facts=facts, name=name)
        return Segment(number=number, sign=sign, tokens=tokens, tree=tree, rows=rows)

    def _hold_small(self, new: Sequence[Segment], segments: Sequence[Segment]) -> None:
        """Read all rows of small segments in one round trip: otherwise a walk would take one or two for each segment."""
        # The largest is not held: without a query, nobody would notice that the tables are gone.
        largest = max(segments, key=lambda segment: segment.tree.facts, default=None)
        facts = 0
        small: list[SegmentRows] = []
        for segment in sorted(new, key=lambda segment: segment.tree.facts):
            facts += segment.tree.facts
            if segment is not largest and facts <= FACTS_IN_MEMORY and _is_stored(segment.rows):
                small.append(segment.rows)
        if small:
            hold_all(self.database, small)

    def faults(self) -> Iterable[str]:
        """Yield nothing: rows have all checksums that there are."""
        return ()

    def close(self) -> None:
        """Close the connections. The embedded server stops when nothing uses it any more."""
        self.database.close()
        self._on_close()


def _is_stored(rows: SegmentSource) -> TypeGuard[SegmentRows]:
    return isinstance(rows, SegmentRows)


def _read_blocks(connection: TimeLimitedConnection, table: int, keys: list[bytes], first: bytes) -> dict[bytes, bytes]:
    """Return the blocks in which the entries of keys would be; only rows from the key `first` on."""
    statement = _BLOCKS.format(table).encode()
    rows: list[tuple[bytes, bytes]] = connection.execute(statement, [keys, first], binary=True).fetchall()
    return dict(rows)
