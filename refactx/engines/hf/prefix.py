"""Prefixes: the beginning that many prompts share (system prompt, examples), with its prefilled key-value cache."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from refactx.errors import InputError, ModelError


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
