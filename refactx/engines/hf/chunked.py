"""A causal model with its cache, fed several ids a row at once, of each row as many as there are.

Rows of one batch may be fed chunks of different lengths: short ones are padded on the left, the padding is masked for
good, and positions are given explicitly, so that each row sees its own ids only, at their own places. What padding
leaves in the cache is never attended to.

The ways into Transformers are those of its own loops: `prepare_inputs_for_generation` with `next_sequence_length`, and
the cache's `batch_select_indices`.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

PASS_IDS = 16
"""A pass takes the time of so many ids beside those that go through it (docs/benchmarks.md, "Decoding")."""

IDS_A_PASS, ROWS_A_PASS = 256, 16
"""Most ids and rows of one of `passes`: they bound the logits, and the copies of the text's keys and values."""

_KNOWN_INPUTS = {"attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep"}


def best_width(pending: Sequence[int]) -> int:
    """How many ids a row to feed at most, of rows that have so many pending: the most ids for the time of a pass, in which
    shorter rows are padded.

    >>> best_width([1, 1, 1, 30]), best_width([30])
    (30, 30)
    >>> best_width([1] * 15 + [30])
    1
    """

    def rate(width: int) -> float:
        return sum(min(count, width) for count in pending) / (PASS_IDS + width * len(pending))

    return max(sorted(set(pending)), key=rate)


