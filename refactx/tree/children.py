"""The fact tree: a prefix tree over token ids with exact leaf counts.

Everything that holds facts answers one question: which tokens may follow a prefix, and how many facts lie under each
(`FactTree.children`). Counts are additive and signed, so trees add up: segments count +1, retracted facts -1
(`SignedSum`), and the facts that a sequence has already written are taken off in the same way
(in `refactx.decoding.machine`). Whether a fact ends at a prefix is explicit (`terminal`), never guessed from "no children".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]
Counts = NDArray[np.int64]
Path = tuple[int, ...]
"""Token ids one after another, a way down the tree."""


@dataclass(frozen=True, slots=True, eq=False)
class Children:
    """What may follow a prefix.

    `tokens`: int32[n], ascending, the next token ids; `leaves`: int64[n], how many facts start with the prefix and
    that token; `terminal`: how many facts end exactly at the prefix. The arrays are read-only: they are shared.
    """

    tokens: Tokens
    leaves: Counts
    terminal: int = 0

    @property
    def total(self) -> int:
        """How many facts start with the prefix: `leaves.sum() + terminal`."""
        return int(self.leaves.sum()) + self.terminal

    def leaves_of(self, token: int) -> int:
        """How many facts start with the prefix and then `token`; 0 if none does."""
        position = int(self.tokens.searchsorted(token)) if len(self.tokens) > 1 else 0  # most have one
        if position < len(self.tokens) and self.tokens[position] == token:
            return int(self.leaves[position])
        return 0


NO_TOKENS: Tokens = np.empty(0, np.int32)
NO_LEAVES: Counts = np.empty(0, np.int64)
NO_TOKENS.setflags(write=False)
NO_LEAVES.setflags(write=False)
OFF_TREE = Children(NO_TOKENS, NO_LEAVES, 0)
"""The answer for a prefix with which no fact starts: its `total` is 0."""


class FactTree(Protocol):
    """Anything that knows which tokens may follow a prefix."""

    def children(self, prefix: Sequence[int]) -> Children:
        """The continuations of `prefix` (token ids); `OFF_TREE`-like (total 0) if no fact starts with it."""
        ...


class MemoryTree:
    """A tree of token sequences held in memory: for tests, and for graphs small enough not to need a database.

    A sequence given several times counts once, as in an index.

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
        key = tuple(prefix)
        below = sorted(self._counts.get(key, {}).items())
        return Children(
            np.array([token for token, _ in below], np.int32),
            np.array([leaves for _, leaves in below], np.int64),
            int(key in self._terminal),
        )

    def only_path(self, prefix: tuple[int, ...]) -> Tokens:
        """The next token, if there is no alternative: `refactx.tree.summed` asks how far there is none."""
        below = self.children(prefix)
        return below.tokens if len(below.tokens) == 1 and not below.terminal else NO_TOKENS


class SignedSum:
    """Several trees as one: `leaves(prefix) = sum of sign * leaves`, and only what stays positive is a continuation.

    >>> kept = SignedSum([(+1, MemoryTree([(1, 2), (1, 3)])), (-1, MemoryTree([(1, 3)]))])
    >>> kept.children([1]).tokens.tolist()
    [2]
    """

    def __init__(self, trees: Iterable[tuple[int, FactTree]]) -> None:
        self._trees = tuple(trees)

    def children(self, prefix: Sequence[int]) -> Children:
        return add([(sign, tree.children(prefix)) for sign, tree in self._trees])


_FEW = 24
"""So many tokens are added up one by one in less time than numpy takes to start (50 microseconds)."""


def add(parts: Sequence[tuple[int, Children]]) -> Children:
    """The signed sum of several answers for one prefix; tokens whose count is not positive drop out."""
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    terminal = max(0, sum(sign * c.terminal for sign, c in parts))
    if sum(len(c.tokens) for _, c in parts) <= _FEW:
        return _add_few(parts, terminal)
    tokens = np.concatenate([c.tokens for _, c in parts])
    order = tokens.argsort(kind="stable")
    tokens = tokens[order]
    first = np.flatnonzero(np.append(True, tokens[1:] != tokens[:-1]))
    leaves = np.add.reduceat(np.concatenate([sign * c.leaves for sign, c in parts])[order], first)
    kept = leaves > 0
    return Children(tokens[first[kept]], leaves[kept], terminal)


def _add_few(parts: Sequence[tuple[int, Children]], terminal: int) -> Children:
    counts: dict[int, int] = {}
    for sign, children in parts:
        for token, leaves in zip(children.tokens.tolist(), children.leaves.tolist(), strict=True):
            counts[token] = counts.get(token, 0) + sign * leaves
    kept = sorted((token, leaves) for token, leaves in counts.items() if leaves > 0)
    return Children(
        np.array([token for token, _ in kept], np.int32), np.array([leaves for _, leaves in kept], np.int64), terminal
    )
