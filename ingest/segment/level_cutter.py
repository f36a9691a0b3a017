"""From sorted token sequences to the rows of a segment, level by level, each in one pass over its entries.

At every level the large nodes, those with more entries than a piece may hold, are lifted to the level above; what hangs
below them are subtrees that fit, and neighbouring ones share a piece until it is full. So pieces fill up whatever the
branching, and a walk crosses one row a level. See `refactx.tree.piece` for the layout and docs/design.md for its figures.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refactx.tree.arrays import Offsets, frontier_depths, offsets_of, ragged, shared_lengths
from refactx.tree.codec import RowCodec
from refactx.tree.piece import NEW_PIECE, SAME_PIECE, TERMINAL, Piece, row_key, to_members
from refactx.tree.token_codes import TokenCodes

from ..segment.levels import Entries, FactEntries, Run, SortedFacts, SpilledEntries

Row = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large pieces may be: entries of a level-0 piece, entries of one above, and bytes of token codes in either.

    A walk decodes one piece a level, a row costs some 100 bytes beside its content, and PostgreSQL moves rows over 2 kB out
    of the table: docs/benchmarks.md has the sweep that chose these. A root is left as it is once lifting gains less than
    `worthwhile`: a node with very many children (all first tokens) cannot be cut, since `children` must list them.
    """

    facts: int = 512
    inner: int = 4096
    root: int = 24_576
    code_bytes: int = 32_768
    worthwhile: float = 0.7


@dataclass(frozen=True, slots=True)
class Packing:
    """What all rows of a segment share."""

    codes: TokenCodes
    codec: RowCodec


class SegmentBuilder:
    """Builds the rows of one segment; `levels` is known when `rows` is exhausted.

    `progress` is called with the number of facts that were done since its last call.
    """

    def __init__(
        self,
        facts: SortedFacts,
        packing: Packing,
        work: Path,
        shape: Shape | None = None,
        workers: int = 2,
        progress: Callable[[int], object] = lambda done: None,
    ) -> None:
        self._facts, self._packing, self._work = facts, packing, work
        self._shape = shape or Shape()
        self._workers, self._progress = workers, progress
        self.levels = 0

    def rows(self) -> Iterator[Row]:
        """Key and row of every piece, in the order of the keys."""
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
                pieces = _LevelCutter(level, entries, capacity, is_root, self._shape, self._packing.codes, above)
                for batch in pieces.batches():
                    yield from pool.map(lambda keyed: (keyed[0], pack(keyed[0], to_members(keyed[1]))), batch)
                    if level == 0:
                        self._progress(pieces.taken_progress())
                above.finish()
                if is_root:
                    return
                shrinks = len(above) < self._shape.worthwhile * len(entries)
                entries = above


