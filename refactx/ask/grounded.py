"""A model of Transformers whose `generate` writes only facts of the index, and the writer that calls it.

Greedy and sampled text is written with forced tokens, other modes of `generate` by the logits processor.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import isroutine
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NoReturn, cast

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList
from transformers.generation.configuration_utils import GenerationMode

from refactx.ask.writer import TextRequest, WritingError, WritingOptions, WrittenText
from refactx.decoding.machine import Machine
from refactx.decoding.states import FactLimit, FactSource, LineConstraint
from refactx.decoding.stream import Partial
from refactx.engines.transformers.generate import FastForwardGenerate, Grounding, check_ends
from refactx.engines.transformers.internals import CACHE, CACHES, generation_config, has_cache
from refactx.engines.transformers.processor import (
    FactLogitsProcessor,
    check_model,
    check_tokenizer,
    padding_of,
    rows_of,
)
from refactx.engines.transformers.rows import Prefix, TransformersModel, prefill
from refactx.engines.writer import Sampling
from refactx.errors import InputError, ModelError, RefactxError
from refactx.fact import Fact
from refactx.index.open import opened
from refactx.selection.beams import FactBeams, choose_strategy
from refactx.selection.channel import Channel
from refactx.selection.chooser import NOT_CHOSEN
from refactx.walks.decoding import QueryGrammar
from refactx.walks.facts import TreeFacts

_log = logging.getLogger(__name__)

_NO_CONTINUOUS_BATCHING = (
    "continuous batching (generate_batch, cache_implementation='paged') drops the facts' logits processor, which leaves "
    "the text unconstrained: call generate() without it"
)

_NOT_IN_CONFIG = {
    *("logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn", "streamer", "inputs", "input_ids"),
    *("negative_prompt_ids", "negative_prompt_attention_mask", "custom_generate", "trust_remote_code"),
    *("tokenizer", "assistant_tokenizer", "assistant_model", "synced_gpus", *CACHES),
}
"""Arguments of `generate` that are not settings of a generation config."""


class GroundedModel:
    """A model whose `generate` writes only facts of the index after a trigger; everything else is the model's own.

        grounded = refactx.ground(model, tokenizer, index)
        out = grounded.generate(**tokenizer("...", return_tensors="pt"), max_new_tokens=100)
        grounded.facts(out)  # a list of `refactx.Fact` for each row

    Raises as `ground` does.
    """

    def __init__(
        self, model: Any, tokenizer: Any, index: FactSource, *, queries: bool | LineConstraint[Any] = False
    ) -> None:
        check_tokenizer(index, tokenizer)
        check_model(model, tokenizer, index.tokenizer.plain_size)
        grammar = queries if not isinstance(queries, bool) else None
        if queries is True:  # they need more of an index than facts do: an open `refactx.Index`
            grammar = QueryGrammar(TreeFacts(cast(Any, index)), index)
        self._model, self._machine, self._padding = model, Machine(index, grammar), padding_of(tokenizer)

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # not yet set, as in copy.copy: avoid an endless recursion
            raise AttributeError(name)
        found = getattr(self._model, name)
        if not isroutine(found):  # (submodules are callable, but not routines)
            return found

        @wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            returned = found(*args, **kwargs)
            return self if returned is self._model else returned  # as `eval` and `to` do

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

        Greedy decoding and sampling append forced tokens without a forward pass (`refactx.engines.writer`); other modes
        run Transformers' own loops. The output has an attribute `grounding`, which `facts` reads.

        `fact_beams`: search each fact with this many beams (`FactBeams` has more options). `channel`: choose facts by the
        question (`refactx.selection.channel`), without fact beams; for several rows, give one for each. `prefix`: the
        result of `prefill` for the beginning of all rows. `max_facts`: after this many facts, a row continues with
        `after_facts` on a line of its own, and it ends if it begins another fact.

        Raises InputError for options that exclude each other, such as fact beams with `num_beams`, for `inputs_embeds`
        without the `input_ids` of the same positions, and for rows that do not begin with the prefix; ModelError for
        fact beams or a prefix with an encoder-decoder model, and beams that would end within a fact; RefactxError for
        continuous batching. Errors of the index have the output so far as `partial`.
        """
        if len(args) > 1:
            raise InputError("generate() takes two positional arguments: give logits_processor and the rest by name")
        config = kwargs["generation_config"] = args[0] if args else kwargs.pop("generation_config", None)
        if "paged" in (kwargs.get("cache_implementation"), getattr(config, "cache_implementation", None)):
            raise RefactxError(_NO_CONTINUOUS_BATCHING)
        prompt = inputs if inputs is not None else kwargs.get("input_ids")
        _check_prompt(prompt, kwargs.get("inputs_embeds"), rows_of(self._model))
        beams = FactBeams(fact_beams) if isinstance(fact_beams, int) else fact_beams
        channels = [channel] if isinstance(channel, Channel) else list(channel or ())
        keeps = has_cache(kwargs) or bool(self._setting("return_dict_in_generate", kwargs))
        rows = 0 if prompt is None else len(prompt) * (self._setting("num_return_sequences", kwargs) or 1)
        self._check_search(rows, beams, channels, prefix, keeps=keeps or kwargs.get("streamer") is not None)
        if prefix is not None:
            self._add_prefix(prefix, prompt, kwargs)
        machine = self._machine if max_facts is None else self._limited(max_facts, after_facts, kwargs)
        length = None if prompt is None or self._is_encoder_decoder else int(prompt.shape[1])
        processor = FactLogitsProcessor.of(machine, self._padding, prompt_length=length)
        kwargs["logits_processor"] = LogitsProcessorList([*(logits_processor or []), processor])
        loop = None
        if self._is_stepwise(kwargs):
            loop = kwargs["custom_generate"] = FastForwardGenerate(
                machine=machine,
                choosers=lambda row: choose_strategy(machine, beams, channels[row] if channels else None),
                own=processor,
                padding=self._padding,
                prompt_length=length,
                streamer=kwargs.get("streamer"),
                keeps_cache=keeps,
            )
        else:
            _check_other_mode(machine, self._setting("eos_token_id", kwargs), beams is not None or bool(channels))
        out = self._model.generate(inputs, **kwargs)
        grounding = None if loop is None else loop.grounding
        length = processor.prompt_length if length is None else length
        if grounding is None and length is not None:
            grounding = Grounding(self._machine.source, length)
        return out if grounding is None else grounding.attach(out)

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
        self, rows: int, beams: FactBeams | None, channels: Sequence[Channel], prefix: Prefix | None, *, keeps: bool
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
        if rows > 1 and (beams or channels) and keeps:
            raise InputError(
                f"fact beams or channels over several rows were given with streamer, {CACHE} or "
                "return_dict_in_generate: leave these out, or give one row at a time"
            )

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
        config = generation_config(self._model, **given)
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
        if has_cache(kwargs):
            raise InputError(f"prefix and {CACHE} were both given: a prefix has its own cache, leave one out")
        copies = [self._setting(name, kwargs) or 1 for name in ("num_beams", "num_return_sequences")]
        cache = prefix.cache_for(prompt, max(copies))
        others = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "cache_implementation")
        if (
            all(self._setting(name, kwargs) is None for name in others)
            and self._setting("use_cache", kwargs) is not False
        ):
            kwargs[CACHE] = cache


