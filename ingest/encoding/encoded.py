"""Sorted facts as token sequences in the files of a folder: what encoding leaves, and the next step reads.

Either each fact is three units (`triples`, and `unit-tokens` with `unit-offsets.npy`), or it has all its tokens
(`fact-tokens`, `fact-offsets.npy`).
"""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.tree.arrays import Offsets, offsets_of, ragged
from refactx.tree.children import Tokens

from ..segment.levels import SortedFacts

TRIPLES, UNIT, FACT = "triples", "unit", "fact"
"""The names of the files."""


class EncodedFacts(SortedFacts, Protocol):
    """Sorted facts that know how many tokens they have in all (without terminators)."""

    def token_count(self) -> int:
        """Tokens of all facts."""
        ...


class UnitFacts:
    """Sorted facts as triples of units. `triples`: int32[n, 3], ascending; `unit_tokens`, `unit_offsets`: the units' ids."""

    def __init__(self, triples: NDArray[np.int32], unit_tokens: Tokens, unit_offsets: Offsets) -> None:
        self._triples, self._tokens, self._offsets = triples, unit_tokens, unit_offsets

    def __len__(self) -> int:
        return len(self._triples)

    def token_count(self) -> int:
        lengths = np.diff(self._offsets)
        step = 1_000_000
        return sum(int(lengths[self._triples[low : low + step]].sum()) for low in range(0, len(self), step))

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        units = np.array(self._triples[low:high]).ravel()
        starts = self._offsets[units]
        lengths = self._offsets[units + 1] - starts
        tokens = self._tokens[ragged(starts, lengths)]
        return tokens, offsets_of(lengths.reshape(-1, 3).sum(1))


class WholeFacts:
    """Sorted facts, each with all its tokens. `tokens`: int32; `offsets`: int64[n + 1]."""

    def __init__(self, tokens: Tokens, offsets: Offsets) -> None:
        self._tokens, self._offsets = tokens, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def token_count(self) -> int:
        return int(self._offsets[-1])

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        offsets = self._offsets[low : high + 1]
        return np.array(self._tokens[offsets[0] : offsets[-1]]), offsets - offsets[0]


def open_encoded(work: Path) -> EncodedFacts:
    """The facts in a folder."""
    if (work / TRIPLES).exists():
        return UnitFacts(np.memmap(work / TRIPLES, np.int32, "r").reshape(-1, 3), *open_sequences(work, UNIT))
    return WholeFacts(*open_sequences(work, FACT))


def write_sequences(work: Path, name: str, tokens: Tokens, offsets: Offsets) -> None:
    """Write sequences where `open_sequences` reads them."""
    tokens.astype(np.int32).tofile(work / f"{name}-tokens")
    np.save(work / f"{name}-offsets.npy", offsets)


def open_sequences(work: Path, name: str) -> tuple[Tokens, Offsets]:
    """Sequences in two files: their tokens, one after another, and where each begins."""
    return np.memmap(work / f"{name}-tokens", np.int32, "r"), np.load(work / f"{name}-offsets.npy")
