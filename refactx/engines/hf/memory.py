"""The memory that keys and values may take: how many ids a model's cache has room for."""

from typing import Any

import torch

from refactx.engines.memory import free_memory

SHARE = 0.6
"""The share of the free memory that the cache may take. A pass needs some of the rest."""


UNKNOWN = 4 << 30
"""The bytes that are taken to be free if the system does not tell."""


def cells_that_fit(model: Any) -> int:
    """Return for how many ids the free memory of a model's device has room: keys and values of all layers."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    a_cell: int = 2 * config.num_hidden_layers * heads * size * model.dtype.itemsize
    return max(1, int(SHARE * _free_bytes(model.device)) // a_cell)


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = free_memory()
    return UNKNOWN if free is None else free
