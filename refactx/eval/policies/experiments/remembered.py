"""A memory that is asked the same mentions many times: each is looked up once."""

from collections.abc import Sequence
from dataclasses import replace

from refactx.query.pgmr import Mention
from refactx.sparql.memory import Entry, Memory, NameMemory, Near, Thresholds


class RememberedMemory:
    """A `Memory` that keeps what another one has returned."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._exact: dict[Mention, Sequence[Entry]] = {}
        self._nearest: dict[tuple[Mention, int], Sequence[Near]] = {}
        self._similar: dict[tuple[Mention, Entry], float] = {}
        self._alike: dict[tuple[Mention, Entry], float] = {}

    @property
    def thresholds(self) -> Thresholds:
        """Those of the memory."""
        return self._memory.thresholds

    def exact(self, mentions: Sequence[Mention]) -> list[Sequence[Entry]]:
        """Return the entries of each mention's kind that have its label."""
        new = [one for one in dict.fromkeys(mentions) if one not in self._exact]
        if new:
            self._exact |= zip(new, self._memory.exact(new), strict=True)
        return [self._exact[one] for one in mentions]

    def nearest(self, mentions: Sequence[Mention], count: int) -> list[Sequence[Near]]:
        """Return the entries of each mention's kind that are most similar to it, at most `count`."""
        new = [one for one in dict.fromkeys(mentions) if (one, count) not in self._nearest]
        if new:
            self._nearest |= zip(((one, count) for one in new), self._memory.nearest(new, count), strict=True)
        return [self._nearest[one, count] for one in mentions]

    def similarities(self, mention: Mention, entries: Sequence[Entry]) -> list[float]:
        """Return how similar entries are to a mention."""
        new = [one for one in dict.fromkeys(entries) if (mention, one) not in self._similar]
        if new:
            self._similar |= zip(((mention, one) for one in new), self._memory.similarities(mention, new), strict=True)
        return [self._similar[mention, one] for one in entries]

    def alike(self, mention: Mention, entries: Sequence[Entry]) -> list[float]:
        """Return how similar entries that the memory does not have are to a mention, as `nearest` would say."""
        new = [one for one in dict.fromkeys(entries) if (mention, one) not in self._alike]
        if new:
            if isinstance(self._memory, NameMemory):
                found = self._memory.likeness(mention, new)
            else:  # aliases are encoded, and need not be stored
                found = list(self._memory.similarities(mention, [replace(one, is_alias=True) for one in new]))
            self._alike |= zip(((mention, one) for one in new), found, strict=True)
        return [self._alike[mention, one] for one in entries]
