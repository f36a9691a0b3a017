"""The tree in the rows of one segment, read piece by piece from any source of rows.

A walk reads one row of each level (docs/explanation/tree.md, "The tree in rows"). A cache with a bound in bytes holds
pieces and nodes; a node in it takes one dictionary lookup.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.codes import RowCodec, TokenCodes
from refactx.tree.piece import TERMINAL, Buffer, Piece, prefix_of, read_packed, row_key
from refactx.tree.tree import NO_LEAVES, NO_TOKENS, OFF_TREE, ByteCache, Children, Tokens

LONGEST_FACT = 16_384
"""More tokens than any fact has: three parts of 1,000 characters, of at most 4 bytes each."""


class Node:
    """A prefix in its piece: the entries `bounds[0]` to `bounds[-1] - 1`; its children begin at `bounds[:-1]`.

    `path` (int32): the suffix of the first entry, which begins at depth `base`. It has the token of the first child,
    and down to depth `forks` all entries of the node share it. (A plain class is quicker to make than a dataclass, and
    a walk makes a node for every token.)
    """

    __slots__ = ("base", "bounds", "children", "forks", "nbytes", "path", "piece_key")

    def __init__(
        self,
        children: Children,
        piece_key: bytes,
        bounds: Sequence[int] | NDArray[np.int64],
        *,
        path: Tokens,
        base: int,
        forks: int,
    ) -> None:
        self.children, self.piece_key, self.bounds = children, piece_key, bounds
        self.path, self.base, self.forks = path, base, forks
        self.nbytes = 700 + 20 * len(children.tokens)

    def on_path(self, depth: int) -> "Node":
        """Return the node at a depth between this one and `forks`: it has the same entries."""
        position = depth - self.base
        below = Children(self.path[position : position + 1], self.children.leaves, 0)
        return Node(below, self.piece_key, self.bounds, path=self.path, base=self.base, forks=self.forks)


class RowSource(Protocol):
    """A source of the rows of one segment."""

    def fetch(self, key: bytes) -> Buffer | None:
        """Return the row under a key, or None if there is none; in one round trip."""

    def fetch_many(self, keys: Sequence[bytes]) -> Mapping[bytes, Buffer]:
        """Return the rows under some keys, those that exist; in one round trip."""


class _RowName(NamedTuple):
    """A row as errors name it, which becomes text only if there is an error."""

    name: str
    key: bytes

    def __str__(self) -> str:
        return f"index {self.name!r}: row {self.key.hex()} (level {self.key[0]}, prefix {prefix_of(self.key)})"


class _EntryRange(NamedTuple):
    """The entries [low, high) of the `piece` under a `key`."""

    key: bytes
    piece: Piece
    low: int
    high: int


ReadPiece = Callable[[RowCodec, bytes, Buffer, object], Piece]
"""Read the piece in a row, given the segment's codec, its key, the row, and how errors name it."""


