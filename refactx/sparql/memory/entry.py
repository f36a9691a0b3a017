"""The entries of a memory, and the protocols of a memory and of an encoder."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.fact import clean_part
from refactx.query.pgmr import Mention
from refactx.query.pgmr.index_names import full_name
from refactx.sparql.memory.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a memory: the id of its entity or property (`Q42`, `P569`), a label or (`is_alias`) an alias of it, and
    its description, which may be empty."""

    id: str
    label: str
    description: str = ""
    is_alias: bool = False

    @property
    def text(self) -> str:
        """The label with the description, as an encoder reads it.

        >>> Entry("Q1588", "Louisiana", "state of the United States of America").text
        'Louisiana (state of the United States of America)'
        """
        return full_name(self.label, self.description)


@dataclass(frozen=True, slots=True)
class Near:
    """An entry, and how similar it is to a mention: at most 1, which means equal."""

    entry: Entry
    similarity: float


class Memory(Protocol):
    """The names of an index, by which mentions are resolved. Methods raise as `refactx.Index.children` does."""

    @property
    def thresholds(self) -> Thresholds:
        """The least similarity of what a mention is resolved to, by kind."""
        ...

    def exact(self, mentions: Sequence[Mention]) -> Sequence[Sequence[Entry]]:
        """Return the entries of each mention's kind that have its label, without regard to case."""
        ...

    def nearest(self, mentions: Sequence[Mention], count: int) -> Sequence[Sequence[Near]]:
        """Return the entries of each mention's kind that are most similar to it, each entity or property once: at most
        `count`, the nearest first."""
        ...

    def similarities(self, mention: Mention, entries: Sequence[Entry]) -> Sequence[float]:
        """Return how similar entries are to a mention, by labels and descriptions."""
        ...


class Encoder(Protocol):
    """A model that encodes texts as embeddings, of which similar texts have similar ones.

    `name`: what the user calls it; `width`: the numbers of an embedding; `fingerprint`: a text that is equal only for
    encoders with the same embeddings.
    """

    @property
    def name(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, width], each of length 1."""
        ...


def fold(text: str) -> str:
    """Return a text that is equal for labels which differ in case or white space alone.

    >>> fold("Straße  in Rom") == fold("STRASSE IN ROM")
    True
    """
    return clean_part(text).casefold()


def folded_hash(text: str) -> int:
    """Return a hash of `fold(text)`, an int64 that does not change from one process to another.

    >>> folded_hash("JFK") == folded_hash("jfk"), -(2**63) <= folded_hash("JFK") < 2**63
    (True, True)
    """
    digest = hashlib.blake2b(fold(text).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def mention_text(mention: Mention) -> str:
    """Return a mention as an encoder reads it."""
    return full_name(mention.label, mention.description)
