"""The best threshold is that of brute force over all thresholds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.errors import InputError
from refactx.sparql.placeholders.entry import Pair, best_threshold, curve_of

SIMILARITIES = st.integers(0, 8).map(lambda eighths: eighths / 8)
PAIRS = st.lists(st.builds(Pair, SIMILARITIES, st.booleans()), min_size=2, max_size=12).filter(
    lambda pairs: len({one.right for one in pairs}) == 2
)


def shares(pairs: list[Pair], tau: float) -> tuple[float, float]:
    """Return the share of right pairs at or above a threshold, and of wrong ones below it."""
    right = [one.similarity for one in pairs if one.right]
    wrong = [one.similarity for one in pairs if not one.right]
    return sum(one >= tau for one in right) / len(right), sum(one < tau for one in wrong) / len(wrong)


@given(PAIRS)
def test_the_curve_has_every_threshold_that_differs(pairs: list[Pair]) -> None:
    curve = curve_of(pairs)
    for one in curve:
        assert (one.kept, one.refused) == pytest.approx(shares(pairs, one.tau))
    every = {shares(pairs, at / 16) for at in range(-1, 18)}
    assert {shares(pairs, one.tau) for one in curve} == every
    assert [one.tau for one in curve] == sorted({one.tau for one in curve})


@given(PAIRS, st.sampled_from([None, 0.0, 0.5, 0.85, 1.0]))
def test_the_best_is_that_of_brute_force(pairs: list[Pair], refusal: float | None) -> None:
    best = best_threshold(pairs, refusal)
    every = [shares(pairs, at / 16) for at in range(-1, 18)]
    if refusal is None:
        assert best.kept + best.refused == pytest.approx(max(map(sum, every)))
    else:
        assert best.refused >= refusal
        assert best.kept == pytest.approx(max(kept for kept, refused in every if refused >= refusal))


def test_pairs_of_one_kind_have_no_threshold() -> None:
    with pytest.raises(InputError, match="2 right and 0 wrong ones"):
        best_threshold([Pair(0.5, True), Pair(0.7, True)])
