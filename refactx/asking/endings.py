"""Endings of the text of an answer: after a list that repeats itself; without facts, with the line of the answer.

Small models write lists without an end: "Lansing; Lansing; Lansing; ..." up to the limit of tokens, so the text ends at
the repetition. Free text that would end without an answer continues with the line of the answer. Text with facts does
so by its channel, and otherwise the model without the constraint would be compared by unfinished texts.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.asking.answer import SEPARATOR

TIMES = 3
"""This many equal names in a row end an answer. (Of 200 answers of a 0.5B model, three had a name twice and continued.)
"""


class RepeatedAnswer:
    """A detector of answers that have the same name `TIMES` times in a row. `marker`: the text before an answer."""

    def __init__(self, tokenizer: Any, marker: str) -> None:
        self._tokenizer, self._marker = tokenizer, marker
        self._separators: dict[int, bool] = {}  # whether an id has a separator, for ids that were written

    def is_end(self, ids: Sequence[int] | NDArray[np.int64]) -> bool:
        """Return whether a text has just repeated its answer; `ids`: those after the prompt."""
        if not len(ids) or not self._separates(int(ids[-1])):
            return False
        text = self._tokenizer.decode(list(map(int, ids)), skip_special_tokens=True)
        line = text.rpartition("\n")[2].lstrip(" \t*")
        if not line.startswith(self._marker):  # the separator may be in a fact
            return False
        named = [name.strip(" \t*") for name in line[len(self._marker) :].split(SEPARATOR)[:-1]][-TIMES:]
        return len(named) == TIMES and len(set(named)) == 1 and bool(named[0])

    def cut(self, ids: Sequence[int]) -> Sequence[int]:
        """Return the ids up to the repetition of the answer: the rows of a batch may continue after it."""
        return next((ids[:n] for n in range(1, len(ids)) if self.is_end(ids[:n])), ids)

    def _separates(self, token: int) -> bool:
        if token not in self._separators:
            self._separators[token] = token >= 0 and SEPARATOR in self._tokenizer.decode([token])
        return self._separators[token]


class AnswerLine:
    """The line of an answer, for a text without one whose likeliest next id would end it.

    `ends`: the ids that end a sequence. An object serves one call of `generate`, also with beams and batches.
    """

    def __init__(self, tokenizer: Any, marker: str, ends: Collection[int]) -> None:
        self._tokenizer, self._marker, self._ends = tokenizer, marker, frozenset(ends)
        self._lines: dict[tuple[int, ...], list[int]] = {}  # the ids of the line, by those before it, prompt included

    def next_id(self, ids: Sequence[int], prompt_length: int, likeliest: int) -> int | None:
        """Return the next id of a text; None if the model is to choose it.

        `ids`: the prompt, of `prompt_length` ids, and the text. Rows with other prompts have lines of their own.
        """
        if likeliest not in self._ends and not self._lines:
            return None
        row = tuple(ids)
        wanted = self._continue_line(row)
        return self._begin_line(row, prompt_length) if wanted is None and likeliest in self._ends else wanted

    def _continue_line(self, ids: tuple[int, ...]) -> int | None:
        """Return the next id of a line that was begun; None if there is none."""
        for written in range(1, max(map(len, self._lines.values()), default=0)):
            line = self._lines.get(ids[:-written], [])
            if written < len(line) and list(ids[-written:]) == line[:written]:
                return line[written]
        return None

    def _begin_line(self, row: tuple[int, ...], prompt_length: int) -> int | None:
        """Return the first id of the line; None if the text has an answer or has ended."""
        ids = row[prompt_length:]
        text = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        if self._marker in text or self._ends & set(ids):
            return None
        at_line = not text or text.endswith("\n")
        line: list[int] = self._tokenizer.encode(
            self._marker if at_line else f"\n{self._marker}", add_special_tokens=False
        )
        self._lines[row] = line
        return line[0]
