"""Many sequences at once: lookups in a segment, rows read ahead, and the scan of all facts.

An *entry matrix* holds n entries, uint32[n, width]: token ids plus one, with zeros after the end of an entry. So rows
compare as the sequences do, and a sequence comes before those that begin with it.

*Lookups.* A node is a range of entries (`refactx.tree.piece`). As in a Patricia tree (Morrison 1968; Knuth, The Art of
Computer Programming, vol. 3, section 6.3), only the token at each branching is compared on the way down. One entry is
left for each sequence, and at the end all sequences are compared with their entries in one pass. Each row is read once;
entries above level 0 are written out as a matrix, facts are searched as they are stored. A million facts take about a
second; a walk by `children` takes ten microseconds a token. (Alternatives: to write out facts as matrices takes ten times
as long if a piece has few of the sequences; to make a `Piece` of each row, as readers do, adds half of the time of the
search; to compare the paths between branchings on the way down adds another half.)

*Reading ahead.* Each walk goes as far as the cache allows and names the row that it needs next. The rows that all walks
need are read at once, and the walks continue.

*Scans.* Every segment is read in ascending order, a matrix at a time. Facts that no segment can add to any more are
summed and yielded, so memory holds one matrix for each segment, whatever their sizes.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.codes import MAX_TOKEN, Offsets, TokenCodes, offsets_of, ragged
from refactx.tree.piece import MAX_KEY, NEW_PIECE, SAME_PIECE, TERMINAL, Piece, Unsigned, fact_members, row_key
from refactx.tree.stored import LONGEST_FACT, StoredTree
from refactx.tree.tree import Path, PathTree, SummedTree, Tokens

EntryMatrix = NDArray[np.uint32]

CELLS = 1 << 20
"""The most cells of a matrix: all entries of a root in one could take gigabytes."""

AHEAD = 256
"""Rows that are read in one round trip and searched together: some 8 MB."""

FEW = 1024
"""Up to this many facts are walked to, through the cache: 8 µs for each if they are in it, 430 µs if not. More are
searched in their rows, which are read each time: 60 µs for each of 5,000."""

_ROWS = 8192


def matrices(piece: Piece, codes: TokenCodes, cells: int = CELLS) -> Iterator[tuple[int, EntryMatrix]]:
    """Yield all entries of a piece in order, as matrices of at most `cells` cells, or one row if that has more.

    Each matrix comes after the number of its first entry. Raises ValueError or IndexError if the piece is damaged.
    """
    # The most tokens that an entry can have: one for each byte of its codes.
    longest = int((piece.lcp.astype(np.int64) + np.diff(piece.ends)).max()) + 1
    step = max(1, cells // longest)
    before: EntryMatrix = np.zeros((1, 0), np.uint32)
    for low in range(0, len(piece), step):
        high = min(low + step, len(piece))
        matrix = _matrix(piece, codes, low, high, before)
        before = matrix[-1:]
        yield low, matrix


def _matrix(piece: Piece, codes: TokenCodes, low: int, high: int, before: EntryMatrix) -> EntryMatrix:
    """Return entries [low, high) as a matrix, given the one before them as a row."""
    first, last = int(piece.ends[low]), int(piece.ends[high])
    suffixes, starts = codes.decode_all(piece.codes[first:last])
    # The code with which each entry begins: codes are whole, so each entry ends where a code begins.
    begins = np.searchsorted(starts, piece.ends[low : high + 1] - first)
    lengths = np.diff(begins)
    lcp = piece.lcp[low:high].astype(np.int64)
    heads = int(piece.level > 0)
    ends = lcp + heads + lengths
    known = before.shape[1]
    width = int(ends.max(initial=0))
    if int(lcp[0]) > known or (lcp[1:] > ends[:-1]).any():
        raise ValueError("an entry shares more tokens than the one before it has")
    if width > LONGEST_FACT:
        raise ValueError(f"an entry has {width:,} tokens, more than {LONGEST_FACT:,}")
    width = max(width, known)
    out = np.zeros((high - low + 1, width), np.uint32)
    out[0, :known] = before[0]
    flat = out.reshape(-1)  # with one index for a cell, numpy takes half as long as with two
    at = np.repeat(np.arange(1, high - low + 1) * width + lcp + heads - begins[:-1], lengths)
    at += np.arange(len(suffixes))
    flat[at] = suffixes + np.uint32(1)
    rows = np.arange(width, (high - low + 1) * width, width)
    if heads:
        flat[rows + lcp] = piece.heads[low:high] + np.uint32(1)
    # A token before an entry's own suffix is that of the last row above whose suffix begins at its depth or before.
    source = np.zeros(out.shape, np.int32)
    np.multiply(np.arange(width, dtype=np.int32) >= lcp[:, None], rows[:, None], out=source[1:], casting="unsafe")
    np.maximum.accumulate(source, axis=0, out=source)
    source += np.arange(width, dtype=np.int32)
    whole: EntryMatrix = flat[source[1:]]
    return whole


def keys(matrix: EntryMatrix) -> NDArray[np.bytes_]:
    """Return the rows as bytes of fixed width that compare as the sequences do: bytes[n]."""
    wide = matrix if matrix.shape[1] else np.zeros((len(matrix), 1), np.uint32)
    return np.ascontiguousarray(wide, ">u4").view(f"S{4 * wide.shape[1]}")[:, 0]


def row_keys(level: int, matrix: EntryMatrix) -> list[bytes]:
    """Return the keys of the pieces of a level that begin with the rows of a matrix (`refactx.tree.piece.row_key`).

    >>> [key.hex() for key in row_keys(1, np.array([[259, 8], [1, 0]], np.uint32))]
    ['01000102000007', '01000000']
    """
    size = 3 * matrix.shape[1]  # bytes a token: the last three of four
    data = np.ascontiguousarray(
        (matrix - np.uint32(1)).astype(">u4").view(np.uint8).reshape(*matrix.shape, 4)[:, :, 1:]
    )
    ends = 3 * (matrix > 0).sum(1)
    if len(matrix) and 1 + int(ends.max()) > MAX_KEY:
        return [row_key(level, (row[row > 0].astype(np.int64) - 1).tolist()) for row in matrix]
    head, flat = bytes([level]), data.tobytes()
    return [head + flat[at * size : at * size + end] for at, end in enumerate(ends.tolist())]


def to_matrix(tokens: Tokens, offsets: Offsets) -> EntryMatrix:
    """Return the matrix of sequences that are given as tokens and offsets.

    >>> to_matrix(np.array([7, 0, 8], np.int32), np.array([0, 1, 3])).tolist()
    [[8, 0], [1, 9]]
    """
    lengths = np.diff(offsets)
    matrix = np.zeros((len(lengths), int(lengths.max(initial=0))), np.uint32)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = tokens[offsets[0] : offsets[-1]].astype(np.uint32) + 1
    return matrix


def from_matrix(matrix: EntryMatrix) -> tuple[Tokens, Offsets]:
    """Return the tokens and offsets of the sequences in a matrix.

    >>> from_matrix(np.array([[8, 0], [1, 9]], np.uint32))
    (array([7, 0, 8], dtype=int32), array([0, 1, 3]))
    """
    there: NDArray[Any] = matrix > 0
    return (matrix[there] - 1).astype(np.int32), offsets_of(there.sum(1))


Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Entries:
    """The entries of several pieces of level 0, one piece after another.

    `lcp` uint[n]; `data`, the codes of all suffixes; `starts` and `ends`, where those of each suffix begin and end;
    `begins`, the first entry of each piece, and the number of all entries.
    """

    lcp: Unsigned
    data: Bytes
    starts: Offsets
    ends: Offsets
    begins: Offsets
    codes: TokenCodes

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]], codes: TokenCodes) -> "_Entries":
        """Return the entries in unpacked rows. Raise ValueError if the members of a row contradict each other."""
        counts, lcp, lengths, data = fact_members(rows)
        begins = offsets_of(counts)
        sizes = lengths.astype(np.int64)
        ends = np.cumsum(sizes)
        code_ends = np.cumsum([len(one) for one in data])
        if lcp[begins[:-1]].any() or (ends[begins[1:] - 1] != code_ends).any():
            raise ValueError("its suffixes do not add up")
        return cls(
            lcp=lcp,
            data=np.frombuffer(b"".join(data), np.uint8),
            starts=ends - sizes,
            ends=ends,
            begins=begins,
            codes=codes,
        )

    def suffixes(self, entries: Offsets) -> tuple[NDArray[np.int32], Offsets]:
        """Return the tokens of some entries' suffixes, one after another, and int64[len(entries) + 1] where each
        begins."""
        sizes = self.ends[entries] - self.starts[entries]
        data = self.data[ragged(self.starts[entries], sizes)]
        tokens, begins = self.codes.decode_all(data.tobytes())
        return tokens, np.searchsorted(begins, offsets_of(sizes))

    def heads(self, entries: Offsets) -> NDArray[np.int32]:
        """Return the first token of each suffix."""
        return self.codes.tokens_at(self.data, self.starts[entries])


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The sequences to look up, ascending: as a matrix, and the number of tokens of each."""

    matrix: EntryMatrix
    lengths: Offsets


