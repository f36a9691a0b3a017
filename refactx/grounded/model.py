"""A model whose `generate` writes only facts of the index: with forced tokens, or by the logits processor."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import isroutine
from typing import Any, NoReturn, cast

import torch
from transformers import LogitsProcessorList
from transformers.generation.configuration_utils import GenerationMode

from refactx.choosing.beam_search import FactBeams
from refactx.choosing.channel import Channel
from refactx.choosing.strategy import choose_strategy
from refactx.decoding.machine import Machine
from refactx.decoding.second_grammar import SecondGrammar
from refactx.decoding.states import FactLimit, FactSource
from refactx.engines.hf.custom_generate import ForcedTokens, Grounding, check_ends
from refactx.engines.hf.prefix import Prefix, prefill
from refactx.engines.hf.processor import FactLogitsProcessor, check_model, check_tokenizer, padding_of, rows_of
from refactx.errors import InputError, ModelError, RefactxError
from refactx.fact import Fact
from refactx.query.decoding import QueryGrammar
from refactx.query.tree_facts import TreeFacts

_NO_CONTINUOUS_BATCHING = (
    "continuous batching (generate_batch, cache_implementation='paged') drops the facts' logits processor, which leaves "
    "the text unconstrained: call generate() without it"
)

_NOT_IN_CONFIG = {
    *("logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn", "streamer", "inputs", "input_ids"),
    *("negative_prompt_ids", "negative_prompt_attention_mask", "custom_generate", "trust_remote_code"),
    *("tokenizer", "assistant_tokenizer", "assistant_model", "synced_gpus"),
}
"""Arguments of `generate` that are not settings of a generation config."""


class GroundedModel:
    """A model whose `generate` writes only facts of the index after a trigger; everything else is the model's own.

        grounded = refactx.ground(model, tokenizer, index)
        out = grounded.generate(**tokenizer("...", return_tensors="pt"), max_new_tokens=100)
        grounded.facts(out)  # a list of `refactx.Fact` for each row

    Raises as `ground` does.
    """

    def __init__(self, model: Any, tokenizer: Any, index: FactSource, *, queries: bool | SecondGrammar = False) -> None:
        check_tokenizer(index, tokenizer)
        check_model(model, tokenizer, index.tokenizer.plain_size)
        grammar = queries if not isinstance(queries, bool) else None
        if queries is True:  # they need more of an index than facts do: an open `refactx.Index`
            grammar = QueryGrammar(TreeFacts(cast(Any, index)))
        self._model, self._machine, self._padding = model, Machine(index, grammar), padding_of(tokenizer)

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # not yet set, as in copy.copy: avoid an endless recursion
            raise AttributeError(name)
        found = getattr(self._model, name)
        return self._wrap(found) if isroutine(found) else found  # (submodules are callable, but not routines)

    def _wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method of the model, which returns this object if it would return the model itself (`eval`, `to`)."""

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            returned = method(*args, **kwargs)
            return self if returned is self._model else returned

        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model's own forward pass."""
        return self._model(*args, **kwargs)

    def generate(
        self,
        inputs: Any = None,
        *args: Any,
        logits_processor: Any = None,
        fact_beams: int | FactBeams | None = None,
        channel: Channel | Sequence[Channel] | None = None,
        prefix: Prefix | None = None,
        max_facts: int | None = None,
        after_facts: str = "",
        **kwargs: Any,
    ) -> Any:
        """Call the model's `generate` with a logits processor for facts after the given ones; return its output.

        Greedy decoding and sampling append forced tokens without a forward pass (`refactx.engines.row`); other modes
        run Transformers' own loops. The output has an attribute `grounding`, which `facts` reads.

        `fact_beams`: search each fact with this many beams (`FactBeams` has more options).
        `channel`: choose facts by the question (`refactx.choosing.channel`), without fact beams; for several rows, give
        one for each.
        `prefix`: the result of `prefill` for the beginning of all rows. `max_facts`: after this many facts, a row
        continues with `after_facts` on a line of its own, and it ends if it begins another fact.

        Raises InputError for options that exclude each other, such as fact beams with `num_beams`, for `inputs_embeds`
        without the `input_ids` of the same positions, and for rows that do not begin with the prefix; ModelError for
        fact beams or a prefix with an encoder-decoder model, and beams that would end within a fact; RefactxError for
        continuous batching. Errors of the index have the output so far as `partial`.
        """
        if len(args) > 1:
            raise InputError("generate() takes two positional arguments: give logits_processor and the rest by name")
        kwargs["generation_config"] = args[0] if args else kwargs.pop("generation_config", None)
        _refuse_continuous_batching(kwargs)
        prompt = inputs if inputs is not None else kwargs.get("input_ids")
        length = None if prompt is None or self._is_encoder_decoder else int(prompt.shape[1])
        _check_prompt(prompt, kwargs.get("inputs_embeds"), rows_of(self._model))
        copies = self._setting("num_return_sequences", kwargs) or 1
        rows = 0 if prompt is None else len(prompt) * copies
        beams = FactBeams(fact_beams) if isinstance(fact_beams, int) else fact_beams
        channels = [channel] if isinstance(channel, Channel) else list(channel or ())
        keeps_cache = kwargs.get("past_key_values") is not None or self._setting("return_dict_in_generate", kwargs)
        self._check_search(rows, beams, channels, prefix)
        if rows > 1 and (beams or channels) and (kwargs.get("streamer") is not None or keeps_cache):
            raise InputError(
                "fact beams or channels over several rows were given with streamer, past_key_values or "
                "return_dict_in_generate: leave these out, or give one row at a time"
            )
        if prefix is not None:
            self._add_prefix(prefix, prompt, kwargs)
        machine = self._machine if max_facts is None else self._limited(max_facts, after_facts, kwargs)
        processor = FactLogitsProcessor.of(machine, self._padding, prompt_length=length)
        kwargs["logits_processor"] = LogitsProcessorList([*(logits_processor or []), processor])
        loop = None
        if self._is_stepwise(kwargs):
            loop = kwargs["custom_generate"] = ForcedTokens(
                machine=machine,
                choosers=lambda row: choose_strategy(machine, beams, channels[row] if channels else None),
                own=processor,
                padding=self._padding,
                prompt_length=length,
                streamer=kwargs.get("streamer"),
                keeps_cache=bool(keeps_cache),
            )
        elif beams is not None or channels:
            raise InputError(
                "fact beams and channels need greedy or sampled text: leave out num_beams and other modes; in place of "
                "stop_strings and tokenizer, give stopping_criteria=[StopStringCriteria(tokenizer, ...)]"
            )
        else:
            check_ends(machine, self._setting("eos_token_id", kwargs))
        out = self._model.generate(inputs, **kwargs)
        grounding = None if loop is None else loop.grounding
        length = processor.prompt_length if length is None else length
        if grounding is None and length is not None:
            grounding = Grounding(self._machine.source, length)
        if grounding is not None:
            grounding.attach(out)
        return out

    def prefill(self, input_ids: Any) -> Prefix:
        """Compute the beginning that prompts share, int64[1, length], for any number of calls `generate(prefix=...)`.

        Raises InputError for another shape, ModelError for a model whose cache cannot be shared.
        """
        return prefill(self._model, input_ids)

    @property
    def machine(self) -> Machine:
        """The grammar of the facts of the index."""
        return self._machine

    def facts(self, out: Any, prompt_length: int | None = None) -> list[list[Fact]]:
        """Return the facts that each sequence of `out` completed after its prompt.

        `out`: the output of `generate`, or ids [rows, length]. `prompt_length`: how many ids of each sequence are the
        prompt, by default as in the call that returned `out`. Raises InputError if that is not known.
        """
        grounding = self._grounding(out, prompt_length)
        if grounding.states is not None:  # no lookup in the index is needed
            return [list(self.machine.facts_of(state)) for state in grounding.states]
        return [self._machine.facts(row, grounding.prompt_length, self._padding) for row in _rows(out)]

    def queries(self, out: Any, prompt_length: int | None = None) -> list[list[str]]:
        """Return the queries that each sequence of `out` completed after its prompt, as text.

        The arguments and errors are those of `facts`.

            grounded.queries(out)  # such as [["count <Louisiana> <nickname> ."]]
        """
        length = self._grounding(out, prompt_length).prompt_length
        return [self._machine.queries(row, length, self._padding) for row in _rows(out)]

    def generate_batch(self, *_: Any, **__: Any) -> NoReturn:
        """Raise RefactxError, since continuous batching would leave the text unconstrained."""
        raise RefactxError(_NO_CONTINUOUS_BATCHING)

    init_continuous_batching = generate_batch
    continuous_batching_context_manager = generate_batch

    def _grounding(self, out: Any, prompt_length: int | None) -> Grounding:
        source = self._machine.source
        grounding = getattr(out, "grounding", None) if prompt_length is None else Grounding(source, prompt_length)
        if not isinstance(grounding, Grounding) or grounding.source is not source:
            raise InputError("these ids are not the output of generate(): call facts(out, prompt_length=...)")
        return grounding

    @property
    def _is_encoder_decoder(self) -> bool:
        return bool(getattr(self._model.config, "is_encoder_decoder", False))

    def _check_search(
        self, rows: int, beams: FactBeams | None, channels: Sequence[Channel], prefix: Prefix | None
    ) -> None:
        if channels and beams is not None:
            raise InputError("channels and fact beams were both given: leave one out, since both choose the facts")
        if channels and len({id(each) for each in channels}) != rows:
            raise InputError(
                f"{len(channels)} channels were given for {rows} rows: give each row a channel of its own, since it is for "
                "one question"
            )
        if self._is_encoder_decoder and (beams is not None or prefix is not None):
            name = type(self._model).__name__
            raise ModelError(f"fact beams and a prefix need a decoder-only model, which {name} is not: leave them out")

    def _setting(self, name: str, kwargs: dict[str, Any]) -> Any:
        """Return a setting of this call: from its arguments, its generation config or the model's."""
        configs = (kwargs["generation_config"], self._model.generation_config)
        return kwargs.get(name, next((v for c in configs if (v := getattr(c, name, None)) is not None), None))

    def _is_stepwise(self, kwargs: dict[str, Any]) -> bool:
        """Return whether this call is plain greedy decoding or sampling, which our own loop can do."""
        if self._is_encoder_decoder or any(
            kwargs.get(name) is not None for name in ("custom_generate", "synced_gpus", "tokenizer", "assistant_model")
        ):
            return False
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return False
        given = {name: value for name, value in kwargs.items() if name not in _NOT_IN_CONFIG}
        config, _ = self._model._prepare_generation_config(**given)
        if config.stop_strings is not None:
            return False
        return config.get_generation_mode() in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)

    def _limited(self, max_facts: int, after_facts: str, kwargs: dict[str, Any]) -> Machine:
        """Return the machine for this call's limit of facts. Raises InputError for one below 1."""
        if max_facts < 1:
            raise InputError(f"at most {max_facts} facts: give at least 1")
        encode, end = self._machine.source.tokenizer.encode, self._setting("eos_token_id", kwargs)
        ends = end.tolist() if isinstance(end, torch.Tensor) else end
        last = ends[:1] if isinstance(ends, list | tuple) else [] if ends is None else [ends]
        return self._machine.limited(FactLimit.of(encode, max_facts, after_facts, last))

    def _add_prefix(self, prefix: Prefix, prompt: Any, kwargs: dict[str, Any]) -> None:
        """Add the prefix's cache to a call if Transformers can continue from it; else the whole prompt is computed."""
        if kwargs.get("past_key_values") is not None:
            raise InputError("prefix and past_key_values were both given: a prefix has its own cache, leave one out")
        copies = [self._setting(name, kwargs) or 1 for name in ("num_beams", "num_return_sequences")]
        cache = prefix.cache_for(prompt, max(copies))
        others = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "cache_implementation")
        if (
            all(self._setting(name, kwargs) is None for name in others)
            and self._setting("use_cache", kwargs) is not False
        ):
            kwargs["past_key_values"] = cache


