"""Greedy decoding and sampling where forced tokens need no forward pass of their own.

More than four of five ids of a fact have no alternative in the tree. They are appended at once, in a chain, and the
model runs over the whole chain, which takes little longer than over one id: a text takes as many passes as it has
unforced ids, and one more. Under greedy decoding the ids are those of Transformers' own loop; under sampling the
distribution is the same, and for a single row also the ids for the same seed.

A single greedy row also guesses what it goes on with (`refactx.choosing.guesses`); a guess counts only where the model chooses the same.

`ForcedTokens` is what `generate` takes as `custom_generate=`: Transformers prepares inputs, cache, processors and
stopping criteria, and this replaces the loop (`GenerationMixin._sample`) alone. Where a model or a call has something
that this loop does not know (`can_be_fed_in_chunks`, `can_be_asked_for_some`, scores or attentions asked for, for a batch
other stopping criteria than `_OF_EACH_ROW`), it calls that one.

Rows of a batch run apart, each with the ids that it has pending, in passes as wide as pays (`best_width`); a row that is
done leaves the batch. They are padded to one length at the end.
"""

import logging
from collections.abc import Container, Sequence
from typing import Any, cast

import numpy as np
import torch
from transformers import LogitsProcessorList
from transformers.generation.stopping_criteria import (
    EosTokenCriteria,
    MaxLengthCriteria,
    MaxTimeCriteria,
    StopStringCriteria,
)

from refactx.asking.endings import AnswerLoop
from refactx.asking.until import Until
from refactx.choosing.beam_search import FactBeams, best_fact
from refactx.choosing.channel import Channel, usual_id
from refactx.choosing.guesses import drafted
from refactx.decoding.machine import Free, InFact, InTerminator, Machine, State
from refactx.decoding.mask import allowed_behind, forced
from refactx.decoding.partial import Partial, kept
from refactx.engines.hf.chunked import ChunkedModel, best_width, can_be_fed_in_chunks, ids_in_cache, of_first
from refactx.engines.hf.processor import FactLogitsProcessor, RowMasks
from refactx.engines.hf.some_rows import can_be_asked_for_some, for_rows
from refactx.engines.hf.trees import can_branch
from refactx.errors import ModelError

_log = logging.getLogger(__name__)

# The criteria that say of each row what they would say of it alone: a batch's rows are asked for one by one. One of the
# caller's own may return a bool for each row of the whole batch, or count its calls.
_OF_EACH_ROW = (MaxLengthCriteria, EosTokenCriteria, MaxTimeCriteria, StopStringCriteria, Until, AnswerLoop)

_NO_FACT_BEAMS = (
    "fact beams need a decoder-only model with position ids, a dynamic cache of keys and values without a sliding window, "
    "attention of the kind sdpa or eager, no scores or attentions returned, no guidance and no SynthID watermark; leave "
    "fact_beams out here, or use num_beams"
)


class _Row:
    """One sequence as it is written. `number`: its place in the batch; `pending`: its last ids, through which the model has
    not run; `at_end_of_fact`: whether the last of them completes a fact.
    """

    __slots__ = ("at_end_of_fact", "done", "ids", "length", "number", "pending", "state")

    def __init__(self, number: int, ids: torch.Tensor, length: int, state: State) -> None:
        self.number, self.ids, self.length, self.state = number, ids, length, state
        self.pending: list[int] = []
        self.done = self.at_end_of_fact = False

    @property
    def written(self) -> torch.Tensor:
        """Its ids so far, prompt and all: int64[1, length]."""
        return self.ids[:, : self.length]


