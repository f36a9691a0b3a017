"""A model whose `generate` writes only facts of the index: the processor, and where it can, the loop of forced tokens."""

import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import isroutine
from typing import Any, NoReturn

import torch
from transformers import LogitsProcessorList
from transformers.generation.configuration_utils import GenerationMode

from refactx.choosing.beam_search import FactBeams
from refactx.choosing.channel import Channel
from refactx.decoding.machine import FactSource, Limit, Machine, State
from refactx.decoding.partial import Partial
from refactx.engines.hf.prefix import Prefix, prefill
from refactx.engines.hf.processor import FactLogitsProcessor, check_tokenizer, padding_of
from refactx.engines.loop import ForcedTokens
from refactx.errors import InputError, ModelError, RefactxError
from refactx.fact import Fact

_NO_CONTINUOUS_BATCHING = (
    "continuous batching (generate_batch, cache_implementation='paged') would drop the facts' logits processor and "
    "leave the text unconstrained; use generate() instead"
)


class GroundedModel:
    """A model whose `generate` writes only facts of the index; everything else is the model's own."""

    def __init__(self, model: Any, tokenizer: Any, index: FactSource) -> None:
        check_tokenizer(index, tokenizer)
        self._model, self._machine, self._padding = model, Machine(index), padding_of(tokenizer)
        # By id(), the prompt's length and, where the loop knows them, the rows' states; an entry goes when the output does.
        self._outputs: dict[int, tuple[int, list[State] | None]] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # not there yet, as in copy.copy: no endless recursion
            raise AttributeError(name)
        found = getattr(self._model, name)
        return self._grounding(found) if isroutine(found) else found  # (submodules can be called, but are no routines)

    def _grounding(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method of the model that returns this where that returns the model (`eval`, `to`): which would be unconstrained."""

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            returned = method(*args, **kwargs)
            return self if returned is self._model else returned

        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own forward pass."""
        return self._model(*args, **kwargs)

    def generate(
        self,
        inputs: Any = None,
        *args: Any,
        logits_processor: Any = None,
        fact_beams: int | FactBeams | None = None,
        channel: Channel | None = None,
        prefix: Prefix | None = None,
        max_facts: int | None = None,
        after_facts: str = "",
        **kwargs: Any,
    ) -> Any:
        """Call the model's `generate` with the facts' processor behind any others given; returns what it returns.

        Greedy decoding and sampling append forced tokens without a forward pass (`refactx.engines.loop`); all other modes run
        Transformers' own loops. `fact_beams`: search each fact with so many beams (`FactBeams` for more options), rows
        one after another. `channel`: choose facts by the question (`refactx.choosing.channel`), of a single row and without fact
        beams. `prefix`: what `prefill` computed of the beginning of all rows. `max_facts`: behind so many facts a row goes on
        with `after_facts` on a line of its own, and ends where it begins another fact.

        Raises RefactxError where Transformers would switch to continuous batching, InputError for fact beams where the
        text itself is not greedy or sampled, or for rows that do not begin with the prefix, ModelError for a model that
        can have neither.
        """
        if len(args) > 1:
            raise InputError("give generate's logits_processor and what follows it by name")
        config = args[0] if args else kwargs.pop("generation_config", None)
        for cache in (kwargs.get("cache_implementation"), getattr(config, "cache_implementation", None)):
            if cache == "paged":
                raise RefactxError(_NO_CONTINUOUS_BATCHING)
        kwargs["generation_config"] = config
        prompt = inputs if inputs is not None else kwargs.get("input_ids")
        length = None if prompt is None or self._is_encoder_decoder else int(prompt.shape[1])
        beams = FactBeams(fact_beams) if isinstance(fact_beams, int) else fact_beams
        rows = 0 if prompt is None else len(prompt) * (self._setting("num_return_sequences", kwargs) or 1)
        if channel is not None and (beams is not None or rows != 1):
            raise InputError("a channel chooses the facts of one row, without fact beams: give one row at a time")
        if self._is_encoder_decoder and (beams is not None or prefix is not None):
            raise ModelError(
                f"fact beams and prefix need a decoder-only model, which {type(self._model).__name__} is not: leave them out"
            )
        if beams is not None and prompt is not None:
            each = self._setting("num_return_sequences", kwargs) or 1
            if len(prompt) * each > 1:
                limits = {"prefix": prefix, "max_facts": max_facts, "after_facts": after_facts}
                return self._one_by_one(prompt, each, logits_processor, beams, limits, kwargs)
        keeps_cache = kwargs.get("past_key_values") is not None or self._setting("return_dict_in_generate", kwargs)
        if prefix is not None:
            if kwargs.get("past_key_values") is not None:
                raise InputError("a prefix brings its cache: give either prefix or past_key_values")
            copies = [self._setting(name, kwargs) or 1 for name in ("num_beams", "num_return_sequences")]
            cache = prefix.cache_for(prompt, max(copies))
            if self._takes_a_cache(kwargs):
                kwargs["past_key_values"] = cache
        machine = self._machine if max_facts is None else self._limited(max_facts, after_facts, kwargs)
        processor = FactLogitsProcessor.of(machine, self._padding, length)
        kwargs["logits_processor"] = LogitsProcessorList([*(logits_processor or []), processor])
        loop = None
        if self._is_stepwise(kwargs):
            loop = ForcedTokens(
                *(machine, self._padding, processor, length, kwargs.get("streamer"), beams, bool(keeps_cache)), channel
            )
            kwargs["custom_generate"] = loop
        elif beams is not None or channel is not None:
            raise InputError(
                "fact beams and channels search within greedy or sampled text: leave out num_beams and its like, and "
                "stop_strings and tokenizer (stopping_criteria=[StopStringCriteria(tokenizer, ...)] does the same)"
            )
        out = self._model.generate(inputs, **kwargs)
        if length is None:
            length = processor.prompt_length if loop is None else loop.prompt_length
        if length is not None:
            self._remember(out, length, None if loop is None else loop.states)
        return out

    def prefill(self, input_ids: Any) -> Prefix:
        """Compute the beginning that prompts share, int64[1, length], once: for `generate(prefix=...)`, any number of times.

        Raises ModelError for a model whose cache cannot be shared.
        """
        return prefill(self._model, input_ids)

    @property
    def machine(self) -> Machine:
        """The states of sequences over the index."""
        return self._machine

    @property
    def _is_encoder_decoder(self) -> bool:
        return bool(getattr(self._model.config, "is_encoder_decoder", False))

    def _setting(self, name: str, kwargs: dict[str, Any]) -> Any:
        """A setting of this call: from its arguments, its generation config or the model's."""
        configs = (kwargs["generation_config"], self._model.generation_config)
        return kwargs.get(name, next((v for c in configs if (v := getattr(c, name, None)) is not None), None))

    def _is_stepwise(self, kwargs: dict[str, Any]) -> bool:
        """Whether this call is plain greedy decoding or sampling, all of which our own loop knows."""
        if self._is_encoder_decoder or any(
            kwargs.get(name) is not None for name in ("custom_generate", "synced_gpus", "tokenizer", "assistant_model")
        ):
            return False
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return False
        given = {name: value for name, value in kwargs.items() if name not in _NOT_OF_THE_CONFIG}
        config, _ = self._model._prepare_generation_config(**given)
        if config.stop_strings is not None:
            return False
        return config.get_generation_mode() in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)

    def _limited(self, max_facts: int, after_facts: str, kwargs: dict[str, Any]) -> Machine:
        """The machine for this call's limit of facts. Raises InputError for one below 1."""
        if max_facts < 1:
            raise InputError(f"at most {max_facts} facts: give at least 1")
        encode, end = self._machine.source.tokenizer.encode, self._setting("eos_token_id", kwargs)
        ends = end.tolist() if isinstance(end, torch.Tensor) else end
        last = ends[:1] if isinstance(ends, list | tuple) else [] if ends is None else [ends]
        line, rest = encode(f"\n{after_facts}"), encode(after_facts)
        return self._machine.limited(Limit(max_facts, tuple(line) if after_facts else (), tuple(rest), tuple(last)))

    def _takes_a_cache(self, kwargs: dict[str, Any]) -> bool:
        """Whether Transformers can go on from a prompt's cache in this call: else the prompt is simply computed again."""
        assisted = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "cache_implementation")
        if any(self._setting(name, kwargs) is not None for name in assisted):
            return False
        return self._setting("use_cache", kwargs) is not False

    def _one_by_one(
        self,
        prompt: Any,
        each: int,
        logits_processor: Any,
        beams: FactBeams,
        limits: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """`each` texts for each row, one after another, put together as `generate` would."""
        mask = kwargs.pop("attention_mask", None)
        kwargs.pop("input_ids", None)
        if kwargs.get("streamer") is not None or self._setting("return_dict_in_generate", kwargs):
            raise InputError(
                "fact beams over several rows neither stream nor return a dictionary: give one row at a time"
            )
        rows: list[torch.Tensor] = []
        states: list[State] = []
        if each > 1:
            kwargs["num_return_sequences"] = 1
        allowed = kwargs.pop("prefix_allowed_tokens_fn", None)
        for n in (row for row in range(len(prompt)) for _ in range(each)):
            own = None if mask is None else mask[n : n + 1]
            if allowed is not None:  # it is told which row of the whole batch it is asked about, copies counted
                number = len(rows)
                kwargs["prefix_allowed_tokens_fn"] = lambda _, ids, number=number: allowed(number, ids)
            try:
                out = self.generate(
                    prompt[n : n + 1],
                    logits_processor=logits_processor,
                    fact_beams=beams,
                    attention_mask=own,
                    **limits,
                    **kwargs,
                )
            except RefactxError as error:
                if error.partial is not None:
                    begun = [*rows, error.partial.ids[0]]
                    begun += list(prompt.repeat_interleave(each, dim=0))[len(begun) :]
                    done = [self.machine.facts_of(state) for state in states]
                    found = [*done, *error.partial.facts, *[()] * len(begun)][: len(begun)]
                    error.partial = Partial(self._together(begun, kwargs), tuple(map(len, begun)), tuple(found))
                raise
            rows.append(out[0])
            states += self._outputs[id(out)][1] or []
        out = self._together(rows, kwargs)
        self._remember(out, int(prompt.shape[1]), states)
        return out

    def _together(self, rows: list[torch.Tensor], kwargs: dict[str, Any]) -> torch.Tensor:
        """Rows of one length, padded on the right."""
        pad = self._pad(kwargs, min(self._padding or {0}))
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)

    def _pad(self, kwargs: dict[str, Any], otherwise: int) -> int:
        pad = self._setting("pad_token_id", kwargs)
        return otherwise if pad is None else int(pad)

    def _remember(self, out: Any, prompt_length: int, states: list[State] | None = None) -> None:
        for returned in {id(o): o for o in (out, getattr(out, "sequences", out))}.values():
            self._outputs[id(returned)] = prompt_length, states
            weakref.finalize(returned, self._outputs.pop, id(returned), None).atexit = False

    def facts(self, out: Any, prompt_length: int | None = None) -> list[list[Fact]]:
        """The facts that each sequence of `out` completed, `out` being what `generate` returned, or ids [rows, length].

        `prompt_length`: how many ids of each are the prompt; None: what it was in the call that returned `out`.
        Raises InputError if that is not known.
        """
        length, states = self._outputs.get(id(out), (None, None)) if prompt_length is None else (prompt_length, None)
        if length is None:
            raise InputError("these ids are not what generate() returned; pass facts(out, prompt_length=...)")
        if states is not None:  # so the tree, and its database, need not be asked again
            return [list(self.machine.facts_of(state)) for state in states]
        sequences: Sequence[Any] = getattr(out, "sequences", out)
        rows = sequences.tolist() if hasattr(sequences, "tolist") else sequences
        return [self._machine.facts(row, length, self._padding) for row in rows]

    def generate_batch(self, *_: Any, **__: Any) -> NoReturn:
        """Blocked: raises RefactxError, since continuous batching would leave the text unconstrained."""
        raise RefactxError(_NO_CONTINUOUS_BATCHING)

    init_continuous_batching = generate_batch
    continuous_batching_context_manager = generate_batch


_NOT_OF_THE_CONFIG = {
    *("logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn", "streamer", "inputs", "input_ids"),
    *("negative_prompt_ids", "negative_prompt_attention_mask", "custom_generate", "trust_remote_code"),
    *("tokenizer", "assistant_tokenizer", "assistant_model", "synced_gpus"),
}


def ground(model: Any, tokenizer: Any, index: FactSource) -> GroundedModel:
    """Wrap a language model so that its `generate` writes only facts of the index.

    Raises TokenizerMismatchError if the index is for another tokenizer.
    """
    return GroundedModel(model, tokenizer, index)