def ground(
    model: Any, tokenizer: Any, index: FactSource | str | Path, *, queries: bool | LineConstraint[Any] = False
) -> GroundedModel:
    """Wrap a language model of Transformers so that its `generate` writes only facts of the index after a trigger.

    `tokenizer`: the model's, a fast one. `index`: an open one, or what `refactx.open_index` takes. `queries`: after
    `Query:`, it writes only queries that the index can answer; they need an index that `refactx.open_index` returned. Or
    another constraint of lines, `refactx.sparql.SparqlGrammar`.

        grounded = refactx.ground(model, tokenizer, index, queries=True)

    Raises TokenizerMismatchError if the index was built for another tokenizer; ModelError if the tokenizer cannot write
    the index's trigger or terminator, or queries, and for a model that has fewer embeddings than its tokenizer's plain
    text has ids, or a learned prompt (of peft).
    """
    return GroundedModel(model, tokenizer, opened(index), queries=queries)


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


def _check_other_mode(machine: Machine, ends: Any, searches: bool) -> None:
    """Raise InputError or ModelError for what Transformers' own loops cannot do. `searches`: with beams or channels."""
    if searches:
        raise InputError(
            "fact beams and channels need greedy or sampled text: leave out num_beams and other modes; in place of "
            "stop_strings and tokenizer, give stopping_criteria=[StopStringCriteria(tokenizer, ...)]"
        )
    check_ends(machine, ends)


