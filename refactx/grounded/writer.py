"""A writer of texts after prompts, with or without facts: a model of Transformers with its own generation config.

`generate` takes settings that a call does not give from the model's generation config. So that is replaced, on a shallow
copy of the model, which shares weights and hooks: the caller's model is not changed. Of the model's
`generation_config.json` only the ids of special tokens are used, since its penalties and its sampling are meant for
chat and would change the names in facts.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from refactx.choosing.beam_search import FactBeams
from refactx.choosing.channel import Channel
from refactx.decoding.machine import Machine
from refactx.decoding.partial import Partial, attach_partial
from refactx.decoding.states import FactSource
from refactx.engines.hf.engine import TransformersEngine
from refactx.engines.hf.prefix import Prefix, prefill
from refactx.errors import ModelError
from refactx.fact import Fact
from refactx.grounded.criteria import Interrupt, NextId, RowEnd
from refactx.grounded.model import ground


@dataclass(frozen=True, slots=True)
class PaddedPrompts:
    """Prompts padded to one length: `ids` and attention `mask` of each row; `prefix`: the beginning that all share, if
    it was computed."""

    ids: Sequence[Sequence[int]]
    mask: Sequence[Sequence[int]]
    prefix: Prefix | None = None

    @property
    def length(self) -> int:
        """The number of ids of each row, padding included."""
        return len(self.ids[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingOptions:
    """Options of writing texts.

    `settings`: arguments of Transformers' `generate`; `seed`: for sampling (None: another text each time). `is_end`:
    takes the ids of a text after its prompt, int64[n], and returns whether it has ended; `interrupt`: called with all
    ids so far after each id, ends all texts once it returns True; `streamer`: as `generate` takes it. `next_id`: for
    texts without facts, see `refactx.grounded.criteria.NextId`. The others are for texts with facts, as in
    `GroundedModel.generate`.
    """

    settings: dict[str, Any]
    is_end: Callable[[Any], bool]
    next_id: Callable[[Sequence[int], int, int], int | None]
    interrupt: Callable[[Any], bool] | None = None
    streamer: Any = None
    seed: int | None = None
    fact_beams: FactBeams | None = None
    channel: Channel | None = None
    max_facts: int | None = None
    after_facts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTexts:
    """Texts: `ids`, int64[rows, length], prompts included; `lengths`, the number of ids of each without padding; the
    `facts` of each. `is_interrupted`: whether `interrupt` ended them."""

    ids: torch.Tensor
    lengths: Sequence[int]
    facts: Sequence[Sequence[Fact]]
    is_interrupted: bool


class TextWriter:
    """A writer with one model, over one index or none (None). It has no state between texts.

    `ends`: the ids that end a sequence; `pad`: the id that pads rows; `room`: the most ids that the model takes, prompt
    and text together, None if its config does not say; `engine`: the model, for sequences other than the texts (the
    examples of a channel). Raises as `refactx.ground` does.
    """

    def __init__(self, model: Any, tokenizer: Any, index: FactSource | None) -> None:
        given = model.generation_config
        self.ends = _ids(given.eos_token_id) | _ids(tokenizer.eos_token_id)
        pad = given.pad_token_id if given.pad_token_id is not None else tokenizer.pad_token_id
        self.pad: int = pad if pad is not None else min(self.ends, default=0)
        self.room: int | None = getattr(model.config, "max_position_embeddings", None)
        config: Any = GenerationConfig  # it has no types
        self._model = copy.copy(model)
        self._model.generation_config = config(
            bos_token_id=given.bos_token_id,
            eos_token_id=sorted(self.ends) or None,
            pad_token_id=self.pad if pad is not None or self.ends else None,
        )
        self.engine = TransformersEngine(self._model)
        self._grounded = None if index is None else ground(self._model, tokenizer, index)

    @property
    def machine(self) -> Machine | None:
        """The grammar of the facts of the index; None without an index."""
        return None if self._grounded is None else self._grounded.machine

    def count_facts(self, ids: Sequence[int], prompt_length: int) -> int:
        """Return how many facts a sequence has completed after its prompt."""
        return 0 if self._grounded is None else len(self._grounded.facts([ids], prompt_length)[0])

    def prefill(self, ids: Sequence[int]) -> Prefix | None:
        """Return the prefix that prompts share, computed; None if this model's cache cannot be shared."""
        try:
            return prefill(self._model, torch.tensor([list(ids)]))
        except ModelError:
            return None

    def write(self, prompts: PaddedPrompts, options: WritingOptions, free: bool) -> WrittenTexts:
        """Write a text after each prompt; `free`: without facts."""
        device = self._model.device
        inputs = {
            "input_ids": torch.tensor(prompts.ids, device=device),
            "attention_mask": torch.tensor(prompts.mask, device=device),
        }
        interrupt = Interrupt(options.interrupt or (lambda _: False))
        criteria: list[Any] = [interrupt] if options.interrupt else []
        settings = options.settings | {
            "streamer": options.streamer,
            "stopping_criteria": StoppingCriteriaList([*criteria, RowEnd(options.is_end, prompts.length)]),
        }
        with _random_numbers(bool(settings.get("do_sample")), options.seed, device):
            if free or self._grounded is None:
                out = self._write_freely(inputs, settings, prompts, options)
                return WrittenTexts(
                    ids=out, lengths=[len(row) for row in out], facts=[()] * len(out), is_interrupted=interrupt.is_met
                )
            out = self._grounded.generate(
                **inputs,
                **settings,
                fact_beams=options.fact_beams,
                channel=options.channel,
                prefix=prompts.prefix,
                max_facts=options.max_facts,
                after_facts=options.after_facts,
            )
        lengths = tuple(out.grounding.lengths or map(len, out))
        with attach_partial(lambda: Partial(ids=out, lengths=lengths, facts=((),) * len(out))):
            return WrittenTexts(
                ids=out, lengths=lengths, facts=self._grounded.facts(out), is_interrupted=interrupt.is_met
            )

    def _write_freely(
        self, inputs: dict[str, torch.Tensor], settings: dict[str, Any], prompts: PaddedPrompts, options: WritingOptions
    ) -> torch.Tensor:
        beams = settings.get("num_beams", 1)
        cache = None if prompts.prefix is None else prompts.prefix.cache_for(inputs["input_ids"], beams)
        processor = NextId(options.next_id, prompts.length)
        out: torch.Tensor = self._model.generate(
            **inputs, **settings, past_key_values=cache, logits_processor=LogitsProcessorList([processor])
        )
        return out

    @contextmanager
    def count_passes(self) -> Iterator["PassCounter"]:
        """Count the model's forward passes during the block."""
        counter = PassCounter()

        def count(*_: Any) -> None:
            counter.passes += 1

        hook = self._model.register_forward_pre_hook(count)
        try:
            yield counter
        finally:
            hook.remove()


@dataclass(slots=True)
class PassCounter:
    """The number of forward `passes` so far."""

    passes: int = 0


@contextmanager
def _random_numbers(samples: bool, seed: int | None, device: Any) -> Iterator[None]:
    """Seed the random numbers of the block, or draw a new seed. Restore the caller's generators afterwards."""
    if not samples:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        if seed is None:
            torch.seed()
        else:
            torch.manual_seed(seed)
        yield


def _ids(value: int | list[int] | None) -> set[int]:
    if value is None:
        return set()
    return {value} if isinstance(value, int) else set(value)