def search(
    rows: Sequence[tuple[Any, ...]], counts: Offsets, targets: Targets, chosen: Offsets, codes: TokenCodes
) -> NDArray[np.bool_]:
    """Return whether each of the targets `chosen` (their numbers, ascending) is an entry of its piece:
    bool[len(chosen)].

    `rows`: the pieces, of level 0, as `refactx.tree.codes` unpacked them; `counts`: how many targets are looked up in
    each, the first of `chosen` in the first piece, and so on. Raises ValueError or IndexError if a piece is damaged.
    """
    entries = _Entries.of(rows, codes)
    lengths = targets.lengths[chosen]
    entry = np.full(len(chosen), -1)  # the only one of its piece that can equal the target
    which = np.arange(len(chosen))
    low, high = np.repeat(entries.begins[:-1], counts), np.repeat(entries.begins[1:], counts)
    entered = [(which, low)]
    while len(which):
        alone = high - low == 1
        entry[which[alone]] = low[alone]
        several = np.flatnonzero(~alone)
        if not len(several):
            break
        which, low, high = which[several], low[several], high[several]
        nodes = _Nodes.of(entries.lcp, low, high)
        depth = nodes.depth[nodes.of_target]
        ends = lengths[which] == depth  # if any entry ends at a node, its first one does
        entry[which[ends]] = low[ends]
        on = np.flatnonzero(lengths[which] > depth)
        which, node = which[on], nodes.of_target[on]
        tokens = targets.matrix[chosen[which], depth[on]].astype(np.int64) - 1
        low, high, is_new = nodes.follow(entries, node, tokens)
        entered.append((which[is_new], low[is_new]))
        there = np.flatnonzero(low < high)
        which, low, high = which[there], low[there], high[there]
    target, path = (np.concatenate(part) for part in zip(*entered, strict=True))
    reached = entry[target] >= 0
    if not reached.any():
        return np.zeros(len(chosen), np.bool_)
    return _same(entries, path[reached], target[reached], targets, chosen)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Nodes:
    """The nodes of one step, each of two entries or more.

    For each node: its entries [`low`, `high`); `depth`, the number of tokens that they share. For each target:
    `of_target`, its node. For all children except the first of each node, in order: `child`, the entry with which it
    begins; `owner`, its node. `begins`: where the children of each node begin among these.
    """

    low: Offsets
    high: Offsets
    depth: Offsets
    of_target: Offsets
    child: Offsets
    owner: Offsets
    begins: Offsets

    @classmethod
    def of(cls, lcp: Unsigned, low: Offsets, high: Offsets) -> "_Nodes":
        """Return the nodes of targets that have come down to entries [low, high)."""
        is_first = np.append(True, low[1:] != low[:-1])  # neighbours are mostly at the same node
        low, high, of_target = low[is_first], high[is_first], np.cumsum(is_first) - 1
        sizes = high - low - 1
        starts = offsets_of(sizes)
        inside = lcp[ragged(low + 1, sizes)]
        depth = np.minimum.reduceat(inside, starts[:-1])
        at = np.flatnonzero(inside == np.repeat(depth, sizes))
        begins = np.searchsorted(at, starts)
        owner = np.repeat(np.arange(len(low)), np.diff(begins))
        child = at + (low + 1 - starts[:-1])[owner]
        return cls(
            low=low,
            high=high,
            depth=depth.astype(np.int64),
            of_target=of_target,
            child=child,
            owner=owner,
            begins=begins,
        )

    def follow(self, entries: _Entries, node: Offsets, tokens: Offsets) -> tuple[Offsets, Offsets, NDArray[np.bool_]]:
        """Return the child to which the next token of each target leads, given the target's node.

        A child is a range of entries, empty if no child has that token; the third array says whether it is another
        child than the node's first, whose token is not compared.
        """
        keys = self.owner * MAX_TOKEN + entries.heads(self.child)
        wanted = node * MAX_TOKEN + tokens
        at = np.searchsorted(keys, wanted)
        is_first = at == self.begins[node]  # the token is at most the second child's
        at = np.minimum(at, len(keys) - 1)
        is_other = keys[at] == wanted
        child_high = np.append(self.child[1:], 0)
        child_high[self.begins[1:] - 1] = self.high
        first_high = np.where(is_first, self.child[self.begins[node]], self.low[node])
        low = np.where(is_other, self.child[at], self.low[node])
        return low, np.where(is_other, child_high[at], first_high), is_other


