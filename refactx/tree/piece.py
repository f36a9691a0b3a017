"""A piece: a run of neighbouring entries of one level of the tree, front-coded.

Level 0 holds the facts themselves, sorted by token id. An entry of level k + 1 is a prefix: either a subtree of level k
small enough to lie in one piece of it, or a fact that ends above such a subtree. The pieces of a level are runs of
consecutive entries; the top level is a single piece, the root. A row's key is the level and the prefix of the piece's
first entry (the root's is empty), so keys are unique and a walk reads one row a level.

Front coding (Witten, Moffat and Bell, Managing Gigabytes, 2nd ed., section 4.1): an entry is the number of tokens that it
shares with the one before (`lcp`) and the rest (`suffix`). A node is a range of entries, and its children begin where
`lcp` equals its depth, so a piece is walked as it lies, without being unfolded.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refactx.tree.codec import Member
from refactx.tree.ragged import Offsets
from refactx.tree.token_codes import MAX_TOKEN, TokenCodes

TERMINAL, SAME_PIECE, NEW_PIECE = 0, 1, 2
"""Kinds of entries above level 0: a fact ends here; a subtree in the same lower piece as the one before; in a new one."""

Unsigned = NDArray[np.unsignedinteger]

NEVER = 1 << 30
"""A depth that no sequence has."""

_FEW = 24
"""So many entries are gone through one by one in less time than numpy takes to start: most nodes of a walk have fewer."""

_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_IMPOSSIBLE = 1 << 50  # more facts or entries than there can be
_NO_KINDS = np.empty(0, np.uint8)
_NO_COUNTS: Unsigned = np.empty(0, np.uint8)
_TOKEN_BYTES = 3
MAX_KEY = 2401  # one byte and 800 tokens


def row_key(level: int, prefix: list[int]) -> bytes:
    """The key of a piece: one byte for the level, then three bytes a token, big-endian: byte order is token order.

    A key too long for PostgreSQL's B-tree (2,704 bytes; some 900 tokens that over 256 facts share) ends in a SHA-256 of the
    whole instead: still unique, and still found by who knows the prefix.

    >>> row_key(1, [258, 7]).hex(" ")
    '01 00 01 02 00 00 07'
    """
    key = bytes([level]) + b"".join(token.to_bytes(_TOKEN_BYTES, "big") for token in prefix)
    if len(key) <= MAX_KEY:
        return key
    return key[: MAX_KEY - 32] + hashlib.sha256(key).digest()


def prefix_of(key: bytes) -> list[int]:
    """The prefix in a row's key, for people to read (of a key too long for PostgreSQL only the beginning is right)."""
    return [int.from_bytes(key[at : at + _TOKEN_BYTES], "big") for at in range(1, len(key), _TOKEN_BYTES)]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One piece in memory, about as large as its pickle.

    For its n entries: `lcp` uint[n]; `ends` int32[n + 1], where the codes of each entry's suffix end (with a 0 in front);
    `codes`, the suffixes' token codes. Above level 0, where a node may have thousands of children, the first token of each
    suffix is not among its codes but in `heads` uint[n]. There are also `kinds` uint8[n]; `leaves` uint[n] and `items`
    uint[n], how many facts and how many entries of the level below lie under each entry; and for the first subtree the lower
    piece that it continues: `carried_key`, and how many of that one's entries come before.
    """

    level: int
    lcp: Unsigned
    ends: NDArray[np.int32]
    codes: bytes
    heads: Unsigned
    kinds: NDArray[np.uint8]
    leaves: Unsigned
    items: Unsigned
    carried_key: bytes
    carried_items: int

    @classmethod
    def of_facts(cls, lcp: Unsigned, ends: NDArray[np.int32], codes: bytes) -> "Piece":
        """A piece of level 0."""
        return cls(0, lcp, ends, codes, _NO_COUNTS, _NO_KINDS, _NO_COUNTS, _NO_COUNTS, b"", 0)

    def __len__(self) -> int:
        return len(self.lcp)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, for the cache's account."""
        arrays = (self.lcp, self.ends, self.heads, self.kinds, self.leaves, self.items)
        return sum(array.nbytes for array in arrays) + len(self.codes) + 600

    def suffix(self, entry: int, codes: TokenCodes) -> list[int]:
        """The token ids of an entry behind its first `lcp[entry]`."""
        tokens = codes.decode(self.codes[self.ends[entry] : self.ends[entry + 1]])
        return tokens if self.level == 0 else [int(self.heads[entry]), *tokens]

    def sequence(self, entry: int, codes: TokenCodes, later: int, known: Sequence[int]) -> list[int]:
        """All token ids of `entry`, given those (`known`) of an entry at or behind it (`later`)."""
        if later == entry:
            return list(known)
        shared = int(self.lcp[entry + 1 : later + 1].min())
        need = int(self.lcp[entry])
        tokens = self.suffix(entry, codes)
        while need > shared:
            # The token at depth need - 1 stands in the suffix of the last entry that shares fewer tokens than that.
            entry = int(np.flatnonzero(self.lcp[:entry] < need)[-1])
            start = int(self.lcp[entry])
            tokens = self.suffix(entry, codes)[: need - start] + tokens
            need = start
        return list(known[:need]) + tokens

    def lower_piece(self, entry: int) -> tuple[int | None, int]:
        """Where a subtree lies below: the entry that begins its piece (None: the carried one), and its first item."""
        begins = np.flatnonzero(self.kinds[: entry + 1] == NEW_PIECE)
        if len(begins):
            first = int(begins[-1])
            return first, int(self.items[first:entry].sum())
        return None, self.carried_items + int(self.items[:entry].sum())

    def total(self) -> int:
        """How many facts lie under all entries."""
        return int(self.leaves.sum(dtype=np.int64)) if self.level else len(self)

    def branch_depth(self, low: int, high: int) -> int:
        """The depth down to which all entries [low, high) are one path; beyond any length if there is only one."""
        inside = self.lcp[low + 1 : high]
        return int(min(inside.tolist(), default=NEVER) if len(inside) < _FEW else inside.min())

    def children_bounds(self, low: int, high: int, depth: int) -> NDArray[np.int64]:
        """The entries at which the children of node [low, high) begin, the first of which is `low`; and `high`."""
        if high - low <= _FEW:
            inside = enumerate(self.lcp[low + 1 : high].tolist(), low + 1)
            return np.array([low, *[entry for entry, lcp in inside if lcp == depth], high])
        starts = (self.lcp[low + 1 : high] == depth).nonzero()[0]
        bounds = np.empty(len(starts) + 2, np.int64)
        bounds[0], bounds[-1] = low, high
        np.add(starts, low + 1, out=bounds[1:-1])
        return bounds

    def first_tokens(self, starts: NDArray[np.int64], codes: TokenCodes) -> NDArray[np.int32]:
        """The first token of the suffix of each of some entries."""
        if self.level:
            return self.heads[starts].astype(np.int32)
        return codes.decode_at(self.codes, self.ends[starts])

    def leaves_between(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many facts lie between consecutive entries of `bounds` (int64, ascending)."""
        if self.level == 0:
            return bounds[1:] - bounds[:-1]
        low, high = int(bounds[0]), int(bounds[-1])
        if high - low == len(bounds) - 1:  # an entry each
            return self.leaves[low:high].astype(np.int64)
        return np.add.reduceat(self.leaves[low:high], bounds[:-1] - low, dtype=np.int64)


def to_members(piece: Piece) -> tuple[Member, ...]:
    """The tuple that is pickled for a piece."""
    shape = (piece.level, len(piece), _packed(piece.lcp), _packed(np.diff(piece.ends)), piece.codes)
    if piece.level == 0:
        return shape
    items = b"" if np.array_equal(piece.leaves, piece.items) else _packed(piece.items)
    counts = (piece.kinds.tobytes(), _packed(piece.leaves), items)
    return (*shape, _packed(piece.heads), *counts, piece.carried_key, piece.carried_items)


def from_members(members: tuple[Member, ...], level: int) -> Piece:
    """The piece in an unpickled tuple. Raises ValueError where its members contradict each other."""
    lcp, lengths, codes = _suffixes(members, level)
    count = len(lcp)
    _check_lengths(lengths, len(codes))
    sums = np.zeros(count + 1, np.int64)
    lengths.cumsum(dtype=np.int64, out=sums[1:])
    if lcp[0] != 0 or int(sums[-1]) != len(codes):
        raise ValueError("its suffixes do not add up")
    ends = sums.astype(np.int32)
    if level == 0:
        return Piece.of_facts(lcp, ends, codes)
    heads = _unpacked(members[5], count)
    kinds = np.frombuffer(_bytes(members[6]), np.uint8)
    leaves = _unpacked(members[7], count)
    items = _unpacked(members[8], count) if members[8] else leaves
    if len(kinds) != count or kinds.max() > NEW_PIECE or not leaves.all():
        raise ValueError("its kinds and counts are impossible")
    if not ((kinds == TERMINAL) == (items == 0)).all():
        raise ValueError("its kinds and counts contradict each other")
    if int(heads.max()) >= MAX_TOKEN:
        raise ValueError(f"a token id is not below {MAX_TOKEN:,}")
    return Piece(level, lcp, ends, codes, heads, kinds, leaves, items, _bytes(members[9]), _integer(members[10]))


def fact_members(rows: Sequence[tuple[Member, ...]]) -> tuple[Offsets, Unsigned, Unsigned, list[bytes]]:
    """Of many pieces of facts together: how many entries each has, the `lcp` and the lengths of the suffixes' codes of all, one
    piece behind the other, and these codes of each.

    Raises ValueError as `from_members` does, but not where the lengths do not add up or a first `lcp` is no 0.
    """
    shapes = [_shape(row, 0) for row in rows]
    counts = [count for count, _ in shapes]
    lcp, lengths = (_side_by_side([row[at] for row in rows], counts) for at in (2, 3))
    _check_lengths(lengths, max(len(codes) for _, codes in shapes))
    return np.array(counts, np.int64), lcp, lengths, [codes for _, codes in shapes]


def _suffixes(members: tuple[Member, ...], level: int) -> tuple[Unsigned, Unsigned, bytes]:
    count, codes = _shape(members, level)
    return _unpacked(members[2], count), _unpacked(members[3], count), codes


def _check_lengths(lengths: Unsigned, most: int) -> None:
    """None is longer than all there is: 64 MiB at most, as often at most, so that their sum is in no danger of wrapping."""
    if int(lengths.max()) > most:
        raise ValueError("its suffixes do not add up")


def _shape(members: tuple[Member, ...], level: int) -> tuple[int, bytes]:
    """The number of entries and the codes of their suffixes."""
    if len(members) != (5 if level == 0 else 11) or members[0] != level:
        raise ValueError(f"it is not a piece of level {level}")
    count, codes = _integer(members[1]), _bytes(members[4])
    if count < 1 or codes[-1:] >= b"\x80":
        raise ValueError("its suffixes do not add up")
    return count, codes


def _packed(values: NDArray[np.integer]) -> bytes:
    """Values in the narrowest width that holds them, which goes in front as one byte."""
    largest = int(values.max(initial=0))
    width = next(w for w in _WIDTHS if w == 8 or largest < 1 << 8 * w)
    return bytes([width]) + values.astype(_WIDTHS[width]).tobytes()


def _unpacked(packed: Member, count: int) -> Unsigned:
    data = _bytes(packed)
    if not data or data[0] not in _WIDTHS or len(data) != 1 + data[0] * count:
        raise ValueError(f"an array of it does not have {count} members")
    values: Unsigned = np.frombuffer(data, _WIDTHS[data[0]], offset=1)
    if data[0] == 8 and int(values.max()) >= _IMPOSSIBLE:
        raise ValueError("a count of it is impossible")
    return values


def _side_by_side(arrays: Sequence[Member], counts: Sequence[int]) -> Unsigned:
    """What `_unpacked` gives for each of some arrays, one behind the other."""
    if all(
        type(one) is bytes and one[:1] == b"\1" and len(one) == 1 + n for one, n in zip(arrays, counts, strict=True)
    ):
        return np.frombuffer(b"".join([one[1:] for one in arrays]), np.uint8)  # type: ignore[index]  # bytes, as just seen
    return np.concatenate([_unpacked(one, n) for one, n in zip(arrays, counts, strict=True)])


def _bytes(member: Member) -> bytes:
    if not isinstance(member, bytes):
        raise ValueError("a number stands where bytes belong")
    return member


def _integer(member: Member) -> int:
    if not isinstance(member, int) or not 0 <= member < _IMPOSSIBLE:
        raise ValueError("a number of it is impossible")
    return member
