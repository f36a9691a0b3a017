"""The protocol of an engine: a language model and its key-value caches, as sequences of token ids that it has read.

Choosing facts takes few operations: read ids after a sequence and return the logits after some of them, for several
sequences in one step; fork a sequence; take back its last ids; read a tree of continuations. Ids and logits are plain
Python and numpy, so the code above this protocol does not depend on the library that runs the model.

A sequence has a number, which is valid until it is dropped. One thread at a time may feed an engine. Several threads may
fork a sequence that does not change, read trees of their own forks, and drop these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
"""Logits over the vocabulary, float32[n, vocabulary] or float32[vocabulary]."""

IdPath = tuple[int, ...]
"""A path in a tree of continuations: the ids after a text."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Ids for a sequence to read; `last`: after how many of the last ones logits are wanted, at least one.

    Raises ValueError if `last` is not among 1 to the number of ids.
    """

    sequence: int
    ids: Sequence[int]
    last: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.last <= len(self.ids):
            raise ValueError(
                f"logits after the last {self.last} of {len(self.ids)} ids were asked for: give at least 1"
            )


class TokenTree(Protocol):
    """Continuations of one sequence, read as a tree (tree attention): an id is read once for all that continue it.

    The sequence does not change before `keep`.
    """

    @property
    def is_incremental(self) -> bool:
        """Whether a path that continues one that was read takes only its new ids; else it is read from its start."""
        ...

    def __contains__(self, path: IdPath) -> bool:
        """Return whether `path` can be continued by `read`: it was read, or need not be."""
        ...

    def read(self, paths: Sequence[IdPath], wanted: Sequence[int] | None = None) -> Iterator[tuple[list[int], Logits]]:
        """Read the last id of each path, in as few forward passes as is efficient.

        The other ids of a path were read before, or a path before it in `paths` reads them. Yields for each pass the
        numbers of the paths that it read, of those `wanted` (numbers in `paths`; None: all), and the logits after each
        of them, float32[n, vocabulary].
        """
        ...

    def keep(self, path: IdPath) -> int:
        """Append `path` to the sequence as far as it was read, and drop the rest of the tree. Return how many ids were
        appended."""
        ...


class Engine(Protocol):
    """A language model that reads sequences."""

    def prefill(self, ids: Sequence[int]) -> int:
        """Return a new sequence that has read `ids`. Raise ModelError if the model's sequences cannot be forked."""
        ...

    @property
    def can_forget(self) -> bool:
        """Whether ids can be taken back: a sliding window may have dropped the ids before them."""
        ...

    def feed(self, feeds: Sequence[Feed]) -> list[Logits]:
        """Read ids in one step. Return the logits of each feed, float32[last, vocabulary].

        Raises ValueError if a sequence comes twice.
        """
        ...

    def fork(self, sequence: int) -> int:
        """Return a new sequence that has read the same ids."""
        ...

    def forget(self, sequence: int, count: int) -> None:
        """Take back the last `count` ids of a sequence."""
        ...

    def drop(self, sequence: int) -> None:
        """Release a sequence that is not needed any more."""
        ...

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> TokenTree:
        """Return the tree of continuations of a sequence. `ahead`: the last ids that it has read, which are not yet
        text: they become a path of the tree."""
        ...
