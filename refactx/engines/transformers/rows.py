"""An engine over any causal language model of Transformers whose state is in its cache, and such a model.

`RowsEngine` is for models whose attention takes no masks of four dimensions, or whose layers have states of another kind
than keys and values (state-space, linear and convolutional ones); for others, `refactx.engines.transformers.engine` is
faster. Sequences are rows of batches, which a pass feeds together. All rows of a cache have one length, so where keys and
values of every id are all that the cache has, short chunks are padded on the left, and the padding stays masked from then
on. A recurrent state would take in padding: there, a pass reads rows with chunks of one length, of which shorter texts are
padded before their beginning, which no state has seen. Positions are given explicitly, so that each row attends to its own
ids only, at their positions. The interface to Transformers is that of its own loops: `prepare_inputs_for_generation` with
`next_sequence_length`, and the cache's `reorder_cache`.

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
from weakref import WeakKeyDictionary

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, GenerationConfig
from transformers.cache_utils import (
    DummyLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionLayer,
)

from refactx.engines.engine import Engine, Feed, FeedTree, IdPath, Logits, TreeLogits, TreeReading, longest_paths
from refactx.engines.transformers.engine import PackedEngine, to_numpy
from refactx.engines.transformers.internals import (
    CACHE,
    CACHES,
    OURS,
    attention_of,
    cache_argument,
    chooses_logits,
    takes_dynamic_cache,
)
from refactx.engines.transformers.processor import check_model, check_tokenizer
from refactx.errors import InputError, ModelError
from refactx.tokenizer import FactTokenizer

_KNOWN_INPUTS = {"attention_mask", "position_ids", *CACHES, "use_cache", "logits_to_keep"}
_PADDED = (DynamicLayer, DummyLayer)
WITH_CELLS = (*_PADDED, DynamicSlidingWindowLayer)
"""Layers that have keys and values, whose tensors are replaced and never written to."""
_JOINED = (*_PADDED, LinearAttentionLayer, LinearAttentionAndFullAttentionLayer)
"""Layers whose states of several texts can become a batch: keys and values of every id, and states without a length."""

ALIKE, ALIKE_HALF = 0.01, 0.1
"""Logits of two ways to read a text are the same if their difference is less than this share of their spread, for 32 bits
and for 16."""

IDS_A_PASS, ROWS_A_PASS = 256, 16
"""The most ids and rows of a pass over a tree: they bound the memory for logits, and for copies of a text's keys and
values."""


def cache_name(model: Any) -> str | None:
    """Return by which name a model takes a DynamicCache that has all of its state; None if it takes none."""
    name = cache_argument(model)
    if model.config.is_encoder_decoder or name is None or not takes_dynamic_cache(model):
        return None
    return name if longest_chunk(model, name) else None


_longest_chunks: "WeakKeyDictionary[Any, int]" = WeakKeyDictionary()


def longest_chunk(model: Any, name: str) -> int:
    """Return how many ids a model can read at once after others: any number, 1, or 0 if not all its state is in its cache.

    `name`: that by which it takes a cache. A model with other layers than those of keys and values is tried: some begin a
    chunk without the state, and some keep a state in their modules, where another text would find it.
    """
    if model in _longest_chunks or all(type(layer) in WITH_CELLS for layer in layers_of(model)):
        return _longest_chunks.get(model, sys.maxsize)
    text, another = torch.tensor([[7, 5, 3, 8, 2, 6]], device=model.device), torch.tensor([[9, 4]], device=model.device)
    accuracy = ALIKE if model.dtype == torch.float32 else ALIKE_HALF

    def read(ids: torch.Tensor, cache: DynamicCache, first: int) -> torch.Tensor:
        inputs: dict[str, Any] = {"input_ids": ids, name: cache, "use_cache": True}
        if "position_ids" in signature(model.forward).parameters:
            inputs["position_ids"] = torch.arange(first, first + ids.shape[1], device=model.device)[None]
        logits: torch.Tensor = model(**inputs).logits[0].float()
        return logits

    def is_like(logits: torch.Tensor) -> bool:
        return bool((logits - whole).norm() < accuracy * (whole - whole.mean(-1, keepdim=True)).norm())

    with torch.inference_mode(False), torch.no_grad():
        begun = DynamicCache(config=model.config)
        whole = read(text, DynamicCache(config=model.config), 0)[4:]
        read(text[:, :4], begun, 0)
        forks = [copy_cache(begun) for _ in range(3)]
        at_once = read(text[:, 4:], forks[0], 4)
        steps = [read(text[:, 4:5], forks[1], 4)]
        read(another, forks[2], 4)
        steps.append(read(text[:, 5:], forks[1], 5))
    most = 0 if not is_like(torch.cat(steps)) else sys.maxsize if is_like(at_once) else 1
    return _longest_chunks.setdefault(model, most)


def layers_of(model: Any) -> list[Any]:
    """Return the layers of a model's own cache."""
    layers: list[Any] = DynamicCache(config=model.config).layers
    return layers


