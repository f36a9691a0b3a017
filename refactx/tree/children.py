"""The fact tree: a prefix tree over token ids with exact leaf counts.

Everything that holds facts answers one question: which tokens may follow a prefix, and how many facts does each lead
to (`FactTree.children`)? Counts are additive and signed, so trees can be summed: added facts count +1, retracted facts
-1 (`SignedSum`), and the facts that a sequence already contains are subtracted in the same way
(`refactx.decoding.states`). Whether a fact ends at a prefix is explicit (`terminal`), not derived from "no children".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]
Counts = NDArray[np.int64]
Path = tuple[int, ...]
"""Token ids one after another: a path down the tree."""


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


NO_TOKENS: Tokens = np.empty(0, np.int32)
NO_LEAVES: Counts = np.empty(0, np.int64)
NO_TOKENS.setflags(write=False)
NO_LEAVES.setflags(write=False)
OFF_TREE = Children(NO_TOKENS, NO_LEAVES, 0)
"""The children of a prefix with which no fact starts: `total` is 0."""


class FactTree(Protocol):
    """Anything that can say which tokens may follow a prefix."""

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix` (token ids). If no fact starts with it, their `total` is 0."""
        ...


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
        """Return the next token if there is no alternative (`refactx.tree.summed.PathTree`): int32[1] or int32[0]."""
        below = self.children(prefix)
        return below.tokens if len(below.tokens) == 1 and not below.terminal else NO_TOKENS


class SignedSum:
    """Several trees as one: each count is the sum of `sign * count`, and tokens with a positive sum are continuations.

    >>> kept = SignedSum([(+1, MemoryTree([(1, 2), (1, 3)])), (-1, MemoryTree([(1, 3)]))])
    >>> kept.children([1]).tokens.tolist()
    [2]
    """

    def __init__(self, trees: Iterable[tuple[int, FactTree]]) -> None:
        self._trees = tuple(trees)

    def children(self, prefix: Sequence[int]) -> Children:
        """Return the continuations of `prefix` in the sum."""
        return add([(sign, tree.children(prefix)) for sign, tree in self._trees])


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
