"""A node of the tree: a prefix's place in a piece, from which a walk continues with the next token."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.tree.children import Children, Tokens


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
