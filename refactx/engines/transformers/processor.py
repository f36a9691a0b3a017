"""The logits processor of facts for Transformers' decoding loops, and the choice of the next id of a text.

The mask of a row is the list of allowed ids and not a token bitmask over the vocabulary, since few ids are allowed
within a fact.

*The processor.* The state of a row is looked up by its ids, not by its number: beam search reorders rows at every step,
assisted decoding takes back ids, finished rows are padded. The processor has a memo of the ids and states of its last
calls. A row is one of those, or one of those with one id more, or its state is computed from its prompt. So the memo
changes nothing but the time.

Continuous batching (`generate_batch`, `cache_implementation="paged"`) passes only the last ids to processors.
Transformers drops this one there with a warning, which leaves the text unconstrained. `refactx.ground` blocks it; do
not use the bare processor with it.

*The picker* chooses as `GenerationMixin._sample` does: logits processors, then the likeliest id or a sample. It calls
them for one row of a batch at a time, and not for forced ids. Most depend on nothing but the ids and scores that they
are given. Some of Transformers' own depend on the number of a row in the batch, and some must see every id of a text. A
processor of the caller's own is taken to be of the first kind.
"""

import copy
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessor, LogitsProcessorList, RepetitionPenaltyLogitsProcessor
from transformers.generation.logits_process import (
    EncoderNoRepeatNGramLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

from refactx.decoding.machine import Machine
from refactx.decoding.states import Constraint, FactSource, Free, State, check_open
from refactx.decoding.stream import Partial, attach_partial
from refactx.engines.engine import Logits, mismatch_error
from refactx.engines.transformers.internals import for_row
from refactx.engines.writer import Row
from refactx.errors import ModelError, RefactxError
from refactx.tokenizer import FactTokenizer
from refactx.tree.codes import MAX_TOKEN
from refactx.tree.tree import Tokens

S = TypeVar("S")
_ID_BYTES = 8
_FOLLOW_THE_TEXT = (SynthIDTextWatermarkLogitsProcessor, UnbatchedClassifierFreeGuidanceLogitsProcessor)
_KNOW_THEIR_ROW = (EncoderNoRepeatNGramLogitsProcessor, EncoderRepetitionPenaltyLogitsProcessor)


class RowMasks(LogitsProcessor):
    """A logits processor that masks each row by `allowed`, which the loop sets before each call."""

    def __init__(self) -> None:
        self.allowed: Sequence[Tokens | None] = ()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Mask the scores as `FactLogitsProcessor` does."""
        return scores if all(tokens is None for tokens in self.allowed) else mask_scores(scores, self.allowed)


def row_mask(constraint: Constraint[S], state: S, last: int) -> Tokens | None:
    """Return the ids that may follow `state`; for a row that is off the tree, its own last id, `last`.

    The next id of such a row does not matter: the row is padded (a stopping criterion ended it inside a fact), or it is
    a beam whose score is minus infinity. But a row of minus infinities alone becomes NaN in the warpers after the mask
    and in sampling, which then raise for all rows. If the id is used nevertheless, since a later processor ruled out
    all ids that are allowed, the last id does the least harm: repeating it writes no other fact.
    """
    tokens = constraint.allowed(state)
    return np.array([last], np.int32) if tokens is not None and not len(tokens) else tokens


def mask_scores(scores: torch.FloatTensor, allowed: Sequence[Tokens | None]) -> torch.FloatTensor:
    """Return a copy of `scores`, [rows, vocabulary], with minus infinity for all ids of a row except the allowed ones.

    `allowed`: int32[n], ascending, for each row; None leaves a row as it is. If other processors have ruled out all
    allowed ids, these get 0: sampling raises for a row of minus infinities, and argmax would return id 0.
    """
    out = torch.full_like(scores, -torch.inf)
    for source, target, tokens in zip(scores.unbind(), out.unbind(), allowed, strict=True):
        if tokens is None:
            target.copy_(source)
            continue
        ids = torch.from_numpy(tokens[tokens < scores.shape[1]].astype(np.int64)).to(scores.device)
        if len(ids):
            kept = source.index_select(0, ids)
            target.index_copy_(0, ids, torch.where(kept.max() == -torch.inf, 0.0, kept))
    return out  # type: ignore[return-value]


# The fingerprints of tokenizers: one takes seconds for a vocabulary of 150,000, and each generate call has its own
# processor. Weak keys, so that no tokenizer is kept alive.
_fingerprints: "weakref.WeakKeyDictionary[Any, str]" = weakref.WeakKeyDictionary()


def check_tokenizer(index: FactSource, tokenizer: Any) -> None:
    """Raise TokenizerMismatchError unless `tokenizer` (Transformers, fast) encodes facts as the index's tokenizer does."""
    check_open(index)
    found = _fingerprints.get(tokenizer)
    if found is None:
        found = _fingerprints[tokenizer] = FactTokenizer.from_transformers(tokenizer).fingerprint_of_facts
    if found != index.tokenizer.fingerprint_of_facts:
        raise mismatch_error(index, found[:12])


def check_model(model: Any, tokenizer: Any, ids: int) -> None:
    """Raise ModelError unless `model` (of Transformers) can read and write the ids below `ids`, and reads ids alone."""
    if (rows := rows_of(model)) < ids:
        raise ModelError(
            f"{_name_of(model)} has embeddings of {rows} tokens, and its tokenizer has {len(tokenizer)} tokens: it cannot "
            f"write the ids from {rows} on, so load the tokenizer that belongs to the model"
        )
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        raise ModelError(
            f"{_name_of(model)} has a learned prompt ({type(model.active_peft_config).__name__}), whose virtual tokens "
            "have no ids: use an adapter that can be merged, such as LoRA, or refactx.FactLogitsProcessor with the model's "
            "own generate()"
        )


def rows_of(model: Any) -> int:
    """Return how many ids a model of Transformers can both read and write; a very high number if it does not say."""
    layers = (getattr(model, f"get_{which}_embeddings", lambda: None)() for which in ("input", "output"))
    sizes = (getattr(layer, name, None) for layer in layers for name in ("num_embeddings", "out_features"))
    return min((size for size in sizes if isinstance(size, int)), default=MAX_TOKEN)


def _name_of(model: Any) -> str:
    return getattr(model.config, "_name_or_path", "") or type(model).__name__


class FactLogitsProcessor(LogitsProcessor):
    """A logits processor after which a model writes only facts of the index after the trigger, each once in a text.

        processor = refactx.FactLogitsProcessor(index, tokenizer)
        out = model.generate(**inputs, logits_processor=[processor])
        refactx.Machine(index).facts(out[0].tolist(), processor.prompt_length)  # a list of `refactx.Fact`

    Put it last in the list of processors. It serves one `generate` call at a time: call `reset` before the next. (A
    call with other prompts is noticed; one whose prompts continue those of the last call is not.) Threads need one
    processor each, and may share the index.

    `prompt_length`: how many ids of each row are the prompt, padding included; by default all that the first call has.
    It is needed for an assistant with another tokenizer: that calls the processor with its own ids, which look like
    other prompts, so that facts could be written twice. (`refactx.ground` passes it.) `memo_size`: how many calls the
    memo holds; it changes the time alone. The default is enough for the drafts of assisted decoding; with 0, the state
    of every row is computed from its prompt at every step.

    Raises TokenizerMismatchError if `tokenizer` (Transformers, fast) is not that of the index, ModelError if it cannot
    write the trigger or the terminator. A call raises whatever the index raises, with the output so far as `partial`.
    """

    supports_continuous_batching = False

    def __init__(
        self, index: FactSource, tokenizer: Any, *, prompt_length: int | None = None, memo_size: int = 64
    ) -> None:
        check_tokenizer(index, tokenizer)
        self._set_up(Machine(index), padding_of(tokenizer), prompt_length, memo_size)

    @classmethod
    def of(
        cls, machine: Machine, padding: frozenset[int] | None, *, prompt_length: int | None = None, memo_size: int = 64
    ) -> "FactLogitsProcessor":
        """Return a processor over a machine. `padding`: the ids that may pad rows, by default any special token."""
        processor = cls.__new__(cls)
        processor._set_up(machine, padding, prompt_length, memo_size)
        return processor

    def _set_up(
        self, machine: Machine, padding: frozenset[int] | None, prompt_length: int | None, memo_size: int
    ) -> None:
        self._machine, self._padding, self._memo_size = machine, padding, memo_size
        self._given_length = prompt_length
        self.reset()

    def reset(self) -> None:
        """Prepare for another `generate` call."""
        self._length = self._given_length
        self._prompts: frozenset[bytes] = frozenset()
        # The rows (ids as int64 in bytes) and states of each call, the latest last. Lists, since bytes compare faster than
        # they are hashed: 2 µs instead of 13 for 4,000 ids.
        self._calls: list[list[tuple[bytes, State]]] = []

    @property
    def prompt_length(self) -> int | None:
        """The number of ids of each row that are the prompt; None before the first call, unless it was given."""
        return self._length

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return the scores, [rows, vocabulary], masked for the id after each row of `input_ids`, int[rows, length].

        Within a fact, all ids except the allowed ones get minus infinity. Rows outside facts keep their scores; if all
        rows are outside, `scores` itself is returned. In a row off the tree (beam search has more beams than
        continuations, or a finished row is padded), all ids except its own last one get minus infinity.
        """
        ids = _int64(input_ids)
        try:
            states = self._states(ids)
        except RefactxError:  # (a `with` block around it all would take a tenth of the time of a step in free text)
            with attach_partial(lambda: self._so_far(input_ids)):
                raise
        if all(type(state) is Free for state in states):
            return scores
        masks = [row_mask(self._machine, state, last) for state, last in zip(states, ids[:, -1].tolist(), strict=True)]
        return mask_scores(scores, masks)

    def _so_far(self, input_ids: torch.Tensor) -> Partial:
        """Return the ids of this call with the facts that their rows had completed at the last one."""
        known = dict(self._calls[-1] if self._calls else ())
        rows = [row.tobytes() for row in _int64(input_ids)]
        states = [known.get(row, known.get(row[:-_ID_BYTES], Free())) for row in rows]
        return Partial.of(input_ids, map(self._machine.facts_of, states))

    def _states(self, ids: NDArray[np.int64]) -> Sequence[State]:
        length, rows = ids.shape[1], [row.tobytes() for row in ids]
        states = [self._recall(row, length) for row in rows]
        missing = [row for row, state in zip(rows, states, strict=True) if state is None]
        if missing:
            known = self._length  # (the bytes of shorter rows are not in `_prompts` either)
            if self._given_length is None and (
                known is None or any(row[: _ID_BYTES * known] not in self._prompts for row in missing)
            ):  # the prompts of another `generate` call, or of the first
                self.reset()
                self._length, self._prompts, states = length, frozenset(rows), [None] * len(rows)
            prompt_length = length if self._length is None else self._length
            states = [
                self._machine.run(own.tolist(), prompt_length, self._padding) if state is None else state
                for own, state in zip(ids, states, strict=True)
            ]
        found = [state for state in states if state is not None]
        self._calls = [*self._calls, list(zip(rows, found, strict=True))][-self._memo_size :] if self._memo_size else []
        return found

    def _recall(self, row: bytes, length: int) -> State | None:
        """Return the state of a row that is in the memo, or that has one id more than one in it; else None."""
        grows = self._length is not None and length > self._length  # (ids of a prompt are not advanced one by one)
        for call in reversed(self._calls):
            for known, state in call:
                if known == row:
                    return state
                if grows and len(known) == len(row) - _ID_BYTES and row.startswith(known):
                    token = int(np.frombuffer(row[-_ID_BYTES:], np.int64)[0])
                    return self._machine.advance(state, token, length - 1)
        return None


def _int64(ids: torch.Tensor) -> NDArray[np.int64]:
    """Return ids in the type of the memo's keys: `generate` also takes int32."""
    return ids.numpy(force=True).astype(np.int64, copy=False)


def padding_of(tokenizer: Any) -> frozenset[int] | None:
    """Return the ids with which `generate` may pad rows; None if the tokenizer has neither a padding nor an end id."""
    ids = (getattr(tokenizer, "pad_token_id", None), getattr(tokenizer, "eos_token_id", None))
    return frozenset(number for number in ids if number is not None) or None


class ProcessedPicker:
    """A `refactx.engines.writer.Picker` over Transformers' logits processors, for one row of a call.

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
        return for_row(processor, number)
    # Its tensor has the number of padding ids of each row of the batch.
    padding = getattr(processor, "prompt_ignore_length", None)
    if not isinstance(processor, RepetitionPenaltyLogitsProcessor) or not isinstance(padding, torch.Tensor):
        return processor
    own = copy.copy(processor)
    own.prompt_ignore_length = padding[[number]]
    return own
