"""Masks over some rows of a batch of logits, in place."""

from collections.abc import Mapping

import numpy as np
import torch

from refactx.tree.children import Tokens


def mask_rows(logits: torch.Tensor, allowed: Mapping[int, Tokens]) -> torch.Tensor:
    """Set all logits, float[rows, vocabulary], of some rows to minus infinity except those of the allowed ids.

    `allowed`: for the number of a row, int32[n], not empty; other rows stay as they are. If other rules have ruled out
    all ids that a row allows, these get 0: a row of minus infinities cannot be sampled. Returns `logits`, in which it
    works: six operations for all rows together, whatever their number.

    >>> mask_rows(torch.zeros(2, 3), {1: np.array([0, 2], np.int32)})
    tensor([[0., 0., 0.],
            [0., -inf, 0.]])
    """
    if not allowed:
        return logits
    numbers = np.fromiter(allowed, np.int64, len(allowed))
    sizes = [len(tokens) for tokens in allowed.values()]
    places = np.stack([np.repeat(np.arange(len(sizes)), sizes), np.concatenate(list(allowed.values()))])
    own, ids = torch.from_numpy(places.astype(np.int64)).to(logits.device)
    rows = torch.from_numpy(numbers).to(logits.device)
    kept = logits[rows[own], ids]
    best = torch.full((len(sizes),), -torch.inf, dtype=kept.dtype, device=kept.device)
    best.scatter_reduce_(0, own, kept, "amax")
    kept = torch.where(best[own] == -torch.inf, 0.0, kept)
    logits[rows] = -torch.inf
    logits[rows[own], ids] = kept
    return logits
