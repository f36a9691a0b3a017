"""What a model makes of several texts that begin alike: the logits behind them, and how likely their last ids are.

They are read as a tree, each id once whatever goes on behind it (`refactx.engines.hf.trees`); by a model that takes no such masks, as
rows of a batch.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.engines.hf.chunked import IDS_A_PASS, ChunkedModel, passes
from refactx.engines.hf.prefix import Prefix
from refactx.engines.hf.trees import Branches, IdPath, takes_masks

Text = tuple[IdPath, int]
"""Ids behind a model's own text, and of how many of the last the log-probabilities are wanted."""


class Continuations(Protocol):
    """What a model of one row may go on with behind its text, as paths of ids. `asked`: those whose logits were wanted."""

    asked: list[IdPath]

    def logits(self, paths: Sequence[IdPath]) -> list[torch.Tensor]:
        """Those behind each path, [vocabulary] each."""

    def of_last(self, texts: Sequence[Text]) -> list[NDArray[np.float64]]:
        """The log-probabilities of the last ids of each text, float64[wanted] each: log p(id | text, ids in front of it). At
        least one id is in front of them.
        """

    def keep(self, path: IdPath) -> int:
        """Make `path` the model's own text as far as it was read, and forget all else. Returns how many ids that are."""


def continuations(
    model: ChunkedModel,
    logits: torch.Tensor | None = None,
    ahead: Sequence[int] = (),
    earlier: Sequence[IdPath] = (),
) -> Continuations:
    """Of a model, which is left as it is until `keep`.

    `logits`: float[1 + len(ahead), vocabulary], behind its text, and behind each of the ids `ahead` that it has read beyond
    it; without them no empty path can be asked for. `earlier`: what may be asked for too, to be read in one pass with what is.
    """
    known = {} if logits is None else {tuple(ahead[:n]): behind for n, behind in enumerate(logits)}
    if takes_masks(model.model):
        return _InBranches(model, known, ahead, earlier)
    return _InRows(model, known, len(ahead))


def behind_prefix(model: Any, prefix: Prefix) -> Continuations:
    """Of a model behind a prefix."""
    length = prefix.ids.shape[1]
    inputs: dict[str, Any] = {"past_key_values": prefix.cache_for_one(), "position_ids": torch.arange(length)[None]}
    if model._supports_logits_to_keep():
        inputs["logits_to_keep"] = 1
    return continuations(ChunkedModel(model, inputs, (1, length)))


class _InBranches:
    """As a tree. `known`: the logits behind paths that were read before they were asked for."""

    def __init__(
        self,
        model: ChunkedModel,
        known: dict[IdPath, torch.Tensor],
        ahead: Sequence[int],
        earlier: Sequence[IdPath],
    ) -> None:
        self._branches, self._known, self._earlier = Branches(model, ahead), known, earlier
        self.asked: list[IdPath] = []

    def logits(self, paths: Sequence[IdPath]) -> list[torch.Tensor]:
        self.asked += paths
        found: dict[IdPath, torch.Tensor] = {}
        if any(path not in self._known for path in paths):
            for some, logits in self._read(dict.fromkeys(p for p in (*paths, *self._earlier) if p not in self._known)):
                found |= dict(zip(some, logits, strict=True))
            self._known |= {path: found[path] for path in self._earlier if path in found}
            self._earlier = ()
        return [self._known[path] if path in self._known else found[path] for path in paths]

    def of_last(self, texts: Sequence[Text]) -> list[NDArray[np.float64]]:
        found = [np.empty(count) for _, count in texts]
        # By path the texts that go on behind it: the number of each, and its id there, by place and number.
        asked: dict[IdPath, list[tuple[int, int, int]]] = {}
        for number, (ids, count) in enumerate(texts):
            for at, end in enumerate(range(len(ids) - count, len(ids))):
                asked.setdefault(ids[:end], []).append((number, at, ids[end]))
        for some, logits in self._read(asked):
            rows = [(row, *one) for row, path in enumerate(some) for one in asked[path]]
            scores = _log_probabilities(logits, [row[0] for row in rows], [row[3] for row in rows])
            for (_, number, at, _), score in zip(rows, scores.tolist(), strict=True):
                found[number][at] = score
        return found

    def keep(self, path: IdPath) -> int:
        return self._branches.keep(path)

    def _read(self, wanted: Collection[IdPath]) -> Iterator[tuple[list[IdPath], torch.Tensor]]:
        """Of each of some passes over paths and what leads to them, the wanted ones in it and the logits behind these.

        One that was read before is read again: the logits behind all that is read would be too many to keep.
        """
        beginnings = (path[:end] for path in wanted for end in range(1, len(path)) if path[:end] not in self._branches)
        paths = sorted({**dict.fromkeys(beginnings), **dict.fromkeys(wanted)}, key=len)
        for first in range(0, len(paths), IDS_A_PASS):
            some = paths[first : first + IDS_A_PASS]
            numbers = [number for number, path in enumerate(some) if path in wanted]
            yield [some[number] for number in numbers], self._branches.read(some, numbers)


class _InRows:
    """As rows of a batch, each read from the text on. `ahead`: how many ids were read beyond it, which is for nothing here."""

    def __init__(self, model: ChunkedModel, known: dict[IdPath, torch.Tensor], ahead: int) -> None:
        self._model, self._known = model, known
        self.asked: list[IdPath] = []
        model.forget(ahead)

    def logits(self, paths: Sequence[IdPath]) -> list[torch.Tensor]:
        self.asked += paths
        found: dict[IdPath, torch.Tensor] = {}
        unread = [path for path in paths if path not in self._known]
        for some, logits in self._read(unread, 1):
            found |= {unread[number]: logits[row, -1] for row, number in enumerate(some)}
        return [self._known[path] if path in self._known else found[path] for path in paths]

    def of_last(self, texts: Sequence[Text]) -> list[NDArray[np.float64]]:
        found: dict[int, NDArray[np.float64]] = {}
        for some, logits in self._read([ids[:-1] for ids, _ in texts], max((count for _, count in texts), default=0)):
            for row, number in enumerate(some):
                ids, count = texts[number]
                behind = logits[row, logits.shape[1] - count :]
                found[number] = _log_probabilities(behind, range(count), ids[len(ids) - count :])
        return [found[number] for number in range(len(texts))]

    def keep(self, path: IdPath) -> int:
        return 0

    def _read(self, paths: Sequence[IdPath], last: int) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Of each of some passes the numbers of the paths that are its rows, and the logits behind the last ids of each."""
        for some in passes(paths):
            branch = self._model.branch()
            branch.select([0] * len(some))
            yield some, branch.feed([paths[number] for number in some], last)


def _log_probabilities(logits: torch.Tensor, rows: Sequence[int], ids: Sequence[int]) -> NDArray[np.float64]:
    """Of each of `ids` by a row of the logits, [rows, vocabulary], whose number stands beside it: float64[ids]."""
    logits = logits.to(torch.float32)
    row, token = (torch.tensor(list(numbers), dtype=torch.long, device=logits.device) for numbers in (rows, ids))
    scores: NDArray[np.float64] = (logits[row, token] - logits.logsumexp(-1)[row]).numpy(force=True).astype(np.float64)
    return scores
