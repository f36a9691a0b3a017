"""The rows of a segment, built from sorted token sequences level by level, each in one pass over its entries.

At every level the large nodes, those with more entries than a piece may hold, are lifted to the level above. Below them
are subtrees that fit, and neighbouring subtrees share a piece until it is full. So pieces are full whatever the
branching, and a walk reads one row a level. `refactx.tree.piece` describes the layout, docs/explanation/tree.md has
its figures.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from refactx.ingest.encoding.encoded import SortedFacts
from refactx.ingest.segment.level_cutter import LevelCutter
from refactx.ingest.segment.levels import Entries, FactEntries, SpilledEntries
from refactx.tree.codec import RowCodec
from refactx.tree.piece_members import to_members
from refactx.tree.token_codes import TokenCodes

KeyedRow = tuple[bytes, bytes]
"""The key of a row, and what is stored under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The largest sizes of the pieces of a tree.

    `facts`, `inner`: entries of a piece of level 0, and of one of a level above. `root`: entries of the top piece.
    `code_bytes`: bytes of token codes in any piece. `worthwhile`: a root is left as it is if lifting would leave more
    than this share of its entries. A node with very many children (all first tokens) cannot be cut, since `children`
    must list them.

    A walk decodes one piece a level, a row costs some 100 bytes in addition to its content, and PostgreSQL moves rows
    over 2 kB out of the table: docs/results/benchmarks.md has the sweep that chose these values.
    """

    facts: int = 512
    inner: int = 4096
    root: int = 24_576
    code_bytes: int = 32_768
    worthwhile: float = 0.7


DEFAULT_SHAPE = Shape()


@dataclass(frozen=True, slots=True)
class Packing:
    """What all rows of a segment share."""

    codes: TokenCodes
    codec: RowCodec


class SegmentBuilder:
    """A builder of the rows of one segment. `levels` is known when `rows` is exhausted.

    `work`: a folder for the entries above the facts. `workers`: threads that pack rows. `advance` is called with the
    number of facts that were done since the last call.
    """

    def __init__(
        self,
        facts: SortedFacts,
        packing: Packing,
        *,
        work: Path,
        shape: Shape = DEFAULT_SHAPE,
        workers: int = 2,
        advance: Callable[[int], object] = lambda done: None,
    ) -> None:
        self._facts, self._packing, self._work, self._shape = facts, packing, work, shape
        self._workers, self._advance = workers, advance
        self.levels = 0

    def rows(self) -> Iterator[KeyedRow]:
        """Yield the key and the row of every piece, in the order of the keys."""
        entries: Entries = FactEntries(self._facts)
        with (
            tempfile.TemporaryDirectory(dir=self._work, prefix="levels-") as folder,
            ThreadPoolExecutor(self._workers) as pool,
        ):
            pack = self._packing.codec.pack
            shrinks = True
            while True:
                level, self.levels = self.levels, self.levels + 1
                capacity = self._shape.inner if level else self._shape.facts
                is_root = len(entries) <= max(capacity, self._shape.root if level else 0) or not shrinks
                above = SpilledEntries(Path(folder, str(level + 1)))
                cutter = LevelCutter(
                    level=level,
                    entries=entries,
                    capacity=capacity,
                    code_bytes=self._shape.code_bytes,
                    is_root=is_root,
                    codes=self._packing.codes,
                    above=above,
                )
                for pieces in cutter.batches():
                    yield from pool.map(lambda keyed: (keyed[0], pack(keyed[0], to_members(keyed[1]))), pieces)
                    if level == 0:
                        self._advance(cutter.take_progress())
                above.finish()
                if is_root:
                    return
                shrinks = len(above) < self._shape.worthwhile * len(entries)
                entries = above
