"""A snapshot of an index: its segments and name tables as they were at one moment.

Segments do not change. A change of an index adds one; a compaction replaces all by one and drops their tables. So a
reader continues with its snapshot until a table is gone, and then opens a new one (`refactx.index.index`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from refactx.postgres.marks import IndexMark
from refactx.tree.children import FactTree, MemoryTree
from refactx.tree.stored import RowSource, StoredTree
from refactx.tree.summed import SummedTree

if TYPE_CHECKING:
    from refactx.postgres.servers import Server

_SUMS = 0.25
"""The part of the cache for sums if there are several segments: a sum takes as much as a node of one segment."""


class SegmentSource(RowSource, Protocol):
    """The rows of one segment in a database or a file.

    `round_trips`: how many queries there were; `seconds`: how long those for one row took.
    """

    round_trips: int
    seconds: float

    def count(self) -> int:
        """Return the number of rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One open segment: its number, its sign, the number of its facts' tokens, its tree, and the rows of that."""

    number: int
    sign: int
    tokens: int
    tree: StoredTree
    rows: SegmentSource


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An index at one moment. `tree`: the signed sum of the segments; `name_tables`: the numbers of the knowledge
    base's, the latest first; `mark`: the index and all these tables; `server`: the one that has them."""

    segments: tuple[Segment, ...]
    tree: FactTree
    name_tables: tuple[int, ...]
    mark: IndexMark
    server: "Server | None" = None

    @property
    def signed_trees(self) -> list[tuple[int, StoredTree]]:
        """The sign and the tree of each segment."""
        return [(segment.sign, segment.tree) for segment in self.segments]

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
        return self.mark == other.mark


def tree_of(segments: Sequence[Segment], cache_bytes: int) -> FactTree:
    """Return the signed sum of some segments, whose caches share `cache_bytes`."""
    if not segments:
        return MemoryTree([])
    if len(segments) == 1 and segments[0].sign > 0:
        segments[0].tree.bound_cache(cache_bytes)
        return segments[0].tree
    _share(segments, int(cache_bytes * (1 - _SUMS)))
    return SummedTree([(segment.sign, segment.tree) for segment in segments], int(cache_bytes * _SUMS))


def _share(segments: Sequence[Segment], cache_bytes: int) -> None:
    """Divide a cache of `cache_bytes` among segments: half of it evenly, half by their numbers of facts."""
    facts = sum(segment.tree.facts for segment in segments)
    for segment in segments:
        part = (1 / len(segments) + segment.tree.facts / max(1, facts)) / 2
        segment.tree.bound_cache(int(cache_bytes * part))
