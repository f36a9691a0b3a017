"""The beginning that many prompts share (system prompt, examples), run through the model once."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from refactx.errors import InputError, ModelError


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """`ids`: int64[1, length], and the model's keys and values behind them. Made by `prefill`, never changed."""

    ids: torch.Tensor
    cache: DynamicCache

    def cache_for(self, prompts: Any, copies: int = 1) -> DynamicCache:
        """A cache for prompts, int64[rows, length], each of which begins with the prefix and goes on; `copies` of each,
        as beam search needs them.

        Padding comes behind the prefix, with zeros in the attention mask. Raises InputError for other prompts.
        """
        length = self.ids.shape[1]
        if prompts is None or prompts.shape[1] <= length or not (prompts[:, :length].cpu() == self.ids).all():
            raise InputError(
                f"with prefix= each prompt must begin with the prefix's {length} ids and go on behind them"
            )
        cache = self.cache_for_one()
        if len(prompts) * copies > 1:
            cache.batch_repeat_interleave(len(prompts) * copies)
        return cache

    def cache_for_one(self) -> DynamicCache:
        """A cache for one text that goes on behind the prefix."""
        cache = copy.copy(self.cache)  # its tensors are replaced as the text grows, never written to
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        return cache


def prefill(model: Any, input_ids: Any) -> Prefix:
    """Run `input_ids`, int64[1, length], through the model. Raises ModelError where its cache cannot be shared."""
    ids = torch.as_tensor(input_ids)
    if ids.dim() != 2 or len(ids) != 1 or not ids.shape[1]:
        raise InputError(f"a prefix is one row of ids, [1, length]; this has the shape {list(ids.shape)}")
    cache = DynamicCache(config=model.config)
    if model.config.is_encoder_decoder or any(type(layer) is not DynamicLayer for layer in cache.layers):
        raise ModelError(
            f"{type(model).__name__} keeps more than keys and values of every id, so no prefix can be computed ahead; "
            "leave it out"
        )
    with torch.no_grad():
        model(input_ids=ids.to(model.device), past_key_values=cache, use_cache=True)
    return Prefix(ids.cpu(), cache)
