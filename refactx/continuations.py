"""How likely the last ids of several texts are that begin alike: each by those in front of it.

Texts that go on from one prefix are read as a tree, each id once whatever goes on behind it (`refactx.branches`); by a model
that takes no such masks, as rows of a batch.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from refactx.branches import Branches, IdPath, can_branch
from refactx.chunks import IDS_A_PASS, ChunkedModel, passes
from refactx.prefix import Prefix

Text = tuple[IdPath, int]
"""Ids behind the prefix, and of how many of the last the log-probabilities are wanted: of all but the first at most."""


class Continuations(Protocol):
    """A model behind a prefix."""

    def of_last(self, texts: Sequence[Text]) -> list[NDArray[np.float64]]:
        """The log-probabilities of the last ids of each text, float64[wanted] each: log p(id | prefix, ids in front of it)."""


def continuations(model: Any, prefix: Prefix) -> Continuations:
    """Of texts behind `prefix`. What one call of `of_last` has read, others of the same object need not read again, where
    the model can branch.
    """
    length = prefix.ids.shape[1]
    inputs: dict[str, Any] = {
        "past_key_values": prefix.cache_for_one(),
        "position_ids": torch.arange(length)[None],
        "use_cache": True,
    }
    if model._supports_logits_to_keep():
        inputs["logits_to_keep"] = 1
    behind = ChunkedModel(model, inputs, (1, length))
    return _InBranches(behind) if can_branch(model, inputs) else _InRows(behind)


class _InBranches:
    def __init__(self, model: ChunkedModel) -> None:
        self._branches = Branches(model)

    def of_last(self, texts: Sequence[Text]) -> list[NDArray[np.float64]]:
        found = [np.empty(count) for _, count in texts]
        to_read = dict[
            IdPath, list[tuple[int, int, int]]
        ]()  # path: a text and its id behind the path, by place and number
        for number, (ids, count) in enumerate(texts):
            for end in range(1, len(ids)):
                at = end - (len(ids) - count)
                if at >= 0:  # logits are not kept, so a path that was read before is read again
                    to_read.setdefault(ids[:end], []).append((number, at, ids[end]))
                elif ids[:end] not in self._branches:
                    to_read.setdefault(ids[:end], [])
        paths = list(to_read)
        for first in range(0, len(paths), IDS_A_PASS):
            some = paths[first : first + IDS_A_PASS]
            asked = [n for n, path in enumerate(some) if to_read[path]]
            logits = self._branches.read(some, asked)
            wanted = [(row, *one) for row, n in enumerate(asked) for one in to_read[some[n]]]
            scores = _log_probabilities(logits, [one[0] for one in wanted], [one[3] for one in wanted])
            for (_, number, at, _), score in zip(wanted, scores.tolist(), strict=True):
                found[number][at] = score
        return found


class _InRows:
    def __init__(self, model: ChunkedModel) -> None:
        self._model = model

    def of_last(self, texts: Sequence[Text]) -> list[NDArray[np.float64]]:
        found: dict[int, NDArray[np.float64]] = {}
        for some in passes([ids[:-1] for ids, _ in texts]):
            branch = self._model.branch()
            branch.select([0] * len(some))
            logits = branch.feed([texts[n][0][:-1] for n in some], last=max(texts[n][1] for n in some))
            for row, n in enumerate(some):
                ids, count = texts[n]
                behind = logits[row, logits.shape[1] - count :]
                found[n] = _log_probabilities(behind, range(count), ids[len(ids) - count :])
        return [found[n] for n in range(len(texts))]


def _log_probabilities(logits: torch.Tensor, rows: Sequence[int], ids: Sequence[int]) -> NDArray[np.float64]:
    """Of each of `ids` by a row of the logits, [rows, vocabulary], whose number stands beside it: float64[ids]."""
    logits = logits.to(torch.float32)
    row, token = (torch.tensor(list(numbers), dtype=torch.long, device=logits.device) for numbers in (rows, ids))
    scores: NDArray[np.float64] = (logits[row, token] - logits.logsumexp(-1)[row]).numpy(force=True).astype(np.float64)
    return scores