def passes(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """The numbers of rows that go through the model together, each by itself, short ones first: padding is little then.

    >>> passes([[1, 2, 3], [4], [5, 6]])
    [[1, 2, 0]]
    """
    order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
    step = max(1, min(ROWS_A_PASS, IDS_A_PASS // max(map(len, rows), default=1)))
    return [order[first : first + step] for first in range(0, len(order), step)]


def can_be_fed_in_chunks(model: Any, model_kwargs: Mapping[str, Any], rows: int) -> bool:
    """Whether a model, with the inputs that `generate` prepared for it, computes the same chunk by chunk.

    It needs a dynamic cache of keys and values (a state-space model keeps a state that padding would change; a static
    cache has room for the text alone) and inputs that this module knows. Several rows need position ids, and no sliding
    window, which would count the padding too.
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


def ids_in_cache(input_ids: torch.Tensor, model_kwargs: Mapping[str, Any]) -> int:
    """How many ids of a single prompt, int64[1, length], are in the cache from before, if the rest can be fed as what is
    generated is; 0 if not, or if there is none.
    """
    read, length = int(model_kwargs["past_key_values"].get_seq_length()), input_ids.shape[1]
    mask, positions = model_kwargs.get("attention_mask"), model_kwargs.get("position_ids")
    if len(input_ids) != 1 or not 0 < read < length or positions is None or positions.shape[1] != length:
        return 0
    if mask is not None and not (mask.shape == input_ids.shape and bool(mask[:, read:].all())):
        return 0
    return read


def of_first(count: int, model_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as they were when only the first ids of a prompt had been read."""
    cut = {
        name: model_kwargs[name] for name in ("attention_mask", "position_ids") if model_kwargs.get(name) is not None
    }
    return {**model_kwargs, **{name: value[:, :count] for name, value in cut.items()}}


class ChunkedModel:
    """A model behind its prompt. `model_kwargs`: its inputs as `generate` prepared them, the prompt's cache among them."""

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
        """Run the model once over a chunk of ids for each row; a chunk may be empty, but not all of them.

        Returns the logits behind each row's `last` ids, [rows, last, vocabulary].
        """
        width = max(map(len, chunks))
        ids = torch.tensor([[0] * (width - len(chunk)) + list(chunk) for chunk in chunks], device=self._device)
        inputs: dict[str, Any] = {"past_key_values": self._cache, "use_cache": True}
        if self._next is not None:
            inputs["position_ids"] = self._place(self._next, chunks, width)
        inputs["attention_mask"] = self._unmask(chunks, width)
        if self._only_last:
            inputs["logits_to_keep"] = last
        prepared = self.model.prepare_inputs_for_generation(ids, next_sequence_length=width, **inputs)
        logits: torch.Tensor = self.model(**prepared, return_dict=True).logits
        return logits[:, -last:]

    @property
    def fed(self) -> int:
        """How many ids a row has in the cache, padding among them."""
        return int(self._cache.get_seq_length())

    def feed_seeing(
        self, ids: Sequence[int], offsets: Sequence[int], seen: torch.Tensor, wanted: Sequence[int] | None = None
    ) -> torch.Tensor:
        """Run the model, of one row, once over ids that need not follow one another; `feed` cannot come after this.

        `offsets`: the position of each, counted from that of the row's next id; `seen`: bool[ids, fed + ids], which ones each
        of them sees. Returns the logits behind each, [ids, vocabulary], or behind those whose places are `wanted`.
        """
        if self._next is None:
            raise ValueError("a model without position ids is fed in order")
        seen = seen.to(self._device)
        if self._mask is not None:
            seen[:, : self._mask.shape[1]] &= self._mask.bool()
        dtype = self.model.dtype
        mask = torch.zeros(seen.shape, dtype=dtype, device=self._device).masked_fill_(~seen, torch.finfo(dtype).min)
        inputs: dict[str, Any] = {
            "input_ids": torch.tensor([ids], device=self._device),
            "position_ids": self._next + torch.tensor([offsets], device=self._device),
            "attention_mask": mask[None, None],
            "past_key_values": self._cache,
        }
        places = None if wanted is None else torch.tensor(wanted, dtype=torch.long, device=self._device)
        if places is not None and self._only_last:
            inputs["logits_to_keep"] = places
        logits: torch.Tensor = self.model(**inputs, use_cache=True, return_dict=True).logits
        return logits[0] if places is None or self._only_last else logits[0, places]

    def take_over(self, other: "ChunkedModel", places: Sequence[int]) -> None:
        """Go on behind ids that another, a branch of this one, has read at these places of its cache."""
        if not places:
            return
        index = torch.tensor(places, dtype=torch.long, device=self._device)
        for number, layer in enumerate(other._cache.layers):
            keys, values = cast(Any, layer).keys, cast(Any, layer).values
            self._cache.update(keys[:, :, index], values[:, :, index], number)
        if self._mask is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones((1, len(places)))], dim=1)
        self._next = None if self._next is None else self._next + len(places)

    def forget(self, count: int) -> None:
        """Take back the last `count` ids of every row."""
        if count:
            self._cache.crop(-count)
            self._mask = None if self._mask is None else self._mask[:, :-count]
            self._next = None if self._next is None else self._next - count

    @property
    def can_forget(self) -> bool:
        """Whether ids can be taken back: a sliding window may have dropped what came before them."""
        return all(type(layer) is DynamicLayer for layer in self._cache.layers)

    def branch(self) -> "ChunkedModel":
        """Another that goes on from here by itself. Shares the cache's tensors, which are replaced, never written to."""
        other = copy.copy(self)
        other._cache = copy.copy(self._cache)
        other._cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        return other

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows in this order; one may come several times."""
        if list(rows) == list(range(self.rows)):
            return
        index = torch.tensor(rows, device=self._device)
        self._cache.batch_select_indices(index)
        self._mask = None if self._mask is None else self._mask[index]
        self._next = None if self._next is None else self._next[index]
        self.rows = len(rows)

    def _place(self, first: torch.Tensor, chunks: Sequence[Sequence[int]], width: int) -> torch.Tensor:
        """Position ids, int64[rows, width], of chunks that begin at `first`; padding gets 0."""
        sizes = torch.tensor([[len(chunk)] for chunk in chunks], device=self._device)
        places = torch.arange(width, device=self._device) - width + sizes + first
        self._next = first + sizes
        return places.clamp_min(0)

    def _unmask(self, chunks: Sequence[Sequence[int]], width: int) -> torch.Tensor | None:
        """The attention mask over all that was and is fed; None if nothing of it is masked."""
        even = all(len(chunk) == width for chunk in chunks)
        if self._mask is None and even:
            return None
        if self._mask is None:
            fed = self._cache.get_seq_length()
            self._mask = torch.ones((self.rows, fed), dtype=torch.long, device=self._device)
        new = [[0] * (width - len(chunk)) + [1] * len(chunk) for chunk in chunks]
        self._mask = torch.cat([self._mask, torch.tensor(new, dtype=self._mask.dtype, device=self._device)], dim=1)
        return self._mask