class _LevelCutter:
    """Cuts one level into pieces and writes the entries of the level above."""

    _RUN = 65_536  # entries at a time: some 2 million tokens

    def __init__(
        self,
        level: int,
        entries: Entries,
        capacity: int,
        is_root: bool,
        shape: Shape,
        codes: TokenCodes,
        above: SpilledEntries,
    ) -> None:
        self._level, self._entries, self._capacity, self._is_root = level, entries, capacity, is_root
        self._shape, self._codes, self._above = shape, codes, above
        self._carried: tuple[bytes, int] = (b"", 0)  # the lower piece begun last, and how many items of it are done
        self._done = self._reported = 0

    def taken_progress(self) -> int:
        """Entries done since the last call."""
        new, self._reported = self._done - self._reported, self._done
        return new

    def batches(self) -> Iterator[list[tuple[bytes, Piece]]]:
        """Key and piece of all pieces, some at a time."""
        count = len(self._entries)
        while self._done < count:
            start = self._done
            step = count if self._is_root else max(self._RUN, 4 * self._capacity)
            # Whether a node is large is seen from `capacity` entries on either side.
            low, high = max(0, start - self._capacity - 1), min(count, start + step + self._capacity + 1)
            run = self._entries.read(low, high)
            shared = shared_lengths(run.tokens, run.offsets)
            depths = np.full(len(shared), -1, np.int32) if self._is_root else frontier_depths(shared, self._capacity)
            first, last = start - low, min(count, start + step) - low
            yield self._cut(run, shared, depths, first, last, is_end=last + low == count)

    def _cut(
        self, run: Run, shared: NDArray[np.int32], depths: NDArray[np.int32], first: int, last: int, is_end: bool
    ) -> list[tuple[bytes, Piece]]:
        lengths = np.diff(run.offsets)
        # A group is a subtree that fits, or a single fact that ends at a large node (lifted: it is not stored here).
        begins = shared[first:last] <= depths[first:last]
        begins[0] = True
        groups = np.flatnonzero(begins) + first
        lifted = lengths == depths
        stored = np.flatnonzero(~lifted[first:last]) + first
        suffixes = self._suffixes(run, shared, first, stored)
        sizes = self._codes.sizes(run.tokens[ragged(run.offsets[stored] + suffixes.lcp, suffixes.lengths)])
        byte_ends = offsets_of(sizes.astype(np.int64))[offsets_of(suffixes.lengths)]
        # Stored entries, and bytes of them, up to each group: pieces are filled by these.
        stored_until = np.searchsorted(stored, np.append(groups, last))
        cuts = self._fill(stored_until, byte_ends[stored_until])
        # Unless the level ends here, the last piece may go on behind this run: it is cut with the next one.
        end_group = len(groups) if is_end else int(cuts[-1])
        cuts = cuts[cuts < end_group]
        if not len(cuts):
            raise RuntimeError(f"no piece of level {self._level} ended within {last - first:,} entries")
        end = last if is_end else int(groups[end_group])
        self._lift(run, depths, np.append(groups[:end_group], end), np.diff(stored_until)[:end_group], cuts)
        bounds = np.unique(stored_until[np.append(cuts, end_group)])
        below = _OpenBelow.of(self._level, run, first, self._carried)
        pieces = self._pieces(run, suffixes, depths, bounds, below)
        self._carried = below.before(end)
        self._done += end - first
        return pieces

    def _suffixes(self, run: Run, shared: NDArray[np.int32], first: int, stored: Offsets) -> "_Suffixes":
        if not len(stored):
            return _Suffixes(stored, stored, stored)
        # Between stored neighbours may lie lifted entries, which share less.
        segments = np.concatenate([[first], stored[:-1] + 1])
        lcp = np.minimum.reduceat(shared[: stored[-1] + 1], segments).astype(np.int64)
        return _Suffixes(stored, lcp, np.diff(run.offsets)[stored] - lcp)

    def _fill(self, items: Offsets, code_bytes: Offsets) -> NDArray[np.int64]:
        """The groups at which pieces begin: each takes groups while its entries and bytes fit, and at least one."""
        if self._is_root:
            return np.array([0])
        cuts, start, count = [], 0, len(items) - 1
        while start < count:
            cuts.append(start)
            by_items = int(np.searchsorted(items, items[start] + self._capacity, "right")) - 1
            by_bytes = int(np.searchsorted(code_bytes, code_bytes[start] + self._shape.code_bytes, "right")) - 1
            start = max(start + 1, min(by_items, by_bytes))
        return np.array(cuts)

    def _lift(
        self, run: Run, depths: NDArray[np.int32], bounds: Offsets, items: NDArray[np.int64], cuts: NDArray[np.int64]
    ) -> None:
        """Write the groups, of entries bounds[i] to bounds[i + 1] - 1, as entries of the level above."""
        if self._is_root:
            return
        groups = bounds[:-1]
        terminal = items == 0
        subtrees = np.flatnonzero(~terminal)
        piece_of = np.searchsorted(cuts, subtrees, "right")
        kinds = np.full(len(groups), TERMINAL, np.uint8)
        kinds[subtrees] = np.where(np.diff(piece_of, prepend=-1) > 0, NEW_PIECE, SAME_PIECE)
        lengths = depths[groups].astype(np.int64) + ~terminal
        tokens = run.tokens[ragged(run.offsets[groups], lengths)]
        leaves = np.add.reduceat(run.leaves[: bounds[-1]], groups)
        self._above.append(tokens, lengths, kinds, leaves, items)

    def _pieces(
        self, run: Run, suffixes: "_Suffixes", depths: NDArray[np.int32], bounds: Offsets, below: "_OpenBelow"
    ) -> list[tuple[bytes, Piece]]:
        """The pieces of the stored entries bounds[i] to bounds[i + 1] - 1."""
        if len(bounds) < 2:  # nothing but lifted entries
            return []
        stored, lcp = suffixes.stored[: bounds[-1]], suffixes.lcp[: bounds[-1]].copy()
        lcp[bounds[:-1]] = 0  # a piece begins with a whole sequence
        starts, lengths = run.offsets[stored] + lcp, np.diff(run.offsets)[stored] - lcp
        heads = run.tokens[starts].astype(np.uint32)
        in_codes = int(self._level > 0)  # above the facts a suffix's first token is kept in `heads`
        codes, sizes = self._codes.encode(run.tokens[ragged(starts + in_codes, lengths - in_codes)])
        byte_ends = offsets_of(sizes.astype(np.int64))[offsets_of(lengths - in_codes)]
        data = codes.tobytes()
        pieces = []
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            entry = int(stored[low])
            prefix = [] if self._is_root else run.tokens[run.offsets[entry] :][: int(depths[entry]) + 1].tolist()
            shape = (lcp[low:high].astype(np.uint32), (byte_ends[low : high + 1] - byte_ends[low]).astype(np.int32))
            code_bytes = data[byte_ends[low] : byte_ends[high]]
            inside = stored[low:high]
            if self._level == 0:
                piece = Piece.of_facts(*shape, code_bytes)
            else:
                kinds, leaves, items = run.kinds[inside], run.leaves[inside], run.items[inside]
                piece = Piece(
                    self._level,
                    *shape,
                    code_bytes,
                    heads[low:high],
                    kinds,
                    leaves.astype(np.uint64),
                    items.astype(np.uint64),
                    *below.carried(entry, kinds),
                )
            pieces.append((row_key(self._level, prefix), piece))
        return pieces


