"""An engine over any causal language model of Transformers whose cache can be fed in chunks, and such a model.

`RowsEngine` is for models whose attention takes no masks of four dimensions, such as those with sliding windows; for
others, `refactx.engines.transformers.engine` is faster. The sequences of a `generate` call are the rows of one batch,
which a pass feeds together. A sequence leaves its batch when it forgets ids or opens a tree of continuations, since all
rows of a cache have one length. Short chunks are padded on the left, the padding stays masked from then on, and
positions are given explicitly, so that each row attends to its own ids only, at their positions. The interface to
Transformers is that of its own loops: `prepare_inputs_for_generation` with `next_sequence_length`, and the cache's
`batch_select_indices`.

`TransformersModel` replaces a model's generation config on a shallow copy, which shares weights and hooks, since
`generate` takes settings from it that a call does not give. Of the model's `generation_config.json` only the ids of
special tokens are used: its penalties and its sampling are meant for chat and would change the names in facts.
"""

import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from itertools import count
from typing import Any, cast

import torch
from transformers import DynamicCache, GenerationConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from refactx.engines.engine import Engine, Feed, FeedTree, IdPath, Logits, TreeLogits, TreeReading
from refactx.engines.transformers.engine import NAME, USUAL, PackedEngine, to_numpy
from refactx.engines.transformers.processor import check_model, check_tokenizer
from refactx.errors import InputError, ModelError
from refactx.tokenizer import FactTokenizer

_KNOWN_INPUTS = {"attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep"}


def can_feed_chunks(model: Any, model_kwargs: Mapping[str, Any], rows: int) -> bool:
    """Return whether a model can read chunks correctly, given the inputs that `generate` prepared for it.

    It needs a dynamic cache of keys and values (padding would change the state of a state-space model; a static cache
    has room for the text alone), and no other inputs than those of this module. Several rows need position ids, and no
    sliding window, which would count padding.
    """
    cache = model_kwargs.get("past_key_values")
    if model.config.is_encoder_decoder or not model_kwargs.get("use_cache") or type(cache) is not DynamicCache:
        return False
    if any(value is not None and name not in _KNOWN_INPUTS for name, value in model_kwargs.items()):
        return False
    positions = model_kwargs.get("position_ids")
    if positions is not None and positions.dim() != 2:
        return False
    if rows == 1:
        return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers)
    return positions is not None and all(type(layer) is DynamicLayer for layer in cache.layers)


def count_cached(input_ids: torch.Tensor, model_kwargs: Mapping[str, Any]) -> int:
    """Return how many ids of a single prompt, int64[1, length], are in the cache already.

    Returns 0 if none are, or if the rest of the prompt cannot be fed as generated ids are.
    """
    read, length = int(model_kwargs["past_key_values"].get_seq_length()), input_ids.shape[1]
    mask, positions = model_kwargs.get("attention_mask"), model_kwargs.get("position_ids")
    if len(input_ids) != 1 or not 0 < read < length or positions is None or positions.shape[1] != length:
        return 0
    if mask is not None and not (mask.shape == input_ids.shape and bool(mask[:, read:].all())):
        return 0
    return read


