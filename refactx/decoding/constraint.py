"""The protocol of a grammar that constrains decoding: states of sequences, and the token ids that may follow each.

Decoding loops, logits processors and engine adapters need nothing else of a grammar. `refactx.decoding.machine` is the
grammar of facts. A state is a pure function of the ids of a sequence, so beams, batches and draft tokens work: a loop
stores the state with the ids, and takes back both together.
"""

from collections.abc import Container, Sequence
from typing import Protocol, TypeVar

from refactx.tree.children import Tokens

S = TypeVar("S")


class Constraint(Protocol[S]):
    """A grammar whose states are of type `S`, immutable values."""

    def start(self, prompt: Sequence[int], padding: Container[int] | None = None) -> S:
        """Return the state after a prompt. `padding`: the ids that may pad it, by default any special token."""
        ...

    def advance(self, state: S, token: int, position: int) -> S:
        """Return the state after one more token, at `position` in the sequence."""
        ...

    def allowed(self, state: S) -> Tokens | None:
        """Return the ids that may come next (the token bitmask, as a list): int32[n], ascending; None if any may."""
        ...

    def forced(self, state: S) -> int | None:
        """Return the id that has to come next, if exactly one may (a fast-forward token); else None."""
        ...

    def is_free(self, state: S) -> bool:
        """Return whether any id may come next, so that the logits need no mask."""
        ...
