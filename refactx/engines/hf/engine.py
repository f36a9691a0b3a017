"""An engine over a causal language model of Transformers (`refactx.engines.engine.Engine`).

The sequences of a `generate` call are the rows of one batch, which a pass feeds together. A sequence leaves its batch
when it forgets ids or reads a tree of continuations, since all rows of a cache have one length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch

from refactx.engines.chooser import TreeReading
from refactx.engines.engine import Feed, Logits, TokenTree
from refactx.engines.hf.chunked import ChunkedModel, can_feed_chunks, to_numpy
from refactx.engines.hf.prefix import Prefix, prefill
from refactx.engines.hf.trees import AttentionTree, RowTree, takes_masks


def tree_reading(model: Any, model_kwargs: Mapping[str, Any]) -> TreeReading:
    """Return how a model reads trees, given the inputs that `generate` prepared for it."""
    if not can_feed_chunks(model, model_kwargs, 2):
        return TreeReading.NONE
    return TreeReading.ATTENTION if takes_masks(model) else TreeReading.ROWS


@dataclass(slots=True, eq=False)
class _Batch:
    """A model and the sequences that are its rows: a dropped one is None until the next pass."""

    model: ChunkedModel
    sequences: list[int | None]


class TransformersEngine:
    """An engine over a causal language model of Transformers, without sequences at first.

    >>> engine = TransformersEngine(model)  # doctest: +SKIP
    >>> text = engine.prefill([1, 2, 3])  # doctest: +SKIP
    >>> [logits] = engine.feed([Feed(text, [4, 5], last=2)])  # doctest: +SKIP
    >>> logits.shape  # doctest: +SKIP
    (2, 49152)
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._numbers = count()
        self._batches: dict[int, _Batch] = {}  # by sequence

    def add_batch(self, model_kwargs: Mapping[str, Any], shape: tuple[int, int]) -> list[int]:
        """Return the sequences of a `generate` call whose prompts the model has read, one for each row.

        `model_kwargs`: the inputs as `generate` prepared them; `shape`: rows and length of the prompts.
        """
        return self._add(ChunkedModel(self._model, model_kwargs, shape))

    def prefill(self, ids: Sequence[int]) -> int:
        """Read the beginning of a text and return its sequence. Raise ModelError if the cache cannot be shared."""
        return self.add_prefix(prefill(self._model, [list(ids)]))

    def add_prefix(self, prefix: Prefix) -> int:
        """Return a sequence that has read a prefix."""
        length = prefix.ids.shape[1]
        inputs: dict[str, Any] = {"past_key_values": prefix.cache_for_one(), "position_ids": torch.arange(length)[None]}
        if self._model._supports_logits_to_keep():
            inputs["logits_to_keep"] = 1
        return self.add_batch(inputs, (1, length))[0]

    @property
    def can_forget(self) -> bool:
        return all(batch.model.can_forget for batch in list(self._batches.values()))  # (others may fork meanwhile)

    def feed(self, feeds: Sequence[Feed]) -> list[Logits]:
        found: dict[int, Logits] = {}
        wanted = {feed.sequence: feed for feed in feeds}
        if len(wanted) < len(feeds):
            raise ValueError("a sequence is fed twice in one step: join its ids")
        for batch in {id(batch): batch for batch in map(self._batches.__getitem__, wanted)}.values():
            rows = self._select_live(batch)
            chunks = [wanted[row].ids if row in wanted else () for row in rows]
            last = max(wanted[row].last for row in rows if row in wanted)
            logits = to_numpy(batch.model.feed(chunks, last))
            found |= {row: logits[n, last - wanted[row].last :] for n, row in enumerate(rows) if row in wanted}
        return [found[feed.sequence] for feed in feeds]

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
        batch = self._batches.pop(sequence)
        batch.sequences[batch.sequences.index(sequence)] = None

    def tree(self, sequence: int, ahead: Sequence[int] = ()) -> TokenTree:
        model = self._alone(sequence)
        model.close_gaps(len(ahead))
        return AttentionTree(model, ahead) if takes_masks(self._model) else RowTree(model, ahead)

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
            self.drop(sequence)
            batch = self._batches[sequence] = _Batch(model, [sequence])
        return batch.model
