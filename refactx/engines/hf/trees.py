"""Trees of continuations of one text, read by a model of Transformers: by tree attention, or as the rows of a batch.

With tree attention, the ids are in the cache in the order in which they were read, each with the position that it has
in its branch, and an attention mask of four dimensions lets it attend to the text and to its own branch alone (as for
the drafts of Miao et al., SpecInfer, arXiv 2305.09781). A pass takes no padding, and no copy of the text's keys and
values for each branch. A model that takes no such masks reads each path as a row of a batch, all of it each time.
"""

import sys
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import torch

from refactx.engines.engine import IdPath, Logits
from refactx.engines.hf.chunked import ChunkedModel, to_numpy

IDS_A_PASS, ROWS_A_PASS = 256, 16
"""The most ids and rows of a pass: they bound the memory for logits, and for copies of a text's keys and values."""

_TAKES_MASKS = ("sdpa", "eager")


def takes_masks(model: Any) -> bool:
    """Return whether a model's attention takes a mask of four dimensions unchanged.

    It must take positions as an input, not derive them from the mask or the cache (as ALiBi and GPT-Neo's local layers
    do), and prepare its mask by Transformers' `create_causal_mask`.
    """
    config = model.config
    if getattr(config, "alibi", False) or "local" in getattr(config, "attention_layers", ()):
        return False
    if config._attn_implementation not in _TAKES_MASKS or "position_ids" not in signature(model.forward).parameters:
        return False
    return any(hasattr(sys.modules.get(own.__module__), "create_causal_mask") for own in type(model).__mro__)


class AttentionTree:
    """A `refactx.engines.engine.TokenTree` by tree attention. `trunk`: a model of one row, not changed before `keep`."""

    is_incremental = True

    def __init__(self, trunk: ChunkedModel, ahead: Sequence[int] = ()) -> None:
        self._model, self._trunk, self._ahead = trunk.branch(), trunk, len(ahead)
        self._text = trunk.fed - len(ahead)
        self._places = {tuple(ahead[: n + 1]): self._text + n for n in range(len(ahead))}  # in the cache

    def __contains__(self, path: IdPath) -> bool:
        return not path or path in self._places

    def read(self, paths: Sequence[IdPath], wanted: Sequence[int] | None = None) -> Iterator[tuple[list[int], Logits]]:
        chosen = range(len(paths)) if wanted is None else set(wanted)
        for first in range(0, len(paths), IDS_A_PASS):
            some = paths[first : first + IDS_A_PASS]
            numbers = [number for number in range(len(some)) if first + number in chosen]
            yield [first + number for number in numbers], to_numpy(self._pass(some, numbers))

    def keep(self, path: IdPath) -> int:
        read = next((n for n in range(len(path), 0, -1) if path[:n] in self._places), 0)
        self._trunk.forget(self._ahead)
        self._trunk.take_over(self._model, self._along(path[:read]))
        return read

    def _pass(self, paths: Sequence[IdPath], wanted: Sequence[int]) -> torch.Tensor:
        """Run the model once over the last id of each path. Return the logits after the wanted ones, [wanted,
        vocabulary]."""
        fed = self._model.fed
        self._places |= {path: fed + n for n, path in enumerate(paths)}
        seen = torch.zeros((len(paths), fed + len(paths)), dtype=torch.bool)
        seen[:, : self._text] = True
        for n, path in enumerate(paths):
            seen[n, self._along(path)] = True
        offsets = [len(path) - 1 - self._ahead for path in paths]
        some = None if len(wanted) == len(paths) else wanted
        return self._model.feed_masked([path[-1] for path in paths], offsets, seen, some)

    def _along(self, path: IdPath) -> list[int]:
        return [self._places[path[: n + 1]] for n in range(len(path))]


class RowTree:
    """A `refactx.engines.engine.TokenTree` as rows of a batch, each of which reads a whole path; `keep` keeps none."""

    is_incremental = False

    def __init__(self, model: ChunkedModel, ahead: Sequence[int] = ()) -> None:
        self._model, self._ahead = model, len(ahead)

    def __contains__(self, path: IdPath) -> bool:
        return True

    def read(self, paths: Sequence[IdPath], wanted: Sequence[int] | None = None) -> Iterator[tuple[list[int], Logits]]:
        by_row: dict[int, list[int]] = {}  # the numbers of the wanted paths, by the longest path that has them
        longest = _longest(paths)
        for number in range(len(paths)) if wanted is None else wanted:
            by_row.setdefault(longest[number], []).append(number)
        rows = list(by_row)
        for some in passes([paths[row] for row in rows]):
            chunks = [paths[rows[at]] for at in some]
            last = max(len(paths[rows[at]]) - len(paths[number]) + 1 for at in some for number in by_row[rows[at]])
            branch = self._model.branch()
            branch.forget(self._ahead)
            branch.select([0] * len(some))
            logits = to_numpy(branch.feed(chunks, last))
            numbers = [(n, number) for n, at in enumerate(some) for number in by_row[rows[at]]]
            places = [len(paths[number]) - len(chunks[n]) - 1 for n, number in numbers]
            yield [number for _, number in numbers], logits[[n for n, _ in numbers], places]

    def keep(self, path: IdPath) -> int:
        self._model.forget(self._ahead)
        return 0


def _longest(paths: Sequence[IdPath]) -> list[int]:
    """Return for each path the number of the longest of `paths` that begins with it."""
    numbers = {path: number for number, path in enumerate(paths)}
    longest = dict[IdPath, int]()
    for path in sorted(numbers, key=len, reverse=True):
        for end in range(len(path), 0, -1):
            if longest.setdefault(path[:end], numbers[path]) != numbers[path]:
                break
    return [longest[path] for path in paths]


def passes(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the numbers of rows that each pass reads, short rows first, so that there is little padding.

    >>> passes([[1, 2, 3], [4], [5, 6]])
    [[1, 2, 0]]
    """
    order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
    step = max(1, min(ROWS_A_PASS, IDS_A_PASS // max(map(len, rows), default=1)))
    return [order[first : first + step] for first in range(0, len(order), step)]