def _same(entries: _Entries, path: Offsets, of: Offsets, targets: Targets, chosen: Offsets) -> NDArray[np.bool_]:
    """Return whether each of the targets `chosen` equals the entry to which its search led: bool[len(chosen)].

    `path`: the first entries of the children that the searches took, those of one search in order; the last is the
    entry itself, and each shares its `lcp` tokens with the one before. `of`: the number in `chosen` for each of them.
    """
    order = np.argsort(of, kind="stable")
    path, of = path[order], of[order]
    distinct, at = np.unique(path, return_inverse=True)  # the first entry of a piece is on the path of all its targets
    tokens, begins = entries.suffixes(distinct)
    sizes, lcp, begins = np.diff(begins)[at], entries.lcp[path].astype(np.int64), begins[at]
    is_last = np.append(of[1:] != of[:-1], True)
    taken = np.where(is_last, sizes, np.append(lcp[1:], 0) - lcp)
    if (taken < 0).any() or (taken > sizes).any():
        raise ValueError("an entry shares more tokens than the one before it has")
    same = np.zeros(len(chosen), np.bool_)
    same[of[is_last]] = (lcp + sizes)[is_last] == targets.lengths[chosen[of[is_last]]]
    compared = np.flatnonzero(same[of])
    taken, lcp, of = taken[compared], lcp[compared], of[compared]
    owner = np.repeat(of, taken)
    found = targets.matrix[chosen[owner], ragged(lcp, taken)]
    same[owner[found != tokens[ragged(begins[compared], taken)] + np.uint32(1)]] = False
    return same


