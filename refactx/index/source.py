"""The interface between an index and the place that it is read from: a database, or a file.

Segments do not change. A change of an index adds one; a compaction replaces all by one and drops their tables. So a
reader continues with its snapshot until a table is gone, and then opens a new one (`refactx.index.index`).
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from refactx.errors import DatabaseError, IndexNotFoundError
from refactx.index.names import ReadBlocks
from refactx.postgres.entry import CatalogueEntry, IndexVersion
from refactx.tokenizer import FactTokenizer
from refactx.tree.stored import RowSource, StoredTree
from refactx.tree.tree import MemoryTree, PathTree, SummedTree

if TYPE_CHECKING:
    from refactx.postgres.connections import Server
    from refactx.postgres.database import Database


_SUMS = 0.25
"""The part of the cache for sums if there are several segments: a sum takes as much as a node of one segment."""

_PAUSES = (0.01, 0.5)
"""The seconds of the first pause, and of the longest: a standby is mostly behind by milliseconds."""


class SegmentSource(RowSource, Protocol):
    """The rows of one segment in a database or a file.

    `round_trips`: how many queries there were; `seconds`: how long those for one row took.
    """

    round_trips: int
    seconds: float

    def count(self) -> int:
        """Return the number of rows."""


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
    base's, the latest first; `mark`: the index and all these tables; `has_statements`: facts may have qualifiers; `server`:
    the one that has them."""

    segments: tuple[Segment, ...]
    tree: PathTree
    name_tables: tuple[int, ...]
    mark: IndexVersion
    has_statements: bool = False
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


def tree_of(segments: Sequence[Segment], cache_bytes: int) -> PathTree:
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


_log = logging.getLogger(__name__)


class StandbyWait:
    """A wait of at most `seconds` for a server that has not got an index as it was read already."""

    def __init__(self, index: str, seconds: float) -> None:
        self._index, self._seconds = index, seconds
        self._deadline: float | None = None
        self._pause = _PAUSES[0]

    def wait(self) -> None:
        """Wait a little. Raises DatabaseError after the limit."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._seconds
        left = self._deadline - now
        if left <= 0:
            raise DatabaseError(
                f"the server that answers is behind: it did not get index {self._index!r} as it was read elsewhere within "
                f"{self._seconds:g} s. Look at the lag of the standby, or open the index again to read it as it is there "
                "(REFACTX_OUTAGE_SECONDS sets how long to wait)"
            )
        time.sleep(min(self._pause, left))
        if self._pause < _PAUSES[1] <= self._pause * 2:
            _log.warning("a standby is behind: waiting for index %r there for at most %g s", self._index, self._seconds)
        self._pause = min(self._pause * 2, _PAUSES[1])


Value = TypeVar("Value")


class IndexSource(Protocol):
    """A ready index in one place. `entry`: its entry in the catalogue, or what a file has of that.

    Methods raise RefactxError of the kinds that `Index` documents.
    """

    @property
    def entry(self) -> CatalogueEntry: ...

    @property
    def database(self) -> "Database":
        """The database, for what is stored beside an index there. Raises InputError if there is none."""

    def snapshot(self, cache_bytes: int, before: Sequence[Segment] = ()) -> Snapshot:
        """Return the index as it is now. Segments in `before` stay open, with their caches."""

    def standby_wait(self) -> StandbyWait | None:
        """Return the wait for a table that a snapshot has and the server that answered has not; None: there is none."""

    def prepare_tokenizer(self) -> Callable[[], FactTokenizer]:
        """Read the tokenizer, and return what loads it."""

    def read_names(self, find: Callable[[ReadBlocks], Value], *, unlimited: bool = False) -> Value:
        """Return `find(read)`, where `read` reads blocks of a name table; maybe without the time limit of a lookup."""

    def name_rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of a name table from the key `first` on."""

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of some objects that are hubs, by object and inverse predicate."""

    def faults(self) -> Iterable[str]:
        """Check how the index is stored, apart from its rows, and yield what is wrong."""

    def close(self) -> None:
        """Let go of the database or file."""


class RefreshedSnapshot:
    """The latest snapshot of an index, `now`. `gone_round_trips`: the queries of segments that it no longer has."""

    def __init__(self, source: IndexSource, cache_bytes: int) -> None:
        self._source, self._cache_bytes = source, cache_bytes
        self._renewing = threading.Lock()
        self.now: Snapshot = source.snapshot(cache_bytes)
        self.gone_round_trips = 0

    def refresh(self) -> bool:
        """Take the snapshot anew. Return whether the index has changed.

        Raises IndexNotFoundError if the index was dropped or replaced.
        """
        with self._renewing:
            before = self.now
            fresh = self._source.snapshot(self._cache_bytes, before.segments)
            if fresh.same_as(before):
                if fresh.server != before.server:
                    self.now = fresh
                return False
            kept = {id(segment.rows) for segment in fresh.segments}
            self.gone_round_trips += sum(s.rows.round_trips for s in before.segments if id(s.rows) not in kept)
            self.now = fresh
            return True

    def read(self, read: Callable[[Snapshot], Value]) -> Value:
        """Return `read(snapshot)`; if a table of the snapshot is gone, read again with a new one."""
        return next(self.stream(lambda snapshot: (read(snapshot),)))

    def stream(self, read: Callable[[Snapshot], Iterable[Value]]) -> Iterator[Value]:
        """Yield what `read(snapshot)` yields. If a table of the snapshot is gone, since the index was compacted, or if
        another server answers, call `read` again with a new one: it has to leave out what it has yielded.

        Raises IndexNotFoundError if there is nothing new, unless the server that answered may be behind: then wait.
        """
        standby_wait: StandbyWait | None = None
        while True:
            stale = self.now
            try:
                yield from read(stale)
                return
            except IndexNotFoundError:
                if self.now is stale and not self.refresh() and self.now is stale:
                    standby_wait = standby_wait or self._source.standby_wait()
                    if standby_wait is None:
                        raise
                    standby_wait.wait()
