"""A piece: a run of neighbouring entries of one level of the tree, front-coded.

Level 0 holds the facts, sorted by token ids. An entry of level k + 1 is a prefix: either a subtree of level k that is
small enough for one piece, or a fact that ends above such a subtree. The top level is a single piece, the root. The
key of a piece's row is its level and the prefix of its first entry (empty for the root), so keys are unique, and a walk
reads one row of each level.

Front coding (Witten, Moffat and Bell, Managing Gigabytes, 2nd ed., section 4.1): an entry is the number of tokens that
it shares with the one before (`lcp`), and the rest (its suffix). A node is a range of entries, and its children begin
where `lcp` equals its depth, so that a walk needs no entry written out.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refactx.tree.children import Counts, Tokens
from refactx.tree.token_codes import TokenCodes

TERMINAL, SAME_PIECE, NEW_PIECE = 0, 1, 2
"""Kinds of entries above level 0: the end of a fact; a subtree in the lower piece of the one before; a subtree with
which a lower piece begins."""

Unsigned = NDArray[np.unsignedinteger]

Buffer = bytes | memoryview

NEVER = 1 << 30
"""A depth that no sequence has."""

_NO_KINDS = np.empty(0, np.uint8)
_NO_COUNTS: Unsigned = np.empty(0, np.uint8)
_TOKEN_BYTES = 3
MAX_KEY = 2401  # one byte and 800 tokens


def row_key(level: int, prefix: list[int]) -> bytes:
    """Return the key of a piece: one byte for the level, then three bytes a token, big-endian: byte order is token
    order.

    A key too long for PostgreSQL's B-tree (2,704 bytes: some 900 tokens, shared by over 256 facts) is cut, and ends
    with the SHA-256 of the whole key: it is still unique, and can still be made from the prefix.

    >>> row_key(1, [258, 7]).hex(" ")
    '01 00 01 02 00 00 07'
    """
    key = bytes([level]) + b"".join(token.to_bytes(_TOKEN_BYTES, "big") for token in prefix)
    if len(key) <= MAX_KEY:
        return key
    return key[: MAX_KEY - 32] + hashlib.sha256(key).digest()


def prefix_of(key: bytes) -> list[int]:
    """Return the prefix in a row's key, for error messages: if the key was cut, only its beginning is right."""
    return [int.from_bytes(key[at : at + _TOKEN_BYTES], "big") for at in range(1, len(key), _TOKEN_BYTES)]


FEW = 32
"""The children of so few entries are found without numpy, which takes longer to start: of most nodes of a walk."""


