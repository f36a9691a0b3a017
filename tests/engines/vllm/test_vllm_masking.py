"""The mask over rows of a batch: a row has its allowed logits alone, and one that others ruled out can be sampled."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from refactx.engines.vllm.text import mask_rows

WIDTH = 6


@given(
    rows=st.dictionaries(st.integers(0, 4), st.sets(st.integers(0, WIDTH - 1), min_size=1)),
    banned=st.sets(st.tuples(st.integers(0, 4), st.integers(0, WIDTH - 1))),
)
def test_the_mask_is_that_of_a_loop(rows: dict[int, set[int]], banned: set[tuple[int, int]]) -> None:
    logits = torch.arange(5.0 * WIDTH).reshape(5, WIDTH)
    for row, number in banned:
        logits[row, number] = -torch.inf
    expected = logits.clone()
    for row, allowed in rows.items():
        for number in set(range(WIDTH)) - allowed:
            expected[row, number] = -torch.inf
        if expected[row].isneginf().all():
            expected[row, sorted(allowed)] = 0
    masks = {row: np.array(sorted(allowed), np.int32) for row, allowed in rows.items()}
    assert mask_rows(logits, masks) is logits
    assert torch.equal(logits, expected)