def can_feed_chunks(model: Any, model_kwargs: Mapping[str, Any]) -> bool:
    """Return whether an engine can read chunks, given the inputs that `generate` prepared for the model.

    It needs a dynamic cache (a static one has room for the text alone), and no other inputs than those of this module.
    """
    name = cache_name(model)
    if name is None or not model_kwargs.get("use_cache") or type(model_kwargs.get(name)) is not DynamicCache:
        return False
    if any(value is not None and key not in _KNOWN_INPUTS for key, value in model_kwargs.items()):
        return False
    positions = model_kwargs.get("position_ids")
    return positions is None or bool(positions.dim() == 2)


def count_cached(input_ids: torch.Tensor, model_kwargs: Mapping[str, Any]) -> int:
    """Return how many ids of a single prompt, int64[1, length], are in the cache already.

    Returns 0 if none are, or if the rest of the prompt cannot be fed as generated ids are.
    """
    cache = model_kwargs.get(CACHE)
    read, length = 0 if cache is None else _length(cache), input_ids.shape[1]
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


def _length(cache: DynamicCache) -> int:
    """Return how many ids have keys in a cache, padding included."""
    return max(
        (layer.get_seq_length() for layer in cast(Any, cache.layers) if hasattr(layer, "get_seq_length")), default=0
    )


def copy_cache(cache: DynamicCache) -> DynamicCache:
    """Return a copy of a cache that changes independently. What is never written to is shared."""
    other = copy.copy(cache)
    other.layers = [(copy.copy if type(layer) in WITH_CELLS else copy.deepcopy)(layer) for layer in cache.layers]
    return other


