"""The signed sum of several segments, added up once a prefix: what `refactx.tree.SignedSum` gives, as fast as one segment.

Sums are kept by their prefix, bounded in bytes, so a warm walk is one dictionary look-up a token. With each sum it is kept
which segments go on below it: few prefixes are in more than one, so a walk soon reads one segment alone.
"""

from collections.abc import Sequence

from refactx.byte_cache import ByteCache
from refactx.tree import OFF_TREE, Children, FactTree, add

SignedTrees = tuple[tuple[int, FactTree], ...]


class _Sum:
    """The sum at a prefix, and the trees that have something below it."""

    __slots__ = ("children", "live", "nbytes")

    def __init__(self, children: Children, live: SignedTrees) -> None:
        self.children, self.live = children, live
        self.nbytes = 500 + 12 * len(children.tokens)


class SummedTree:
    """Several trees as one. Safe to share between threads, if they are.

    >>> from refactx.tree import MemoryTree
    >>> kept = SummedTree([(+1, MemoryTree([(1, 2), (1, 3)])), (-1, MemoryTree([(1, 3)]))])
    >>> kept.children([1]).tokens.tolist()
    [2]
    """

    def __init__(self, trees: Sequence[tuple[int, FactTree]], cache_bytes: int = 64 << 20) -> None:
        self._trees: SignedTrees = tuple(trees)
        self._cache: ByteCache[_Sum] = ByteCache(cache_bytes)

    def children(self, prefix: Sequence[int]) -> Children:
        """What may follow `prefix` in the sum; `OFF_TREE` if nothing does."""
        key = tuple(prefix)
        node = self._cache.get(key)
        return self._add_up(key) if node is None else node.children

    def _add_up(self, key: tuple[int, ...]) -> Children:
        live, depth = self._trees, len(key)
        while depth:  # the nearest ancestor that is still known: while decoding it is the parent
            depth -= 1
            above = self._cache.get(key[:depth])
            if above is not None:
                live = above.live
                break
        if len(live) == 1 and live[0][0] > 0:  # from here on one segment: what most of a walk is
            children = live[0][1].children(key)
            if len(children.tokens) or children.terminal:
                self._cache.put(key, _Sum(children, live))
            return children
        parts = [(sign, tree, tree.children(key)) for sign, tree in live]
        parts = [part for part in parts if len(part[2].tokens) or part[2].terminal]
        if not parts:
            return OFF_TREE
        total = add([(sign, children) for sign, _, children in parts])
        self._cache.put(key, _Sum(total, tuple((sign, tree) for sign, tree, children in parts if len(children.tokens))))
        return total
