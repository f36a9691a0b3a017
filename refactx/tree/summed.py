"""The signed sum of several segments with a cache: the results of `refactx.tree.children.SignedSum`, as fast as one
segment.

The cache, with a bound in bytes, holds sums by prefix, so that a warm walk takes one dictionary lookup a token. A sum
also records which segments have facts below it: few prefixes are in more than one, so a walk soon reads one segment
alone. And it records the tokens with which all of these continue without an alternative: the sum does not change along
them, and no segment is read.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from refactx.tree.cache import ByteCache
from refactx.tree.children import NO_TOKENS, OFF_TREE, Children, FactTree, Tokens, add


class PathTree(FactTree, Protocol):
    """A tree that knows for how many tokens there is no alternative."""

    def only_path(self, prefix: tuple[int, ...]) -> Tokens:
        """Return the tokens that follow a prefix as long as there is no alternative and no end: int32[n].

        Call `children` for the prefix before. The result may be shorter than the path.
        """
        ...


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

    >>> from refactx.tree.children import MemoryTree
    >>> kept = SummedTree([(+1, MemoryTree([(1, 2), (1, 3)])), (-1, MemoryTree([(1, 3)]))])
    >>> kept.children([1]).tokens.tolist()
    [2]
    """

    def __init__(self, trees: Sequence[tuple[int, PathTree]], cache_bytes: int = 64 << 20) -> None:
        self._trees: SignedTrees = tuple(trees)
        self._cache: ByteCache[_Sum] = ByteCache(cache_bytes)

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix` in the sum; `OFF_TREE` if no fact starts with it."""
        key = tuple(prefix)
        node = self._cache.get(key)
        return self._add_up(key) if node is None else node.children

    def _add_up(self, key: tuple[int, ...]) -> Children:
        """Return the sum at a prefix that is not in the cache, and cache it."""
        live, depth = self._trees, len(key)
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
