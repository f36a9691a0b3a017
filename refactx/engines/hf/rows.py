"""An engine over any causal language model of Transformers whose cache can be fed in chunks.

The sequences of a `generate` call are the rows of one batch, which a pass feeds together, padded to one length. A sequence
leaves its batch when it forgets ids or opens a tree of continuations, since all rows of a cache have one length. For
models whose attention takes masks of four dimensions, `refactx.engines.hf.packed` is faster.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import count
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from refactx.engines.engine import Engine, Feed, FeedTree, IdPath, Logits, TreeLogits, TreeReading
from refactx.engines.hf.chunked import ChunkedModel
from refactx.engines.hf.packed import PackedEngine, to_numpy
from refactx.engines.hf.prefix import Prefix, prefill
from refactx.engines.hf.shared_heads import NAME, USUAL

IDS_A_PASS, ROWS_A_PASS = 256, 16
"""The most ids and rows of a pass over a tree: they bound the memory for logits, and for copies of a text's keys and
values."""

_TAKES_MASKS = (USUAL, NAME, "eager")


def engine_of(model: Any) -> Engine:
    """Return the fastest engine for a model."""
    return PackedEngine(model) if takes_masks(model) else RowsEngine(model)


def takes_masks(model: Any) -> bool:
    """Return whether a model's attention takes a mask of four dimensions unchanged, and all its keys are kept.

    It must take positions as an input, not derive them from the mask or the cache (as ALiBi and GPT-Neo's local layers
    do), and prepare its mask by Transformers' `create_causal_mask`.
    """
    config = model.config
    if (
        config.is_encoder_decoder
        or getattr(config, "alibi", False)
        or "local" in getattr(config, "attention_layers", ())
    ):
        return False
    if config._attn_implementation not in _TAKES_MASKS or "position_ids" not in signature(model.forward).parameters:
        return False
    if any(type(layer) is not DynamicLayer for layer in DynamicCache(config=config).layers):
        return False
    if _positions_depend_on_others(config) or len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1:
        return False
    return any(hasattr(sys.modules.get(own.__module__), "create_causal_mask") for own in type(model).__mro__)


def _positions_depend_on_others(config: Any) -> bool:
    """Return whether what a position means depends on the longest position of a pass (rotary factors that change with
    it), or does not begin at 0 (decoders of BERT's kind)."""
    given = getattr(config, "rope_parameters", None) or {}
    kinds = [given, *(one for one in given.values() if isinstance(one, dict))]
    changes = any(str(kind.get("rope_type", "")) in ("longrope", "dynamic") for kind in kinds)
    return changes or "bert" in config.model_type


@dataclass(slots=True, eq=False)
class _Batch:
    """A model and the sequences that are its rows: a dropped one is None until the next pass."""

    model: ChunkedModel
    sequences: list[int | None]


@dataclass(slots=True, eq=False)
class _Tree:
    """A tree of a `sequence`, and how many of its last ids are `ahead` of the text."""

    sequence: int
    model: ChunkedModel
    ahead: int


class RowsEngine:
    """An engine without sequences at first. A tree's paths are rows of a batch, each of which reads a whole path.

    >>> engine = RowsEngine(model)  # doctest: +SKIP
    >>> text = engine.prefill([1, 2, 3])  # doctest: +SKIP
    >>> [logits], _ = engine.feed([(text, Feed([4, 5], last=2))])  # doctest: +SKIP
    """

    pads = True
    capacity: int | None = None
    most_texts: int | None = None

    def __init__(self, model: Any) -> None:
        self._model = model
        self._numbers = count()
        self._batches: dict[int, _Batch] = {}  # by sequence
        self._trees: dict[int, _Tree] = {}

    @property
    def trees(self) -> TreeReading:
        """Rows, unless a sliding window counts padding, or the model has no position ids."""
        models = [batch.model for batch in self._batches.values()]
        return TreeReading.ROWS if all(model.can_pad for model in models) else TreeReading.NONE

    def add_cache(self, model_kwargs: Mapping[str, Any], shape: tuple[int, int]) -> list[int]:
        """Return the sequences of a `generate` call whose prompts the model has read, one for each row.

        `model_kwargs`: the inputs as `generate` prepared them; `shape`: rows and length of the prompts.
        """
        return self._add(ChunkedModel(self._model, model_kwargs, shape))

    def prefill(self, ids: Sequence[int]) -> int:
        return self.add_prefix(prefill(self._model, [list(ids)]))

    def add_prefix(self, prefix: Prefix) -> int:
        """Return a sequence that has read a prefix."""
        length = prefix.ids.shape[1]
        inputs: dict[str, Any] = {"past_key_values": prefix.cache_for_one(), "position_ids": torch.arange(length)[None]}
        if self._model._supports_logits_to_keep():
            inputs["logits_to_keep"] = 1
        return self.add_cache(inputs, (1, length))[0]

    @property
    def can_forget(self) -> bool:
        return all(batch.model.can_forget for batch in self._batches.values())

    def feed(
        self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()
    ) -> tuple[list[Logits], list[TreeLogits]]:
        wanted, found = dict(feeds), dict[int, Logits]()
        if len(wanted) < len(feeds) or len({one.tree for one in trees}) < len(trees):
            raise ValueError("a sequence or a tree is fed twice in one step: join its ids")
        for batch in {id(batch): batch for batch in map(self._batches.__getitem__, wanted)}.values():
            rows = self._select_live(batch)
            chunks = [wanted[row].ids if row in wanted else () for row in rows]
            last = max(wanted[row].last for row in rows if row in wanted)
            logits = to_numpy(batch.model.feed(chunks, last))
            found |= {row: logits[n, last - wanted[row].last :] for n, row in enumerate(rows) if row in wanted}
        return [found[sequence] for sequence, _ in feeds], [self._read(one) for one in trees]

    def fork(self, sequence: int) -> int:
        batch = self._batches[sequence]
        other = batch.model.branch()
        other.select([batch.sequences.index(sequence)])
        return self._add(other)[0]

    def forget(self, sequence: int, count: int) -> None:
        if count:
            model = self._alone(sequence)
            model.close_gaps(count)
            model.forget(count)

    def drop(self, sequence: int) -> None:
        self._trees = {number: tree for number, tree in self._trees.items() if tree.sequence != sequence}
        batch = self._batches.pop(sequence)
        batch.sequences[batch.sequences.index(sequence)] = None

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> int:
        model, number = self._alone(sequence), next(self._numbers)
        model.close_gaps(len(ahead))
        self._trees[number] = _Tree(sequence, model, len(ahead))
        return number

    def keep(self, tree: int, path: IdPath) -> int:
        own = self._trees.pop(tree)
        own.model.forget(own.ahead)
        return 0

    def close(self, tree: int) -> None:
        del self._trees[tree]

    def _read(self, asked: FeedTree) -> TreeLogits:
        """Read some wanted paths as rows of one batch."""
        own, paths = self._trees[asked.tree], asked.paths
        by_row: dict[int, list[int]] = {}  # the numbers of the wanted paths, by the longest path that has them
        longest = _longest(paths)
        for number in asked.numbers:
            by_row.setdefault(longest[number], []).append(number)
        rows = list(by_row)
        some = [rows[at] for at in first_pass([paths[row] for row in rows])]
        last = max(len(paths[row]) - len(paths[number]) + 1 for row in some for number in by_row[row])
        branch = own.model.branch()
        branch.forget(own.ahead)
        branch.select([0] * len(some))
        logits = to_numpy(branch.feed([paths[row] for row in some], last))
        numbers = [(n, number) for n, row in enumerate(some) for number in by_row[row]]
        places = [len(paths[number]) - len(paths[some[n]]) - 1 for n, number in numbers]
        return TreeLogits([number for _, number in numbers], logits[[n for n, _ in numbers], places])

    def _add(self, model: ChunkedModel) -> list[int]:
        sequences = [next(self._numbers) for _ in range(model.rows)]
        batch = _Batch(model, list(sequences))
        self._batches |= dict.fromkeys(sequences, batch)
        return sequences

    def _select_live(self, batch: _Batch) -> list[int]:
        """Remove dropped rows from a batch. Return the sequences that are left."""
        places = [n for n, sequence in enumerate(batch.sequences) if sequence is not None]
        batch.model.select(places)
        live = [sequence for sequence in batch.sequences if sequence is not None]
        batch.sequences = list(live)
        return live

    def _alone(self, sequence: int) -> ChunkedModel:
        """Return a model with one row for a sequence, which leaves its batch if that has others."""
        batch = self._batches[sequence]
        if len(self._select_live(batch)) > 1:
            model = batch.model.branch()
            model.select([batch.sequences.index(sequence)])
            batch.sequences[batch.sequences.index(sequence)] = None
            batch = self._batches[sequence] = _Batch(model, [sequence])
        return batch.model


def _longest(paths: Sequence[IdPath]) -> list[int]:
    """Return for each path the number of the longest of `paths` that begins with it."""
    numbers = {path: number for number, path in enumerate(paths)}
    longest = dict[IdPath, int]()
    for path in sorted(numbers, key=len, reverse=True):
        for end in range(len(path), 0, -1):
            if longest.setdefault(path[:end], numbers[path]) != numbers[path]:
                break
    return [longest[path] for path in paths]


def first_pass(rows: Sequence[Sequence[int]]) -> list[int]:
    """Return the numbers of rows that a pass reads, short rows first, so that there is little padding.

    >>> first_pass([[1, 2, 3], [4], [5, 6]])
    [1, 2, 0]
    """
    order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
    step = max(1, min(ROWS_A_PASS, IDS_A_PASS // max(map(len, rows), default=1)))
    return order[:step]
