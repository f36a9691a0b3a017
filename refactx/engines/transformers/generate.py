"""The writing of texts with forced tokens for `generate(custom_generate=...)`: it replaces `GenerationMixin._sample` alone.

Transformers prepares inputs, cache, processors and stopping criteria. Under greedy decoding, the ids are those of
Transformers' own loop. Under sampling, the distribution is the same, and for a single row so are the ids of a seed. If
it cannot do what a call needs, Transformers' own loop runs instead: for a cache that cannot be fed in chunks,
scores or attentions to return, processors that must see every id, or, for a batch, stopping criteria that cannot be
called row by row.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from transformers import LogitsProcessorList
from transformers.generation.stopping_criteria import (
    EosTokenCriteria,
    MaxLengthCriteria,
    MaxTimeCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
)

from refactx.decoding.machine import Machine
from refactx.decoding.states import FactSource, State
from refactx.decoding.stream import Partial, attach_partial
from refactx.engines.engine import Engine, FactChooser, IdPath, Logits
from refactx.engines.scheduler import Job, Scheduler, run_jobs
from refactx.engines.transformers.engine import PackedEngine, to_numpy
from refactx.engines.transformers.internals import CACHE, padding_id, prefill_logits, sample
from refactx.engines.transformers.processor import FactLogitsProcessor, ProcessedPicker, can_skip_ids
from refactx.engines.transformers.rows import can_feed_chunks, count_cached, cut_inputs, engine_of
from refactx.engines.writer import Capabilities, Hooks, Row, TextWriter
from refactx.errors import ModelError

_ROW_WISE = (MaxLengthCriteria, EosTokenCriteria, MaxTimeCriteria, StopStringCriteria)
"""The stopping criteria of Transformers whose result for a row of a batch is the result for that row alone.

