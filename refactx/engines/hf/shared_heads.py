"""Attention on a CPU whose heads share the keys and values of their group, with a mask of four dimensions.

Transformers' own function copies keys and values for each head if there is a mask, since kernels of other devices need
that (docs/decisions/0032-packed-passes.md). This one is registered beside it, under a name of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

USUAL, NAME = "sdpa", "refactx_sdpa"
"""The implementation of attention that is replaced, and the one in its place, as configs have them."""
_OTHERS = ("position_bias", "cache", "softcap", "output_attentions")
"""Arguments that Transformers' function knows what to do with."""


def attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0, **options: Any
) -> tuple[torch.Tensor, None]:
    """Return the attention of `query`, float[batch, heads, n, d], as Transformers' functions do: [batch, n, heads, d]."""
    if attention_mask is None or any(options.get(name) for name in _OTHERS):
        found: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, **options
        )
        return found
    groups = getattr(module, "num_key_value_groups", 1)
    out = scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        scale=options.get("scaling"),
        enable_gqa=groups > 1,
    )
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


class SharedHeads:
    """The configs of a model's layers whose heads share keys and values, and use Transformers' function."""

    def __init__(self, model: Any) -> None:
        layers = (module for module in model.modules() if getattr(module, "num_key_value_groups", 1) > 1)
        configs = {id(layer.config): layer.config for layer in layers if hasattr(layer, "config")}
        self._configs = [config for config in configs.values() if config._attn_implementation in (USUAL, NAME)]

    @contextmanager
    def on(self, device: str) -> Iterator[None]:
        """Let passes on a CPU use the function of this module."""
        configs = self._configs if device == "cpu" else []
        for config in configs:
            config._attn_implementation = NAME
        try:
            yield
        finally:
            for config in configs:
                config._attn_implementation = USUAL