class StoredTree:
    """The tree in the rows of one segment: a `FactTree`. Safe to share between threads.

    `levels` and `facts`: the numbers of levels and facts of the segment; `name`: that of its index, for errors;
    `cache_bytes`: the bound of the cache; `read`: the reader of its rows, by default of packed ones. Methods that read
    rows raise CorruptIndexError, which names the row, if one is missing or damaged, and whatever `rows` raises.
    """

    def __init__(
        self,
        rows: RowSource,
        codec: RowCodec,
        codes: TokenCodes,
        *,
        levels: int,
        facts: int,
        name: str,
        cache_bytes: int = 256 << 20,
        read: ReadPiece = read_packed,
    ) -> None:
        self.facts, self._read = facts, read
        self._rows, self.codec, self.codes, self.name = rows, codec, codes, name
        self.root_key = row_key(levels - 1, [])
        self._cache: ByteCache[Node | Piece] = ByteCache(cache_bytes)
        self.hits = 0
        """How many prefixes and pieces were found in the cache, about: threads do not wait for each other to count."""

    def children(self, prefix: Sequence[int]) -> Children:
        """Return what may follow `prefix`; `OFF_TREE` if no fact starts with it."""
        key = tuple(prefix)
        node = self._cache.get(key)
        if node is None:
            node = self._walk(key)
            if node is None:
                return OFF_TREE
        else:
            self.hits += 1
        return node.children  # type: ignore[union-attr]  # tuples are keys of nodes, bytes of pieces

    def only_path(self, prefix: tuple[int, ...]) -> Tokens:
        """Return the tokens that follow a prefix as long as there is no alternative and no end: int32[n].

        It reads no row: the result is empty if the cache does not hold the prefix, and may be shorter than the path.
        """
        node = self._cache.get(prefix)
        if not isinstance(node, Node) or node.forks <= len(prefix):
            return NO_TOKENS
        return node.path[len(prefix) - node.base : node.forks - node.base]

    def piece(self, key: bytes) -> Piece:
        """Return the piece under a row key."""
        cached = self._cache.get(key)
        if isinstance(cached, Piece):
            self.hits += 1
            return cached
        row = self._rows.fetch(key)
        if row is None:
            raise self._missing(key)
        return self._unpacked(key, row)

    def load(self, keys: Sequence[bytes]) -> None:
        """Read the pieces under some keys into the cache in one round trip, without those that it holds already."""
        missing = [key for key in keys if self._cache.get(key) is None]
        for key, row in self._rows.fetch_many(missing).items() if missing else ():
            self._unpacked(key, row)

    def members(self, keys: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """Return the tuples in the rows under some keys, in one round trip and without the cache.

        Checksums and types are checked, the meaning of the members is not.
        """
        rows = self._rows.fetch_many(keys)
        for key in keys:
            if key not in rows:
                raise self._missing(key)
        return [self.codec.unpack(key, rows[key], self._where(key)) for key in keys]

    def _unpacked(self, key: bytes, row: Buffer) -> Piece:
        piece = self._read(self.codec, key, row, self._where(key))
        if key == self.root_key and piece.total() != self.facts:
            raise self.damaged(key, f"it counts {piece.total():,} facts, the catalogue {self.facts:,}")
        self._cache.put(key, piece)
        return piece

    def bound_cache(self, cache_bytes: int) -> None:
        """Change the bound of the cache, in bytes."""
        self._cache.limit = cache_bytes

    @property
    def cached_bytes(self) -> int:
        """Bytes of memory that the cache holds."""
        return self._cache.nbytes

    def _where(self, key: bytes) -> _RowName:
        return _RowName(self.name, key)

    def _missing(self, key: bytes) -> CorruptIndexError:
        return CorruptIndexError(f"{self._where(key)} is missing. Ingest the index again")

    def damaged(self, key: bytes, what: str) -> CorruptIndexError:
        """Return the error for a damaged row; `what` says what is wrong with it."""
        return CorruptIndexError(f"{self._where(key)} is damaged: {what}. Ingest the index again")

    def _walk(self, key: tuple[int, ...]) -> Node | None:
        """Return the node of a prefix, from its nearest ancestor in the cache; None if no fact starts with it."""
        depth = len(key)
        if depth > LONGEST_FACT:
            return None
        node = None
        while depth:  # the nearest ancestor in the cache: while decoding it is the parent
            depth -= 1
            node = self._cache.get(key[:depth])
            if node is not None:
                break
        if not isinstance(node, Node):
            root = self.piece(self.root_key)
            node = self._node(_EntryRange(self.root_key, root, 0, len(root)), ())
            depth = 0
        while depth < len(key):
            skipped = min(node.forks, len(key)) - 1
            if depth < skipped:  # on the only path: nobody needs the nodes between
                if node.path[depth - node.base : skipped - node.base].tolist() != list(key[depth:skipped]):
                    return None
                node, depth = node.on_path(skipped), skipped
            below = self._step(node, key[: depth + 1])
            if below is None:
                return None
            node, depth = below, depth + 1
        return node

    def _step(self, node: Node, prefix: tuple[int, ...]) -> Node | None:
        """Return the child of `node` at `prefix`, which is one token longer; None if there is none."""
        tokens, token = node.children.tokens, prefix[-1]
        if len(tokens) == 1:
            if tokens[0] != token:
                return None
            at, depth = 0, len(prefix)
            if depth < node.forks:  # on the only path: no piece is needed
                new = node.on_path(depth)
                self._cache.put(prefix, new)
                return new
        else:
            at = int(tokens.searchsorted(token))
            if at == len(tokens) or tokens[at] != token:
                return None
        low, high = int(node.bounds[at]), int(node.bounds[at + 1])
        piece = self.piece(node.piece_key)
        path = node.path if at == 0 else None
        return self._node(_EntryRange(node.piece_key, piece, low, high), prefix, path, node.base)

    def _node(self, entries: "_EntryRange", prefix: tuple[int, ...], path: Tokens | None = None, base: int = 0) -> Node:
        """Return the node of entries of a piece, or of the piece below that has them all; cache it.

        `path` and `base`: the suffix of entry `low` and the depth at which it begins, if they are known.
        """
        key, piece, low, high = entries
        depth = len(prefix)
        try:
            if path is None:
                path, base = self._path(key, piece, low)
            while piece.level and high - low == 1 and base + len(path) == depth and piece.kinds[low] != TERMINAL:
                key, piece, low, high = self._descend(key, piece, low, prefix)
                path, base = self._path(key, piece, low)
            terminal = 0
            if base + len(path) == depth:
                if piece.level and piece.kinds[low] != TERMINAL:
                    raise ValueError("two of its subtrees overlap")
                terminal, low = 1, low + 1
                if low < high:
                    path, base = self._path(key, piece, low)
            if low == high:
                below = Children(NO_TOKENS, NO_LEAVES, terminal)
                node = Node(below, key, np.array([low]), path=path, base=base, forks=0)
            else:
                first = path[depth - base : depth - base + 1]
                if not len(first):
                    raise ValueError("one of its entries ends too early")
                forks, bounds, tokens, leaves = piece.children_of(low, high, depth, first, self.codes)
                tokens.setflags(write=False)
                leaves.setflags(write=False)
                # The path ends with its entry: a fact may end there, or the walk continues in a lower piece.
                forks = min(forks, base + len(path))
                node = Node(Children(tokens, leaves, terminal), key, bounds, path=path, base=base, forks=forks)
        except (ValueError, IndexError) as error:
            raise self.damaged(key, str(error)) from error
        self._cache.put(prefix, node)
        return node

    def _path(self, key: bytes, piece: Piece, entry: int) -> tuple[Tokens, int]:
        """Return the suffix of an entry of the piece under `key`, and the depth at which it begins."""
        try:
            path = np.array(piece.suffix(entry, self.codes), np.int32)
        except ValueError as error:
            raise self.damaged(key, str(error)) from error
        path.setflags(write=False)
        return path, int(piece.lcp[entry])

    def _descend(self, key: bytes, piece: Piece, entry: int, prefix: tuple[int, ...]) -> "_EntryRange":
        """Return the key and the piece below that have the subtree of an entry, and the range of its entries there.

        Raises ValueError if the two pieces contradict each other.
        """
        begins, low = piece.lower_piece(entry)
        if begins is None:
            below_key = piece.carried_key
        else:
            below_key = row_key(piece.level - 1, piece.sequence(begins, self.codes, entry, prefix))
        if below_key[:1] != bytes([piece.level - 1]):
            raise ValueError("it refers to a row that is not of the level below")
        below = self.piece(below_key)
        high = low + int(piece.items[entry])
        leaves = int(piece.leaves[entry])
        shared = int(below.lcp[low]) if low < high <= len(below) else len(prefix)
        if (
            shared >= len(prefix)
            or leaves != (high - low if below.level == 0 else int(below.leaves[low:high].sum(dtype=np.int64)))
            or (high < len(below) and below.lcp[high] >= len(prefix))
            or below.lcp[low + 1 : high].min(initial=len(prefix)) < len(prefix)
            or tuple(self._path(below_key, below, low)[0][: len(prefix) - shared].tolist()) != prefix[shared:]
        ):
            raise ValueError(f"it contradicts {self._where(below_key)}")
        return _EntryRange(below_key, below, low, high)