class ChunkedModel:
    """A model that has read a batch of prompts.

    `model_kwargs`: its inputs as `generate` prepared them, with the cache of the prompts; `prompt_shape`: their rows
    and length.
    """

    def __init__(self, model: Any, model_kwargs: Mapping[str, Any], prompt_shape: tuple[int, int]) -> None:
        self.model, self._device, self._name = model, model.device, str(cache_name(model))
        self.rows, length = prompt_shape
        self._cache: DynamicCache = model_kwargs[self._name]
        self._most, self.is_new = longest_chunk(model, self._name), not length
        self._only_last = chooses_logits(model)
        mask, positions = model_kwargs.get("attention_mask"), model_kwargs.get("position_ids")
        self._mask: torch.Tensor | None = mask  # int64[rows, fed]; None: all ones
        if mask is None and self.rows > 1:
            self._mask = torch.ones((self.rows, length), dtype=torch.long, device=self._device)
        self._next: torch.Tensor | None = None  # int64[rows, 1], the position of each row's next id
        if "position_ids" in signature(model.forward).parameters:
            last = torch.tensor([[length - 1]]) if positions is None else positions[:, -1:]
            self._next = (last + 1).to(self._device).expand(self.rows, 1)

    @classmethod
    def joined(cls, models: Sequence["ChunkedModel"]) -> "ChunkedModel":
        """Return a model with the single rows of several, which have read something. Beginnings are padded."""
        own = models[0].branch()
        lengths = [_length(model._cache) for model in models]
        most = max(lengths)
        for number, layer in enumerate(cast(Any, own._cache.layers)):
            parts: list[Any] = [model._cache.layers[number] for model in models]
            if getattr(layer, "keys", None) is not None:
                places = [(0, 0, most - length, 0) for length in lengths]
                layer.keys = torch.cat([pad(one.keys, place) for one, place in zip(parts, places, strict=True)])
                layer.values = torch.cat([pad(one.values, place) for one, place in zip(parts, places, strict=True)])
            for name in ("conv_states", "recurrent_states"):
                for at, state in getattr(layer, name, {}).items():
                    if state is not None:
                        getattr(layer, name)[at] = torch.cat([getattr(one, name)[at] for one in parts])
        masks = [
            torch.ones((1, length), dtype=torch.long, device=own._device) if model._mask is None else model._mask
            for model, length in zip(models, lengths, strict=True)
        ]
        own._mask = torch.cat([pad(mask, (most - mask.shape[1], 0)) for mask in masks]) if most else None
        own._next = None if own._next is None else torch.cat([cast(Any, model._next) for model in models])
        own.rows = len(models)
        return own

    def feed(self, chunks: Sequence[Sequence[int]], last: int = 1) -> torch.Tensor:
        """Run the model once over a chunk of ids for each row; chunks may be empty, but not all of them.

        Returns the logits after the `last` ids of each row, [rows, last, vocabulary].
        """
        width = max(map(len, chunks))
        if not self.is_new and width > self._most:  # such a model pads no chunks
            steps = [self.feed([chunk[n : n + 1] for chunk in chunks]) for n in range(width)]
            return torch.cat(steps[-last:], dim=1)
        ids = torch.tensor([[0] * (width - len(chunk)) + list(chunk) for chunk in chunks], device=self._device)
        inputs: dict[str, Any] = {self._name: self._cache, "use_cache": True}
        if self._next is not None:
            sizes = torch.tensor([[len(chunk)] for chunk in chunks], device=self._device)
            places = torch.arange(width, device=self._device) - width + sizes + self._next
            inputs["position_ids"] = places.clamp_min(0)  # those of padding are 0
            self._next = self._next + sizes
        inputs["attention_mask"] = self._extend_mask(chunks, width)
        prepared = self.model.prepare_inputs_for_generation(ids, next_sequence_length=width, **inputs)
        if self._only_last:
            prepared["logits_to_keep"] = last
        with torch.inference_mode(False), torch.no_grad():
            logits: torch.Tensor = self.model(**prepared, return_dict=True).logits
        self.is_new = False
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

    def branch(self) -> "ChunkedModel":
        """Return a copy that continues independently."""
        other = copy.copy(self)
        other._cache = copy_cache(self._cache)
        return other

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row may come several times."""
        if list(rows) == list(range(self.rows)):
            return
        index = torch.tensor(rows, device=self._device)
        self._cache.reorder_cache(cast(Any, index))
        self._mask = None if self._mask is None else self._mask[index]
        self._next = None if self._next is None else self._next[index]
        self.rows = len(rows)

    def _extend_mask(self, chunks: Sequence[Sequence[int]], width: int) -> torch.Tensor | None:
        """Return the attention mask over the cache and the chunks; None if nothing is masked."""
        even = all(len(chunk) == width for chunk in chunks)
        if self._mask is None and even:
            return None
        if self._mask is None:
            fed = _length(self._cache)
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
        cache = copy_cache(self.cache)
        if len(prompts) * copies > 1:
            cache.batch_repeat_interleave(len(prompts) * copies)
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
        model(input_ids=ids.to(model.device), **{CACHE: cache}, use_cache=True)
    return Prefix(ids.cpu(), cache)


def engine_of(model: Any) -> "PackedEngine | RowsEngine":
    """Return the fastest engine for a model."""
    return PackedEngine(model) if takes_masks(model) else RowsEngine(model)


def takes_masks(model: Any) -> bool:
    """Return whether a model's attention takes a mask of four dimensions unchanged, and its cache is of keys and values.

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
    if attention_of(config) not in OURS or "position_ids" not in signature(model.forward).parameters:
        return False
    if any(type(layer) not in WITH_CELLS for layer in layers_of(model)):
        return False
    # What a position means may depend on the longest one of a pass (rotary factors that change with it), and positions of
    # decoders of BERT's kind do not begin at 0.
    given = getattr(config, "rope_parameters", None) or {}
    kinds = [given, *(one for one in given.values() if isinstance(one, dict))]
    changes = any(str(kind.get("rope_type", "")) in ("longrope", "dynamic") for kind in kinds)
    devices = set((getattr(model, "hf_device_map", None) or {}).values())
    if changes or "bert" in config.model_type or len(devices) > 1:
        return False
    modules = [vars(sys.modules[own.__module__]) for own in type(model).__mro__]
    return any(name.startswith("create_") and name.endswith("causal_mask") for module in modules for name in module)


@dataclass(slots=True, eq=False)
class _RowBatch:
    """A model and the sequences that are its rows: a dropped one is None until the next pass."""

    model: ChunkedModel
    sequences: list[int | None]


