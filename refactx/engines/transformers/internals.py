"""What is used of Transformers that has no public name, here alone, and the attention that is registered with it.

A version of Transformers that lacks one is named in one line, when it is used: to look earlier would load what takes a second.

With a mask, Transformers' own attention copies keys and values for each head, since kernels of other devices need that
(docs/decisions/0032-packed-passes.md). A function without these copies is registered beside it, under its own name.
Transformers makes the masks of a model whose layers have windows by a function that is registered with its attention:
ours applies the rule that a layer asks for to the positions of ids and cells.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from inspect import signature
from threading import Lock
from typing import Any, ClassVar

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.generation.logits_process import PrefixConstrainedLogitsProcessor

from refactx.errors import ModelError

OURS = {"sdpa": "refactx_sdpa", "eager": "refactx_eager"}
"""The implementations of attention that are replaced, and those in their places, as configs have them."""

CACHES = ("cache", "past_key_values", "cache_params")
"""The names by which models take what they have read: that of Transformers 5.24, and those before."""
CACHE = CACHES[tuple(map(int, version("transformers").split(".")[:2])) < (5, 24)]
"""The one that `generate` has, in its inputs and in its output."""

_OTHERS = ("position_bias", "cache", "softcap", "output_attentions")
"""Arguments that Transformers' function knows what to do with."""


def _private(owner: Any, name: str) -> Any:
    """Return a member of Transformers without a public name. Raises ModelError if this version does not have it."""
    try:
        return getattr(owner, name)
    except AttributeError:
        raise ModelError(
            f"Transformers {version('transformers')} has no `{name}` that refactx uses: pip install 'transformers>=5.23,<5.25'"
        ) from None


def cache_argument(model: Any) -> str | None:
    """Return the name by which a model takes what it has read; None if it takes nothing of the kind."""
    taken = signature(model.forward).parameters
    return next((name for name in CACHES if name in taken), None)


def has_cache(given: Mapping[str, Any]) -> bool:
    """Return whether arguments of `generate` have a cache, by any of its names."""
    return any(given.get(name) is not None for name in CACHES)


def sample(model: Any, *arguments: Any, **options: Any) -> Any:
    """Run the loop of `generate` of the model's class, with what `generate` passes to it."""
    return _private(type(model), "_sample")(model, *arguments, **options)


def prefill_logits(model: Any, ids: torch.Tensor, config: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """Read prompts, int64[rows, length], as `generate` does. Return the logits after each, [rows, 1, vocabulary]."""
    logits: torch.Tensor = _private(model, "_prefill")(ids, config, inputs).logits[:, -1:]
    return logits


def generation_config(model: Any, **given: Any) -> Any:
    """Return the config that `generate` makes of a model's own and what it was given."""
    return _private(model, "_prepare_generation_config")(**given)[0]


def takes_dynamic_cache(model: Any) -> bool:
    """Return whether a model keeps its state in a `DynamicCache`."""
    return bool(_private(model, "_supports_default_dynamic_cache")())


def chooses_logits(model: Any) -> bool:
    """Return whether a model computes the logits of some ids alone, as `logits_to_keep`."""
    return bool(_private(model, "_supports_logits_to_keep")())


def padding_id(config: Any) -> int:
    """Return the id with which `generate` fills rows up; 0 if its config has none."""
    pad = _private(config, "_pad_token_tensor")
    return 0 if pad is None else int(pad)


def use_one_gpu(arguments: Any) -> None:
    """Let a `Trainer` with these arguments use one GPU at most: it would divide each batch among all."""
    count = min(1, arguments.n_gpu)
    _private(arguments, "_n_gpu")
    arguments._n_gpu = count


def for_row(processor: Any, number: int) -> PrefixConstrainedLogitsProcessor:
    """Return a processor of allowed ids that judges a text alone as the row of that number."""
    allowed = _private(processor, "_prefix_allowed_tokens_fn")
    return PrefixConstrainedLogitsProcessor(lambda _, ids: allowed(number, ids), num_beams=1)


def attention_of(config: Any) -> str:
    """Return the name of a config's attention, as Transformers has it: `sdpa` also for ours that is in its place."""
    name = str(_private(config, "_attn_implementation"))
    return next((usual for usual, ours in OURS.items() if ours == name), name)


def attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *, dropout: float = 0.0, **options: Any
) -> tuple[torch.Tensor, None]:
    """Return the attention of `query`, float[batch, heads, n, d], as Transformers' functions do: [batch, n, heads, d]."""
    if attention_mask is None or query.device.type != "cpu" or any(options.get(name) for name in _OTHERS):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

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


