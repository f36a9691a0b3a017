"""Ending a generation from outside: by a signal, say, while the model computes."""

from collections.abc import Callable
from typing import Any

import torch
from transformers import StoppingCriteria


class Until(StoppingCriteria):
    """Ends all rows as soon as `condition` says so. It is called with the ids so far, int64[rows, length], after each.

    `met`: whether it did; `rows`: the ids of the rows that it ended, prompts and all.
    """

    def __init__(self, condition: Callable[[Any], bool]) -> None:
        self._condition = condition
        self.met, self.rows = False, list[list[int]]()

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """Whether each row is at its end, bool[rows]."""
        self.met = self.met or self._condition(input_ids)
        if self.met:
            self.rows += input_ids.tolist()
        return torch.full((len(input_ids),), self.met, dtype=torch.bool, device=input_ids.device)  # type: ignore[return-value]
