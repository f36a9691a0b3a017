"""Keys and values of a model of Transformers in cells, one for each id that was read, which sequences share.

A cell is a place in a buffer of each layer. A pass writes its ids into free cells, and attends to a window of the buffer:
what each id may see there is the attention mask's matter. So nothing is copied when sequences fork, end or grow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

Places = NDArray[np.int64]
"""Cells, as places in the buffers: int64[n]."""

SPARSE = 0.5
"""A pass copies the cells that it sees if they are less than this share of the span that they take up."""

_FIRST = 1024
"""The number of cells at first; it doubles when they are all taken."""


class _Plan:
    """What a pass writes and sees: its `new` cells int64[n], the `window` of the buffers, how many of its cells were
    `seen` before the pass, and the least `size` of the buffers."""

    new: torch.Tensor
    window: slice | torch.Tensor
    seen: int
    size: int


_Layer: Any = DynamicLayer  # its methods have no types


class _CellLayer(_Layer):  # type: ignore[misc]
    """The `parts` of one layer: its keys and its values, each float[1, heads, cells, size]."""

    def __init__(self, plan: _Plan) -> None:
        super().__init__()
        self._plan, self.parts = plan, list[torch.Tensor]()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the keys and values of the pass into its new cells. Return those of its window."""
        self.write(self._plan.new, [key_states, value_states], self._plan.size)
        window = self._plan.window
        if isinstance(window, slice):
            return self.parts[0][:, :, window], self.parts[1][:, :, window]
        return self.parts[0].index_select(2, window), self.parts[1].index_select(2, window)

    def write(self, places: torch.Tensor, states: Sequence[torch.Tensor], size: int) -> None:
        """Write keys and values into cells, of which there are at least `size`."""
        if not self.parts or self.parts[0].shape[2] < size:
            grown = [new.new_zeros((1, new.shape[1], size, new.shape[3])) for new in states]
            for old, buffer in zip(self.parts, grown, strict=False):
                buffer[:, :, : old.shape[2]] = old
            self.parts = grown
        for buffer, new in zip(self.parts, states, strict=True):
            buffer.index_copy_(2, places, new)

    def get_seq_length(self) -> int:
        """Return the number of keys that the pass sees besides its own, as masks are made for."""
        return self._plan.seen


class Cells:
    """The cells of one model.

    `cache`: what the model takes as `past_key_values`; valid for one pass after `plan`.
    """

    def __init__(self, model: Any) -> None:
        self._device, self._plan = model.device, _Plan()
        self.cache = DynamicCache(config=model.config)
        self._layers = [_CellLayer(self._plan) for _ in self.cache.layers]
        self.cache.layers = list(self._layers)
        self._holders = np.zeros(_FIRST, np.int32)  # how many sequences and trees hold each cell

    @property
    def taken(self) -> int:
        """The number of cells that are held."""
        return int(np.count_nonzero(self._holders))

    def take(self, count: int) -> Places:
        """Return free cells, which are then held once."""
        free = np.flatnonzero(self._holders == 0)[:count]
        while len(free) < count:
            self._holders = np.concatenate([self._holders, np.zeros_like(self._holders)])
            free = np.flatnonzero(self._holders == 0)[:count]
        self._holders[free] = 1
        return free

    def hold(self, places: Places) -> None:
        """Hold cells once more."""
        self._holders[places] += 1

    def release(self, places: Places | Sequence[int]) -> None:
        """Hold cells once less: those that nobody holds are free."""
        self._holders[places] -= 1

    def plan(self, new: Places, seen: Sequence[Places]) -> Places:
        """Prepare a pass that writes `new` cells, and whose ids see them and those in `seen`.

        Returns for each cell its column in the window: int64[cells], -1 outside of it.
        """
        marks = np.zeros(len(self._holders), np.bool_)
        for places in (new, *seen):
            marks[places] = True
        union = np.flatnonzero(marks)
        low, high = int(union[0]), int(union[-1]) + 1
        columns = np.full(len(self._holders), -1, np.int64)
        plan = self._plan
        if len(union) < SPARSE * (high - low):
            columns[union] = np.arange(len(union))
            plan.window, width = torch.from_numpy(union).to(self._device), len(union)
        else:
            columns[low:high] = np.arange(high - low)
            plan.window, width = slice(low, high), high - low
        plan.new = torch.from_numpy(new).to(self._device)
        plan.seen, plan.size = width - len(new), len(self._holders)
        return columns

    def copy_in(self, cache: Any, row: int, columns: Places) -> Places:
        """Copy keys and values of one row of a Transformers cache, at some columns, into new cells."""
        places = self.take(len(columns))
        at, some = (torch.from_numpy(each).to(self._device) for each in (places, columns))
        with torch.inference_mode(False), torch.no_grad():
            for own, theirs in zip(self._layers, cache.layers, strict=True):
                states = [part[row : row + 1, :, some] for part in (theirs.keys, theirs.values)]
                own.write(at, states, len(self._holders))
        return places

    def copy_out(self, places: Places, cache: Any) -> None:
        """Replace the keys and values of a Transformers cache of one row by those of cells."""
        at = torch.from_numpy(places).to(self._device)
        for own, theirs in zip(self._layers, cache.layers, strict=True):
            theirs.keys, theirs.values = (part.index_select(2, at) for part in own.parts)