def _rows(out: Any) -> Sequence[Any]:
    """Return the ids of each row of an output of `generate`."""
    sequences: Sequence[Any] = getattr(out, "sequences", out)
    return sequences.tolist() if hasattr(sequences, "tolist") else sequences


class Interrupt(StoppingCriteria):
    """A criterion that ends all rows once `condition` returns True, such as after a signal.

    It is called with the ids so far, int64[rows, length], after each id. `is_met`: whether it returned True.
    """

    row_wise = True  # `refactx.engines.transformers.generate` may call it for one row at a time

    def __init__(self, condition: Callable[[Any], bool]) -> None:
        self._condition = condition
        self.is_met = False

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """Return whether each row has ended: bool[rows]."""
        self.is_met = self.is_met or self._condition(input_ids)
        return torch.full((len(input_ids),), self.is_met, device=input_ids.device)  # type: ignore[return-value]


class RowEnd(StoppingCriteria):
    """A criterion that ends each row once `is_end` returns True for its ids after the prompt, int64[n]."""

    row_wise = True

    def __init__(self, is_end: Callable[[NDArray[np.int64]], bool], prompt_length: int) -> None:
        self._is_end, self._length = is_end, prompt_length

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:
        """Return whether each row has ended: bool[rows], for ids int64[rows, length]."""
        ended = [self._is_end(row[self._length :]) for row in input_ids.numpy(force=True)]
        return torch.tensor(ended, device=input_ids.device)  # type: ignore[return-value]


