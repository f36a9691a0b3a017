"""Intervals against published values; the area under the ROC curve and the answers by threshold against counts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.eval.statistics import (
    accuracy,
    at_threshold,
    best_point,
    curve_of,
    mean,
    precision,
    proportion,
    ratio,
    separation,
)

VALUES = st.sampled_from([-3.0, 0.0, 0.5, 2.0, 2.5])
ANSWERS = st.lists(st.tuples(VALUES, st.booleans()), min_size=1, max_size=12)
QUESTIONS = st.lists(st.tuples(VALUES | st.none(), st.booleans(), st.booleans()), min_size=1, max_size=12)


def pairs(values: list[float], right: list[bool]) -> float | None:
    """The share of pairs in which the right answer has the higher value, counted one by one."""
    each = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, is_right in zip(values, right, strict=True)
        for b, other in zip(values, right, strict=True)
        if is_right and not other
    ]
    return sum(each) / len(each) if each else None


@given(ANSWERS)
def test_the_area_is_the_share_of_pairs_in_order(answers: list[tuple[float, bool]]) -> None:
    values, right = [list(column) for column in zip(*answers, strict=True)]
    found = separation(values, right)  # type: ignore[arg-type]
    expected = pairs(values, right)  # type: ignore[arg-type]
    assert found.value == (None if expected is None else pytest.approx(expected))
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.high <= 1


def test_the_interval_of_an_area_is_that_of_resampled_answers() -> None:
    chance = np.random.default_rng(1)
    right = (chance.random(60) < 0.5).tolist()
    values = [round(float(chance.normal(2 * is_right, 1)), 1) for is_right in right]  # with ties
    found, drawn = separation(values, right), []
    for _ in range(2000):
        rows = chance.integers(0, 60, 60)
        drawn.append(pairs([values[n] for n in rows], [right[n] for n in rows]))
    low, high = np.percentile([one for one in drawn if one is not None], [2.5, 97.5])
    assert found.low == pytest.approx(low, abs=0.015)
    assert found.high == pytest.approx(high, abs=0.015)
    assert found == separation(values, right), "the seed is fixed"


def test_an_area_of_right_answers_alone_is_not_defined() -> None:
    assert separation([1.0, 2.0], [True, True]).value is None
    assert separation([1.0], [False]).value is None
    assert separation([], []).of == 0


@given(QUESTIONS, VALUES)
def test_each_threshold_leaves_the_answers_that_are_not_below_it(
    questions: list[tuple[float | None, bool, bool]], threshold: float
) -> None:
    confidence, given_, hit = [list(column) for column in zip(*questions, strict=True)]
    right = [is_hit and is_given for is_hit, is_given in zip(hit, given_, strict=True)]
    points = curve_of(confidence, given_, right)  # type: ignore[arg-type]
    for point in (*points, at_threshold(points, threshold)):
        at = point.threshold if point in points else threshold
        left = [g and (t is None or t >= at) for t, g in zip(confidence, given_, strict=True)]
        assert point.right == sum(is_left and is_right for is_left, is_right in zip(left, right, strict=True))
        assert point.wrong == sum(is_left and not is_right for is_left, is_right in zip(left, right, strict=True))
        decided = [is_left == is_right for is_left, is_right in zip(left, right, strict=True)]
        assert point.refusal_accuracy == pytest.approx(sum(decided) / len(questions))
        assert point.answered == sum(left) / len(questions)


@given(QUESTIONS, st.sampled_from([None, 0.5, 0.9]))
def test_the_best_threshold_is_that_of_all_possible_ones(
    questions: list[tuple[float | None, bool, bool]], precision: float | None
) -> None:
    confidence, given_, hit = [list(column) for column in zip(*questions, strict=True)]
    right = [is_hit and is_given for is_hit, is_given in zip(hit, given_, strict=True)]
    best = best_point(curve_of(confidence, given_, right), precision)  # type: ignore[arg-type]
    tried = []
    for threshold in (-math.inf, *np.arange(-4, 4, 0.25), math.inf):
        left = [g and (t is None or t >= threshold) for t, g in zip(confidence, given_, strict=True)]
        good = sum(is_left and is_right for is_left, is_right in zip(left, right, strict=True))
        if precision is None:
            tried.append(good - (sum(left) - good))
        elif sum(left) and good / sum(left) >= precision:
            tried.append(good)
    if best is None:
        assert not tried
    else:
        assert max(tried) == (best.right - best.wrong if precision is None else best.right)


def test_accuracy_is_over_questions_and_precision_over_answers_given() -> None:
    correct, given = [True, True, False, False, False], [True, True, True, True, False]
    assert accuracy(correct).value == 0.4
    assert (precision(correct, given).value, precision(correct, given).of) == (0.5, 4)
    assert precision([False], [False]).value is None


def test_wilsons_interval_against_published_values() -> None:
    # Newcombe 1998, Statistics in Medicine 17: 857-872, table I, method 3: 81/263, 15/148, 0/20 and 1/29
    for k, n, low, high in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:
        estimate = proportion(k, n)
        assert (round(estimate.low or 0, 4), round(estimate.high or 0, 4)) == (low, high)


def test_the_bootstrap_is_seeded_and_near_the_normal_interval() -> None:
    values = [0.0, 1.0] * 200
    estimate = mean(values)
    assert estimate == mean(values)
    reach = 1.96 * 0.5 / math.sqrt(400)
    assert estimate.value == 0.5
    assert estimate.low == pytest.approx(0.5 - reach, abs=0.005)
    assert estimate.high == pytest.approx(0.5 + reach, abs=0.005)
    assert mean([]).value is None


def test_a_ratio_of_pairs_that_always_hold_has_no_width() -> None:
    estimate = ratio([1.0, 2.0, 30.0], [2.0, 4.0, 60.0])
    assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.5, 0.5)
