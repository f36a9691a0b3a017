"""The area under the ROC curve: how often a right answer has more confidence than a wrong one.

It is the statistic of Mann and Whitney (1947) divided by the number of pairs: of all pairs of a right and a wrong answer,
the share in which the right one has the higher value, where a tie counts half. 1: some threshold separates them all; 0.5:
the value says nothing.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.eval.intervals import RESAMPLES, Estimate

_CELLS = 4_000_000
"""The most counts in memory at a time (32 MB)."""


def separation(values: Sequence[float], right: Sequence[bool], seed: int = 0) -> Estimate:
    """Return the area under the ROC curve with a bootstrap interval over answers.

    It is not defined if all answers are right, or none is.

    >>> separation([3.0, 1.0, 2.0, 2.0], [True, False, True, False]).value
    0.875
    """
    told, is_right = np.asarray(values, np.float64), np.asarray(right, bool)
    if not len(told) or is_right.all() or not is_right.any():
        return Estimate(value=None, low=None, high=None, of=len(told))
    order = np.argsort(told, kind="stable")
    told, is_right = told[order], is_right[order]
    starts = np.flatnonzero(np.append(True, told[1:] != told[:-1]))  # of each run of equal values
    value = float(_areas(np.ones((1, len(told)), np.int64), is_right, starts)[0])
    drawn = _resampled(is_right, starts, np.random.default_rng(seed))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Estimate(value=value, low=float(low), high=float(high), of=len(told))


def _resampled(
    is_right: NDArray[np.bool_], starts: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the areas of samples with replacement, without those that have right or wrong answers alone."""
    number, drawn = len(is_right), []
    at_once = max(1, _CELLS // number)
    for first in range(0, RESAMPLES, at_once):
        counts = random.multinomial(number, np.full(number, 1 / number), min(at_once, RESAMPLES - first))
        drawn.append(_areas(counts, is_right, starts))
    whole: NDArray[np.float64] = np.concatenate(drawn)
    defined: NDArray[np.float64] = whole[np.isfinite(whole)]
    return defined


def _areas(counts: NDArray[np.int64], is_right: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the area of each row of counts, int64[samples, answers], whose answers are in the order of their values."""
    right = np.add.reduceat(counts * is_right, starts, axis=1)
    wrong = np.add.reduceat(counts * ~is_right, starts, axis=1)
    below = np.cumsum(wrong, axis=1) - wrong
    pairs = right.sum(axis=1) * wrong.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        areas: NDArray[np.float64] = (right * (below + wrong / 2)).sum(axis=1) / pairs
    return areas
