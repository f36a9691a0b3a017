"""The entries of one level of the tree, read in batches: the facts themselves, or prefixes spilled to disk.

A level of Wikidata's tree does not fit into memory, so entries above the facts are appended to plain files of numpy
arrays in the work folder and read back through memory maps.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.ingest.encoding.encoded import SortedFacts
from refactx.tree.arrays import Offsets, offsets_of
from refactx.tree.children import Tokens


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EntryBatch:
    """n neighbouring entries.

    `tokens`: int32; `offsets`: int64[n + 1]. `kinds`: uint8[n], see `refactx.tree.piece`. `leaves`: int64[n], how many
    facts are below each; `items`: int64[n], how many entries of the next lower level.
    """

    tokens: Tokens
    offsets: Offsets
    kinds: NDArray[np.uint8]
    leaves: NDArray[np.int64]
    items: NDArray[np.int64]


class Entries(Protocol):
    """The sorted entries of a level."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def read(self, low: int, high: int) -> EntryBatch:
        """Return entries low to high - 1."""
        ...


@dataclass(frozen=True, slots=True)
class FactEntries:
    """Level 0: each fact is an entry with one leaf."""

    facts: SortedFacts

    def __len__(self) -> int:
        return len(self.facts)

    def read(self, low: int, high: int) -> EntryBatch:
        tokens, offsets = self.facts.read_tokens(low, high)
        ones = np.ones(high - low, np.int64)
        return EntryBatch(tokens=tokens, offsets=offsets, kinds=np.zeros(high - low, np.uint8), leaves=ones, items=ones)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Lifted:
    """n entries of the level above, in memory. `lengths`: int64[n]; the rest as in `EntryBatch`."""

    tokens: Tokens
    lengths: Offsets
    kinds: NDArray[np.uint8]
    leaves: NDArray[np.int64]
    items: NDArray[np.int64]

    def part(self, low: int, high: int) -> "Lifted":
        """Return entries low to high - 1."""
        ends = offsets_of(self.lengths)
        return Lifted(
            tokens=self.tokens[ends[low] : ends[high]],
            lengths=self.lengths[low:high],
            kinds=self.kinds[low:high],
            leaves=self.leaves[low:high],
            items=self.items[low:high],
        )


class LiftedTo(Protocol):
    """What takes the entries of the level above the one that is cut."""

    def append(self, lifted: Lifted) -> None:
        """Add entries after those that are there."""
        ...


class CollectedEntries:
    """A `LiftedTo` in memory."""

    def __init__(self) -> None:
        self._parts: list[Lifted] = []

    def append(self, lifted: Lifted) -> None:
        self._parts.append(lifted)

    @property
    def count(self) -> int:
        """How many entries were appended."""
        return sum(len(part.lengths) for part in self._parts)

    def lifted(self) -> Lifted:
        """Return all that was appended."""

        def column(name: str, dtype: type[np.generic]) -> NDArray[Any]:
            return np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in self._parts)])

        return Lifted(
            tokens=column("tokens", np.int32),
            lengths=column("lengths", np.int64),
            kinds=column("kinds", np.uint8),
            leaves=column("leaves", np.int64),
            items=column("items", np.int64),
        )


_COLUMNS = {"tokens": np.int32, "lengths": np.int32, "kinds": np.uint8, "leaves": np.int64, "items": np.int64}


class SpilledEntries:
    """A level above the facts, written once and then read."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._stack = ExitStack()
        self._files: dict[str, BinaryIO] = {
            name: self._stack.enter_context((folder / name).open("wb")) for name in _COLUMNS
        }
        self._columns: dict[str, NDArray[np.generic]] = {}
        self._offsets: Offsets = np.zeros(1, np.int64)
        self._count = 0

    def append(self, lifted: Lifted) -> None:
        self._count += len(lifted.lengths)
        for name, dtype in _COLUMNS.items():
            self._files[name].write(getattr(lifted, name).astype(dtype).tobytes())

    def finish(self) -> None:
        """Close the files and map them for reading."""
        self._stack.close()
        for name, dtype in _COLUMNS.items():
            path = self._folder / name
            empty = path.stat().st_size == 0
            self._columns[name] = np.empty(0, dtype) if empty else np.memmap(path, dtype, "r")
        self._offsets = np.zeros(self._count + 1, np.int64)
        np.cumsum(self._columns["lengths"], out=self._offsets[1:])

    def __len__(self) -> int:
        return self._count

    def read(self, low: int, high: int) -> EntryBatch:
        offsets = self._offsets[low : high + 1]
        columns = {name: np.array(self._columns[name][low:high]) for name in ("kinds", "leaves", "items")}
        tokens = np.array(self._columns["tokens"][offsets[0] : offsets[-1]])
        return EntryBatch(tokens=tokens, offsets=offsets - offsets[0], **columns)
