"""Several continuations of one text, read by a model at once, each id once whatever goes on behind it.

The continuations are a tree. Its ids lie in the cache one behind the other in the order in which they were read, each at
its own position, and an attention mask of four dimensions lets it see the text and what is in front of it in its own branch
alone (as for the drafts of Miao et al., SpecInfer, arXiv 2305.09781). So a pass costs what its ids cost: no row of padding,
and no copy of the text's keys and values for each branch.
"""

import sys
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import torch

from refactx.engines.hf.chunked import ChunkedModel, can_be_fed_in_chunks

IdPath = tuple[int, ...]
"""Ids behind a text, each of which goes on from those in front of it."""

_TAKES_MASKS = ("sdpa", "eager")


def can_branch(model: Any, model_kwargs: Mapping[str, Any]) -> bool:
    """Whether a model, with the inputs that `generate` prepared for it, computes branches so: it needs what several rows need
    (`refactx.engines.hf.chunked`), and `takes_masks`.
    """
    return can_be_fed_in_chunks(model, model_kwargs, 2) and takes_masks(model)


def takes_masks(model: Any) -> bool:
    """Whether a model has attention that takes a mask as it is: positions that are given, and not read off the mask or the
    cache, as ALiBi and GPT-Neo's local layers do, and Transformers' own way to prepare one.
    """
    config = model.config
    if getattr(config, "alibi", False) or "local" in getattr(config, "attention_layers", ()):
        return False
    if config._attn_implementation not in _TAKES_MASKS or "position_ids" not in signature(model.forward).parameters:
        return False
    return any(hasattr(sys.modules.get(own.__module__), "create_causal_mask") for own in type(model).__mro__)


class Branches:
    """What a model of one row may go on with: paths of ids behind its text.

    `model` is left as it is until `keep`. `ahead`: its last ids that are no text yet, the first path that is read.
    """

    def __init__(self, model: ChunkedModel, ahead: Sequence[int] = ()) -> None:
        self._model, self._trunk, self._ahead = model.branch(), model, len(ahead)
        self._text = model.fed - len(ahead)
        self._places = {tuple(ahead[: n + 1]): self._text + n for n in range(len(ahead))}  # in the cache

    def __contains__(self, path: Sequence[int]) -> bool:
        """Whether the model has read a path."""
        return not path or tuple(path) in self._places

    def read(self, paths: Sequence[IdPath], wanted: Sequence[int] | None = None) -> torch.Tensor:
        """Run the model once over the last id of each path, whose other ids were read before or are read by a path in front
        of it. Returns the logits behind each, [paths, vocabulary], or behind those whose numbers are `wanted`.
        """
        fed = self._model.fed
        self._places |= {path: fed + n for n, path in enumerate(paths)}
        seen = torch.zeros((len(paths), fed + len(paths)), dtype=torch.bool)
        seen[:, : self._text] = True
        for n, path in enumerate(paths):
            seen[n, self._along(path)] = True
        offsets = [len(path) - 1 - self._ahead for path in paths]
        return self._model.feed_seeing([path[-1] for path in paths], offsets, seen, wanted)

    def keep(self, path: Sequence[int]) -> int:
        """Make `path` the model's own text as far as it was read, and forget all else. Returns how many ids that are."""
        read = next((n for n in range(len(path), 0, -1) if tuple(path[:n]) in self._places), 0)
        self._trunk.forget(self._ahead)
        self._trunk.take_over(self._model, self._along(tuple(path[:read])))
        return read

    def _along(self, path: IdPath) -> list[int]:
        return [self._places[path[: n + 1]] for n in range(len(path))]
