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

from refactx.codec import Member
from refactx.token_codes import Bytes, TokenCodes

TERMINAL, SAME_PIECE, NEW_PIECE = 0, 1, 2
"""Kinds of entries above level 0: a fact ends here; a subtree in the same lower piece as the one before; in a new one."""

_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}
_TOKEN_BYTES = 3
_MAX_KEY = 2401  # one byte and 800 tokens


def row_key(level: int, prefix: list[int]) -> bytes:
    """The key of a piece: one byte for the level, then three bytes a token, big-endian: byte order is token order.

    A key too long for PostgreSQL's B-tree (2,704 bytes; some 900 tokens that over 256 facts share) ends in a SHA-256 of the
    whole instead: still unique, and still found by who knows the prefix.

    >>> row_key(1, [258, 7]).hex(" ")
    '01 00 01 02 00 00 07'
    """
    key = bytes([level]) + b"".join(token.to_bytes(_TOKEN_BYTES, "big") for token in prefix)
    if len(key) <= _MAX_KEY:
        return key
    return key[: _MAX_KEY - 32] + hashlib.sha256(key).digest()


def prefix_of(key: bytes) -> list[int]:
    """The prefix in a row's key: the inverse of `row_key`."""
    return [int.from_bytes(key[at : at + _TOKEN_BYTES], "big") for at in range(1, len(key), _TOKEN_BYTES)]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One piece in memory, about as large as its pickle.

    For its n entries: `lcp` uint[n]; `ends` int64[n + 1], where the codes of each entry's suffix end (with a 0 in
    front); `codes`, the suffixes' token codes. Above level 0 also `kinds` uint8[n]; `leaves` int64[n + 1] and `items`
    int64[n + 1], running sums (with a 0 in front) of the facts and of the entries of the level below under each entry;
    and for the first subtree the lower piece it continues: `carried_key` and how many entries of it come before.
    """

    level: int
    lcp: NDArray[np.unsignedinteger]
    ends: NDArray[np.int64]
    codes: bytes
    kinds: Bytes
    leaves: NDArray[np.int64]
    items: NDArray[np.int64]
    carried_key: bytes
    carried_items: int

    def __len__(self) -> int:
        return len(self.lcp)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, for the cache's account."""
        arrays = (self.lcp, self.ends, self.kinds, self.leaves, self.items)
        return sum(array.nbytes for array in arrays) + len(self.codes) + 600

    def suffix(self, entry: int, codes: TokenCodes) -> list[int]:
        """The token ids of an entry behind its first `lcp[entry]`."""
        return codes.decode(self.codes[self.ends[entry] : self.ends[entry + 1]])

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
        """Where a subtree lies below: the entry that begins its piece (None: the carried one), and its first item there."""
        begins = np.flatnonzero(self.kinds[: entry + 1] == NEW_PIECE)
        if len(begins):
            first = int(begins[-1])
            return first, int(self.items[entry] - self.items[first])
        return None, self.carried_items + int(self.items[entry])

    def child_starts(self, low: int, high: int, depth: int) -> NDArray[np.int64]:
        """The entries at which the children of node [low, high) begin, the first of which is `low`."""
        if high - low == 1:
            return np.array([low])
        inner = np.flatnonzero(self.lcp[low + 1 : high] == depth)
        inner += low + 1
        return np.concatenate([np.array([low]), inner])

    def first_tokens(self, starts: NDArray[np.int64], codes: TokenCodes) -> NDArray[np.int32]:
        """The first token of the suffix of each of some entries."""
        return codes.decode_at(np.frombuffer(self.codes, np.uint8), self.ends[starts])

    def leaves_between(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many facts lie between consecutive entries of `bounds`."""
        if self.level == 0:
            return np.diff(bounds)
        return np.diff(self.leaves[bounds])


def to_members(piece: Piece) -> tuple[Member, ...]:
    """The tuple that is pickled for a piece."""
    lengths = _packed(np.diff(piece.ends))
    lcp = _packed(piece.lcp.astype(np.int64))
    if piece.level == 0:
        return (0, len(piece), lcp, lengths, piece.codes)
    leaves, items = np.diff(piece.leaves), np.diff(piece.items)
    return (
        *(piece.level, len(piece), lcp, lengths, piece.codes),
        *(piece.kinds.tobytes(), _packed(leaves), b"" if np.array_equal(leaves, items) else _packed(items)),
        *(piece.carried_key, piece.carried_items),
    )


def from_members(members: tuple[Member, ...], level: int) -> Piece:
    """The piece in an unpickled tuple. Raises ValueError where its members contradict each other."""
    if len(members) != (5 if level == 0 else 10) or members[0] != level:
        raise ValueError(f"it is not a piece of level {level}")
    count = _integer(members[1])
    lcp, lengths = _unpacked(members[2], count), _unpacked(members[3], count)
    ends = _running(lengths)
    codes = _bytes(members[4])
    if count < 1 or lcp[0] != 0 or int(ends[-1]) != len(codes) or lengths.min() < 0:
        raise ValueError("its suffixes do not add up")
    if codes and codes[-1] >= 0x80:
        raise ValueError("its token codes end within an id")
    if level == 0:
        empty = np.empty(0, np.int64)
        return Piece(0, lcp, ends, codes, np.empty(0, np.uint8), empty, empty, b"", 0)
    kinds = np.frombuffer(_bytes(members[5]), np.uint8)
    leaves = _unpacked(members[6], count).astype(np.int64)
    items = _unpacked(members[7], count).astype(np.int64) if members[7] else leaves
    if len(kinds) != count or kinds.max() > NEW_PIECE or leaves.min() < 1 or items.min() < 0 or leaves.max() > 1 << 50:
        raise ValueError("its counts are impossible")
    return Piece(
        level, lcp, ends, codes, kinds, _running(leaves), _running(items), _bytes(members[8]), _integer(members[9])
    )


def _packed(values: NDArray[np.int64]) -> bytes:
    """Values in the narrowest width that holds them, which goes in front as one byte."""
    largest = int(values.max(initial=0))
    width = next(w for w in _WIDTHS if w == 8 or largest < 1 << 8 * w)
    return bytes([width]) + values.astype(_WIDTHS[width]).tobytes()


def _unpacked(packed: Member, count: int) -> NDArray[np.unsignedinteger]:
    data = _bytes(packed)
    if not data or data[0] not in _WIDTHS or len(data) != 1 + data[0] * count:
        raise ValueError(f"an array of it does not have {count} members")
    return np.frombuffer(data, _WIDTHS[data[0]], offset=1)


def _running(values: NDArray[np.unsignedinteger] | NDArray[np.int64]) -> NDArray[np.int64]:
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def _bytes(member: Member) -> bytes:
    if not isinstance(member, bytes):
        raise ValueError("a number stands where bytes belong")
    return member


def _integer(member: Member) -> int:
    if not isinstance(member, int) or not 0 <= member < 1 << 62:
        raise ValueError("a number of it is impossible")
    return member
