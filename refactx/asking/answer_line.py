"""Free text comes to an answer, as text with facts does: where it would end without one, the line of the answer begins.

Behind facts a channel leaves a model no other way on than another fact or its answer (`refactx.choosing.answer_lines`). The same model
without constraint tends to end behind the fact that it made up, and would be compared by a text that it never finished.
"""

from collections.abc import Collection
from typing import Any

import torch
from transformers import LogitsProcessor


class AnswerLine(LogitsProcessor):
    """Writes `marker` once where the likeliest id would end a text that does not have it yet; behind it the text may end.

    `ends`: the ids of the end of sequence; `prompt_length`: so many ids of each row are not text. For one call of `generate`,
    with beams and batches too.
    """

    def __init__(self, tokenizer: Any, marker: str, ends: Collection[int], prompt_length: int) -> None:
        self._tokenizer, self._marker, self._ends, self._length = tokenizer, marker, frozenset(ends), prompt_length
        self._lines: dict[tuple[int, ...], list[int]] = {}
        """The ids of the line, by the ids of the text that it begins behind."""

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """The scores, float[rows, vocabulary], with one id alone where the line is to be written."""
        best, likeliest = scores.max(-1)
        for row, number in enumerate(likeliest.tolist()):
            if number not in self._ends and not self._lines:
                continue
            ids = tuple(input_ids[row].tolist())
            wanted = self._next(ids)
            if wanted is None and number in self._ends:
                wanted = self._begun(ids)
            if wanted is not None:
                scores = scores.clone()  # type: ignore[assignment]
                scores[row] = -torch.inf
                scores[row, wanted] = best[row]
        return scores

    def _next(self, ids: tuple[int, ...]) -> int | None:
        """The id that goes on with a line that was begun."""
        for written in range(1, max(map(len, self._lines.values()), default=0)):
            line = self._lines.get(ids[:-written], [])
            if written < len(line) and list(ids[-written:]) == line[:written]:
                return line[written]
        return None

    def _begun(self, ids: tuple[int, ...]) -> int | None:
        """The first id of the line, if the text lacks it."""
        written = ids[self._length :]
        text = self._tokenizer.decode(written, skip_special_tokens=True)
        if self._marker in text or self._ends & set(written):
            return None
        at_line = not text or text.endswith("\n")
        line: list[int] = self._tokenizer.encode(
            self._marker if at_line else f"\n{self._marker}", add_special_tokens=False
        )
        self._lines[ids] = line
        return line[0]