def ground(model: Any, tokenizer: Any, index: FactSource, *, queries: bool | SecondGrammar = False) -> GroundedModel:
    """Wrap a language model of Transformers so that its `generate` writes only facts of the index after a trigger.

    `tokenizer`: the model's, a fast one. `queries`: after `Query:`, it writes only queries that the index can answer;
    they need an index that `refactx.open_index` returned. Or another grammar of queries, `refactx.sparql.SparqlGrammar`.

        grounded = refactx.ground(model, tokenizer, index, queries=True)

    Raises TokenizerMismatchError if the index was built for another tokenizer; ModelError if the tokenizer cannot write
    the index's trigger or terminator, or queries, and for a model that has fewer embeddings than its tokenizer's plain
    text has ids, or a learned prompt (of peft).
    """
    return GroundedModel(model, tokenizer, index, queries=queries)


def _check_prompt(ids: Any, embeddings: Any, rows: int) -> None:
    """Raise InputError unless the ids of a prompt are given, and are `rows` of the model."""
    if embeddings is not None and (ids is None or ids.shape[1] != embeddings.shape[1]):
        raise InputError(
            "the prompt was given as inputs_embeds alone, which do not show whether a fact has begun: give the input_ids of "
            "the same positions too, with any id that has no text where there is none"
        )
    if isinstance(ids, torch.Tensor) and not ids.is_floating_point() and ids.numel() and int(ids.max()) >= rows:
        raise InputError(
            f"the prompt has the id {int(ids.max())}, and the model has embeddings of {rows} tokens: leave out added tokens "
            "that the model does not know (one may pad the prompt), or call model.resize_token_embeddings"
        )


def _refuse_continuous_batching(kwargs: dict[str, Any]) -> None:
    config = kwargs["generation_config"]
    if "paged" in (kwargs.get("cache_implementation"), getattr(config, "cache_implementation", None)):
        raise RefactxError(_NO_CONTINUOUS_BATCHING)


def _rows(out: Any) -> Sequence[Any]:
    """Return the ids of each row of an output of `generate`."""
    sequences: Sequence[Any] = getattr(out, "sequences", out)
    return sequences.tolist() if hasattr(sequences, "tolist") else sequences
