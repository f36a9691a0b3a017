"""The writer of texts by Transformers' `generate`: for beams over the whole text, and for models without an engine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import Any

import torch
from transformers import LogitsProcessorList, StoppingCriteriaList

from refactx.decoding.machine import Machine
from refactx.decoding.partial import Partial
from refactx.decoding.states import FactSource
from refactx.engines.hf.language_model import TransformersModel
from refactx.engines.hf.prefix import Prefix, prefill
from refactx.engines.sampling import Sampling
from refactx.errors import ModelError, RefactxError
from refactx.fact import Fact
from refactx.grounded.criteria import Interrupt, NextId, RowEnd
from refactx.grounded.model import ground
from refactx.writing.texts import Ordered, WritingError, WritingOptions, WrittenText


class GenerateWriter:
    """A `refactx.writing.texts.Writer` that calls `generate` for each batch. Raises as `refactx.ground` does."""

    def __init__(self, model: TransformersModel, index: FactSource | None) -> None:
        self._model = model
        self._grounded = None if index is None else ground(model.model, model.tokenizer, index)
        self._prefixes: dict[tuple[int, ...], Prefix | None] = {}
        self._lock = Lock()  # for these

    @property
    def machine(self) -> Machine | None:
        return None if self._grounded is None else self._grounded.machine

    def write(self, orders: Sequence[Ordered], options: WritingOptions, at_once: int = 1) -> Iterator[WrittenText]:
        if any(order.channel is not None for order in orders):
            at_once = 1  # a batch of a model without an engine chooses no facts by questions
        for first in range(0, len(orders), at_once):
            texts = self._write_batch(orders[first : first + at_once], options)
            yield from texts
            if any(text.is_interrupted for text in texts):
                return

    def _write_batch(self, orders: Sequence[Ordered], options: WritingOptions) -> list[WrittenText]:
        started, batch = perf_counter(), self._pad(orders, options)
        interrupt = Interrupt(_stops(options))
        with self._count_passes() as counter:

            def texts(
                ids: Any, lengths: Sequence[int], facts: Sequence[Sequence[Fact]], is_whole: bool = True
            ) -> list[WrittenText]:
                beams, seconds = len(ids) // len(orders), (perf_counter() - started) / len(orders)
                return [
                    WrittenText(
                        ids=self._cut(ids[n, batch.length : lengths[n]].tolist(), options),
                        facts=tuple(facts[n]),
                        is_whole=is_whole,
                        is_interrupted=interrupt.is_met,
                        passes=counter.passes,
                        seconds=seconds,
                    )
                    for n in range(0, len(ids), beams)
                ]

            try:
                return texts(*self._generate(orders, batch, options, interrupt))
            except RefactxError as error:
                if not isinstance(error.partial, Partial):
                    raise
                so_far = error.partial
                raise WritingError(error, texts(so_far.ids, so_far.lengths, so_far.facts, False)) from error

    def _generate(
        self, orders: Sequence[Ordered], batch: "_Padded", options: WritingOptions, interrupt: Interrupt
    ) -> tuple[Any, Sequence[int], Sequence[Sequence[Fact]]]:
        """Return ids, int64[rows, length], how many of them each row has without padding, and the facts of each."""
        device, sampling = self._model.model.device, options.sampling
        rest = min(order.max_new_tokens for order in orders)
        settings: dict[str, Any] = {
            "input_ids": torch.tensor(batch.ids, device=device),
            "attention_mask": torch.tensor(batch.mask, device=device),
            "streamer": options.streamer,
            "num_beams": options.num_beams,
            "max_new_tokens": rest,
            "stopping_criteria": StoppingCriteriaList(
                [*([interrupt] if options.until or options.cancelled else []), RowEnd(options.is_end, batch.length)]
            ),
            **_for_transformers(sampling),
        }
        with _random_numbers(sampling, device):
            if options.free or self._grounded is None:
                ids = self._generate_freely(settings, batch, options)
                return ids, [len(row) for row in ids], [()] * len(ids)
            channels = [order.channel for order in orders if order.channel is not None]
            ids = self._grounded.generate(
                **settings,
                fact_beams=options.fact_beams,
                channel=channels or None,
                prefix=batch.prefix,
                max_facts=options.max_facts,
                after_facts=options.after_facts,
            )
            return ids, tuple(ids.grounding.lengths or map(len, ids)), self._grounded.facts(ids)

    def _generate_freely(self, settings: dict[str, Any], batch: "_Padded", options: WritingOptions) -> Any:
        beams = options.num_beams
        cache = None if batch.prefix is None else batch.prefix.cache_for(settings["input_ids"], beams)
        processor = NextId(options.answer_line, batch.length)
        return self._model.model.generate(
            **settings, past_key_values=cache, logits_processor=LogitsProcessorList([processor])
        )

    def _pad(self, orders: Sequence[Ordered], options: WritingOptions) -> "_Padded":
        """Return the prompts of a batch, padded after the prefix that all share."""
        prefix = self._prefill(tuple(options.prefix))
        if prefix is not None:
            begins = all(
                len(order.prompt) > len(options.prefix)
                and list(order.prompt[: len(options.prefix)]) == list(options.prefix)
                for order in orders
            )
            prefix = prefix if begins else None
        shared = 0 if prefix is None else len(options.prefix)
        width, pad = max(len(order.prompt) for order in orders), self._model.pad
        gaps = [width - len(order.prompt) for order in orders]
        ids = [
            [*order.prompt[:shared], *[pad] * gap, *order.prompt[shared:]]
            for order, gap in zip(orders, gaps, strict=True)
        ]
        mask = [[1] * shared + [0] * gap + [1] * (width - gap - shared) for gap in gaps]
        return _Padded(ids, mask, prefix)

    def _prefill(self, ids: tuple[int, ...]) -> Prefix | None:
        """Return the prefix that prompts share, computed once; None if this model's cache cannot be shared."""
        with self._lock:
            if ids not in self._prefixes:
                try:
                    self._prefixes[ids] = prefill(self._model.model, torch.tensor([list(ids)])) if ids else None
                except ModelError:
                    self._prefixes[ids] = None
            return self._prefixes[ids]

    def _cut(self, ids: list[int], options: WritingOptions) -> list[int]:
        """Return the ids of a row up to its end: the rows of a batch may continue after it."""
        ended = (
            count
            for count, token in enumerate(ids, 1)
            if token in self._model.ends or options.is_end(torch.tensor(ids[:count]).numpy())
        )
        return ids[: next(ended, len(ids))]

    @contextmanager
    def _count_passes(self) -> Iterator["_PassCounter"]:
        """Count the model's forward passes during the block."""
        counter = _PassCounter()

        def count(*_: Any) -> None:
            counter.passes += 1

        hook = self._model.model.register_forward_pre_hook(count)
        try:
            yield counter
        finally:
            hook.remove()


