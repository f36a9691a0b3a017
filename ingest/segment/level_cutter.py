"""One level of the tree, cut into pieces, with the entries of the level above."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refactx.ingest.segment.frontier import frontier_depths
from refactx.ingest.segment.levels import Entries, EntryBatch, Lifted, LiftedTo
from refactx.tree.arrays import Offsets, offsets_of, ragged, shared_lengths
from refactx.tree.piece import NEW_PIECE, SAME_PIECE, TERMINAL, Piece, row_key
from refactx.tree.token_codes import TokenCodes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CutBatch:
    """Neighbouring pieces of a level, with their keys, in the order of the keys.

    `begins`: int64[n], the entries at which pieces begin; one of lifted entries alone is not among `pieces`.
    `pieces_before`, `lifted_before`: int64[n], how many of `pieces`, and of the batch's entries of the level above, come
    before each.
    """

    pieces: list[tuple[bytes, Piece]]
    begins: Offsets
    pieces_before: Offsets
    lifted_before: Offsets


class LevelCutter:
    """Cuts the `entries` of one level into pieces and appends the entries of the level above to `above`.

    A piece holds at most `capacity` entries, of at most `code_bytes` bytes of token codes, but one subtree at least. A
    root is one piece.

    `start`: an entry at which a piece may begin. From there on pieces are cut until one begins at the entry `stop` or
    after it; above the facts, all entries have to be cut by one cutter.
    """

    _BATCH = 65_536  # entries at a time: some 2 million tokens

    def __init__(
        self,
        *,
        level: int,
        entries: Entries,
        capacity: int,
        code_bytes: int,
        is_root: bool,
        codes: TokenCodes,
        above: LiftedTo,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        self._level, self._entries, self._capacity, self._code_bytes = level, entries, capacity, code_bytes
        self._is_root, self._codes, self._above = is_root, codes, above
        self._carried: tuple[bytes, int] = (b"", 0)  # the lower piece begun last, and how many items of it are done
        self._done = self._reported = start
        self._stop = len(entries) if stop is None else stop

    def take_progress(self) -> int:
        """Return how many entries were done since the last call."""
        new, self._reported = self._done - self._reported, self._done
        return new

    @property
    def done(self) -> int:
        """The entry at which the next piece begins."""
        return self._done

    def batches(self) -> Iterator[CutBatch]:
        """Yield the pieces."""
        count, least = len(self._entries), 4 * self._capacity
        while self._done < self._stop:
            start = self._done
            step = count if self._is_root else max(least, min(self._BATCH, self._stop - start + least))
            # `capacity` entries on either side show whether a node is large.
            low, high = max(0, start - self._capacity - 1), min(count, start + step + self._capacity + 1)
            batch = self._entries.read(low, high)
            shared = shared_lengths(batch.tokens, batch.offsets)
            depths = np.full(len(shared), -1, np.int32) if self._is_root else frontier_depths(shared, self._capacity)
            first, last = start - low, min(count, start + step) - low
            found = self._cut(batch, shared, depths, first, last, low, is_end=last + low == count)
            if found is None:
                least = 2 * step
            else:
                yield found

    def _cut(
        self,
        batch: EntryBatch,
        shared: NDArray[np.int32],
        depths: NDArray[np.int32],
        first: int,
        last: int,
        low: int,
        is_end: bool,
    ) -> CutBatch | None:
        """Return the pieces that end before the entry `last` of a batch, which begins at the entry `low` of the level;
        None if there is none."""
        lengths = np.diff(batch.offsets)
        # A group is a subtree that fits, or a single fact that ends at a large node (lifted: it is not stored here).
        begins = shared[first:last] <= depths[first:last]
        begins[0] = True
        groups = np.flatnonzero(begins) + first
        lifted = lengths == depths
        stored = np.flatnonzero(~lifted[first:last]) + first
        suffixes = self._suffixes(batch, shared, first, stored)
        sizes = self._codes.sizes(batch.tokens[ragged(batch.offsets[stored] + suffixes.lcp, suffixes.lengths)])
        byte_ends = offsets_of(sizes.astype(np.int64))[offsets_of(suffixes.lengths)]
        # Stored entries, and bytes of them, up to each group: pieces are filled by these.
        stored_until = np.searchsorted(stored, np.append(groups, last))
        cuts = self._fill(stored_until, byte_ends[stored_until])
        # Unless the level ends here, the last piece may continue after this batch: it is cut with the next one.
        end_group = len(groups) if is_end else int(cuts[-1])
        cuts = cuts[cuts < end_group]
        if not len(cuts):
            return None
        end = last if is_end else int(groups[end_group])
        self._lift(batch, depths, np.append(groups[:end_group], end), np.diff(stored_until)[:end_group], cuts)
        bounds = np.unique(stored_until[np.append(cuts, end_group)])
        below = _OpenBelow.of(self._level, batch, first, self._carried)
        pieces = self._pieces(batch, suffixes, depths, bounds, below)
        self._carried = below.before(end)
        self._done += end - first
        return CutBatch(
            pieces=pieces,
            begins=groups[cuts].astype(np.int64) + low,
            pieces_before=np.searchsorted(bounds, stored_until[cuts]).astype(np.int64),
            lifted_before=cuts.astype(np.int64),
        )

    def _suffixes(self, batch: EntryBatch, shared: NDArray[np.int32], first: int, stored: Offsets) -> "_Suffixes":
        if not len(stored):
            return _Suffixes(stored, stored, stored)
        # Lifted entries between stored neighbours may share fewer tokens.
        segments = np.concatenate([[first], stored[:-1] + 1])
        lcp = np.minimum.reduceat(shared[: stored[-1] + 1], segments).astype(np.int64)
        return _Suffixes(stored, lcp, np.diff(batch.offsets)[stored] - lcp)

    def _fill(self, items: Offsets, code_bytes: Offsets) -> NDArray[np.int64]:
        """Return the groups at which pieces begin: each takes groups while its entries and bytes fit, and at least
        one."""
        if self._is_root:
            return np.array([0])
        cuts, start, count = [], 0, len(items) - 1
        while start < count:
            cuts.append(start)
            by_items = int(np.searchsorted(items, items[start] + self._capacity, "right")) - 1
            by_bytes = int(np.searchsorted(code_bytes, code_bytes[start] + self._code_bytes, "right")) - 1
            start = max(start + 1, min(by_items, by_bytes))
        return np.array(cuts)

    def _lift(
        self,
        batch: EntryBatch,
        depths: NDArray[np.int32],
        bounds: Offsets,
        items: NDArray[np.int64],
        cuts: NDArray[np.int64],
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
        tokens = batch.tokens[ragged(batch.offsets[groups], lengths)]
        leaves = np.add.reduceat(batch.leaves[: bounds[-1]], groups)
        self._above.append(Lifted(tokens=tokens, lengths=lengths, kinds=kinds, leaves=leaves, items=items))

    def _pieces(
        self, batch: EntryBatch, suffixes: "_Suffixes", depths: NDArray[np.int32], bounds: Offsets, below: "_OpenBelow"
    ) -> list[tuple[bytes, Piece]]:
        """Return the pieces of the stored entries bounds[i] to bounds[i + 1] - 1, with their keys."""
        if len(bounds) < 2:  # nothing but lifted entries
            return []
        stored, lcp = suffixes.stored[: bounds[-1]], suffixes.lcp[: bounds[-1]].copy()
        lcp[bounds[:-1]] = 0  # a piece begins with a whole sequence
        starts, lengths = batch.offsets[stored] + lcp, np.diff(batch.offsets)[stored] - lcp
        heads = batch.tokens[starts].astype(np.uint32)
        in_codes = int(self._level > 0)  # above the facts a suffix's first token is in `heads`
        codes, sizes = self._codes.encode(batch.tokens[ragged(starts + in_codes, lengths - in_codes)])
        byte_ends = offsets_of(sizes.astype(np.int64))[offsets_of(lengths - in_codes)]
        data = codes.tobytes()
        pieces = []
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            entry = int(stored[low])
            prefix = [] if self._is_root else batch.tokens[batch.offsets[entry] :][: int(depths[entry]) + 1].tolist()
            piece = Piece.of_facts(
                lcp=lcp[low:high].astype(np.uint32),
                ends=(byte_ends[low : high + 1] - byte_ends[low]).astype(np.int32),
                codes=data[byte_ends[low] : byte_ends[high]],
            )
            if self._level:
                inside = stored[low:high]
                kinds = batch.kinds[inside]
                carried_key, carried_items = below.carried(entry, kinds)
                piece = replace(
                    piece,
                    level=self._level,
                    heads=heads[low:high],
                    kinds=kinds,
                    leaves=batch.leaves[inside].astype(np.uint64),
                    items=batch.items[inside].astype(np.uint64),
                    carried_key=carried_key,
                    carried_items=carried_items,
                )
            pieces.append((row_key(self._level, prefix), piece))
        return pieces


@dataclass(frozen=True, slots=True, eq=False)
class _Suffixes:
    """The entries of a batch that are stored at this level.

    `stored`: their places in the batch. `lcp`: how many tokens each shares with the stored one before it; `lengths`:
    how many further tokens it has. All int64.
    """

    stored: Offsets
    lcp: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _OpenBelow:
    """Which piece of the level below is open at each entry of a batch, and how many of its items come before."""

    level: int
    batch: EntryBatch
    first: int
    begins: Offsets
    items: NDArray[np.int64]
    carried_in: tuple[bytes, int]

    @classmethod
    def of(cls, level: int, batch: EntryBatch, first: int, carried_in: tuple[bytes, int]) -> "_OpenBelow":
        begins = np.flatnonzero(batch.kinds == NEW_PIECE)
        return cls(
            level=level,
            batch=batch,
            first=first,
            begins=begins,
            items=offsets_of(batch.items),
            carried_in=carried_in,
        )

    def before(self, entry: int) -> tuple[bytes, int]:
        """Return the key of the lower piece in which the entries before `entry` end, and how many of its items they
        have."""
        if self.level == 0:
            return b"", 0
        at = int(np.searchsorted(self.begins, entry)) - 1
        if at < 0 or self.begins[at] < self.first:
            key, items = self.carried_in
            return key, items + int(self.items[entry] - self.items[self.first])
        begin = int(self.begins[at])
        sequence = self.batch.tokens[self.batch.offsets[begin] : self.batch.offsets[begin + 1]]
        return row_key(self.level - 1, sequence.tolist()), int(self.items[entry] - self.items[begin])

    def carried(self, entry: int, kinds: NDArray[np.uint8]) -> tuple[bytes, int]:
        """Return `before(entry)` if the first subtree among `kinds` continues that piece; (b"", 0) otherwise."""
        subtrees = kinds[kinds != TERMINAL]
        return self.before(entry) if len(subtrees) and subtrees[0] == SAME_PIECE else (b"", 0)
