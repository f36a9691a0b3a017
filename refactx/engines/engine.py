"""The protocol of an engine: a language model and its key-value cache, as sequences of token ids that it has read.

Writing texts takes few operations: read ids after several sequences in one step, and trees of continuations with them;
fork a sequence; take back its last ids. Ids and logits are plain Python and numpy, so the code above this protocol does
not depend on the library that runs the model.

Sequences and trees have numbers, which are valid until they are dropped or closed. One thread at a time uses an engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
"""Logits over the vocabulary, float32[n, vocabulary] or float32[vocabulary]."""

IdPath = tuple[int, ...]
"""A path in a tree of continuations: the ids after a text."""


class TreeReading(IntEnum):
    """The ways in which an engine reads trees of continuations.

    NONE: not at all. ROWS: each path from its start, as a row of a batch; `Engine.keep` keeps nothing. SHARED: an id is
    read once for all paths that begin with it, and what was read can be kept.
    """

    NONE = 0
    ROWS = 1
    SHARED = 2


@dataclass(frozen=True, slots=True)
class Feed:
    """Ids for a sequence to read; `last`: after how many of the last ones logits are wanted, at least one.

    Raises ValueError if `last` is not among 1 to the number of ids.
    """

    ids: Sequence[int]
    last: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.last <= len(self.ids):
            raise ValueError(
                f"logits after the last {self.last} of {len(self.ids)} ids were asked for: give at least 1"
            )


@dataclass(frozen=True, slots=True)
class FeedTree:
    """Paths of a tree to read: the last id of each. Its other ids were read before, or a path before it reads them.

    `wanted`: the numbers (in `paths`) of those after which logits are wanted, at least one; None: all. A wanted path
    that was read before is read again.
    """

    tree: int
    paths: Sequence[IdPath]
    wanted: Sequence[int] | None = None

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the wanted paths."""
        return range(len(self.paths)) if self.wanted is None else self.wanted


class TreeLogits(NamedTuple):
    """The `numbers` of the wanted paths that a step read, and the logits after each of them, float32[n, vocabulary]."""

    numbers: Sequence[int]
    logits: Logits


class Engine(Protocol):
    """A language model that reads sequences."""

    @property
    def trees(self) -> TreeReading:
        """The way in which it reads trees."""
        ...

    @property
    def can_forget(self) -> bool:
        """Whether ids can be taken back: a sliding window may have dropped the ids before them."""
        ...

    @property
    def pads(self) -> bool:
        """Whether a step reads a rectangle, where sequences with fewer ids are padded: its time is by the longest."""
        ...

    @property
    def capacity(self) -> int | None:
        """The most ids that all sequences and trees together can hold, shared ones counted once; None: not known."""
        ...

    @property
    def most_texts(self) -> int | None:
        """The most texts that can be written at once, with trees of theirs; None: any number."""
        ...

    def prefill(self, ids: Sequence[int]) -> int:
        """Return a new sequence that has read `ids`. Raise ModelError if the model's sequences cannot be forked."""
        ...

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        """Read ids after sequences and paths of trees, in one forward pass if that is efficient.

        Returns the logits of each feed, float32[last, vocabulary], and of each tree those of at least one wanted path:
        a part, if reading all would take too much memory. For the others, ask again with the same paths; what was read
        is not read again. Raises ValueError if a sequence or a tree comes twice, ModelError if the `capacity` is
        exceeded.
        """
        ...

    def fork(self, sequence: int) -> int:
        """Return a new sequence that has read the same ids."""
        ...

    def forget(self, sequence: int, count: int) -> None:
        """Take back the last `count` ids of a sequence."""
        ...

    def drop(self, sequence: int) -> None:
        """Release a sequence that is not needed any more. Its trees are closed."""
        ...

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        """Open a tree of continuations of a sequence, which does not change before `keep` or `close`.

        `ahead`: the last ids that the sequence has read, which are not yet text: they become a path of the tree. A
        sequence may have several trees.
        """
        ...

    def keep(self, tree: int, path: IdPath) -> int:
        """Append `path` to the tree's sequence as far as it was read, and close the tree. Return how many ids were
        appended."""
        ...

    def close(self, tree: int) -> None:
        """Release a tree. Its sequence keeps what it has read, `ahead` included."""
        ...
