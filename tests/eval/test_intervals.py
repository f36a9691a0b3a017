"""Intervals of rates and ratios against published values."""

import math

import pytest

from refactx.eval.intervals import mean, proportion, ratio
from refactx.eval.metrics import accuracy, precision


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
