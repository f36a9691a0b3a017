"""The fact tree: a prefix tree over token ids with exact leaf counts, in memory or as the signed sum of segments.

Everything that holds facts answers one question: which tokens may follow a prefix, and how many facts does each lead
to (`FactTree.children`)? Counts are additive and signed, so trees can be summed: added facts count +1, retracted facts
-1, and the facts that a sequence already contains are subtracted in the same way (`refactx.decoding.machine`). Whether
a fact ends at a prefix is explicit (`terminal`), not derived from "no children".

`SummedTree` is the sum of several segments with a cache, as fast as one segment. The cache, with a bound in bytes, holds
sums by prefix, so that a warm walk takes one dictionary lookup a token. A sum also records which segments have facts
below it: few prefixes are in more than one, so a walk soon reads one segment alone. And it records the tokens with which
all of these continue without an alternative: the sum does not change along them, and no segment is read.
"""

import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]
Counts = NDArray[np.int64]
Path = tuple[int, ...]
"""Token ids one after another: a path down the tree."""

NO_TOKENS: Tokens = np.empty(0, np.int32)
NO_LEAVES: Counts = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Children:
    """The continuations of a prefix.

    `tokens`: int32[n], the next token ids, ascending; `leaves`: int64[n], how many facts start with the prefix and
    that token; `terminal`: how many facts end exactly at the prefix. Do not write to the arrays: they are shared.

    >>> below = Children(np.array([1, 3], np.int32), np.array([2, 1]))
    >>> below.total, below.leaves_of(1), below.leaves_of(2)
    (3, 2, 0)
    """

    tokens: Tokens
    leaves: Counts
    terminal: int = 0

    @property
    def total(self) -> int:
        """The number of facts that start with the prefix: `leaves.sum() + terminal`."""
        return int(self.leaves.sum()) + self.terminal

    def leaves_of(self, token: int) -> int:
        """Return how many facts start with the prefix and `token`; 0 if none does."""
        position = int(self.tokens.searchsorted(token)) if len(self.tokens) > 1 else 0  # most prefixes have one child
        if position < len(self.tokens) and self.tokens[position] == token:
            return int(self.leaves[position])
        return 0


NO_TOKENS.setflags(write=False)
NO_LEAVES.setflags(write=False)
OFF_TREE = Children(NO_TOKENS, NO_LEAVES, 0)
"""The children of a prefix with which no fact starts: `total` is 0."""


class FactTree(Protocol):
    """Anything that can say which tokens may follow a prefix."""

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix` (token ids). If no fact starts with it, their `total` is 0."""


class MemoryTree:
    """A tree of token sequences in memory: for tests, and for graphs that are too small to need a database.

    A sequence that is given several times counts once, as in an index.

    >>> tree = MemoryTree([(5, 1), (5, 1, 2), (5, 3)])
    >>> below = tree.children([5])
    >>> below.tokens.tolist(), below.leaves.tolist(), below.terminal
    ([1, 3], [2, 1], 0)
    >>> tree.children([5, 1]).terminal
    1
    """

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        counts: dict[tuple[int, ...], dict[int, int]] = {}
        self._terminal = {tuple(sequence) for sequence in sequences}
        for sequence in self._terminal:
            for depth, token in enumerate(sequence):
                below = counts.setdefault(sequence[:depth], {})
                below[token] = below.get(token, 0) + 1
        self._counts = counts

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix`."""
        key = tuple(prefix)
        below = sorted(self._counts.get(key, {}).items())
        return Children(
            np.array([token for token, _ in below], np.int32),
            np.array([leaves for _, leaves in below], np.int64),
            int(key in self._terminal),
        )

    def only_path(self, prefix: tuple[int, ...]) -> Tokens:
        """Return the next token if there is no alternative (`refactx.tree.tree.PathTree`): int32[1] or int32[0]."""
        below = self.children(prefix)
        return below.tokens if len(below.tokens) == 1 and not below.terminal else NO_TOKENS


def add(parts: Sequence[tuple[int, Children]]) -> Children:
    """Return the signed sum of several trees' children of one prefix, without tokens whose sum is not positive."""
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    terminal = max(0, sum(sign * c.terminal for sign, c in parts))
    tokens = np.concatenate([c.tokens for _, c in parts])
    if not len(tokens):
        return Children(NO_TOKENS, NO_LEAVES, terminal)
    order = tokens.argsort(kind="stable")
    tokens = tokens[order]
    first = np.flatnonzero(np.append(True, tokens[1:] != tokens[:-1]))
    leaves = np.add.reduceat(np.concatenate([sign * c.leaves for sign, c in parts])[order], first)
    kept = leaves > 0
    return Children(tokens[first[kept]], leaves[kept], terminal)


class Sized(Protocol):
    """A value that a cache can hold."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the value takes."""


Value = TypeVar("Value", bound=Sized)