@dataclass(slots=True, eq=False)
class _RowTree:
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

    trees = TreeReading.ROWS
    pads = True
    capacity: int | None = None
    most_texts: int | None = None

    def __init__(self, model: Any) -> None:
        self._model = model
        self._numbers = count()
        self._batches: dict[int, _RowBatch] = {}  # by sequence
        self._trees: dict[int, _RowTree] = {}
        kinds, takes_positions = set(map(type, layers_of(model))), "position_ids" in signature(model.forward).parameters
        self._pads = takes_positions and kinds <= set(_PADDED)
        self._joins = kinds <= set(_JOINED) if takes_positions else kinds == {LinearAttentionLayer}
        self.can_forget = kinds <= set(_PADDED)

    def add_cache(self, model_kwargs: Mapping[str, Any], shape: tuple[int, int]) -> list[int]:
        """Return the sequences of a `generate` call whose prompts the model has read, one for each row.

        `model_kwargs`: the inputs as `generate` prepared them; `shape`: rows and length of the prompts.
        """
        model = ChunkedModel(self._model, model_kwargs, shape)
        return self._add(_RowBatch(model, [next(self._numbers) for _ in range(model.rows)]))

    def prefill(self, ids: Sequence[int]) -> int:
        cache = DynamicCache(config=self._model.config)
        [sequence] = self.add_cache(dict.fromkeys(CACHES, cache), (1, 0))
        if ids:
            try:
                self.feed([(sequence, Feed(ids))])
            except BaseException:
                self.drop(sequence)
                raise
        return sequence

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        wanted, found = dict(feeds), dict[int, Logits]()
        if len(wanted) < len(feeds) or len({one.tree for one in trees}) < len(trees):
            raise ValueError("a sequence or a tree is fed twice in one step: join its ids")
        for batch in self._together(wanted):
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
        return self._add(_RowBatch(other, [next(self._numbers)]))[0]

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
        self._trees[number] = _RowTree(sequence, model, len(ahead))
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
        longest = longest_paths(paths)
        for number in asked.numbers:
            by_row.setdefault(longest[number], []).append(number)
        rows = list(by_row)
        if not self._pads:
            rows = [row for row in rows if len(paths[row]) == min(len(paths[other]) for other in rows)]
        some = [rows[at] for at in first_pass([paths[row] for row in rows])]
        last = max(len(paths[row]) - len(paths[number]) + 1 for row in some for number in by_row[row])
        branch = own.model.branch()
        branch.forget(own.ahead)
        branch.select([0] * len(some))
        logits = to_numpy(branch.feed([paths[row] for row in some], last))
        numbers = [(n, number) for n, row in enumerate(some) for number in by_row[row]]
        places = [len(paths[number]) - len(paths[some[n]]) - 1 for n, number in numbers]
        return TreeLogits([number for _, number in numbers], logits[[n for n, _ in numbers], places])

    def _add(self, batch: _RowBatch) -> list[int]:
        sequences = [sequence for sequence in batch.sequences if sequence is not None]
        self._batches |= dict.fromkeys(sequences, batch)
        return sequences

    def _together(self, wanted: Mapping[int, Feed]) -> list[_RowBatch]:
        """Return batches that have all wanted sequences. If a model takes no padding, rows of a batch read as many ids."""
        if self._pads:
            return list({id(batch): batch for batch in map(self._batches.__getitem__, wanted)}.values())
        groups: dict[tuple[int, int], list[int]] = {}
        for sequence, feed in wanted.items():
            batch = self._batches[sequence]
            joins = self._joins and not batch.model.is_new
            groups.setdefault((len(feed.ids), 0 if joins else id(batch)), []).append(sequence)
        return [self._batch_of(group) for group in groups.values()]

    def _batch_of(self, sequences: Sequence[int]) -> _RowBatch:
        """Return a batch with no other rows than these sequences."""
        batch = self._batches[sequences[0]]
        if set(self._select_live(batch)) == set(sequences):
            return batch
        if all(self._batches[sequence] is batch for sequence in sequences):
            model = batch.model.branch()
            model.select([batch.sequences.index(sequence) for sequence in sequences])
            for sequence in sequences:
                batch.sequences[batch.sequences.index(sequence)] = None
        else:
            model = ChunkedModel.joined([self._alone(sequence) for sequence in sequences])
        joined = _RowBatch(model, list(sequences))
        self._add(joined)
        return joined

    def _select_live(self, batch: _RowBatch) -> list[int]:
        """Remove dropped rows from a batch. Return the sequences that are left."""
        places = [n for n, sequence in enumerate(batch.sequences) if sequence is not None]
        batch.model.select(places)
        live = [sequence for sequence in batch.sequences if sequence is not None]
        batch.sequences = list(live)
        return live

    def _alone(self, sequence: int) -> ChunkedModel:
        """Return a model with one row for a sequence, which leaves its batch if that has others."""
        return self._batch_of([sequence]).model


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

    `model`: the copy; `pad`: the id that pads rows; `engine`: None for a model whose state is not in a cache that can be
    copied, or that has an encoder, which `generate` runs.
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
            decoder_start_token_id=given.decoder_start_token_id,
        )
        check_model(model, tokenizer, _highest(tokenizer) + 1)
        self.engine: Engine | None = engine_of(self.model) if cache_name(self.model) else None

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
    except Exception:  # a template may raise anything: `refactx.ask.conversation` reports it
        return plain
    highest: int = max([plain, *sample])
    return highest


def _ids(value: int | list[int] | None) -> set[int]:
    if value is None:
        return set()
    return {value} if isinstance(value, int) else set(value)