def cut_inputs(count: int, model_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs for the first `count` ids of a prompt."""
    cut = {
        name: model_kwargs[name] for name in ("attention_mask", "position_ids") if model_kwargs.get(name) is not None
    }
    return {**model_kwargs, **{name: value[:, :count] for name, value in cut.items()}}


class ChunkedModel:
    """A model that has read a batch of prompts.

    `model_kwargs`: its inputs as `generate` prepared them, with the cache of the prompts; `prompt_shape`: their rows
    and length.
    """

    def __init__(self, model: Any, model_kwargs: Mapping[str, Any], prompt_shape: tuple[int, int]) -> None:
        self.model, self._device = model, model.device
        self.rows, length = prompt_shape
        self._cache: DynamicCache = model_kwargs["past_key_values"]
        self._only_last = "logits_to_keep" in model_kwargs
        mask, positions = model_kwargs.get("attention_mask"), model_kwargs.get("position_ids")
        self._mask: torch.Tensor | None = mask  # int64[rows, fed]; None: all ones
        if mask is None and self.rows > 1:
            self._mask = torch.ones((self.rows, length), dtype=torch.long, device=self._device)
        self._next: torch.Tensor | None = None  # int64[rows, 1], the position of each row's next id
        if positions is not None:
            self._next = (positions[:, -1:] + 1).to(self._device).expand(self.rows, 1)

    def feed(self, chunks: Sequence[Sequence[int]], last: int = 1) -> torch.Tensor:
        """Run the model once over a chunk of ids for each row; chunks may be empty, but not all of them.

        Returns the logits after the `last` ids of each row, [rows, last, vocabulary].
        """
        width = max(map(len, chunks))
        ids = torch.tensor([[0] * (width - len(chunk)) + list(chunk) for chunk in chunks], device=self._device)
        inputs: dict[str, Any] = {"past_key_values": self._cache, "use_cache": True}
        if self._next is not None:
            inputs["position_ids"] = self._advance_positions(self._next, chunks, width)
        inputs["attention_mask"] = self._extend_mask(chunks, width)
        if self._only_last:
            inputs["logits_to_keep"] = last
        prepared = self.model.prepare_inputs_for_generation(ids, next_sequence_length=width, **inputs)
        logits: torch.Tensor = self.model(**prepared, return_dict=True).logits
        return logits[:, -last:]

    def forget(self, count: int) -> None:
        """Take back the last `count` ids of every row."""
        if count:
            self._cache.crop(-count)
            self._mask = None if self._mask is None else self._mask[:, :-count]
            self._next = None if self._next is None else self._next - count

    def close_gaps(self, count: int) -> None:
        """Remove padding from the cache of a single row if any is within its last `count` places, so that `forget`
        takes back ids alone."""
        if self._mask is None or self._mask[:, -count:].all() or not count:
            return
        index = self._mask[0].nonzero()[:, 0]
        for layer in cast(Any, self._cache.layers):
            layer.keys, layer.values = layer.keys[:, :, index], layer.values[:, :, index]
        self._mask = None

    @property
    def can_pad(self) -> bool:
        """Whether it can read rows with chunks of different lengths, which are padded."""
        return self._next is not None and self.can_forget

    @property
    def can_forget(self) -> bool:
        """Whether ids can be taken back: a sliding window may have dropped the ids before them."""
        return all(type(layer) is DynamicLayer for layer in self._cache.layers)

    def branch(self) -> "ChunkedModel":
        """Return a copy that continues independently.

        Both share the tensors of the cache, which are replaced and never written to.
        """
        other = copy.copy(self)
        other._cache = copy.copy(self._cache)
        other._cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        return other

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row may come several times."""
        if list(rows) == list(range(self.rows)):
            return
        index = torch.tensor(rows, device=self._device)
        self._cache.batch_select_indices(index)
        self._mask = None if self._mask is None else self._mask[index]
        self._next = None if self._next is None else self._next[index]
        self.rows = len(rows)

    def _advance_positions(self, first: torch.Tensor, chunks: Sequence[Sequence[int]], width: int) -> torch.Tensor:
        """Return position ids, int64[rows, width], of chunks that begin at positions `first`; those of padding are 0."""
        sizes = torch.tensor([[len(chunk)] for chunk in chunks], device=self._device)
        places = torch.arange(width, device=self._device) - width + sizes + first
        self._next = first + sizes
        return places.clamp_min(0)

    def _extend_mask(self, chunks: Sequence[Sequence[int]], width: int) -> torch.Tensor | None:
        """Return the attention mask over the cache and the chunks; None if nothing is masked."""
        even = all(len(chunk) == width for chunk in chunks)
        if self._mask is None and even:
            return None
        if self._mask is None:
            fed = self._cache.get_seq_length()
            self._mask = torch.ones((self.rows, fed), dtype=torch.long, device=self._device)
        new = [[0] * (width - len(chunk)) + [1] * len(chunk) for chunk in chunks]
        self._mask = torch.cat([self._mask, torch.tensor(new, dtype=self._mask.dtype, device=self._device)], dim=1)
        return self._mask


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The beginning of prompts, `ids` int64[1, length], and the model's keys and values for it, `cache`.

    `prefill` makes it. It is not changed by its use.
    """

    ids: torch.Tensor
    cache: DynamicCache

    def cache_for(self, prompts: Any, copies: int = 1) -> DynamicCache:
        """Return a cache for prompts, int64[rows, length], which begin with the prefix and are longer.

        `copies`: the number of texts for each row, such as beams. Padding must come after the prefix, with zeros in the
        attention mask. Raises InputError for prompts that do not begin with the prefix or are not longer.
        """
        length = self.ids.shape[1]
        if prompts is None or prompts.shape[1] <= length or not (prompts[:, :length].cpu() == self.ids).all():
            raise InputError(f"with prefix=, each prompt must begin with the prefix's {length} ids and be longer")
        cache = self.cache_for_one()
        if len(prompts) * copies > 1:
            cache.batch_repeat_interleave(len(prompts) * copies)
        return cache

    def cache_for_one(self) -> DynamicCache:
        """Return a cache for one text that continues the prefix."""
        cache = copy.copy(self.cache)  # its tensors are replaced when the text grows, never written to
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        return cache


def prefill(model: Any, input_ids: Any) -> Prefix:
    """Compute the prefix of `input_ids`, int64[1, length], with the model.

    Raises InputError for another shape, ModelError for a model whose cache cannot be shared.
    """
    ids = torch.as_tensor(input_ids)
    if ids.dim() != 2 or len(ids) != 1 or not ids.shape[1]:
        raise InputError(f"the ids of a prefix have the shape {list(ids.shape)}: give one row, [1, length]")
    cache = DynamicCache(config=model.config)
    if model.config.is_encoder_decoder or any(type(layer) is not DynamicLayer for layer in cache.layers):
        raise ModelError(
            f"the cache of {type(model).__name__} has more than keys and values of every id, so its prefix cannot be "
            "shared: leave the prefix out"
        )
    with torch.no_grad():
        model(input_ids=ids.to(model.device), past_key_values=cache, use_cache=True)
    return Prefix(ids.cpu(), cache)


IDS_A_PASS, ROWS_A_PASS = 256, 16
"""The most ids and rows of a pass over a tree: they bound the memory for logits, and for copies of a text's keys and
values."""

_TAKES_MASKS = (USUAL, NAME, "eager")


def engine_of(model: Any) -> Engine:
    """Return the fastest engine for a model."""
    return PackedEngine(model) if takes_masks(model) else RowsEngine(model)


def takes_masks(model: Any) -> bool:
    """Return whether a model's attention takes a mask of four dimensions unchanged, and all its keys are kept.

    It must take positions as an input, not derive them from the mask or the cache (as ALiBi and GPT-Neo's local layers
    do), and prepare its mask by Transformers' `create_causal_mask`.
    """
    config = model.config
    if (
        config.is_encoder_decoder
        or getattr(config, "alibi", False)
        or "local" in getattr(config, "attention_layers", ())
    ):
        return False
    if config._attn_implementation not in _TAKES_MASKS or "position_ids" not in signature(model.forward).parameters:
        return False
    if any(type(layer) is not DynamicLayer for layer in DynamicCache(config=config).layers):
        return False
    if _positions_depend_on_others(config) or len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1:
        return False
    return any(hasattr(sys.modules.get(own.__module__), "create_causal_mask") for own in type(model).__mro__)


def _positions_depend_on_others(config: Any) -> bool:
    """Return whether what a position means depends on the longest position of a pass (rotary factors that change with
    it), or does not begin at 0 (decoders of BERT's kind)."""
    given = getattr(config, "rope_parameters", None) or {}
    kinds = [given, *(one for one in given.values() if isinstance(one, dict))]
    changes = any(str(kind.get("rope_type", "")) in ("longrope", "dynamic") for kind in kinds)
    return changes or "bert" in config.model_type


@dataclass(slots=True, eq=False)
class _Batch:
    """A model and the sequences that are its rows: a dropped one is None until the next pass."""

    model: ChunkedModel
    sequences: list[int | None]


@dataclass(slots=True, eq=False)
class _Tree:
    """A tree of a `sequence`, and how many of its last ids are `ahead` of the text."""

    sequence: int
    model: ChunkedModel
    ahead: int


class RowsEngine:
    """An engine without sequences at first. A tree's paths are rows of a batch, each of which reads a whole path.

    >>> engine = RowsEngine(model)  # doctest: +SKIP
    >>> text = engine.prefill([1, 2, 3])  # doctest: +SKIP
    >>> [logits], _ = engine.feed([(text, Feed([4, 5], last=2))])  # doctest: +SKIP
    """

    pads = True
    capacity: int | None = None
    most_texts: int | None = None

    def __init__(self, model: Any) -> None:
        self._model = model
        self._numbers = count()
        self._batches: dict[int, _Batch] = {}  # by sequence
        self._trees: dict[int, _Tree] = {}

    @property
    def trees(self) -> TreeReading:
        """Rows, unless a sliding window counts padding, or the model has no position ids."""
        models = [batch.model for batch in self._batches.values()]
        return TreeReading.ROWS if all(model.can_pad for model in models) else TreeReading.NONE

    def add_cache(self, model_kwargs: Mapping[str, Any], shape: tuple[int, int]) -> list[int]:
        """Return the sequences of a `generate` call whose prompts the model has read, one for each row.

        `model_kwargs`: the inputs as `generate` prepared them; `shape`: rows and length of the prompts.
        """
        return self._add(ChunkedModel(self._model, model_kwargs, shape))

    def prefill(self, ids: Sequence[int]) -> int:
        return self.add_prefix(prefill(self._model, [list(ids)]))

    def add_prefix(self, prefix: Prefix) -> int:
        """Return a sequence that has read a prefix."""
        length = prefix.ids.shape[1]
        inputs: dict[str, Any] = {"past_key_values": prefix.cache_for_one(), "position_ids": torch.arange(length)[None]}
        if self._model._supports_logits_to_keep():
            inputs["logits_to_keep"] = 1
        return self.add_cache(inputs, (1, length))[0]

    @property
    def can_forget(self) -> bool:
        return all(batch.model.can_forget for batch in self._batches.values())

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        wanted, found = dict(feeds), dict[int, Logits]()
        if len(wanted) < len(feeds) or len({one.tree for one in trees}) < len(trees):
            raise ValueError("a sequence or a tree is fed twice in one step: join its ids")
        for batch in {id(batch): batch for batch in map(self._batches.__getitem__, wanted)}.values():
            rows = self._select_live(batch)
            chunks = [wanted[row].ids if row in wanted else () for row in rows]
            last = max(wanted[row].last for row in rows if row in wanted)
            logits = to_numpy(batch.model.feed(chunks, last))
            found |= {row: logits[n, last - wanted[row].last :] for n, row in enumerate(rows) if row in wanted}
        return [found[sequence] for sequence, _ in feeds], [self._read(one) for one in trees]

    def fork(self, sequence: int) -> int:
        batch = self._batches[sequence]
        other = batch.model.branch()
        other.select([batch.sequences.index(sequence)])
        return self._add(other)[0]

    def forget(self, sequence: int, count: int) -> None:
        if count:
            model = self._alone(sequence)
            model.close_gaps(count)
            model.forget(count)

    def drop(self, sequence: int) -> None:
        self._trees = {number: tree for number, tree in self._trees.items() if tree.sequence != sequence}
        batch = self._batches.pop(sequence)
        batch.sequences[batch.sequences.index(sequence)] = None

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        model, number = self._alone(sequence), next(self._numbers)
        model.close_gaps(len(ahead))
        self._trees[number] = _Tree(sequence, model, len(ahead))
        return number

    def keep(self, tree: int, path: IdPath) -> int:
        own = self._trees.pop(tree)
        own.model.forget(own.ahead)
        return 0

    def close(self, tree: int) -> None:
        del self._trees[tree]

    def _read(self, asked: FeedTree) -> TreeLogits:
        """Read some wanted paths as rows of one batch."""
        own, paths = self._trees[asked.tree], asked.paths
        by_row: dict[int, list[int]] = {}  # the numbers of the wanted paths, by the longest path that has them
        longest = _longest(paths)
        for number in asked.numbers:
            by_row.setdefault(longest[number], []).append(number)
        rows = list(by_row)
        some = [rows[at] for at in first_pass([paths[row] for row in rows])]
        last = max(len(paths[row]) - len(paths[number]) + 1 for row in some for number in by_row[row])
        branch = own.model.branch()
        branch.forget(own.ahead)
        branch.select([0] * len(some))
        logits = to_numpy(branch.feed([paths[row] for row in some], last))
        numbers = [(n, number) for n, row in enumerate(some) for number in by_row[row]]
        places = [len(paths[number]) - len(paths[some[n]]) - 1 for n, number in numbers]
        return TreeLogits([number for _, number in numbers], logits[[n for n, _ in numbers], places])

    def _add(self, model: ChunkedModel) -> list[int]:
        sequences = [next(self._numbers) for _ in range(model.rows)]
        batch = _Batch(model, list(sequences))
        self._batches |= dict.fromkeys(sequences, batch)
        return sequences

    def _select_live(self, batch: _Batch) -> list[int]:
        """Remove dropped rows from a batch. Return the sequences that are left."""
        places = [n for n, sequence in enumerate(batch.sequences) if sequence is not None]
        batch.model.select(places)
        live = [sequence for sequence in batch.sequences if sequence is not None]
        batch.sequences = list(live)
        return live

    def _alone(self, sequence: int) -> ChunkedModel:
        """Return a model with one row for a sequence, which leaves its batch if that has others."""
        batch = self._batches[sequence]
        if len(self._select_live(batch)) > 1:
            model = batch.model.branch()
            model.select([batch.sequences.index(sequence)])
            batch.sequences[batch.sequences.index(sequence)] = None
            batch = self._batches[sequence] = _Batch(model, [sequence])
        return batch.model


def _longest(paths: Sequence[IdPath]) -> list[int]:
    """Return for each path the number of the longest of `paths` that begins with it."""
    numbers = {path: number for number, path in enumerate(paths)}
    longest = dict[IdPath, int]()
    for path in sorted(numbers, key=len, reverse=True):
        for end in range(len(path), 0, -1):
            if longest.setdefault(path[:end], numbers[path]) != numbers[path]:
                break
    return [longest[path] for path in paths]


def first_pass(rows: Sequence[Sequence[int]]) -> list[int]:
    """Return the numbers of rows that a pass reads, short rows first, so that there is little padding.

    >>> first_pass([[1, 2, 3], [4], [5, 6]])
    [1, 2, 0]
    """
    order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
    step = max(1, min(ROWS_A_PASS, IDS_A_PASS // max(map(len, rows), default=1)))
    return order[:step]


class TransformersModel:
    """A causal language model of Transformers and its tokenizer. Raises ModelError if it lacks ids of the tokenizer.

    `model`: the copy; `pad`: the id that pads rows; `engine`: None for a model whose attention takes no masks of four
    dimensions, which `generate` runs.
    """

    has_generate = True

    def __init__(self, model: Any, tokenizer: Any) -> None:
        given = model.generation_config
        self.tokenizer = tokenizer
        self.ends = frozenset(_ids(given.eos_token_id) | _ids(tokenizer.eos_token_id))
        pad = given.pad_token_id if given.pad_token_id is not None else tokenizer.pad_token_id
        self.pad: int = pad if pad is not None else min(self.ends, default=0)
        self.room: int | None = getattr(model.config, "max_position_embeddings", None)
        config: Any = GenerationConfig  # it has no types
        self.model = copy.copy(model)
        self.model.generation_config = config(
            bos_token_id=given.bos_token_id,
            eos_token_id=sorted(self.ends) or None,
            pad_token_id=self.pad if pad is not None or self.ends else None,
        )
        check_model(model, tokenizer, _highest(tokenizer) + 1)
        self.engine: Engine | None = PackedEngine(self.model) if takes_masks(self.model) else None

    def check_tokenizer(self, index: Any) -> None:
        check_tokenizer(index, self.tokenizer)
        check_model(self.model, self.tokenizer, index.tokenizer.plain_size)

    @cached_property
    def token_bytes(self) -> Sequence[bytes]:
        return FactTokenizer.from_transformers(self.tokenizer).token_bytes


def _highest(tokenizer: Any) -> int:
    """Return the highest id of plain text and of a conversation, whose roles are added tokens."""
    added: Any = tokenizer.added_tokens_decoder
    plain: int = max(number for number in tokenizer.get_vocab().values() if number not in added)
    try:
        sample: list[int] = tokenizer.apply_chat_template(
            [{"role": "user", "content": "a"}], tokenize=True, return_dict=False
        )
    except Exception:  # a template may raise anything: `refactx.ask.chat` reports it
        return plain
    highest: int = max([plain, *sample])
    return highest


def _ids(value: int | list[int] | None) -> set[int]:
    if value is None:
        return set()
    return {value} if isinstance(value, int) else set(value)
