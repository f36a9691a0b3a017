"""Stopping criteria and a logits processor for `generate`: ends of texts, and ids that have to follow."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessor, StoppingCriteria


class Interrupt(StoppingCriteria):
    """A criterion that ends all rows once `condition` returns True, such as after a signal.

    It is called with the ids so far, int64[rows, length], after each id. `is_met`: whether it returned True.
    """

    row_wise = True  # `refactx.engines.hf.custom_generate` may call it for one row at a time

    def __init__(self, condition: Callable[[Any], bool]) -> None:
        self._condition = condition
        self.is_met = False

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """Return whether each row has ended: bool[rows]."""
        self.is_met = self.is_met or self._condition(input_ids)
        return torch.full((len(input_ids),), self.is_met, device=input_ids.device)  # type: ignore[return-value]


class RowEnd(StoppingCriteria):
    """A criterion that ends each row once `is_end` returns True for its ids after the prompt, int64[n]."""

    row_wise = True

    def __init__(self, is_end: Callable[[NDArray[np.int64]], bool], prompt_length: int) -> None:
        self._is_end, self._length = is_end, prompt_length

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """Return whether each row has ended: bool[rows], for ids int64[rows, length]."""
        ended = [self._is_end(row[self._length :]) for row in input_ids.numpy(force=True)]
        return torch.tensor(ended, device=input_ids.device)  # type: ignore[return-value]


class NextId(LogitsProcessor):
    """A logits processor that forces the ids of a line in a row, id by id, also under beams.

    `line`: takes the ids of a row after its prompt, and the likeliest next id, and returns the line that has to follow;
    empty if the model is to choose. Rows with other ids have lines of their own. An object serves one call of `generate`.
    """

    def __init__(self, line: Callable[[Sequence[int], int], Sequence[int]], prompt_length: int) -> None:
        self._line, self._length = line, prompt_length
        self._begun: dict[tuple[int, ...], Sequence[int]] = {}  # by the ids before the line, prompt included

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return the scores, float[rows, vocabulary], with minus infinity for all other ids of a row with a forced id."""
        best, likeliest = scores.max(-1)
        for row, number in enumerate(likeliest.tolist()):
            wanted = self._next(tuple(input_ids[row].tolist()), number)
            if wanted is not None:
                scores = scores.clone()  # type: ignore[assignment]
                scores[row] = -torch.inf
                scores[row, wanted] = best[row]
        return scores

    def _next(self, ids: tuple[int, ...], likeliest: int) -> int | None:
        for written in range(1, max(map(len, self._begun.values()), default=0)):
            line = self._begun.get(ids[:-written], ())
            if written < len(line) and list(ids[-written:]) == list(line[:written]):
                return line[written]
        line = self._line(ids[self._length :], likeliest)
        if not line:
            return None
        self._begun[ids] = line
        return line[0]
