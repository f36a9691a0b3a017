"""Endings of the text of an answer: after a repetition; without facts, with the line of the answer.

Free text that would end without an answer continues with the line of the answer. Text with facts does so by its
channel, and otherwise the model without the constraint would be compared by unfinished texts.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.asking.answer import MARKUP, marker_start
from refactx.asking.repetition import loops, once


class RepeatedAnswer:
    """A detector of texts that end in a repetition: of a passage, or of names in the answer after `marker`."""

    def __init__(self, tokenizer: Any, marker: str) -> None:
        self._tokenizer, self._marker = tokenizer, marker
        self._separators: dict[int, bool] = {}  # whether an id has a separator, for ids that were written

    def is_end(self, ids: Sequence[int] | NDArray[np.int64]) -> bool:
        """Return whether a text has just repeated itself; `ids`: those after the prompt."""
        if not len(ids) or not self._separates(int(ids[-1])):
            return False
        text: str = self._tokenizer.decode(list(map(int, ids)), skip_special_tokens=True)
        if loops(text):
            return True
        line = text.rpartition("\n")[2].lstrip(MARKUP)
        if not line.startswith(self._marker):  # the separator may be in a fact
            return False
        listed = line[len(self._marker) :]
        return once(listed) != listed

    def _separates(self, token: int) -> bool:
        if token not in self._separators:
            self._separators[token] = token >= 0 and not set(";,.\n").isdisjoint(self._tokenizer.decode([token]))
        return self._separators[token]


class AnswerLine:
    """The line of an answer, for a text without one whose likeliest next id would end it.

    `ends`: the ids that end a sequence.
    """

    def __init__(self, tokenizer: Any, marker: str, ends: Collection[int]) -> None:
        self._tokenizer, self._marker, self._ends = tokenizer, marker, frozenset(ends)

    def after(self, ids: Sequence[int], likeliest: int) -> list[int]:
        """Return the ids with which a text continues; empty if the model is to choose the next id.

        `ids`: those after the prompt; `likeliest`: the likeliest next id.
        """
        if likeliest not in self._ends or self._ends & set(ids):
            return []
        text = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        if marker_start(text, self._marker) is not None:
            return []
        at_line = not text or text.endswith("\n")
        line: list[int] = self._tokenizer.encode(
            self._marker if at_line else f"\n{self._marker}", add_special_tokens=False
        )
        return line
