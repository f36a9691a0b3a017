"""A memory without some of its entities and properties, as if the knowledge base had never had them."""

from collections.abc import Collection, Sequence

from refactx.query.pgmr import Mention
from refactx.sparql.memory.entry import Entry, Memory, Near
from refactx.sparql.memory.thresholds import Thresholds

_MORE = 10
"""The entries that are read beyond those that are wanted, at first."""


class MemoryWithout:
    """A memory that does not know some ids: a `Memory`. By it one measures whether what is missing is refused.

    MemoryWithout(memory, {"Q1588"}).exact([Mention("entity", "Louisiana")])  # without the state
    """

    def __init__(self, memory: Memory, ids: Collection[str]) -> None:
        self._memory, self._ids = memory, frozenset(ids)

    @property
    def thresholds(self) -> Thresholds:
        """Those of the whole memory."""
        return self._memory.thresholds

    def exact(self, mentions: Sequence[Mention]) -> list[list[Entry]]:
        """Return the other entries of each mention's kind that have its label."""
        return [[one for one in some if one.id not in self._ids] for some in self._memory.exact(mentions)]

    def nearest(self, mentions: Sequence[Mention], count: int) -> list[list[Near]]:
        """Return the other entries of each mention's kind that are most similar to it: at most `count`."""
        kept: list[list[Near]] = [[] for _ in mentions]
        lacking, seen, read = list(range(len(mentions))), [0] * len(mentions), count + _MORE
        while lacking:
            for at, near in zip(lacking, self._memory.nearest([mentions[at] for at in lacking], read), strict=True):
                kept[at] = [one for one in near if one.entry.id not in self._ids][:count]
                # Entries that are read may be fewer than `read` though there are more: some are of one entity.
                seen[at] = len(near) if len(near) > seen[at] and len(kept[at]) < count else -1
            lacking, read = [at for at in lacking if seen[at] > 0], 4 * read
        return kept

    def similarities(self, mention: Mention, entries: Sequence[Entry]) -> Sequence[float]:
        """Return how similar entries are to a mention."""
        return self._memory.similarities(mention, entries)
