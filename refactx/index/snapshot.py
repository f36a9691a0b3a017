"""A snapshot of an index: its segments and name tables as they were at one moment.

Segments do not change. A change of an index adds one; a compaction replaces all by one and drops their tables. So a
reader continues with its snapshot until a table is gone, and then opens a new one (`refactx.index.index`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

from refactx.errors import CorruptIndexError, IndexNotFoundError
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.postgres.database import Database
from refactx.postgres.marks import IndexMark, mark_of
from refactx.postgres.segments import SegmentRows, all_rows
from refactx.tree.children import FactTree, MemoryTree
from refactx.tree.codec import RowCodec, shared_seed
from refactx.tree.stored import StoredTree
from refactx.tree.summed import SummedTree
from refactx.tree.token_codes import TokenCodes, frequent_tokens

_SUMS = 0.25
"""The part of the cache for sums if there are several segments: a sum takes as much as a node of one segment."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One open segment: its number, its sign, the number of its facts' tokens, its tree, and the rows of that."""

    number: int
    sign: int
    tokens: int
    tree: StoredTree
    rows: SegmentRows


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An index at one moment. `tree`: the signed sum of the segments; `name_tables`: the numbers of the knowledge
    base's, the latest first; `mark`: the index and all these tables."""

    segments: tuple[Segment, ...]
    tree: FactTree
    name_tables: tuple[int, ...]
    mark: IndexMark

    @property
    def facts(self) -> int:
        """The number of facts."""
        return sum(segment.sign * segment.tree.facts for segment in self.segments)

    @property
    def tokens(self) -> int:
        """The number of tokens of all facts, without terminators."""
        return sum(segment.sign * segment.tokens for segment in self.segments)

    def same_as(self, other: "Snapshot") -> bool:
        """Return whether both have the same tables."""
        numbers = [[segment.number for segment in snapshot.segments] for snapshot in (self, other)]
        return numbers[0] == numbers[1] and self.name_tables == other.name_tables


def open_snapshot(
    database: Database, entry: CatalogueEntry, cache_bytes: int, before: Sequence[Segment] = ()
) -> Snapshot:
    """Return a snapshot of an index, given its entry in the catalogue. Segments in `before` stay open, with caches.

    Raises IndexNotFoundError if the index is gone, CorruptIndexError if the token codes or the dictionary of a segment
    are damaged.
    """
    stored = database.retry(
        lambda connection: connection.execute(_SEGMENTS.encode(), [entry.id]).fetchall(), entry.name
    )
    if not stored:
        raise IndexNotFoundError(f"index {entry.name!r} was dropped or replaced: open it again")
    names = database.retry(
        lambda connection: connection.execute(_NAMES.encode(), [entry.knowledge_base]).fetchall(), entry.name
    )
    known = {segment.number: segment for segment in before}
    segments = tuple(known.get(row[0]) or _open_segment(database, entry, row) for row in stored if row[0] is not None)
    _hold_small(database, [segment for segment in segments if segment.number not in known], segments)
    several = len(segments) > 1
    _share(segments, int(cache_bytes * (1 - _SUMS)) if several else cache_bytes)
    tree: FactTree
    if not segments:
        tree = MemoryTree([])
    elif several or segments[0].sign < 0:
        tree = SummedTree([(segment.sign, segment.tree) for segment in segments], int(cache_bytes * _SUMS))
    else:
        tree = segments[0].tree
    present = [(row[0], row[-1]) for row in stored if row[0] is not None]
    return Snapshot(segments, tree, tuple(table for table, _ in names), mark_of(entry, present, names))


def _hold_small(database: Database, new: Sequence[Segment], segments: Sequence[Segment]) -> None:
    """Read all rows of small segments in one round trip: otherwise a walk would take one or two for each segment."""
    # The largest is not held: without a query, nobody would notice that the tables are gone.
    largest = max(segments, key=lambda segment: segment.tree.facts, default=None)
    facts, small = 0, []
    for segment in sorted(new, key=lambda segment: segment.tree.facts):
        facts += segment.tree.facts
        if segment is not largest and facts <= HELD_FACTS:
            small.append(segment)
    if not small:
        return
    try:
        rows = all_rows(database, [segment.number for segment in small])
    except IndexNotFoundError:  # the index was compacted this moment: whoever reads a segment will notice
        return
    for segment in small:
        segment.rows.hold(rows[segment.number])


def _share(segments: Sequence[Segment], cache_bytes: int) -> None:
    """Divide a cache of `cache_bytes` among segments: half of it evenly, half by their numbers of facts."""
    facts = sum(segment.tree.facts for segment in segments)
    for segment in segments:
        part = (1 / len(segments) + segment.tree.facts / max(1, facts)) / 2
        segment.tree.bound_cache(int(cache_bytes * part))


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