class ForcedTokens:
    """The loop over one index: a callable for `generate(custom_generate=...)`, for one call.

    `streamer`: as `generate` takes it (which does not hand it to callables). `beams`: search each fact with beams, for
    a single row; `channel`: choose facts by the question, for a single row, where the model allows. `keeps_cache`: whether
    the caller will go on with the cache, which several rows would leave with gaps. `own`: the processor that this loop stands
    in for; others of its kind, for other indexes, are kept. `prompt_length`: how many ids of each row are the prompt; where
    None was given, known once the loop has run. `states`: of each row, once the loop has run; None where it left everything to
    Transformers' own.
    """

    def __init__(
        self,
        machine: Machine,
        padding: Container[int] | None,
        own: FactLogitsProcessor,
        prompt_length: int | None = None,
        streamer: Any = None,
        beams: FactBeams | None = None,
        keeps_cache: bool = False,
        channel: Channel | None = None,
    ) -> None:
        self._machine, self._padding, self._own, self.prompt_length = machine, padding, own, prompt_length
        self._streamer, self._beams, self._keeps_cache, self._channel = streamer, beams, keeps_cache, channel
        self.states: list[State] | None = None

    def __call__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: Any,
        generation_config: Any,
        **model_kwargs: Any,
    ) -> Any:
        """As `GenerationMixin._sample`: ids int64[rows, length], or an output that holds them, prompts included."""
        self.prompt_length = input_ids.shape[1] if self.prompt_length is None else self.prompt_length
        known = can_be_asked_for_some(logits_processor, len(input_ids))
        known = known and self._knows(model, len(input_ids), stopping_criteria, generation_config, model_kwargs)
        if self._channel is not None and not (known and can_be_fed_in_chunks(model, model_kwargs, 2)):
            _log.warning(
                "the facts are not chosen by the question: this model cannot be fed several rows of ids at once"
            )
            self._channel = None
        if not known:
            if self._beams is not None:
                raise ModelError(_NO_FACT_BEAMS)
            return type(model)._sample(
                *(model, input_ids, logits_processor, stopping_criteria, generation_config),
                streamer=self._streamer,
                **model_kwargs,
            )
        masks = RowMasks()
        processors = LogitsProcessorList(
            masks if processor is self._own else processor for processor in logits_processor
        )
        search = (self._beams, self._channel)
        run = _Run(self._machine, self._streamer, search, masks, processors, stopping_criteria, generation_config)
        prompts = [(n, input_ids[n : n + 1]) for n in range(len(input_ids))]
        rows = [self._row(n, prompt, self.prompt_length, generation_config.max_length) for n, prompt in prompts]
        read = 0 if generation_config.prefill_chunk_size else ids_in_cache(input_ids, model_kwargs)
        if read:  # what is left of the prompt goes through the model with the first guess
            chunked, first = ChunkedModel(model, of_first(read, model_kwargs), (1, read)), None
            rows[0].pending = input_ids[0, read:].tolist()
        else:
            first = model._prefill(input_ids, generation_config, model_kwargs).logits[:, -1:]
            chunked = ChunkedModel(model, model_kwargs, (input_ids.shape[0], input_ids.shape[1]))

        def written() -> torch.Tensor:
            return _padded_together(rows, generation_config._pad_token_tensor).to(input_ids.device)

        def so_far() -> Partial:
            facts = tuple(self._machine.facts_of(row.state) for row in rows)
            return Partial(written(), tuple(row.length for row in rows), facts)

        with kept(so_far):
            run.write(rows, chunked, first)
        if self._streamer is not None:
            self._streamer.end()
        ids, self.states = written(), [row.state for row in rows]
        if not generation_config.return_dict_in_generate:
            return ids
        from transformers.generation.utils import GenerateDecoderOnlyOutput

        return GenerateDecoderOnlyOutput(sequences=cast(Any, ids), past_key_values=model_kwargs["past_key_values"])

    def _knows(self, model: Any, rows: int, criteria: Any, config: Any, model_kwargs: dict[str, Any]) -> bool:
        returned = (config.output_scores, config.output_logits, config.output_attentions, config.output_hidden_states)
        if any(returned) or not can_be_fed_in_chunks(model, model_kwargs, rows):
            return False
        if self._beams is not None and not can_branch(model, model_kwargs):
            return False
        if rows == 1:
            return True
        if self._beams is not None or self._streamer is not None:  # a streamer gets an id of every row at once
            return False
        # Without an end of sequence, rows that are done are not padded: they go on until all are.
        ends = any(hasattr(criterion, "eos_token_id") for criterion in criteria)
        if not all(type(criterion) in _OF_EACH_ROW for criterion in criteria):
            return False
        return not self._keeps_cache and (ends or all(isinstance(c, MaxLengthCriteria) for c in criteria))

    def _row(self, number: int, prompt: torch.Tensor, prompt_length: int, max_length: int) -> _Row:
        length = prompt.shape[1]
        ids = torch.zeros((1, max(max_length, length + 1)), dtype=torch.long)
        ids[:, :length] = prompt
        return _Row(number, ids, length, self._machine.run(prompt[0].tolist(), prompt_length, self._padding))