class NextId(LogitsProcessor):
    """A logits processor that forces the ids of a line in a row, id by id, also under beams.

    `line`: takes the ids of a row after its prompt, and the likeliest next id, and returns the line that has to follow;
    empty if the model is to choose. Rows with other ids have lines of their own. An object serves one call of `generate`.
    """

    def __init__(self, line: Callable[[Sequence[int], int], Sequence[int]], prompt_length: int) -> None:
        self._line, self._length = line, prompt_length
        self._begun: dict[tuple[int, ...], Sequence[int]] = {}  # by the ids before the line, prompt included

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return the scores, float[rows, vocabulary], with minus infinity for all other ids of a row with a forced id."""
        best, likeliest = scores.max(-1)
        for row, number in enumerate(likeliest.tolist()):
            wanted = self._next(tuple(input_ids[row].tolist()), number)
            if wanted is not None:
                scores = scores.clone()  # type: ignore[assignment]
                scores[row] = -torch.inf
                scores[row, wanted] = best[row]
        return scores

    def _next(self, ids: tuple[int, ...], likeliest: int) -> int | None:
        for written in range(1, max(map(len, self._begun.values()), default=0)):
            line = self._begun.get(ids[:-written], ())
            if written < len(line) and list(ids[-written:]) == list(line[:written]):
                return line[written]
        line = self._line(ids[self._length :], likeliest)
        if not line:
            return None
        self._begun[ids] = line
        return line[0]


class GenerateWriter:
    """A `refactx.ask.writer.Writer` that calls `generate` for each batch. Raises as `refactx.ground` does."""

    def __init__(self, model: TransformersModel, index: FactSource | None) -> None:
        self._model = model
        self._grounded = None if index is None else ground(model.model, model.tokenizer, index)
        self._prefixes: dict[tuple[int, ...], Prefix | None] = {}
        self._lock = Lock()  # for these
        self._has_encoder = bool(model.model.config.is_encoder_decoder)

    @property
    def machine(self) -> Machine | None:
        return None if self._grounded is None else self._grounded.machine

    def write(self, orders: Sequence[TextRequest], options: WritingOptions, at_once: int = 1) -> Iterator[WrittenText]:
        if any(order.channel is not None for order in orders):
            at_once = 1  # a batch of a model without an engine chooses no facts by questions
        for first in range(0, len(orders), at_once):
            texts = self._write_batch(orders[first : first + at_once], options)
            yield from texts
            if any(text.is_interrupted for text in texts):
                return

    def _write_batch(self, orders: Sequence[TextRequest], options: WritingOptions) -> list[WrittenText]:
        started, batch = perf_counter(), self._pad(orders, options)
        until, cancelled = options.until, options.cancelled
        interrupt = Interrupt(lambda ids: (until is not None and until(ids)) or (cancelled is not None and cancelled()))
        passes = 0

        def count(*_: Any) -> None:
            nonlocal passes
            passes += 1

        with self._model.model.register_forward_pre_hook(count):

            def texts(
                ids: Any, lengths: Sequence[int], facts: Sequence[Sequence[Fact]], is_whole: bool = True
            ) -> list[WrittenText]:
                beams, seconds = len(ids) // len(orders), (perf_counter() - started) / len(orders)
                return [
                    WrittenText(
                        ids=self._cut(ids[n, batch.begin : lengths[n]].tolist(), options),
                        facts=tuple(facts[n]),
                        is_whole=is_whole,
                        is_interrupted=interrupt.is_met,
                        passes=passes,
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
        self, orders: Sequence[TextRequest], batch: "_Padded", options: WritingOptions, interrupt: Interrupt
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
                [*([interrupt] if options.until or options.cancelled else []), RowEnd(options.is_end, batch.begin)]
            ),
            **_for_transformers(sampling),
        }
        with _random_numbers(sampling, device):
            if options.free or self._grounded is None:
                cache = (
                    None if batch.prefix is None else batch.prefix.cache_for(settings["input_ids"], options.num_beams)
                )
                forced = LogitsProcessorList([NextId(options.answer_line, batch.begin)])
                ids = self._model.model.generate(**settings, **{CACHE: cache}, logits_processor=forced)
                return ids, [len(row) for row in ids], [()] * len(ids)
            channels = [order.channel for order in orders if order.channel is not None]
            if channels and self._has_encoder:
                _log.warning(NOT_CHOSEN)
                channels = []
            ids = self._grounded.generate(
                **settings,
                fact_beams=options.fact_beams,
                channel=channels or None,
                prefix=batch.prefix,
                max_facts=options.max_facts,
                after_facts=options.after_facts,
            )
            return ids, tuple(ids.grounding.lengths or map(len, ids)), self._grounded.facts(ids)

    def _pad(self, orders: Sequence[TextRequest], options: WritingOptions) -> "_Padded":
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
        return _Padded(ids, mask, prefix, 1 if self._has_encoder else width)

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


@dataclass(frozen=True, slots=True)
class _Padded:
    """Prompts padded to one length: `ids` and attention `mask` of each row, the `prefix` that all share, and after how
    many of the ids that `generate` returns the texts `begin`."""

    ids: Sequence[Sequence[int]]
    mask: Sequence[Sequence[int]]
    prefix: Prefix | None
    begin: int


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
