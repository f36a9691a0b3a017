"""Masked scores follow their definition, and no row is left without an allowed id."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from refactx.engines.transformers.processor import mask_scores

VOCABULARY = 9
SCORES = st.lists(st.sampled_from([-np.inf, -3.0, 0.0, 2.5]), min_size=VOCABULARY, max_size=VOCABULARY)
ALLOWED = st.none() | st.sets(st.integers(0, VOCABULARY + 2), max_size=6)


@given(st.lists(st.tuples(SCORES, ALLOWED), min_size=1, max_size=4))
def test_masked_scores_follow_the_definition(rows: list[tuple[list[float], set[int] | None]]) -> None:
    scores = torch.tensor([row for row, _ in rows])
    allowed = [None if ids is None else np.array(sorted(ids), np.int32) for _, ids in rows]
    before = scores.clone()
    single, double = mask_scores(scores, allowed), mask_scores(scores.double(), allowed)
    assert torch.equal(scores, before)
    for (row, ids), out, other in zip(rows, single.tolist(), double.tolist(), strict=True):
        inside = [n for n in sorted(ids or ()) if n < VOCABULARY]
        nothing_left = all(row[n] == -np.inf for n in inside)
        expected = row if ids is None else [-np.inf] * VOCABULARY
        if ids is not None:
            expected = [(0.0 if nothing_left else row[n]) if n in inside else -np.inf for n in range(VOCABULARY)]
        assert out == other == expected
