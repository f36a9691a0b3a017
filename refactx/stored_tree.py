"""One segment as a `FactTree`, read piece by piece from wherever rows are kept.

A walk reads one row a level (docs/design.md, "The tree in rows"). Pieces and the nodes that were asked for stay in a
cache bounded in bytes; a node that is still there costs one dictionary look-up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.byte_cache import ByteCache
from refactx.codec import RowCodec
from refactx.errors import CorruptIndexError
from refactx.piece import TERMINAL, Piece, from_members, prefix_of, row_key
from refactx.token_codes import TokenCodes
from refactx.tree import NO_LEAVES, NO_TOKENS, OFF_TREE, Children, Counts, Tokens

_ONE: Counts = np.ones(1, np.int64)
_ONE.setflags(write=False)


class RowSource(Protocol):
    """Where the rows of one segment are kept."""

    def fetch(self, key: bytes) -> bytes | None:
        """The row under a key, or None; one round trip."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A prefix in its piece: entries [low, high), of which `bounds` are where its children begin (and the last end).

    `path` is the suffix of entry `low`, from depth `base` on: on it lie the tokens of the first child, and, where there is
    only one, of all that follow."""

    children: Children
    piece_key: bytes
    bounds: NDArray[np.int64]
    path: list[int]
    base: int
    nbytes: int


class StoredTree:
    """The tree in the rows of one segment. Safe to share between threads.

    `levels`: how many levels the segment has; `name`: how errors call it; `cache_bytes`: bound of the cache.
    Every method may raise CorruptIndexError, which names the row, and what `rows.fetch` raises.
    """

    def __init__(
        self, rows: RowSource, codec: RowCodec, codes: TokenCodes, levels: int, name: str, cache_bytes: int = 256 << 20
    ) -> None:
        self._rows, self.codec, self.codes, self.name = rows, codec, codes, name
        self.root_key = row_key(levels - 1, [])
        self._cache: ByteCache[_Node | Piece] = ByteCache(cache_bytes)

    def children(self, prefix: Sequence[int]) -> Children:
        """What may follow `prefix`; `OFF_TREE` if no fact starts with it."""
        key = tuple(prefix)
        node = self._cache.get(key)
        if node is None:
            node = self._walk(key)
            if node is None:
                return OFF_TREE
        return node.children  # type: ignore[union-attr]  # tuples are keys of nodes, bytes of pieces

    def piece(self, key: bytes) -> Piece:
        """The piece under a row key."""
        cached = self._cache.get(key)
        if isinstance(cached, Piece):
            return cached
        row = self._rows.fetch(key)
        if row is None:
            raise CorruptIndexError(f"{self._where(key)} is missing. Ingest the index again")
        members = self.codec.unpack(key, row, self._where(key))
        try:
            piece = from_members(members, key[0])
        except (ValueError, OverflowError) as error:
            raise self._damaged(key, str(error)) from error
        self._cache.put(key, piece)
        return piece

    def _where(self, key: bytes) -> str:
        return f"index {self.name!r}: row {key.hex()} (level {key[0]}, prefix {prefix_of(key)})"

    def _damaged(self, key: bytes, what: str) -> CorruptIndexError:
        return CorruptIndexError(f"{self._where(key)} is damaged: {what}. Ingest the index again")

    def _walk(self, key: tuple[int, ...]) -> _Node | None:
        depth = len(key)
        node = None
        while depth:  # the nearest ancestor that is still known: while decoding it is the parent
            depth -= 1
            node = self._cache.get(key[:depth])
            if node is not None:
                break
        if not isinstance(node, _Node):
            root = self.piece(self.root_key)
            node = self._node(self.root_key, root, 0, len(root), ())
            depth = 0
        while depth < len(key):
            below = self._step(node, key[: depth + 1])
            if below is None:
                return None
            node, depth = below, depth + 1
        return node

    def _step(self, node: _Node, prefix: tuple[int, ...]) -> _Node | None:
        """The node one token below `node`."""
        tokens = node.children.tokens
        at = int(tokens.searchsorted(prefix[-1])) if len(tokens) != 1 else 0
        if at == len(tokens) or tokens[at] != prefix[-1]:
            return None
        low, high = int(node.bounds[at]), int(node.bounds[at + 1])
        piece = self.piece(node.piece_key)
        path = node.path if at == 0 else None
        return self._node(node.piece_key, piece, low, high, prefix, path, node.base)

    def _node(
        self,
        key: bytes,
        piece: Piece,
        low: int,
        high: int,
        prefix: tuple[int, ...],
        path: list[int] | None = None,
        base: int = 0,
    ) -> _Node:
        depth = len(prefix)
        try:
            if path is None:
                path, base = piece.suffix(low, self.codes), int(piece.lcp[low])
            while piece.level and high - low == 1 and base + len(path) == depth and piece.kinds[low] != TERMINAL:
                key, piece, low, high = self._descend(key, piece, low, prefix)
                path, base = piece.suffix(low, self.codes), int(piece.lcp[low])
            terminal = 0
            if base + len(path) == depth:
                if piece.level and piece.kinds[low] != TERMINAL:
                    raise ValueError("a subtree of it overlaps another")
                terminal, low = 1, low + 1
                if low < high:
                    path, base = piece.suffix(low, self.codes), int(piece.lcp[low])
            if low == high:
                tokens, leaves, bounds = NO_TOKENS, NO_LEAVES, np.array([low])
            else:
                tokens, leaves, bounds = self._branches(piece, low, high, depth, path[depth - base])
        except (ValueError, IndexError) as error:
            raise self._damaged(key, str(error)) from error
        size = tokens.nbytes + leaves.nbytes + bounds.nbytes + 8 * depth + 600
        node = _Node(Children(tokens, leaves, terminal), key, bounds, path, base, size)
        self._cache.put(prefix, node)
        return node

    def _branches(
        self, piece: Piece, low: int, high: int, depth: int, first: int
    ) -> tuple[Tokens, Counts, NDArray[np.int64]]:
        starts = piece.child_starts(low, high, depth)
        bounds = np.append(starts, high)
        leaves = piece.leaves_between(bounds) if high - low > 1 or piece.level else _ONE
        tokens = np.empty(len(starts), np.int32)
        tokens[0] = first
        if len(starts) > 1:
            tokens[1:] = piece.first_tokens(starts[1:], self.codes)
            if not (tokens[:-1] < tokens[1:]).all():
                raise ValueError("its children are not in order")
        tokens.setflags(write=False)
        leaves.setflags(write=False)
        return tokens, leaves, bounds

    def _descend(self, key: bytes, piece: Piece, entry: int, prefix: tuple[int, ...]) -> tuple[bytes, Piece, int, int]:
        """From the entry of a subtree to its entries in the piece below, checking that both tell the same."""
        begins, low = piece.lower_piece(entry)
        if begins is None:
            below_key = piece.carried_key
        else:
            below_key = row_key(piece.level - 1, piece.sequence(begins, self.codes, entry, prefix))
        if below_key[:1] != bytes([piece.level - 1]):
            raise ValueError("it leads to no row of the level below")
        below = self.piece(below_key)
        high = low + int(piece.items[entry + 1] - piece.items[entry])
        leaves = int(piece.leaves[entry + 1] - piece.leaves[entry])
        shared = int(below.lcp[low]) if low < len(below) else len(prefix)
        if (
            not low < high <= len(below)
            or leaves != int(below.leaves_between(np.array([low, high]))[0])
            or shared >= len(prefix)
            or (high < len(below) and below.lcp[high] >= len(prefix))
            or below.lcp[low + 1 : high].min(initial=len(prefix)) < len(prefix)
            or tuple(below.suffix(low, self.codes)[: len(prefix) - shared]) != prefix[shared:]
        ):
            raise ValueError(f"it does not agree with {self._where(below_key)}")
        return below_key, below, low, high
