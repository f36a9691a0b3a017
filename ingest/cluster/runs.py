"""A run of neighbouring facts in one task: entries of level 0 that are read as they are needed, and given up behind."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from refactx.ingest.encoding.words import from_keys
from refactx.ingest.segment.levels import EntryBatch
from refactx.tree.arrays import Offsets, offsets_of
from refactx.tree.children import Tokens

_ENDLESS = 1 << 60
"""The length of a run, for what reads it: the level of facts does not end with a run."""


class RunTooShortError(Exception):
    """More of a run was to be read than there is."""


class Run:
    """The facts of a run, from position `start` on; `batches` are their keys (`refactx.ingest.encoding.words.as_keys`)."""

    def __init__(self, start: int, batches: Iterator[pa.Array]) -> None:
        self.start = self._low = self.end = start
        self._batches = batches
        self._tokens: Tokens = np.empty(0, np.int32)
        self._offsets: Offsets = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return _ENDLESS

    def reaches(self, high: int) -> bool:
        """Return whether the run has facts up to high - 1, after reading as far."""
        tokens, lengths = [self._tokens], [np.diff(self._offsets)]
        while self.end < high and (keys := next(self._batches, None)) is not None:
            more, offsets = from_keys(keys)
            tokens.append(more)
            lengths.append(np.diff(offsets))
            self.end += len(keys)
        if len(tokens) > 1:
            self._tokens, self._offsets = np.concatenate(tokens), offsets_of(np.concatenate(lengths))
        return self.end >= high

    def facts(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        """Return the ids and offsets of facts low to high - 1, which must be held."""
        if low < self._low:
            raise ValueError(f"facts before {self._low:,} are not held, and {low:,} was asked for")
        offsets = self._offsets[low - self._low : high - self._low + 1]
        return self._tokens[offsets[0] : offsets[-1]], offsets - offsets[0]

    def read(self, low: int, high: int) -> EntryBatch:
        """Return facts as entries of level 0. Raises RunTooShortError if the run ends before."""
        if not self.reaches(high):
            raise RunTooShortError
        tokens, offsets = self.facts(low, high)
        ones = np.ones(high - low, np.int64)
        return EntryBatch(tokens=tokens, offsets=offsets, kinds=np.zeros(high - low, np.uint8), leaves=ones, items=ones)

    def forget(self, low: int) -> None:
        """Give up the facts before `low`."""
        self._tokens, self._offsets = self.facts(low, self.end)
        self._low = low