@dataclass(frozen=True, slots=True, eq=False)
class _Suffixes:
    """The entries of a run that are `stored` at this level: how many tokens each shares with the stored one before it, and
    how many are left."""

    stored: Offsets
    lcp: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _OpenBelow:
    """Which piece of the level below is open at each entry of a run, and how many of its items come before."""

    level: int
    run: Run
    first: int
    begins: Offsets
    items: NDArray[np.int64]
    carried_in: tuple[bytes, int]

    @classmethod
    def of(cls, level: int, run: Run, first: int, carried_in: tuple[bytes, int]) -> "_OpenBelow":
        return cls(level, run, first, np.flatnonzero(run.kinds == NEW_PIECE), offsets_of(run.items), carried_in)

    def before(self, entry: int) -> tuple[bytes, int]:
        """Key of the lower piece that the entries up to `entry` (excluded) ended in, and their items in it."""
        if self.level == 0:
            return b"", 0
        at = int(np.searchsorted(self.begins, entry)) - 1
        if at < 0 or self.begins[at] < self.first:
            key, items = self.carried_in
            return key, items + int(self.items[entry] - self.items[self.first])
        begin = int(self.begins[at])
        sequence = self.run.tokens[self.run.offsets[begin] : self.run.offsets[begin + 1]]
        return row_key(self.level - 1, sequence.tolist()), int(self.items[entry] - self.items[begin])

    def carried(self, entry: int, kinds: NDArray[np.uint8]) -> tuple[bytes, int]:
        """`before(entry)` where the first subtree among some kinds goes on in that piece; nothing otherwise."""
        subtrees = kinds[kinds != TERMINAL]
        return self.before(entry) if len(subtrees) and subtrees[0] == SAME_PIECE else (b"", 0)
