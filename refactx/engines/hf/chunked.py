"""A causal model of Transformers with its key-value cache, which reads chunks of ids: several for each row at once.

The rows of a batch may have chunks of different lengths. Short chunks are padded on the left, the padding stays masked
from then on, and positions are given explicitly, so that each row attends to its own ids only, at their positions.

The interface to Transformers is that of its own loops: `prepare_inputs_for_generation` with `next_sequence_length`, and
the cache's `batch_select_indices`.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

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
