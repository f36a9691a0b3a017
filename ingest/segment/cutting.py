"""The rows of a segment: levels of the tree cut into pieces, and what the pieces share.

A level of Wikidata's tree does not fit into memory, so entries above the facts are appended to plain files of numpy
arrays in the work folder and read back through memory maps.

The sample is spread evenly over the sorted facts, since the first ones would all begin alike.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import zstandard
from numpy.typing import NDArray

from refactx.ingest.encoding import SortedFacts
from refactx.tree.codes import Offsets, RowCodec, TokenCodes, dump, offsets_of, ragged, shared_lengths
from refactx.tree.piece import NEW_PIECE, SAME_PIECE, TERMINAL, Piece, row_key, to_members
from refactx.tree.tree import Tokens

KeyedRow = tuple[bytes, bytes]
"""The key of a row, and what is stored under it."""
_COLUMNS = {"tokens": np.int32, "lengths": np.int32, "kinds": np.uint8, "leaves": np.int64, "items": np.int64}
_SPOTS = 500
_FACTS_PER_SPOT = 256
_DICTIONARY_BYTES = 112 * 1024  # zstd's own default (`zstd --train`)
_BYTES_PER_FACT = 0.15  # of a dictionary: it must cost less than it saves in a small index
_LEAST_BYTES = 2048  # a smaller one saves 1%, and training it takes as long as packing the rows of so few facts


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


def packed(packing: Packing, keyed: tuple[bytes, Piece]) -> KeyedRow:
    """Return the row of a piece with its key."""
    key, piece = keyed
    return key, packing.codec.pack(key, to_members(piece))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EntryBatch:
    """n neighbouring entries.

    `tokens`: int32; `offsets`: int64[n + 1]. `kinds`: uint8[n], see `refactx.tree.piece`. `leaves`: int64[n], how many
    facts are below each; `items`: int64[n], how many entries of the next lower level.
    """

    tokens: Tokens
    offsets: Offsets
    kinds: NDArray[np.uint8]
    leaves: NDArray[np.int64]
    items: NDArray[np.int64]

    @classmethod
    def of_facts(cls, tokens: Tokens, offsets: Offsets) -> "EntryBatch":
        """Return facts as entries of level 0."""
        kinds, ones = np.zeros(len(offsets) - 1, np.uint8), np.ones(len(offsets) - 1, np.int64)
        return cls(tokens=tokens, offsets=offsets, kinds=kinds, leaves=ones, items=ones)


class Entries(Protocol):
    """The sorted entries of a level."""

    def __len__(self) -> int: ...

    def read(self, low: int, high: int) -> EntryBatch:
        """Return entries low to high - 1."""


@dataclass(frozen=True, slots=True)
class FactEntries:
    """Level 0: each fact is an entry with one leaf."""

    facts: SortedFacts

    def __len__(self) -> int:
        return len(self.facts)

    def read(self, low: int, high: int) -> EntryBatch:
        return EntryBatch.of_facts(*self.facts.read_tokens(low, high))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Lifted:
    """n entries of the level above, in memory. `lengths`: int64[n]; the rest as in `EntryBatch`."""

    tokens: Tokens
    lengths: Offsets
    kinds: NDArray[np.uint8]
    leaves: NDArray[np.int64]
    items: NDArray[np.int64]

    def part(self, low: int, high: int) -> "Lifted":
        """Return entries low to high - 1."""
        ends = offsets_of(self.lengths)
        return Lifted(
            tokens=self.tokens[ends[low] : ends[high]],
            lengths=self.lengths[low:high],
            kinds=self.kinds[low:high],
            leaves=self.leaves[low:high],
            items=self.items[low:high],
        )


class LiftedTo(Protocol):
    """What takes the entries of the level above the one that is cut."""

    def append(self, lifted: Lifted) -> None:
        """Add entries after those that are there."""


class CollectedEntries:
    """A `LiftedTo` in memory."""

    def __init__(self) -> None:
        self._parts: list[Lifted] = []

    def append(self, lifted: Lifted) -> None:
        self._parts.append(lifted)

    @property
    def count(self) -> int:
        """How many entries were appended."""
        return sum(len(part.lengths) for part in self._parts)

    def lifted(self) -> Lifted:
        def column(name: str, dtype: type[np.generic]) -> NDArray[Any]:
            return np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in self._parts)])

        return Lifted(
            tokens=column("tokens", np.int32),
            lengths=column("lengths", np.int64),
            kinds=column("kinds", np.uint8),
            leaves=column("leaves", np.int64),
            items=column("items", np.int64),
        )


class SpilledEntries:
    """A level above the facts, written once and then read."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._stack = ExitStack()
        self._files: dict[str, BinaryIO] = {
            name: self._stack.enter_context((folder / name).open("wb")) for name in _COLUMNS
        }
        self._columns: dict[str, NDArray[np.generic]] = {}
        self._offsets: Offsets = np.zeros(1, np.int64)
        self._count = 0

    def append(self, lifted: Lifted) -> None:
        self._count += len(lifted.lengths)
        for name, dtype in _COLUMNS.items():
            self._files[name].write(getattr(lifted, name).astype(dtype).tobytes())

    def finish(self) -> None:
        """Close the files and map them for reading."""
        self._stack.close()
        for name, dtype in _COLUMNS.items():
            path = self._folder / name
            empty = path.stat().st_size == 0
            self._columns[name] = np.empty(0, dtype) if empty else np.memmap(path, dtype, "r")
        self._offsets = np.zeros(self._count + 1, np.int64)
        np.cumsum(self._columns["lengths"], out=self._offsets[1:])

    def __len__(self) -> int:
        return self._count

    def read(self, low: int, high: int) -> EntryBatch:
        offsets = self._offsets[low : high + 1]
        columns = {name: np.array(self._columns[name][low:high]) for name in ("kinds", "leaves", "items")}
        tokens = np.array(self._columns["tokens"][offsets[0] : offsets[-1]])
        return EntryBatch(tokens=tokens, offsets=offsets - offsets[0], **columns)


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
            found = self._cut(batch, shared, depths, first=first, last=last, low=low, is_end=last + low == count)
            if found is None:
                least = 2 * step
            else:
                yield found

    def _cut(
        self,
        batch: EntryBatch,
        shared: NDArray[np.int32],
        depths: NDArray[np.int32],
        *,
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
            level=level, batch=batch, first=first, begins=begins, items=offsets_of(batch.items), carried_in=carried_in
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


def frontier_depths(shared: NDArray[np.int32], capacity: int) -> NDArray[np.int32]:
    """Return the depth of the deepest node above each of n sorted sequences that has more than `capacity` of them.

    `shared` (int32[n]): how many leading tokens each has in common with the one before. A node at depth d with more
    than `capacity` sequences is a window of capacity + 1 neighbours that all share d tokens, so the result (int32[n])
    is a sliding maximum over sliding minima of `shared`; -1 if not even the root has that many.

    >>> frontier_depths(np.array([0, 3, 3, 0], np.int32), 2).tolist()
    [3, 3, 3, 0]
    """
    count = len(shared)
    if count <= capacity:
        return np.full(count, -1, np.int32)
    window = _reduce_windows(shared[1:], capacity, np.minimum)
    padding = np.full(capacity, -1, np.int32)
    return _reduce_windows(np.concatenate([padding, window, padding]), capacity + 1, np.maximum)


def _reduce_windows(values: NDArray[np.int32], width: int, reduce: np.ufunc) -> NDArray[np.int32]:
    """Return the minimum or maximum of every window of `width` values, in log2(width) passes (`reduce` is
    idempotent)."""
    done, span = values, 1
    while span * 2 <= width:
        done = reduce(done[:-span], done[span:])
        span *= 2
    if span < width:
        last = len(values) - width + 1
        done = reduce(done[:last], done[width - span : width - span + last])
    return done


def learn(facts: SortedFacts, level: int) -> tuple[TokenCodes, bytes]:
    """Return the token numbering, and the dictionary for compression at `level` (empty if the facts are too few)."""
    size = _dictionary_bytes(len(facts))
    spots: list[tuple[Tokens, NDArray[np.int64], NDArray[np.int64]]] = []  # suffix tokens, `lcp`, suffix lengths
    for low, high in sample_ranges(len(facts)):
        tokens, offsets = facts.read_tokens(low, high)
        lcp = shared_lengths(tokens, offsets).astype(np.int64)
        lengths = np.diff(offsets) - lcp
        spots.append((tokens[ragged(offsets[:-1] + lcp, lengths)], lcp, lengths))
    if not size:
        return TokenCodes.from_sample(spots[0][0]), b""
    codes = TokenCodes.from_sample(np.concatenate([tokens for tokens, _, _ in spots]))
    samples = list[bytes | bytearray | memoryview]()
    for tokens, lcp, lengths in spots:
        data, sizes = codes.encode(tokens)
        ends = offsets_of(sizes.astype(np.int64))[offsets_of(lengths)]
        piece = Piece.of_facts(lcp=lcp.astype(np.uint32), ends=ends.astype(np.int32), codes=data.tobytes())
        samples.append(dump(to_members(piece)))
    try:
        return codes, zstandard.train_dictionary(size, samples, level=level).as_bytes()
    except zstandard.ZstdError:  # too few samples
        return codes, b""


def sample_ranges(count: int) -> list[tuple[int, int]]:
    """Return the ranges of `count` facts that `learn` reads, in order."""
    if not _dictionary_bytes(count):  # the spots would lie side by side
        return [(0, count)]
    spots = max(1, min(_SPOTS, count // _FACTS_PER_SPOT))
    starts = [count * spot // spots for spot in range(spots)]
    return [(start, min(start + _FACTS_PER_SPOT, count)) for start in starts]


def _dictionary_bytes(count: int) -> int:
    size = min(_DICTIONARY_BYTES, int(count * _BYTES_PER_FACT))
    return size if size >= _LEAST_BYTES else 0
