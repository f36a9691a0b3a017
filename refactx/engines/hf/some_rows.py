"""Other logits processors in a loop that asks them for some rows of a batch at a time, and not for forced ids.

Most look at nothing but the ids and scores that they are given. Of Transformers' own, some know a row by its number in
the batch, and some follow the text id by id. A processor of the caller's own is taken to be of the first kind.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor
from transformers.generation.logits_process import (
    EncoderNoRepeatNGramLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

_FOLLOW_THE_TEXT = (SynthIDTextWatermarkLogitsProcessor, UnbatchedClassifierFreeGuidanceLogitsProcessor)
_KNOW_THEIR_ROW = (
    EncoderNoRepeatNGramLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
)


def can_be_asked_for_some(processors: Iterable[Any], rows: int) -> bool:
    """Whether none of the processors for a batch of `rows` has to see every id, or all rows at once."""
    barred = _FOLLOW_THE_TEXT if rows == 1 else (*_FOLLOW_THE_TEXT, *_KNOW_THEIR_ROW)
    return not any(isinstance(processor, barred) for processor in processors)


def for_rows(processors: LogitsProcessorList, rows: Sequence[int]) -> LogitsProcessorList:
    """The processors of a batch as they are for these rows of it alone, in this order."""
    return LogitsProcessorList(_for_rows(processor, rows) for processor in processors)


def _for_rows(processor: Any, rows: Sequence[int]) -> Any:
    # Its tensor says how many ids of padding each row of the batch has.
    padding = getattr(processor, "prompt_ignore_length", None)
    if not isinstance(processor, RepetitionPenaltyLogitsProcessor) or not isinstance(padding, torch.Tensor):
        return processor
    own = copy.copy(processor)
    own.prompt_ignore_length = padding[list(rows)]
    return own
