"""Small models' lists come to no end: "Lansing; Lansing; Lansing; ..." until no token is left. There is nothing to wait for."""

from typing import Any

import torch
from transformers import StoppingCriteria

from refactx.asking.answer import SEPARATOR

TIMES = 3
"""So often in a row has an answer to name the same. (Of 200 answers of a 0.5B model three named a thing twice and went on.)"""


class AnswerLoop(StoppingCriteria):
    """Ends each row whose answer names the same thing `TIMES` times in a row.

    `marker`: the text that an answer begins with; `prompt_length`: so many ids of each row are not text. `rows`: the ids of the
    rows that it ended, prompts and all. For one call of `generate`, with beams and batches too.
    """

    def __init__(self, tokenizer: Any, marker: str, prompt_length: int) -> None:
        self._tokenizer, self._marker, self._length = tokenizer, marker, prompt_length
        self._separators: dict[int, bool] = {}  # whether an id is one, of those that were written
        self.rows = list[list[int]]()

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """Whether each row, of int64[rows, length], is at its end: bool[rows]."""
        last = input_ids[:, -1].tolist()
        ended = [self._separates(token) and self._loops(row) for token, row in zip(last, input_ids, strict=True)]
        self.rows += [row.tolist() for row, at_end in zip(input_ids, ended, strict=True) if at_end]
        return torch.tensor(ended, device=input_ids.device)  # type: ignore[return-value]

    def _separates(self, token: int) -> bool:
        if token not in self._separators:
            self._separators[token] = SEPARATOR in self._tokenizer.decode([token])
        return self._separators[token]

    def _loops(self, row: torch.Tensor) -> bool:
        text = self._tokenizer.decode(row[self._length :].tolist(), skip_special_tokens=True)
        line = text.rpartition("\n")[2].lstrip(" \t*")
        if not line.startswith(self._marker):  # it may stand in a fact
            return False
        named = [name.strip(" \t*") for name in line[len(self._marker) :].split(SEPARATOR)[:-1]][-TIMES:]
        return len(named) == TIMES and len(set(named)) == 1 and bool(named[0])