class PieceChildren(NamedTuple):
    """The children of a node in a piece: how many tokens all its entries share (`NEVER`: there is one), the entries at
    which its children begin and after the last one, the tokens of the children, and how many facts are under each."""

    forks: int
    bounds: Sequence[int] | NDArray[np.int64]
    tokens: Tokens
    leaves: Counts


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Piece:
    """One piece in memory, about as large as its pickle.

    For its n entries: `lcp` uint[n], see above; `codes`, the token codes of all suffixes; `ends` int[n + 1], a 0 and
    the positions in `codes` where the suffixes end. Above level 0 also: `heads` uint[n], the first token of each suffix,
    which is then not in `codes`, since a node there may have thousands of children; `kinds` uint8[n]; `leaves` uint[n]
    and `items` uint[n], how many facts and how many entries of the level below are under each entry; and the lower
    piece that the first subtree continues: `carried_key`, and `carried_items`, how many of its entries are before.
    """

    level: int
    lcp: Unsigned
    ends: NDArray[np.integer]
    codes: Buffer
    heads: Unsigned
    kinds: NDArray[np.uint8]
    leaves: Unsigned
    items: Unsigned
    carried_key: bytes
    carried_items: int

    @classmethod
    def of_facts(cls, *, lcp: Unsigned, ends: NDArray[np.integer], codes: Buffer) -> "Piece":
        """Return a piece of level 0."""
        return cls(
            level=0,
            lcp=lcp,
            ends=ends,
            codes=codes,
            heads=_NO_COUNTS,
            kinds=_NO_KINDS,
            leaves=_NO_COUNTS,
            items=_NO_COUNTS,
            carried_key=b"",
            carried_items=0,
        )

    def __len__(self) -> int:
        return len(self.lcp)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the piece takes, for the cache."""
        arrays = (self.lcp, self.ends, self.heads, self.kinds, self.leaves, self.items)
        return sum(array.nbytes for array in arrays) + len(self.codes) + 600

    def suffix(self, entry: int, codes: TokenCodes) -> list[int]:
        """Return the token ids of an entry after its first `lcp[entry]`."""
        tokens = codes.decode(self.codes[self.ends[entry] : self.ends[entry + 1]])
        return tokens if self.level == 0 else [int(self.heads[entry]), *tokens]

    def sequence(self, entry: int, codes: TokenCodes, later: int, known: Sequence[int]) -> list[int]:
        """Return all token ids of `entry`, given the ids `known` of the entry `later`, the same or a later one."""
        if later == entry:
            return list(known)
        shared = int(self.lcp[entry + 1 : later + 1].min())
        need = int(self.lcp[entry])
        tokens = self.suffix(entry, codes)
        while need > shared:
            # The token at depth need - 1 is in the suffix of the last entry that shares fewer than `need` tokens.
            entry = int(np.flatnonzero(self.lcp[:entry] < need)[-1])
            start = int(self.lcp[entry])
            tokens = self.suffix(entry, codes)[: need - start] + tokens
            need = start
        return list(known[:need]) + tokens

    def lower_piece(self, entry: int) -> tuple[int | None, int]:
        """Return where a subtree is on the level below: the entry with which its piece begins (None: `carried_key` is
        its piece), and the number of its first entry in that piece."""
        first = self.kinds[: entry + 1].tobytes().rfind(bytes([NEW_PIECE]))  # a third of the time of numpy
        if first >= 0:
            return first, int(self.items[first:entry].sum())
        return None, self.carried_items + int(self.items[:entry].sum())

    def total(self) -> int:
        """Return how many facts are under all entries."""
        return int(self.leaves.sum(dtype=np.int64)) if self.level else len(self)

    def children_of(self, low: int, high: int, depth: int, first: Tokens, codes: TokenCodes) -> "PieceChildren":
        """Return the children of node [low, high), none of whose entries ends at `depth`, the number of its tokens.

        `first`: int32[1], the token of its first entry at that depth. Raises ValueError if the children do not ascend.
        """
        if high - low <= FEW:
            return self._few_children(low, high, depth, first, codes)
        forks = self.branch_depth(low, high)
        bounds, tokens = np.array([low, high]), first
        if forks <= depth:
            bounds = self.children_bounds(low, high, depth)
            tokens = np.concatenate([first, self.first_tokens(bounds[1:-1], codes)])
            if not (tokens[:-1] < tokens[1:]).all():
                raise ValueError("its children are not in order")
        return PieceChildren(forks, bounds, tokens, self.leaves_between(bounds))

    def _few_children(self, low: int, high: int, depth: int, first: Tokens, codes: TokenCodes) -> "PieceChildren":
        shared = self.lcp[low + 1 : high].tolist()
        forks = min(shared, default=NEVER)
        bounds, tokens = [low, high], first
        if forks <= depth:
            starts = [entry for entry, same in enumerate(shared, low + 1) if same == depth]
            bounds = [low, *starts, high]
            if self.level:
                heads = [int(self.heads[start]) for start in starts]
            else:
                heads = [codes.decode_one(self.codes, int(self.ends[start])) for start in starts]
            heads = [int(first[0]), *heads]
            if any(one >= other for one, other in pairwise(heads)):
                raise ValueError("its children are not in order")
            tokens = np.array(heads, np.int32)
        if self.level:
            under = self.leaves[low:high].tolist()
            leaves = [sum(under[begin - low : end - low]) for begin, end in pairwise(bounds)]
        else:
            leaves = [end - begin for begin, end in pairwise(bounds)]
        return PieceChildren(forks, bounds, tokens, np.array(leaves, np.int64))

    def branch_depth(self, low: int, high: int) -> int:
        """Return how many tokens all entries [low, high) share; `NEVER` if there is only one entry."""
        inside = self.lcp[low + 1 : high]
        return int(inside.min()) if len(inside) else NEVER

    def children_bounds(self, low: int, high: int, depth: int) -> NDArray[np.int64]:
        """Return the entries at which the children of node [low, high) begin (the first is `low`), and `high`."""
        starts = (self.lcp[low + 1 : high] == depth).nonzero()[0]
        bounds = np.empty(len(starts) + 2, np.int64)
        bounds[0], bounds[-1] = low, high
        np.add(starts, low + 1, out=bounds[1:-1])
        return bounds

    def first_tokens(self, starts: NDArray[np.int64], codes: TokenCodes) -> NDArray[np.int32]:
        """Return the first token of the suffix of each of the entries `starts`."""
        if self.level:
            return self.heads[starts].astype(np.int32)
        return codes.decode_at(self.codes, self.ends[starts])

    def leaves_between(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many facts are between consecutive entries of `bounds` (ascending): int64[len(bounds) - 1]."""
        if self.level == 0:
            return bounds[1:] - bounds[:-1]
        low, high = int(bounds[0]), int(bounds[-1])
        if high - low == len(bounds) - 1:  # one entry between each two
            return self.leaves[low:high].astype(np.int64)
        return np.add.reduceat(self.leaves[low:high], bounds[:-1] - low, dtype=np.int64)