A caller's criterion declares this by an attribute `row_wise = True`: without it, a criterion may depend on the whole
batch, or count its calls.
"""


@dataclass(frozen=True, slots=True)
class Grounding:
    """The attribute `grounding` of an output of `generate`: what its facts are read from.

    `prompt_length`: how many ids of each row are the prompt; `states`: the state at the end of each row; `lengths`: the
    number of ids of each row, prompt included, padding not. The last two are None if Transformers' own loop ran.
    `source`: the index that the facts are from. An output that is pickled or saved loses all this.
    """

    source: FactSource
    prompt_length: int
    states: tuple[State, ...] | None = None
    lengths: tuple[int, ...] | None = None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return set, ()  # a type that `torch.load(weights_only=True)` accepts

    def attach(self, out: Any) -> Any:
        """Set this as the attribute of an output, and of the sequences in it. Return the output."""
        for returned in {id(each): each for each in (out, getattr(out, "sequences", out))}.values():
            returned.grounding = self
        return out


@dataclass(frozen=True, slots=True)
class _Call:
    """What `generate` passes to `GenerationMixin._sample`. `inputs`: those of the model besides `ids`."""

    model: Any
    ids: torch.Tensor
    processors: LogitsProcessorList
    criteria: Any
    config: Any
    inputs: dict[str, Any]

    @property
    def rows(self) -> int:
        """How many texts are written."""
        return len(self.ids)


class FastForwardGenerate:
    """The writing of texts over one index, for one `generate` call.

    `choosers`: makes the chooser of each row, given its number; `own`: the logits processor that this replaces; others
    of its class, for other indexes, still run. `padding`: the ids that may pad prompts. `prompt_length`: how many ids of
    each row are the prompt, by default all that `generate` passes. `streamer`: as `generate` takes it, since it does not
    pass it on to callables. `keeps_cache`: whether the caller uses the cache afterwards. `grounding`: set by the call.
    """

    def __init__(
        self,
        *,
        machine: Machine,
        choosers: Callable[[int], FactChooser],
        own: FactLogitsProcessor,
        padding: Container[int] | None,
        prompt_length: int | None = None,
        streamer: Any = None,
        keeps_cache: bool = False,
    ) -> None:
        self._machine, self._choosers, self._own, self._padding = machine, choosers, own, padding
        self._prompt_length, self._streamer, self._keeps_cache = prompt_length, streamer, keeps_cache
        self.grounding: Grounding | None = None

    def __call__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: Any,
        generation_config: Any,
        **model_kwargs: Any,
    ) -> Any:
        """Write texts in place of `GenerationMixin._sample`. Return ids, int64[rows, length], prompts included, or an
        output that has them."""
        call = _Call(model, input_ids, logits_processor, stopping_criteria, generation_config, model_kwargs)
        prompt_length = input_ids.shape[1] if self._prompt_length is None else self._prompt_length
        self.grounding = Grounding(self._machine.source, prompt_length)
        choosers = [self._choosers(number) for number in range(call.rows)]
        if not (can_skip_ids(logits_processor, call.rows) and self._knows(call)):
            check_ends(self._machine, generation_config.eos_token_id)
            if any(chooser.needs for chooser in choosers):
                choosers[0].without_trees()  # it warns or raises
            return sample(
                model,
                input_ids,
                logits_processor,
                stopping_criteria,
                generation_config,
                streamer=self._streamer,
                **model_kwargs,
            )
        rows, logits, sequences, engine = self._prepare(call, prompt_length)
        choosers = [each if engine.trees >= each.needs else each.without_trees() for each in choosers]
        with attach_partial(lambda: self._so_far(call, rows)):
            jobs = self._jobs(call, engine, rows, logits, sequences=sequences, choosers=choosers)
            run_jobs(Scheduler(engine, in_threads=False), jobs)  # processors and criteria are the caller's
        if self._streamer is not None:
            self._streamer.end()
        states, lengths = tuple(row.state for row in rows), tuple(row.length for row in rows)
        self.grounding = Grounding(self._machine.source, prompt_length, states, lengths)
        together = _pad_together(call, rows)
        if not generation_config.return_dict_in_generate:
            return together
        from transformers.generation.utils import GenerateDecoderOnlyOutput

        return GenerateDecoderOnlyOutput(sequences=cast(Any, together), **{CACHE: model_kwargs[CACHE]})

    def _prepare(self, call: _Call, prompt_length: int) -> tuple[list[Row], list[Logits], list[int], Engine]:
        """Return the rows, the logits after their prompts (none if ids are pending), their sequences and the engine."""
        engine = engine_of(call.model)
        logits = list[Logits]()
        read = 0 if call.config.prefill_chunk_size else count_cached(call.ids, call.inputs)
        if read:  # the rest of the prompt goes through the model with the first draft tokens
            sequences = engine.add_cache(cut_inputs(read, call.inputs), (1, read))
        else:
            after = prefill_logits(call.model, call.ids, call.config, call.inputs)
            logits = list(to_numpy(after))
            sequences = engine.add_cache(call.inputs, (call.rows, call.ids.shape[1]))
        rows = [
            Row(
                prompt,
                self._machine.run(prompt, prompt_length, self._padding),
                capacity=call.config.max_length,
                unread=len(prompt) - read if read else 0,
            )
            for prompt in call.ids.tolist()
        ]
        return rows, logits, sequences, engine

    def _jobs(
        self,
        call: _Call,
        engine: Engine,
        rows: Sequence[Row],
        logits: Sequence[Logits],
        *,
        sequences: Sequence[int],
        choosers: Sequence[FactChooser],
    ) -> list[Job]:
        """Return the jobs that write the rows."""
        capabilities = Capabilities(
            trees=engine.trees, drafts=engine.can_forget and (call.rows == 1 or not engine.pads)
        )
        hooks = Hooks(lambda row: self._is_done(row, call.criteria), self._put)
        read: dict[IdPath, int] = {}  # the sequences that have read examples, which rows share
        jobs: list[Job] = []
        for number, (row, chooser, sequence) in enumerate(zip(rows, choosers, sequences, strict=True)):
            picker = ProcessedPicker(
                machine=self._machine,
                processors=call.processors,
                own=self._own,
                sampling=bool(call.config.do_sample),
                number=number,
                rows=call.rows,
                device=call.ids.device,
            )
            writer = TextWriter(
                row,
                constraint=self._machine,
                chooser=chooser,
                picker=picker,
                hooks=hooks,
                max_length=call.config.max_length,
                capabilities=capabilities,
            )
            for examples in chooser.examples:
                if examples not in read:
                    read[examples] = engine.prefill(examples)
            steps = writer.write(logits[number] if logits else None)
            shared, end = [read[examples] for examples in chooser.examples], partial(self._end, call, engine)
            jobs.append(Job(steps=steps, begin=partial(int, sequence), examples=shared, end=end))
        return jobs

    def _so_far(self, call: _Call, rows: Sequence[Row]) -> Partial:
        """Return the output so far."""
        facts = tuple(self._machine.facts_of(row.state) for row in rows)
        return Partial(ids=_pad_together(call, rows), lengths=tuple(row.length for row in rows), facts=facts)

    def _knows(self, call: _Call) -> bool:
        """Return whether this can do what the call needs."""
        config, criteria = call.config, call.criteria
        returned = (config.output_scores, config.output_logits, config.output_attentions, config.output_hidden_states)
        if any(returned) or not can_feed_chunks(call.model, call.inputs):
            return False
        if call.rows == 1:
            return True
        if self._streamer is not None:  # it takes the ids of all rows at once
            return False
        # Without an end of sequence, Transformers does not pad rows that are done: they continue until all are.
        ends = any(hasattr(criterion, "eos_token_id") for criterion in criteria)
        if not all(type(each) in _ROW_WISE or getattr(each, "row_wise", False) for each in criteria):
            return False
        return not self._keeps_cache and (ends or all(isinstance(c, MaxLengthCriteria) for c in criteria))

    def _end(self, call: _Call, engine: Engine, sequence: int) -> None:
        """Give the caller's cache what the model has read."""
        if self._keeps_cache and isinstance(engine, PackedEngine):
            engine.write_cache(sequence, call.inputs[CACHE])

    def _is_done(self, row: Row, criteria: Any) -> bool:
        if not self._machine.can_end(row.state):
            criteria = StoppingCriteriaList(each for each in criteria if not isinstance(each, EosTokenCriteria))
        return bool(criteria(torch.from_numpy(row.written)[None], None).item())

    def _put(self, token: int) -> None:
        if self._streamer is not None:
            self._streamer.put(torch.tensor([token]))


def _pad_together(call: _Call, rows: Sequence[Row]) -> torch.Tensor:
    """Return the ids of rows, padded to one length: int64[rows, length]."""
    ids = np.full((len(rows), max(row.length for row in rows)), padding_id(call.config), np.int64)
    for n, row in enumerate(rows):
        ids[n, : row.length] = row.written
    return torch.from_numpy(ids).to(call.ids.device)


def check_ends(machine: Machine, ends: Any) -> None:
    """Raise ModelError if one of the ids that end a text, an int or several, may be within a fact.

    Loops of Transformers' own would end the text there.
    """
    listed = [] if ends is None else torch.as_tensor(ends).flatten().tolist()
    found = next((end for end in listed if (text := machine.bytes_of(end)) and b"\n" not in text), None)
    if found is not None:
        raise ModelError(
            f"the id that ends texts, {found}, is that of {machine.bytes_of(found).decode('utf-8', 'replace')!r}, which facts "
            "may have: give another eos_token_id, or write greedy or sampled text without beams, stop_strings and scores"
        )