class ByteCache(Generic[Value]):
    """A cache of at most `limit` bytes in two generations, an approximation of least recently used.

    An entry of the old generation moves to the young one when it is read. When the young one has half of `limit`
    bytes, it becomes the old one, and the entries that are left in the old one are dropped. Reading a young entry is
    one dictionary lookup without a lock. If `limit` is set, the next `put` uses it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._young: dict[Hashable, Value] = {}
        self._old: dict[Hashable, Value] = {}
        self._young_bytes = self._old_bytes = 0

    def get(self, key: Hashable) -> Value | None:
        """Return the value under a key, or None."""
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: Hashable, value: Value) -> None:
        """Store a value, unless it would take more than half of the cache by itself."""
        size = value.nbytes
        if 2 * size > self.limit:
            return
        with self._lock:
            if key in self._young:
                return
            if 2 * (self._young_bytes + size) > self.limit:
                self._old, self._old_bytes = self._young, self._young_bytes
                self._young, self._young_bytes = {}, 0
            self._young[key] = value
            self._young_bytes += size

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._young, self._old = {}, {}
            self._young_bytes = self._old_bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the values take (an entry that moved counts in both generations)."""
        return self._young_bytes + self._old_bytes


class PathTree(FactTree, Protocol):
    """A tree that knows for how many tokens there is no alternative."""

    def only_path(self, prefix: tuple[int, ...]) -> Tokens:
        """Return the tokens that follow a prefix as long as there is no alternative and no end: int32[n].

        Call `children` for the prefix before. The result may be shorter than the path.
        """


SignedTrees = tuple[tuple[int, PathTree], ...]


class _Sum:
    """The sum at a prefix. `live`: the trees that have facts below it; `path`: the tokens with which all of these
    continue from depth `base` (at most that of the prefix) without an alternative."""

    __slots__ = ("base", "children", "live", "nbytes", "path")

    def __init__(self, children: Children, live: SignedTrees, path: Tokens, base: int) -> None:
        self.children, self.live, self.path, self.base = children, live, path, base
        self.nbytes = 600 + 12 * len(children.tokens)


class SummedTree:
    """Several trees as one, with a cache of sums. Safe to share between threads if the trees are.

    >>> from refactx.tree.tree import MemoryTree
    >>> kept = SummedTree([(+1, MemoryTree([(1, 2), (1, 3)])), (-1, MemoryTree([(1, 3)]))])
    >>> kept.children([1]).tokens.tolist()
    [2]
    """

    def __init__(self, trees: Sequence[tuple[int, PathTree]], cache_bytes: int = 64 << 20) -> None:
        self.trees: SignedTrees = tuple(trees)
        self._cache: ByteCache[_Sum] = ByteCache(cache_bytes)

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix` in the sum; `OFF_TREE` if no fact starts with it."""
        key = tuple(prefix)
        node = self._cache.get(key)
        return self._add_up(key) if node is None else node.children

    def only_path(self, prefix: tuple[int, ...]) -> Tokens:
        """Return the tokens that follow a prefix as long as there is no alternative and no end: int32[n].

        It reads no tree: the result is empty if the cache does not hold the sum.
        """
        node = self._cache.get(prefix)
        return NO_TOKENS if node is None else node.path[len(prefix) - node.base :]

    def not_cached(self, prefixes: Iterable[Path]) -> list[Path]:
        """Return the prefixes whose sums are not in the cache."""
        return [prefix for prefix in prefixes if self._cache.get(prefix) is None]

    def _add_up(self, key: tuple[int, ...]) -> Children:
        """Return the sum at a prefix that is not in the cache, and cache it."""
        live, depth = self.trees, len(key)
        while depth:  # the nearest ancestor in the cache: while decoding it is the parent
            depth -= 1
            above = self._cache.get(key[:depth])
            if above is not None:
                live = above.live
                position = len(key) - above.base
                if depth + 1 == len(key) and position < len(above.path):
                    if above.path[position - 1] != key[-1]:
                        return OFF_TREE
                    on_path = Children(above.path[position : position + 1], above.children.leaves, 0)
                    self._cache.put(key, _Sum(on_path, live, above.path, above.base))
                    return on_path
                break
        if len(live) == 1 and live[0][0] > 0:  # one segment alone has facts below: most steps of a walk
            children = live[0][1].children(key)
            if len(children.tokens) or children.terminal:
                self._cache.put(key, _Sum(children, live, live[0][1].only_path(key), len(key)))
            return children
        parts = [(sign, tree, tree.children(key)) for sign, tree in live]
        parts = [part for part in parts if len(part[2].tokens) or part[2].terminal]
        if not parts:
            self._cache.put(key, _Sum(OFF_TREE, (), NO_TOKENS, len(key)))
            return OFF_TREE
        total = add([(sign, children) for sign, _, children in parts])
        live = tuple((sign, tree) for sign, tree, children in parts if len(children.tokens))
        path = _common_path(key, live) if len(total.tokens) == 1 and not total.terminal else NO_TOKENS
        self._cache.put(key, _Sum(total, live, path, len(key)))
        return total


def _common_path(key: tuple[int, ...], trees: SignedTrees) -> Tokens:
    """Return the tokens with which all trees continue, as long as there is no alternative."""
    path = trees[0][1].only_path(key)
    for _, tree in trees[1:]:
        if not len(path):
            break
        other = tree.only_path(key)
        shared = min(len(path), len(other))
        differ = np.flatnonzero(path[:shared] != other[:shared])
        path = path[: differ[0]] if len(differ) else path[:shared]
    return path
