"""The choice of the next id of rows as in `GenerationMixin._sample`: logits processors, then the likeliest id or a
sample.

The processors are called for one row of a batch at a time, and not for forced ids. Most depend on nothing but the ids
and scores that they are given. Some of Transformers' own depend on the number of a row in the batch, and some must see
every id of a text. A processor of the caller's own is taken to be of the first kind.
"""

import copy
from collections.abc import Iterable
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
from refactx.engines.row import Row

_FOLLOW_THE_TEXT = (SynthIDTextWatermarkLogitsProcessor, UnbatchedClassifierFreeGuidanceLogitsProcessor)
_KNOW_THEIR_ROW = (EncoderNoRepeatNGramLogitsProcessor, EncoderRepetitionPenaltyLogitsProcessor)


class ProcessedPicker:
    """A `refactx.engines.row.Picker` over Transformers' logits processors, for one row of a call.

    `processors`: those of the call; `own`: the one of them that masks of the row's states replace; `number`: that of the
    row, of `rows`; `device`: that of the scores that processors take. A single row samples as Transformers' own loop
    does, from torch's global generator; several rows have generators of their own, seeded from that.
    """

    def __init__(
        self,
        *,
        machine: Machine,
        processors: LogitsProcessorList,
        own: Any,
        sampling: bool,
        number: int,
        rows: int,
        device: Any,
    ) -> None:
        self._machine, self._masks = machine, RowMasks()
        if rows > 1:
            processors = LogitsProcessorList(each if each is own else _for_row(each, number) for each in processors)
        self._processors = LogitsProcessorList(self._masks if each is own else each for each in processors)
        self._sampling, self._device, self._vocabulary = sampling, device, 1
        self._random: torch.Generator | None = None
        if sampling and rows > 1:
            self._random = torch.Generator(device).manual_seed(int(torch.randint(2**62, ()).item()))

    @property
    def greedy(self) -> bool:
        return not self._sampling

    def pick(self, row: Row, logits: Logits) -> int:
        scores = torch.from_numpy(logits)[None].to(self._device)
        self._vocabulary = scores.shape[1]
        self._masks.allowed = [row_mask(self._machine, row.state, int(row.written[-1]))]
        ids = torch.from_numpy(row.written)[None].to(self._device)
        scores = self._processors(cast(Any, ids), cast(Any, scores))
        return int(self._draw(scores) if self._sampling else scores.argmax(dim=-1))

    def skip(self) -> None:
        """Sample once and discard it: Transformers' loop samples for each id, and a seed must give the same text."""
        if self._sampling and self._random is None:
            self._draw(torch.zeros((1, self._vocabulary), device=self._device))

    def _draw(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(scores.softmax(dim=-1), num_samples=1, generator=self._random)


def can_skip_ids(processors: Iterable[Any], rows: int) -> bool:
    """Return whether no processor for a batch of `rows` rows has to see every id, or all rows at once."""
    barred = _FOLLOW_THE_TEXT if rows == 1 else (*_FOLLOW_THE_TEXT, *_KNOW_THEIR_ROW)
    return not any(isinstance(processor, barred) for processor in processors)


def _for_row(processor: Any, number: int) -> Any:
    if isinstance(processor, PrefixConstrainedLogitsProcessor):
        allowed = processor._prefix_allowed_tokens_fn
        return PrefixConstrainedLogitsProcessor(lambda _, ids: allowed(number, ids), num_beams=1)
    # Its tensor has the number of padding ids of each row of the batch.
    padding = getattr(processor, "prompt_ignore_length", None)
    if not isinstance(processor, RepetitionPenaltyLogitsProcessor) or not isinstance(padding, torch.Tensor):
        return processor
    own = copy.copy(processor)
    own.prompt_ignore_length = padding[[number]]
    return own
