"""Masks over the logits of a batch: minus infinity for every token that may not follow.

The mask of a row is the list of allowed ids and not a token bitmask over the vocabulary, since few ids are allowed
within a fact.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from transformers import LogitsProcessor

from refactx.decoding.constraint import Constraint
from refactx.tree.children import Tokens

S = TypeVar("S")


class RowMasks(LogitsProcessor):
    """A logits processor that masks each row by `allowed`, which the loop sets before each call."""

    def __init__(self) -> None:
        self.allowed: Sequence[Tokens | None] = ()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Mask the scores as `FactLogitsProcessor` does."""
        return scores if all(tokens is None for tokens in self.allowed) else mask_scores(scores, self.allowed)


def row_mask(constraint: Constraint[S], state: S, last: int) -> Tokens | None:
    """Return the ids that may follow `state`; for a row that is off the tree, its own last id, `last`.

    The next id of such a row does not matter: the row is padded (a stopping criterion ended it inside a fact), or it is
    a beam whose score is minus infinity. But a row of minus infinities alone becomes NaN in the warpers after the mask
    and in sampling, which then raise for all rows. If the id is used nevertheless, since a later processor ruled out
    all ids that are allowed, the last id does the least harm: repeating it writes no other fact.
    """
    tokens = constraint.allowed(state)
    return np.array([last], np.int32) if tokens is not None and not len(tokens) else tokens


def mask_scores(scores: torch.FloatTensor, allowed: Sequence[Tokens | None]) -> torch.FloatTensor:
    """Return a copy of `scores`, [rows, vocabulary], with minus infinity for all ids of a row except the allowed ones.

    `allowed`: int32[n], ascending, for each row; None leaves a row as it is. If other processors have ruled out all
    allowed ids, these get 0: sampling raises for a row of minus infinities, and argmax would return id 0.
    """
    out = torch.full_like(scores, -torch.inf)
    for source, target, tokens in zip(scores.unbind(), out.unbind(), allowed, strict=True):
        if tokens is None:
            target.copy_(source)
            continue
        ids = torch.from_numpy(tokens[tokens < scores.shape[1]].astype(np.int64)).to(scores.device)
        if len(ids):
            kept = source.index_select(0, ids)
            target.index_copy_(0, ids, torch.where(kept.max() == -torch.inf, 0.0, kept))
    return out  # type: ignore[return-value]