@dataclass(frozen=True, slots=True, eq=False)
class PassMasks:
    """What the ids of a pass see: `seen`, bool[n, width]; their `positions`, int64[n], and those of the cells in the
    window of the buffers, `cells`, int64[width]. `dtype`: that of masks."""

    seen: torch.Tensor
    positions: torch.Tensor
    cells: torch.Tensor
    dtype: torch.dtype

    def of(self, rule: Callable[..., Any] | None = None) -> torch.Tensor:
        """Return the mask, float[1, 1, n, width], of layers whose ids see cells by a rule of Transformers; None: the causal."""
        from transformers.masking_utils import causal_mask_function

        seen = self.seen
        if rule is not None and rule is not causal_mask_function:
            zero = torch.zeros(1, 1, dtype=torch.long, device=seen.device)
            seen = seen & rule(zero, zero, self.positions[:, None], self.cells[None])
        mask = torch.zeros(seen.shape, dtype=self.dtype, device=seen.device)
        return mask.masked_fill_(~seen, torch.finfo(self.dtype).min)[None, None]


_masks: ContextVar[PassMasks | None] = ContextVar("masks", default=None)
"""The masks of the pass of this thread, while its layers are to see by rules of their own."""


def _mask(usual: Callable[..., Any], **options: Any) -> Any:
    """Return the mask that a model asks for: that of this thread's pass, or the `usual` one outside of passes."""
    masks = _masks.get()
    if masks is None:
        return usual(**options)
    if options.get("use_vmap"):
        raise ModelError(
            "the model masks by more than positions, so texts cannot be read together: use engine_of(model)"
        )
    return masks.of(options["mask_function"])


@cache
def _register() -> None:
    """Register the functions, once there is a model: what they are registered with takes a second to load."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask, sdpa_mask

    AttentionInterface.register(OURS["sdpa"], attention)
    AttentionInterface.register(  # the function of the model's own module, which knows its sinks and caps
        OURS["eager"],
        lambda module, *states, **options: vars(sys.modules[type(module).__module__])["eager_attention_forward"](
            module, *states, **options
        ),
    )
    AttentionMaskInterface.register(OURS["sdpa"], partial(_mask, sdpa_mask))
    AttentionMaskInterface.register(OURS["eager"], partial(_mask, eager_mask))


class OwnAttention:
    """The configs of a model's layers that use functions of this module during passes.

    They are those of all layers if some have windows. Else they are those whose heads share keys and values, on a CPU.
    """

    _lock = Lock()
    _passes: ClassVar[dict[int, int]] = {}  # how many passes are using a config, by its id

    def __init__(self, model: Any, windowed: bool) -> None:
        _register()
        layers = (module for module in model.modules() if hasattr(module, "config"))
        some = [each for each in layers if windowed or getattr(each, "num_key_value_groups", 1) > 1]
        configs = {id(layer.config): layer.config for layer in some}.values()
        self._configs = [(config, attention_of(config)) for config in configs]
        if not windowed:
            self._configs = [pair for pair in self._configs if pair[1] == "sdpa" and model.device.type == "cpu"]

    @contextmanager
    def on(self, masks: PassMasks | None) -> Iterator[None]:
        """Let a pass use the functions; `masks`: what they give to layers with windows."""
        with self._lock:
            for config, usual in self._configs:
                self._passes[id(config)] = self._passes.get(id(config), 0) + 1
                config._attn_implementation = OURS[usual]
        token = _masks.set(masks)
        try:
            yield
        finally:
            _masks.reset(token)
            with self._lock:
                for config, usual in self._configs:
                    self._passes[id(config)] -= 1
                    if not self._passes[id(config)]:
                        del self._passes[id(config)]
                        config._attn_implementation = usual
