"""Sorted facts as token sequences in the files of a folder, which encoding writes and the next step reads.

A fact is either three units (in `triples`, with `unit-tokens` and `unit-offsets.npy`), or has all its tokens
(`fact-tokens`, `fact-offsets.npy`).
"""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.tree.arrays import Offsets, offsets_of, ragged
from refactx.tree.children import Tokens

TRIPLES, UNIT, FACT = "triples", "unit", "fact"
"""The names of the files."""


class SortedFacts(Protocol):
    """Distinct token sequences in ascending order. Those in files are pickled as the paths of these."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        """Return sequences low to high - 1: tokens (int32) and offsets (int64[high - low + 1])."""
        ...


class EncodedFacts(SortedFacts, Protocol):
    """Sorted facts with a count of all their tokens."""

    def token_count(self) -> int:
        """Return the number of tokens of all facts, without terminators."""
        ...


class UnitFacts:
    """Sorted facts as triples of units.

    `triples`: int32[n, 3], ascending. `unit_tokens` (int32), `unit_offsets` (int64[units + 1]): the ids of the units.
    """

    def __init__(self, triples: NDArray[np.int32], unit_tokens: Tokens, unit_offsets: Offsets) -> None:
        self._triples, self._tokens, self._offsets = triples, unit_tokens, unit_offsets

    def __len__(self) -> int:
        return len(self._triples)

    def token_count(self) -> int:
        lengths = np.diff(self._offsets)
        step = 1_000_000
        return sum(int(lengths[self._triples[low : low + step]].sum()) for low in range(0, len(self), step))

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (UnitFacts, _place(self._triples), _place(self._tokens), _place(self._offsets))

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

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (WholeFacts, _place(self._tokens), _place(self._offsets))

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        offsets = self._offsets[low : high + 1]
        return np.array(self._tokens[offsets[0] : offsets[-1]]), offsets - offsets[0]


def open_encoded(work: Path) -> EncodedFacts:
    """Open the facts in a folder."""
    if (work / TRIPLES).exists():
        return UnitFacts(np.memmap(work / TRIPLES, np.int32, "r").reshape(-1, 3), *open_sequences(work, UNIT))
    return WholeFacts(*open_sequences(work, FACT))


def write_sequences(work: Path, name: str, tokens: Tokens, offsets: Offsets) -> None:
    """Write sequences to the files that `open_sequences` reads."""
    tokens.astype(np.int32).tofile(work / f"{name}-tokens")
    np.save(work / f"{name}-offsets.npy", offsets)


def open_sequences(work: Path, name: str) -> tuple[Tokens, Offsets]:
    """Open the sequences in two files: their tokens, one after another, and the offset at which each begins."""
    return np.memmap(work / f"{name}-tokens", np.int32, "r"), np.load(work / f"{name}-offsets.npy", mmap_mode="r")


class SpilledFacts:
    """A writer of ascending, distinct sequences to files in `folder`, which must live as long as `finish`'s result."""

    def __init__(self, folder: Path) -> None:
        self._paths = folder / "chosen-tokens", folder / "chosen-offsets"
        self._tokens, self._offsets = (path.open("wb") for path in self._paths)
        self._end = 0
        self._offsets.write(bytes(8))

    def append(self, tokens: Tokens, offsets: Offsets) -> None:
        """Add sequences, given as tokens and offsets, after those that are there."""
        ends = offsets[1:] - offsets[0] + self._end
        self._tokens.write(tokens[offsets[0] : offsets[-1]].astype(np.int32).tobytes())
        self._offsets.write(ends.astype(np.int64).tobytes())
        if len(ends):
            self._end = int(ends[-1])

    def finish(self) -> WholeFacts:
        """Return all that was appended, as memory maps."""
        self._tokens.close()
        self._offsets.close()
        tokens, offsets = self._paths
        none: Tokens = np.empty(0, np.int32)
        return WholeFacts(np.memmap(tokens, np.int32, "r") if self._end else none, np.memmap(offsets, np.int64, "r"))


class _Place(NamedTuple):
    """Where an array stands in a file."""

    path: str
    dtype: str
    start: int
    shape: tuple[int, ...]


def _place(array: NDArray[Any]) -> _Place | NDArray[Any]:
    """Return where a mapped array stands; an array in memory as it is."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return array
    return _Place(str(array.filename), array.dtype.str, array.offset, array.shape)


def _opened(kind: type[Any], *places: _Place | NDArray[Any]) -> Any:
    """Return facts of a kind over mapped arrays."""
    arrays = (
        np.memmap(one.path, one.dtype, "r", one.start, one.shape) if isinstance(one, _Place) else one for one in places
    )
    return kind(*arrays)
