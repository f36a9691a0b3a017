"""Continuations of one text, read by a model: the logits after them, and the log-probabilities of their last ids.

They are read as a tree (`refactx.engines.engine.TokenTree`), in as few passes as is efficient.
"""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.engines.chooser import Reading
from refactx.engines.engine import IdPath, Logits, TokenTree

ScoredText = tuple[IdPath, int]
"""Ids after a text, and for how many of the last ones log-probabilities are wanted."""


class Continuations:
    """The continuations of a text, as paths of ids. `asked`: those whose logits were requested.

    `known`: the logits after paths that were read before; `earlier`: paths that may be requested later, which the first
    pass reads too.
    """

    def __init__(
        self, tree: TokenTree, known: dict[IdPath, Logits] | None = None, earlier: Sequence[IdPath] = ()
    ) -> None:
        self._tree, self._known = tree, {} if known is None else known
        self._earlier = earlier if tree.is_incremental else ()
        self.asked: list[IdPath] = []

    @classmethod
    def of(cls, reading: Reading, earlier: Sequence[IdPath] = ()) -> "Continuations":
        """Return the continuations of a text that a model has read."""
        tree = reading.engine.tree(reading.sequence, reading.ahead)
        known = {reading.ahead[:n]: after for n, after in enumerate(reading.logits)}
        return cls(tree, known, earlier)

    def logits(self, paths: Sequence[IdPath]) -> list[Logits]:
        """Return the logits after each path, each float32[vocabulary]."""
        self.asked += paths
        found: dict[IdPath, Logits] = {}
        if any(path not in self._known for path in paths):
            wanted = dict.fromkeys(path for path in (*paths, *self._earlier) if path not in self._known)
            for some, logits in self._read(wanted):
                found |= dict(zip(some, logits, strict=True))
            self._known |= {path: found[path] for path in self._earlier if path in found}
            self._earlier = ()
        return [self._known[path] if path in self._known else found[path] for path in paths]

    def log_probabilities(self, texts: Sequence[ScoredText]) -> list[NDArray[np.float64]]:
        """Return the log-probabilities of the last ids of each text, log p(id | ids before it), each float64[wanted].

        There must be at least one id before them.
        """
        found = [np.empty(count) for _, count in texts]
        # The texts that continue each path: their numbers, and the id that follows there with its place in the result.
        asked: dict[IdPath, list[tuple[int, int, int]]] = {}
        for number, (ids, count) in enumerate(texts):
            for at, end in enumerate(range(len(ids) - count, len(ids))):
                asked.setdefault(ids[:end], []).append((number, at, ids[end]))
        for some, logits in self._read(asked):
            rows = [(row, *one) for row, path in enumerate(some) for one in asked[path]]
            scores = log_probabilities(logits, [row for row, *_ in rows], [token for *_, token in rows])
            for (_, number, at, _), score in zip(rows, scores.tolist(), strict=True):
                found[number][at] = score
        return found

    def keep(self, path: IdPath) -> int:
        """Append `path` to the sequence as far as it was read, and drop the tree. Return how many ids were appended."""
        return self._tree.keep(path)

    def _read(self, wanted: Collection[IdPath]) -> Iterator[tuple[list[IdPath], Logits]]:
        """Yield for each pass the wanted paths that it reads, and the logits after them.

        A path that was read before is read again: the logits after all paths would take too much memory.
        """
        leading = (path[:end] for path in wanted for end in range(1, len(path)) if path[:end] not in self._tree)
        paths = sorted({**dict.fromkeys(leading), **dict.fromkeys(wanted)}, key=len)
        chosen = [number for number, path in enumerate(paths) if path in wanted]
        for numbers, logits in self._tree.read(paths, chosen):
            yield [paths[number] for number in numbers], logits


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