class _Run:
    """One run of the loop: what stays the same from pass to pass."""

    def __init__(
        self,
        machine: Machine,
        streamer: Any,
        search: tuple[FactBeams | None, Channel | None],
        masks: RowMasks,
        processors: LogitsProcessorList,
        criteria: Any,
        config: Any,
    ) -> None:
        self._machine, self._streamer = machine, streamer
        self._beams, self._channel = search
        self._masks, self._processors, self._criteria = masks, processors, criteria
        self._sampling, self._max_length = bool(config.do_sample), config.max_length
        self._alone = True  # whether the batch has one row
        self._ahead: list[int] = []  # what the model has read behind the text, for beams or the channel
        self._searched: Sequence[tuple[int, ...]] = ()  # by the fact beams of the last fact

    def write(self, rows: list[_Row], chunked: ChunkedModel, logits: torch.Tensor | None) -> None:
        """Write every row to its end, from the logits behind the prompts, [rows, 1, vocabulary]; None where all rows have ids
        pending.
        """
        self._alone = len(rows) == 1
        while True:
            if logits is not None:
                self._choose([n for n, row in enumerate(rows) if not row.pending], rows, chunked, logits)
            going_on = [n for n, row in enumerate(rows) if not row.done]
            if not going_on:
                return
            chunked.select(going_on)
            rows = [rows[n] for n in going_on]
            width = best_width([len(row.pending) for row in rows])
            guessed = self._guess(rows) if chunked.can_forget else []
            logits = chunked.feed([row.pending[:width] + guessed for row in rows], last=len(guessed) + 1)
            for row in rows:
                row.pending = row.pending[width:]
            if guessed:
                logits = self._check(rows[0], guessed, chunked, logits)

    def _guess(self, rows: list[_Row]) -> list[int]:
        """What a single row may go on with, for the model to check in the pass that it needs anyway: greedy text what it went
        on with before, or what follows from its facts; a search for a fact what is forced.
        """
        if not self._alone:
            return []
        if self._beams is not None and isinstance(rows[0].state, InFact):
            token = forced(self._machine, rows[0].state)
            return [] if token is None else [token]
        if self._sampling:
            return []
        row, lines = rows[0], None if self._channel is None else self._channel.lines
        ids, searches = row.written[0].numpy(), self._beams is not None
        guessed = drafted(self._machine, row.state, ids, len(row.pending), lines, searches)
        return self._to_a_choice(row, guessed)[: max(0, self._max_length - row.length - 1)]

    def _to_a_choice(self, row: _Row, guessed: list[int]) -> list[int]:
        """A guess as far as a place where the channel would choose what follows, and what nearly all facts begin with there;
        one out of a fact is left as it is.
        """
        if self._channel is None:
            return guessed
        state = row.state
        for count in range(len(guessed) + 1):
            if isinstance(state, InFact) and self._channel.decides(self._machine, state):
                return guessed[:count] + usual_id(state)
            if count == len(guessed) or not isinstance(state, Free):
                break
            state = self._machine.advance(state, guessed[count], row.length + count)
        return guessed

    def _check(self, row: _Row, guessed: list[int], chunked: ChunkedModel, logits: torch.Tensor) -> torch.Tensor:
        """Choose id by id for as long as the guess is right, from the logits in front of and along it; what is wrong of it
        is taken back, unless beams or the channel look for what follows there, and go on from it.

        Returns the logits behind the last id of the text that the model has read, and behind what is left of the guess.
        """
        right = 0
        while right < len(guessed) and not (row.pending or row.done or self._searches(row)):
            self._choose([0], [row], chunked, logits[:, right - len(guessed) - 1][:, None])
            same = _alike(row.pending, guessed[right:])
            right, row.pending = right + same, row.pending[same:]
        if self._searches(row) and not (row.pending or row.done):
            self._ahead = guessed[right:]
            return logits[:, right - len(guessed) - 1 :]
        if row.done and not row.pending:  # the cache must not hold a text's last id: who goes on begins with that
            right -= 1
            row.pending = guessed[right : right + 1]
        chunked.forget(len(guessed) - right)
        return logits[:, right - len(guessed) - 1][:, None]

    def _searches(self, row: _Row) -> bool:
        """Whether beams or the channel look for what follows."""
        if self._channel is not None and self._channel.decides(self._machine, row.state):
            return True
        return self._beams is not None and isinstance(row.state, InFact | InTerminator)

    def _choose(self, ready: list[int], rows: list[_Row], chunked: ChunkedModel, logits: torch.Tensor) -> None:
        """The next id of each row that the model has read to its end, and the forced ones behind it."""
        if not ready:
            return
        if self._alone:
            behind_text = logits.shape[1] - len(self._ahead)
            found, read = self._found(rows[0], chunked, logits)
            self._append_read(rows[0], found, read, chunked)
            logits = logits[:, :behind_text]
            if found:
                self._go_on(rows[0], logits[:, -1])
                return
        for group in self._groups(ready, rows):
            scores = logits[group, -1].to(copy=True, dtype=torch.float32)
            self._masks.allowed = [
                allowed_behind(self._machine, rows[n].state, int(rows[n].written[0, -1])) for n in group
            ]
            ids = torch.cat([rows[n].written for n in group]).to(scores.device)
            processors = (
                self._processors if self._alone else for_rows(self._processors, [rows[n].number for n in group])
            )
            scores = processors(cast(Any, ids), cast(Any, scores))
            for n, token in zip(group, self._pick(scores).tolist(), strict=True):
                self._append(rows[n], token)
                self._go_on(rows[n], scores[:1])

    def _found(self, row: _Row, chunked: ChunkedModel, logits: torch.Tensor) -> tuple[Sequence[int], int]:
        """What follows in a single row as beams or the channel find it, if they do, and how much of it the model has read."""
        state, ahead, self._ahead = row.state, self._ahead, []
        if self._beams is not None and isinstance(state, InFact | InTerminator):
            room = self._max_length - row.length
            search = (logits, self._beams, room, ahead, self._searched)
            found = best_fact(self._machine, state, row.length, chunked, *search)
            self._searched = found.beams
            return found.ids, found.read
        if self._channel is None:
            return (), 0
        if isinstance(state, InFact) and self._channel.decides(self._machine, state):
            return self._channel.choose(self._machine, state, row.length, chunked, logits[0], ahead)
        return self._channel.lines.next_line(self._machine, state, logits), 0

    def _groups(self, ready: list[int], rows: list[_Row]) -> list[list[int]]:
        """Rows by length: processors get rectangles of ids."""
        by_length: dict[int, list[int]] = {}
        for n in ready:
            by_length.setdefault(rows[n].length, []).append(n)
        return list(by_length.values())

    def _go_on(self, row: _Row, scores: torch.Tensor) -> None:
        """Append what is forced, and what a channel writes at a fact's end and behind it. Fact beams are for whole facts: with
        them a fact is left to the search.
        """
        while not row.done and (token := forced(self._machine, row.state)) is not None:
            if self._beams is not None:
                return
            if self._sampling and self._alone:  # the other loop draws for each id: the same seed gives the same text
                self._pick(torch.zeros_like(scores))
            self._append(row, token)
        if self._channel is None or row.done:
            return
        lines = self._channel.lines
        chosen = (lines.follow if row.at_end_of_fact else lines.end)(self._machine, row.state)
        for token in chosen:
            self._append(row, token)
        if chosen:
            self._go_on(row, scores)

    def _pick(self, scores: torch.Tensor) -> torch.Tensor:
        """One id a row, int64[rows], as `GenerationMixin._sample` picks it."""
        if not self._sampling:
            return scores.argmax(dim=-1)
        return torch.multinomial(scores.softmax(dim=-1), num_samples=1).squeeze(1)

    def _append_read(self, row: _Row, ids: Sequence[int], read: int, chunked: ChunkedModel) -> None:
        """Append ids, the first of which the model has `read`, but not the last."""
        for token in ids:
            self._append(row, token)
        if read:
            forgotten = max(0, read + 1 - len(row.pending))  # a criterion may have ended the text within them
            chunked.forget(forgotten)
            row.pending = row.pending[read - forgotten :]

    def _append(self, row: _Row, token: int) -> None:
        if row.done:
            return
        row.ids[0, row.length] = token
        before = row.state
        row.state = self._machine.advance(before, token, row.length)
        row.at_end_of_fact = isinstance(before, InFact | InTerminator) and isinstance(row.state, Free)
        row.length += 1
        row.pending.append(token)
        if self._streamer is not None:
            self._streamer.put(torch.tensor([token]))
        row.done = bool(self._criteria(row.written, None).item())


def _alike(some: list[int], others: list[int]) -> int:
    """How many ids two lists begin with alike."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(some), len(others)))


def _padded_together(rows: list[_Row], pad: torch.Tensor | None) -> torch.Tensor:
    length = max(row.length for row in rows)
    number = 0 if pad is None else int(pad)
    ids = np.full((len(rows), length), number, np.int64)
    for n, row in enumerate(rows):
        ids[n, : row.length] = row.written[0].numpy()
    return torch.from_numpy(ids)