def contained(tree: StoredTree, tokens: Tokens, offsets: Offsets) -> NDArray[np.bool_]:
    """Return which of n distinct, ascending sequences are facts of a segment: bool[n].

    `tokens`: int32, those of all sequences; `offsets`: int64[n + 1], where each begins.
    """
    found = np.zeros(len(offsets) - 1, np.bool_)
    if len(found):
        targets, below = Targets(to_matrix(tokens, offsets), np.diff(offsets)), _Below([], [], [])
        _look_up(tree, tree.root_key, targets, np.arange(len(found)), found=found, left=below)
        below.search(tree, targets, found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Below:
    """The lookups that are left for pieces of facts: their `keys`, the targets of each, and how many each has."""

    keys: list[bytes]
    targets: list[Offsets]
    counts: list[Offsets]

    def search(self, tree: StoredTree, targets: Targets, found: NDArray[np.bool_]) -> None:
        """Set `found` for the targets that are facts.

        It takes `AHEAD` pieces at a time, whatever pieces are above them, since fewer take as long.
        """
        if not self.keys:
            return
        which, counts = np.concatenate(self.targets), np.concatenate(self.counts)
        bounds = offsets_of(counts)
        for low in range(0, len(self.keys), AHEAD):
            ahead = self.keys[low : low + AHEAD]
            high = low + len(ahead)
            inside = which[bounds[low] : bounds[high]]
            try:
                found[inside] = search(tree.members(ahead), counts[low:high], targets, inside, tree.codes)
            except (ValueError, IndexError) as error:
                raise tree.damaged(ahead[0], f"it or one of the next {len(ahead)}: {error}") from error


def _look_up(
    tree: StoredTree, key: bytes, targets: Targets, which: Offsets, *, found: NDArray[np.bool_], left: _Below
) -> None:
    """Set `found` for those targets of `which` that are facts below the piece under a key.

    Lookups in pieces of facts are added to `left`, in ascending order.
    """
    piece = tree.piece(key)
    entry = np.full(len(which), -1)
    begun: list[bytes] = []  # the keys of the lower pieces that begin here
    for start, matrix in _written(tree, key, piece):
        # The last entry that does not come after the target is, at level 0, the only one that can equal it; above, the
        # only one with which it can begin. (To compare as many tokens of a target as the matrix is wide is enough: a
        # sequence that begins with an entry comes after it.)
        width = matrix.shape[1]
        wanted = targets.matrix[:, : width + 1][which]
        at = np.searchsorted(keys(matrix), keys(wanted[:, :width]), "right") - 1
        reached = np.flatnonzero(at >= 0)
        at = at[reached]
        must_end = np.True_ if piece.level == 0 else piece.kinds[start + at] == TERMINAL
        entry[reached] = np.where(_matches(matrix[at], wanted[reached], must_end), start + at, -1)
        if piece.level:
            begun += row_keys(piece.level - 1, matrix[piece.kinds[start : start + len(matrix)] == NEW_PIECE])
    there = entry >= 0
    which, entry = which[there], entry[there]
    ends_here = np.full(len(entry), True) if piece.level == 0 else piece.kinds[entry] == TERMINAL
    found[which[ends_here]] = True
    which, entry = which[~ends_here], entry[~ends_here]
    if not len(which):
        return
    lower = np.searchsorted(np.flatnonzero(piece.kinds == NEW_PIECE), entry, "right") - 1
    numbers, groups = np.unique(lower, return_index=True)  # ascending, as targets are
    below = [begun[number] if number >= 0 else piece.carried_key for number in numbers.tolist()]
    _check_below(tree, key, piece, below)
    if piece.level == 1:
        left.keys.extend(below)
        left.targets.append(which)
        left.counts.append(np.diff(groups, append=len(which)))
        return
    inside = np.split(which, groups[1:])
    for number, (one, rows) in enumerate(zip(below, inside, strict=True)):
        if number % AHEAD == 0:
            tree.load(below[number : number + AHEAD])
        _look_up(tree, one, targets, rows, found=found, left=left)


def _matches(entries: EntryMatrix, targets: EntryMatrix, must_end: NDArray[np.bool_] | np.bool_) -> NDArray[np.bool_]:
    """Return, row by row, whether a target begins with an entry, and equals it if `must_end`."""
    width = entries.shape[1]
    same = np.zeros(entries.shape, np.uint32)
    shared = min(width, targets.shape[1])
    same[:, :shared] = targets[:, :shared]
    longer = targets[:, width] > 0 if targets.shape[1] > width else np.False_
    whole = (entries == same).all(1) & ~longer
    begun: NDArray[np.bool_] = ((entries == same) | (entries == 0)).all(1)
    return np.where(must_end, whole, begun)


def _written(tree: StoredTree, key: bytes, piece: Piece) -> Iterator[tuple[int, EntryMatrix]]:
    """Yield the matrices of a piece. Raise CorruptIndexError, which names the row, if it is damaged."""
    try:
        yield from matrices(piece, tree.codes)
    except (ValueError, IndexError) as error:
        raise tree.damaged(key, str(error)) from error


def _check_below(tree: StoredTree, key: bytes, piece: Piece, below: list[bytes]) -> None:
    level = bytes([piece.level - 1])
    if any(one[:1] != level for one in below):
        raise tree.damaged(key, "it refers to a row that is not of the level below")


class _RowNeeded(Exception):  # noqa: N818  # no error: a walk ends with it
    def __init__(self, key: bytes) -> None:
        self.key = key


class _NoRows:
    """A source of rows that says which row is needed."""

    def fetch(self, key: bytes) -> bytes | None:
        raise _RowNeeded(key)

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        raise _RowNeeded(keys[0])


def read_ahead(tree: PathTree, prefixes: Iterable[Path]) -> None:
    """Read the rows for `tree.children` of some prefixes into the cache, with a round trip for 256 rows of a level of each
    segment.

    A cache that is too small for them makes no difference to results. Raises as `StoredTree.children` does.
    """
    if isinstance(tree, SummedTree):
        prefixes = tree.not_cached(prefixes)
    for _, stored in _signed(tree):
        _read_rows(stored, prefixes)


def _signed(tree: PathTree) -> Sequence[tuple[int, StoredTree]]:
    """Return the segments of a tree, each with its sign. A tree in memory has none."""
    trees = tree.trees if isinstance(tree, SummedTree) else ((1, tree),)
    return [(sign, one) for sign, one in trees if isinstance(one, StoredTree)]


def _read_rows(tree: StoredTree, prefixes: Iterable[Path]) -> None:
    cached_only = copy(tree)  # shares the cache
    cached_only._rows = _NoRows()
    waiting = list(prefixes)
    for _ in range(tree.root_key[0] + 1):  # a row of each level
        needed: dict[bytes, list[Path]] = {}
        for prefix in waiting:
            try:
                cached_only.children(prefix)
            except _RowNeeded as row:
                needed.setdefault(row.key, []).append(prefix)
        keys = list(needed)
        for low in range(0, len(keys), AHEAD):
            tree.load(keys[low : low + AHEAD])
        waiting = [prefix for some in needed.values() for prefix in some]
        if not waiting:
            return


def joined(facts: Sequence[Path]) -> tuple[Tokens, Offsets]:
    """Return the tokens of sequences one after another, int32, and where each begins, int64[n + 1].

    >>> joined([(7,), (0, 8)])
    (array([7, 0, 8], dtype=int32), array([0, 1, 3]))
    """
    offsets = offsets_of(np.array([len(fact) for fact in facts], np.int64))
    return np.fromiter((token for fact in facts for token in fact), np.int32, int(offsets[-1])), offsets


def facts_exist(tree: PathTree, facts: Sequence[Path]) -> list[bool]:
    """Return which sequences of token ids are facts, with few round trips. Raises as `StoredTree.children` does."""
    wanted = sorted(set(facts))
    if len(wanted) <= FEW:
        read_ahead(tree, wanted)
        existing = {fact for fact in wanted if tree.children(fact).terminal}
    else:
        sums, (tokens, offsets) = np.zeros(len(wanted), np.int64), joined(wanted)
        for sign, stored in _signed(tree):
            sums += sign * contained(stored, tokens, offsets)
        existing = {fact for fact, total in zip(wanted, sums.tolist(), strict=True) if total > 0}
    return [fact in existing for fact in facts]


def surviving(segments: Sequence[tuple[int, StoredTree]]) -> Iterator[EntryMatrix]:
    """Yield the facts whose signed sum over the segments is 1, ascending, as matrices of any size, never empty.

    Raises CorruptIndexError if a sum is neither 0 nor 1.
    """
    return (matrix for _, matrix in _merged(segments, least=0))


def changed(segments: Sequence[tuple[int, StoredTree]]) -> Iterator[tuple[int, EntryMatrix]]:
    """Yield the facts whose signed sum over some segments of an index is 1 or -1: what these segments add to the others
    and what they take away. The sums are yielded with matrices of any size, never empty, each sum's facts ascending.

    Raises CorruptIndexError if a sum is none of -1, 0 and 1.
    """
    return _merged(segments, least=-1)


def _merged(segments: Sequence[tuple[int, StoredTree]], least: int) -> Iterator[tuple[int, EntryMatrix]]:
    streams = [_Stream(sign, _gathered(fact_matrices(tree)), tree.name) for sign, tree in segments]
    streams = [stream for stream in streams if stream.more()]
    while streams:
        horizon = min(stream.keys[-1] for stream in streams)  # the next facts of every stream are known up to here
        yield from _summed([(stream.sign, stream.take(horizon)) for stream in streams], streams[0].name, least)
        streams = [stream for stream in streams if stream.more()]


class _Stream:
    """The facts of a segment; `matrix` has the next ones."""

    def __init__(self, sign: int, matrices: Iterator[EntryMatrix], name: str) -> None:
        self.sign, self.name, self._matrices = sign, name, matrices
        self.matrix: EntryMatrix = np.zeros((0, 1), np.uint32)
        self.keys: NDArray[np.bytes_] = keys(self.matrix)

    def more(self) -> bool:
        """Return whether any facts are left; if so, `matrix` is not empty."""
        while not len(self.matrix):
            following = next(self._matrices, None)
            if following is None:
                return False
            self.matrix, self.keys = following, keys(following)
        return True

    def take(self, horizon: np.bytes_) -> EntryMatrix:
        """Remove and return the facts up to `horizon`."""
        count = int(np.searchsorted(self.keys, horizon, "right"))
        taken, self.matrix, self.keys = self.matrix[:count], self.matrix[count:], self.keys[count:]
        return taken


def _summed(parts: list[tuple[int, EntryMatrix]], name: str, least: int) -> Iterator[tuple[int, EntryMatrix]]:
    """Yield the facts of each signed sum but 0 as one matrix. Raise CorruptIndexError for sums below `least` or above
    1."""
    parts = [(sign, matrix) for sign, matrix in parts if len(matrix)]
    if len(parts) == 1 and parts[0][0] >= least:
        yield parts[0]
        return
    rows = _stacked([matrix for _, matrix in parts])
    signs = np.repeat([sign for sign, _ in parts], [len(matrix) for _, matrix in parts])
    row_keys = keys(rows)
    order = np.argsort(row_keys, kind="stable")
    row_keys = row_keys[order]
    starts = np.flatnonzero(np.append(True, row_keys[1:] != row_keys[:-1]))
    sums = np.add.reduceat(signs[order], starts)
    wrong = np.flatnonzero((sums < least) | (sums > 1))
    if len(wrong):
        row = rows[order[starts[wrong[0]]]]
        fact = (row[row > 0].astype(np.int64) - 1).tolist()
        raise CorruptIndexError(
            f"index {name!r} has the fact with the token ids {fact} {sums[wrong[0]]} times, not once or never. "
            "Ingest the index again"
        )
    for sign in (1, -1):
        if (sums == sign).any():
            yield sign, rows[order[starts[sums == sign]]]


def _gathered(matrices: Iterator[EntryMatrix]) -> Iterator[EntryMatrix]:
    """Yield the same rows in larger matrices: sorting and comparing take as long for ten rows as for a thousand."""
    waiting: list[EntryMatrix] = []
    count = width = 0
    for matrix in matrices:
        wider = max(width, matrix.shape[1])
        if waiting and (count + len(matrix) > _ROWS or (count + len(matrix)) * wider > CELLS):
            yield _stacked(waiting)
            waiting, count, wider = [], 0, matrix.shape[1]
        waiting.append(matrix)
        count, width = count + len(matrix), wider
    if waiting:
        yield _stacked(waiting)


def _stacked(matrices: list[EntryMatrix]) -> EntryMatrix:
    """Return matrices one below the other, as wide as the widest."""
    if len(matrices) == 1:
        return matrices[0]
    stacked = np.zeros((sum(map(len, matrices)), max(matrix.shape[1] for matrix in matrices)), np.uint32)
    at = 0
    for matrix in matrices:
        stacked[at : at + len(matrix), : matrix.shape[1]] = matrix
        at += len(matrix)
    return stacked


def fact_matrices(tree: StoredTree) -> Iterator[EntryMatrix]:
    """Yield the facts of a segment in ascending order, as matrices of any size.

    Raises CorruptIndexError if the levels contradict each other, or the number of facts in the catalogue.
    """
    count = 0
    for matrix in _under(tree, tree.root_key, 0, len(tree.piece(tree.root_key))):
        count += len(matrix)
        yield matrix
    if count != tree.facts:
        raise CorruptIndexError(
            f"index {tree.name!r}: a segment has {count:,} facts, {tree.facts:,} in the catalogue. Ingest the index again"
        )


def _under(tree: StoredTree, key: bytes, low: int, high: int) -> Iterator[EntryMatrix]:
    """Yield the facts under entries [low, high) of the piece under a key."""
    piece = tree.piece(key)
    if high > len(piece):
        raise tree.damaged(key, f"entry {high - 1} is missing")
    open_key, done = piece.carried_key, piece.carried_items
    for start, matrix in _written(tree, key, piece):
        first, last = max(low, start) - start, min(high, start + len(matrix)) - start
        if piece.level == 0:
            if first < last:
                yield matrix[first:last]
            continue
        kinds = piece.kinds[start : start + len(matrix)]
        items = np.append(0, np.cumsum(piece.items[start : start + len(matrix)], dtype=np.int64))
        begun = row_keys(piece.level - 1, matrix[kinds == NEW_PIECE])
        begins = 0
        bounds = np.unique(np.concatenate([[0], np.flatnonzero(kinds != SAME_PIECE), [len(matrix)]])).tolist()
        for begin, end in pairwise(bounds):
            if kinds[begin] == NEW_PIECE:
                if begins % AHEAD == 0:
                    tree.load(begun[begins : begins + AHEAD])
                open_key, done, begins = begun[begins], 0, begins + 1
            inside_low, inside_high = max(begin, first), min(end, last)
            if inside_low < inside_high:
                if inside_low == begin and kinds[begin] == TERMINAL:
                    yield matrix[begin : begin + 1]
                skipped, taken = int(items[inside_low] - items[begin]), int(items[inside_high] - items[inside_low])
                if taken:
                    _check_below(tree, key, piece, [open_key])
                    yield from _under(tree, open_key, done + skipped, done + skipped + taken)
            done += int(items[end] - items[begin])
