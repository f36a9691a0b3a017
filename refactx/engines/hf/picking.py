"""The choice of the next id of rows as in `GenerationMixin._sample`: logits processors, then the likeliest id or a
sample.

The processors are called for some rows of a batch at a time, and not for forced ids. Most depend on nothing but the ids
and scores that they are given. Some of Transformers' own depend on the number of a row in the batch, and some must see
every id of a text. A processor of the caller's own is taken to be of the first kind.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor
from transformers.generation.logits_process import (
    EncoderNoRepeatNGramLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

from refactx.decoding.machine import Machine
from refactx.engines.engine import Logits
from refactx.engines.hf.masking import RowMasks, row_mask
from refactx.engines.loop import Row

_FOLLOW_THE_TEXT = (SynthIDTextWatermarkLogitsProcessor, UnbatchedClassifierFreeGuidanceLogitsProcessor)
_KNOW_THEIR_ROW = (
    EncoderNoRepeatNGramLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
)


class ProcessedPicker:
    """A `refactx.engines.loop.Picker` over Transformers' logits processors.

    `processors`: those of the call; `own`: the one of them that masks of the rows' states replace; `rows`: how many the
    batch has at first; `device`: that of the scores that processors take.
    """

    def __init__(
        self, *, machine: Machine, processors: LogitsProcessorList, own: Any, sampling: bool, rows: int, device: Any
    ) -> None:
        self._machine, self._masks = machine, RowMasks()
        self._processors = LogitsProcessorList(self._masks if each is own else each for each in processors)
        self._sampling, self._alone, self._device = sampling, rows == 1, device
        self._vocabulary = 1

    @property
    def greedy(self) -> bool:
        return not self._sampling

    def pick(self, rows: Sequence[Row], logits: Logits) -> list[int]:
        """Return the next id of each row; `logits`, float32[rows, vocabulary], may be written to."""
        scores = torch.from_numpy(logits).to(self._device)
        self._vocabulary = scores.shape[1]
        self._masks.allowed = [row_mask(self._machine, row.state, int(row.written[-1])) for row in rows]
        ids = torch.stack([torch.from_numpy(row.written) for row in rows]).to(self._device)
        processors = self._processors
        if not self._alone:
            processors = processors_for_rows(processors, [row.number for row in rows])
        scores = processors(cast(Any, ids), cast(Any, scores))
        picked: list[int] = self._draw(scores).tolist() if self._sampling else scores.argmax(dim=-1).tolist()
        return picked

    def skip(self) -> None:
        """Sample once and discard it: Transformers' loop samples for each id, and a seed must give the same text."""
        if self._sampling:
            self._draw(torch.zeros((1, self._vocabulary), device=self._device))

    @staticmethod
    def _draw(scores: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(scores.softmax(dim=-1), num_samples=1).squeeze(1)


def can_skip_ids(processors: Iterable[Any], rows: int) -> bool:
    """Return whether no processor for a batch of `rows` rows has to see every id, or all rows at once."""
    barred = _FOLLOW_THE_TEXT if rows == 1 else (*_FOLLOW_THE_TEXT, *_KNOW_THEIR_ROW)
    return not any(isinstance(processor, barred) for processor in processors)


def processors_for_rows(processors: LogitsProcessorList, rows: Sequence[int]) -> LogitsProcessorList:
    """Return the processors of a batch for some of its rows (their numbers), in this order."""
    return LogitsProcessorList(_for_rows(processor, rows) for processor in processors)


def _for_rows(processor: Any, rows: Sequence[int]) -> Any:
    # Its tensor has the number of padding ids of each row of the batch.
    padding = getattr(processor, "prompt_ignore_length", None)
    if not isinstance(processor, RepetitionPenaltyLogitsProcessor) or not isinstance(padding, torch.Tensor):
        return processor
    own = copy.copy(processor)
    own.prompt_ignore_length = padding[list(rows)]
    return own
