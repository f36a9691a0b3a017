"""Continuations of one text, read by a model: the logits after them, and the log-probabilities of their last ids.

They are read as a tree (`refactx.engines.engine.FeedTree`), in as few passes as is efficient.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.engines.chooser import Reading
from refactx.engines.engine import FeedTree, IdPath, Logits, TreeReading
from refactx.engines.requests import CloseTree, KeepPath, OpenTree, Steps

ScoredText = tuple[IdPath, int]
"""Ids after a text, and for how many of the last ones log-probabilities are wanted."""

Found = Callable[[list[IdPath], Logits], object]
"""A function that takes paths, and the logits after them, float32[n, vocabulary]."""


class Continuations:
    """The continuations of a text, as paths of ids. `asked`: those whose logits were requested.

    `trees`: how the engine reads trees; `known`: the logits after paths that were read before; `earlier`: paths that may
    be requested later, which the first pass reads too; `ahead`: as in `OpenTree`; `of_examples`: the number of
    the examples that are the text; None: that of the job.
    """

    def __init__(
        self,
        trees: TreeReading,
        known: dict[IdPath, Logits] | None = None,
        earlier: Sequence[IdPath] = (),
        ahead: IdPath = (),
        of_examples: int | None = None,
    ) -> None:
        self._opening, self._tree = OpenTree(ahead, of_examples), -1  # it is opened when it is first read
        self._known = {} if known is None else known
        self._shares = trees is TreeReading.SHARED
        self._earlier = earlier if self._shares else ()
        self._has_read = {ahead[:n] for n in range(len(ahead) + 1)}
        self.asked: list[IdPath] = []

    @classmethod
    def of(cls, reading: Reading, earlier: Sequence[IdPath] = ()) -> "Continuations":
        """Return the continuations of a text that a model has read."""
        known = {reading.ahead[:n]: after for n, after in enumerate(reading.logits)}
        return cls(reading.trees, known, earlier, reading.ahead)

    def logits(self, paths: Sequence[IdPath]) -> Steps[list[Logits]]:
        """Return the logits after each path, each float32[vocabulary]."""
        self.asked += paths
        found: dict[IdPath, Logits] = {}
        if any(path not in self._known for path in paths):
            wanted = dict.fromkeys(path for path in (*paths, *self._earlier) if path not in self._known)
            yield from self._read(wanted, lambda some, logits: found.update(zip(some, logits, strict=True)))
            self._known |= {path: found[path] for path in self._earlier if path in found}
            self._earlier = ()
        return [self._known[path] if path in self._known else found[path] for path in paths]

    def log_probabilities(self, texts: Sequence[ScoredText]) -> Steps[list[NDArray[np.float64]]]:
        """Return the log-probabilities of the last ids of each text, log p(id | ids before it), each float64[wanted].

        There must be at least one id before them.
        """
        found = [np.empty(count) for _, count in texts]
        # The texts that continue each path: their numbers, and the id that follows there with its place in the result.
        asked: dict[IdPath, list[tuple[int, int, int]]] = {}
        for number, (ids, count) in enumerate(texts):
            for at, end in enumerate(range(len(ids) - count, len(ids))):
                asked.setdefault(ids[:end], []).append((number, at, ids[end]))

        def score(some: list[IdPath], logits: Logits) -> None:
            rows = [(row, *one) for row, path in enumerate(some) for one in asked[path]]
            scores = log_probabilities(logits, [row for row, *_ in rows], [token for *_, token in rows])
            for (_, number, at, _), value in zip(rows, scores.tolist(), strict=True):
                found[number][at] = value

        yield from self._read(asked, score)
        return found

    def keep(self, path: IdPath) -> Steps[int]:
        """Append `path` to the text as far as it was read, and close the tree. Return how many ids were appended."""
        yield from self._open()
        kept: int = yield KeepPath(self._tree, path)
        return kept

    def close(self) -> Steps[None]:
        """Close the tree."""
        if self._tree >= 0:
            yield CloseTree(self._tree)
            self._tree = -1

    def _open(self) -> Steps[None]:
        if self._tree < 0:
            self._tree = yield self._opening

    def _read(self, wanted: Collection[IdPath], found: Found) -> Steps[None]:
        """Read paths, and call `found` with those that each pass reads.

        A path that was read before is read again: the logits after all paths would take too much memory.
        """
        if not wanted:
            return
        yield from self._open()
        leading = (path[:end] for path in wanted for end in range(1, len(path)) if path[:end] not in self._has_read)
        paths = sorted({**dict.fromkeys(leading), **dict.fromkeys(wanted)}, key=len)
        yield from read_tree(self._tree, paths, [number for number, path in enumerate(paths) if path in wanted], found)
        self._has_read |= set(paths)


def read_tree(tree: int, paths: Sequence[IdPath], wanted: Sequence[int], found: Found) -> Steps[None]:
    """Read paths of a tree in as many passes as the engine takes. Call `found` with the wanted ones of each pass."""
    while wanted:
        numbers, logits = yield FeedTree(tree, paths, wanted)
        found([paths[number] for number in numbers], logits)
        done = set(numbers)
        wanted = [number for number in wanted if number not in done]


def log_sum(logits: Logits) -> np.float32:
    """Return the logarithm of the sum of the exponentials of logits, float32[n].

    >>> float(log_sum(np.log(np.array([1, 3], np.float32)))) == float(np.log(np.float32(4)))
    True
    """
    highest = logits.max()
    return np.float32(highest + np.log(np.exp(logits - highest).sum()))


def log_softmax(logits: Logits) -> NDArray[np.float32]:
    """Return the log-probabilities of logits, float32[n]."""
    return logits - log_sum(logits)


def log_probabilities(logits: Logits, rows: Sequence[int], ids: Sequence[int]) -> NDArray[np.float64]:
    """Return the log-probability of each of `ids` in its row (`rows`) of `logits`, [n, vocabulary]: float64[ids]."""
    sums = [log_sum(row) for row in logits]
    return np.array([logits[row, token] - sums[row] for row, token in zip(rows, ids, strict=True)], np.float64)
