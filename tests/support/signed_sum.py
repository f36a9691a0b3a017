"""Several trees as one, without a cache: to compare others with."""

from collections.abc import Iterable, Sequence

from refactx.tree.tree import Children, FactTree, add


class SignedSum:
    """Several trees as one: each count is the sum of `sign * count`, and tokens with a positive sum are continuations.

    >>> from refactx.tree.tree import MemoryTree
    >>> kept = SignedSum([(+1, MemoryTree([(1, 2), (1, 3)])), (-1, MemoryTree([(1, 3)]))])
    >>> kept.children([1]).tokens.tolist()
    [2]
    """

    def __init__(self, trees: Iterable[tuple[int, FactTree]]) -> None:
        self._trees = tuple(trees)

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix` in the sum."""
        return add([(sign, tree.children(prefix)) for sign, tree in self._trees])
