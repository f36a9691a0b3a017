"""An index in a database, as what an `Index` reads."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import zstandard

from refactx.errors import CorruptIndexError, IndexNotFoundError, RefactxError
from refactx.index.name_tables import ReadBlocks, read_blocks, rows_of_table
from refactx.index.snapshot import Segment, Snapshot, tree_of
from refactx.postgres.catalogue import stored_tokenizer
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.postgres.database import Database
from refactx.postgres.hubs import find_hubs
from refactx.postgres.marks import mark_of
from refactx.postgres.segments import SegmentRows, all_rows
from refactx.tokenizer import FactTokenizer, unpack_tokenizer
from refactx.tree.codec import RowCodec, shared_seed
from refactx.tree.stored import StoredTree
from refactx.tree.token_codes import TokenCodes, frequent_tokens

Value = TypeVar("Value")

HELD_FACTS = 65_536
"""The most facts in the segments whose rows are read when the index is opened: a megabyte. An index of a million facts
changes by some 10,000 a day."""

# An index without a segment is empty, not gone: the result is then one row of nulls.
_SEGMENTS = """
SELECT s.id, s.sign, s.levels, s.facts, s.tokens, s.codes, s.dictionary, s.created
FROM refactx.indexes AS i LEFT JOIN refactx.segments AS s ON s.index_id = i.id AND s.ready
WHERE i.id = %s AND i.state = 'ready' ORDER BY s.id
"""
_NAMES = "SELECT id, created FROM refactx.name_tables WHERE knowledge_base = %s AND ready ORDER BY id DESC"


class DatabaseSource:
    """A ready index in a database, given its entry in the catalogue.

    `on_close`: called after the database is closed.
    """

    def __init__(
        self, database: Database, entry: CatalogueEntry, on_close: Callable[[], object] = lambda: None
    ) -> None:
        self.database, self.entry, self._on_close = database, entry, on_close

    def snapshot(self, cache_bytes: int, before: Sequence[Segment] = ()) -> Snapshot:
        """Return the index as it is now. Segments in `before` stay open, with their caches.

        Raises IndexNotFoundError if the index is gone, CorruptIndexError if the token codes or the dictionary of a
        segment are damaged.
        """
        database, entry = self.database, self.entry
        stored = database.retry(
            lambda connection: connection.execute(_SEGMENTS.encode(), [entry.id]).fetchall(), entry.name
        )
        if not stored:
            raise IndexNotFoundError(f"index {entry.name!r} was dropped or replaced: open it again")
        names = database.retry(
            lambda connection: connection.execute(_NAMES.encode(), [entry.knowledge_base]).fetchall(), entry.name
        )
        known = {segment.number: segment for segment in before}
        present = [row for row in stored if row[0] is not None]
        segments = tuple(known.get(row[0]) or _open_segment(database, entry, row) for row in present)
        _hold_small(database, [segment for segment in segments if segment.number not in known], segments)
        mark = mark_of(entry, [(row[0], row[-1]) for row in present], names)
        return Snapshot(segments, tree_of(segments, cache_bytes), tuple(table for table, _ in names), mark)

    def prepare_tokenizer(self) -> Callable[[], FactTokenizer]:
        """Read the tokenizer now, since the index may be dropped. The result raises CorruptIndexError if it is damaged."""
        packed, name = stored_tokenizer(self.database, self.entry), self.entry.name

        def load() -> FactTokenizer:
            try:
                return FactTokenizer(unpack_tokenizer(packed))
            except (zstandard.ZstdError, ValueError, RefactxError) as error:
                raise CorruptIndexError(
                    f"index {name!r}: its tokenizer is damaged: {error}. Ingest the index again"
                ) from error

        return load

    def read_names(self, find: Callable[[ReadBlocks], Value], *, unlimited: bool = False) -> Value:
        """Return what `find` finds in blocks of the name tables, with a query for each of its calls."""
        retry = self.database.retry_unlimited if unlimited else self.database.retry
        return retry(lambda connection: find(partial(read_blocks, connection)), self.entry.name)

    def name_rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of a name table from the key `first` on."""
        return self.database.retry_unlimited(
            lambda connection: rows_of_table(connection, table, first), self.entry.name
        )

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of hubs as they are now, with one query."""
        return self.database.retry(lambda connection: find_hubs(connection, self.entry, objects), self.entry.name)

    def faults(self) -> Iterable[str]:
        """Yield nothing: rows have all checksums that there are."""
        return ()

    def close(self) -> None:
        """Close the connections. The embedded server stops when nothing uses it any more."""
        self.database.close()
        self._on_close()


def _hold_small(database: Database, new: Sequence[Segment], segments: Sequence[Segment]) -> None:
    """Read all rows of small segments in one round trip: otherwise a walk would take one or two for each segment."""
    # The largest is not held: without a query, nobody would notice that the tables are gone.
    largest = max(segments, key=lambda segment: segment.tree.facts, default=None)
    facts = 0
    small: dict[int, SegmentRows] = {}
    for segment in sorted(new, key=lambda segment: segment.tree.facts):
        facts += segment.tree.facts
        if segment is not largest and facts <= HELD_FACTS and isinstance(segment.rows, SegmentRows):
            small[segment.number] = segment.rows
    if not small:
        return
    try:
        rows = all_rows(database, list(small))
    except IndexNotFoundError:  # the index was compacted this moment: whoever reads a segment will notice
        return
    for number, source in small.items():
        source.hold(rows[number])


def _open_segment(database: Database, entry: CatalogueEntry, row: Sequence[Any]) -> Segment:
    number, sign, levels, facts, tokens, codes, dictionary, _ = row
    name = entry.name
    try:
        frequent = frequent_tokens(codes, entry.vocabulary_size)
    except ValueError as error:
        raise CorruptIndexError(f"index {name!r}: {error}. Ingest the index again") from error
    try:
        codec = RowCodec(dictionary, seed=shared_seed(codes, dictionary))
        codec.prepare()
    except zstandard.ZstdError as error:
        raise CorruptIndexError(f"index {name!r}: its dictionary is damaged. Ingest the index again") from error
    rows = SegmentRows(database, name, number)
    tree = StoredTree(rows, codec, TokenCodes(frequent), levels=levels, facts=facts, name=name)
    return Segment(number=number, sign=sign, tokens=tokens, tree=tree, rows=rows)