@dataclass(frozen=True, slots=True)
class _Padded:
    """Prompts padded to one length: `ids` and attention `mask` of each row, and the `prefix` that all share."""

    ids: Sequence[Sequence[int]]
    mask: Sequence[Sequence[int]]
    prefix: Prefix | None

    @property
    def length(self) -> int:
        return len(self.ids[0])


@dataclass(slots=True)
class _PassCounter:
    """The number of forward `passes` so far."""

    passes: int = 0


def _for_transformers(sampling: Sampling) -> dict[str, Any]:
    """Return the arguments for Transformers' `generate`, without the seed."""
    if not sampling.temperature:
        return {"do_sample": False}
    # Its own default for top_k is 50.
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or 0,
        "top_p": sampling.top_p or 1.0,
    }


@contextmanager
def _random_numbers(sampling: Sampling, device: Any) -> Iterator[None]:
    """Seed the random numbers of the block, or draw a new seed. Restore the caller's generators afterwards."""
    if not sampling.temperature:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        if sampling.seed is None:
            torch.seed()
        else:
            torch.manual_seed(sampling.seed)
        yield


def _stops(options: WritingOptions) -> Callable[[Any], bool]:
    """Return whether the texts are to end, given the ids so far."""
    until, cancelled = options.until, options.cancelled
    return lambda ids: (until is not None and until(ids)) or (cancelled is not None and cancelled())
