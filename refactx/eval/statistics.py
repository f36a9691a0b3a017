"""Estimates with 95% intervals, and what a threshold of the confidence does to the answers of a run.

**Proportions** have Wilson's interval (E. B. Wilson, 1927). For k of n, z = 1.96, p = k/n it is
(p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n). Unlike the usual p ± z·sqrt(p(1-p)/n), it holds for small n and
for p near 0 or 1. **Means, ratios and areas** have bootstrap intervals: questions are sampled with replacement, and the
2.5th and 97.5th percentile of the results taken. The seed is fixed, so that a report is reproducible.

**A threshold**: an answer whose confidence is below it counts as not given. One without any, such as an answer by a fact
that the channel did not choose, is left at every threshold.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Z = NormalDist().inv_cdf(0.975)
RESAMPLES, SEED = 10_000, 0
_CELLS = 4_000_000
"""The most random numbers in memory at a time (32 MB)."""
THRESHOLDS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 30, 50)
"""The thresholds of a report's table, in nats; those above all confidences are left out."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimate over `of` questions with its 95% interval from `low` to `high`; all None if it is not defined."""

    value: float | None
    low: float | None
    high: float | None
    of: int

    def to_json(self) -> dict[str, float | int | None]:
        """Return the estimate as a JSON document, rounded to four places."""
        rounded = {
            name: None if (x := getattr(self, name)) is None else round(x, 4) for name in ("value", "low", "high")
        }
        return {**rounded, "of": self.of}


def _undefined(of: int) -> Estimate:
    return Estimate(value=None, low=None, high=None, of=of)


def proportion(successes: int, of: int) -> Estimate:
    """Return `successes`/`of` with Wilson's interval.

    >>> half = proportion(5, 10)
    >>> round(half.low, 4), round(half.high, 4)
    (0.2366, 0.7634)
    >>> proportion(0, 0).value is None
    True
    """
    if of == 0:
        return _undefined(0)
    p, zz = successes / of, Z * Z
    middle, reach = p + zz / (2 * of), Z * math.sqrt(p * (1 - p) / of + zz / (4 * of * of))
    low, high = (middle - reach) / (1 + zz / of), (middle + reach) / (1 + zz / of)
    return Estimate(value=p, low=max(0.0, low), high=min(1.0, high), of=of)


def share(hits: Iterable[bool]) -> Estimate:
    """Return the share of hits with Wilson's interval.

    >>> share([True, False, False, False]).value
    0.25
    """
    found = list(hits)
    return proportion(sum(found), len(found))


def accuracy(correct: Sequence[bool]) -> Estimate:
    """Return the accuracy, by equation 6a: correct answers / questions.

    >>> accuracy([True, False, False, False]).value
    0.25
    """
    return share(correct)


def precision(correct: Sequence[bool], given: Sequence[bool]) -> Estimate:
    """Return the precision, by equation 6b: correct answers / given answers.

    >>> precision([True, False, False, False], [True, True, False, False]).value
    0.5
    """
    return share(is_right for is_right, is_given in zip(correct, given, strict=True) if is_given)


def mean(values: Sequence[float]) -> Estimate:
    """Return the mean with a bootstrap interval.

    >>> mean([1.0, 1.0])
    Estimate(value=1.0, low=1.0, high=1.0, of=2)
    """
    return ratio(values, [1.0] * len(values))


def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return the sum of `above` divided by the sum of `below`, with a bootstrap interval over pairs of values.

    >>> ratio([2.0, 4.0], [1.0, 2.0])
    Estimate(value=2.0, low=2.0, high=2.0, of=2)
    """
    top, bottom = np.asarray(above, np.float64), np.asarray(below, np.float64)
    if len(top) == 0 or bottom.sum() == 0:
        return _undefined(len(top))
    random = np.random.default_rng(SEED)

    def drawn(samples: int) -> Floats:
        rows = random.integers(0, len(top), (samples, len(top)))
        sums: Floats = top[rows].sum(axis=1) / bottom[rows].sum(axis=1)
        return sums

    return _bootstrapped(float(top.sum() / bottom.sum()), len(top), drawn)


def ratio_of_pairs(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """Return the ratio of the first numbers of pairs to the second ones."""
    above, below = zip(*pairs, strict=True)
    return ratio(above, below)


def separation(values: Sequence[float], right: Sequence[bool]) -> Estimate:
    """Return the area under the ROC curve of a confidence, with a bootstrap interval over answers.

    It is the statistic of Mann and Whitney (1947) divided by the number of pairs: of all pairs of a right and a wrong
    answer, the share in which the right one has the higher value, where a tie counts half. 1: some threshold separates
    them all; 0.5: the value says nothing. It is not defined if all answers are right, or none is.

    >>> separation([3.0, 1.0, 2.0, 2.0], [True, False, True, False]).value
    0.875
    """
    confidence, is_right = np.asarray(values, np.float64), np.asarray(right, bool)
    number = len(confidence)
    if not number or is_right.all() or not is_right.any():
        return _undefined(number)
    order = np.argsort(confidence, kind="stable")
    confidence, is_right = confidence[order], is_right[order]
    starts = np.flatnonzero(np.append(True, confidence[1:] != confidence[:-1]))  # of each run of equal values
    random = np.random.default_rng(SEED)

    def areas(counts: NDArray[np.int64]) -> Floats:
        """Return the area of each row of counts, int64[samples, answers]."""
        good = np.add.reduceat(counts * is_right, starts, axis=1)
        bad = np.add.reduceat(counts * ~is_right, starts, axis=1)
        below = np.cumsum(bad, axis=1) - bad
        found: Floats = (good * (below + bad / 2)).sum(axis=1) / (good.sum(axis=1) * bad.sum(axis=1))
        return found

    return _bootstrapped(
        float(areas(np.ones((1, number), np.int64))[0]),
        number,
        lambda samples: areas(random.multinomial(number, np.full(number, 1 / number), samples)),
    )


def _bootstrapped(value: float, of: int, draw: Callable[[int], Floats]) -> Estimate:
    """Return an estimate. `draw`: returns the values of some samples; those that are not defined are left out."""
    at_once = max(1, _CELLS // of)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.concatenate([draw(min(at_once, RESAMPLES - start)) for start in range(0, RESAMPLES, at_once)])
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.percentile(drawn, [2.5, 97.5]) if len(drawn) else (np.nan, np.nan)
    return Estimate(value=value, low=float(low), high=float(high), of=of)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdPoint:
    """The answers at a threshold. `right`, `wrong`: the numbers of answers that are left; `refused_wrong`: how many of
    the others are wrong or were not given anyway; `of`: the number of questions."""

    threshold: float
    right: int
    wrong: int
    refused_wrong: int
    of: int

    @property
    def answered(self) -> float:
        """The share of questions with an answer."""
        return (self.right + self.wrong) / self.of

    @property
    def accuracy(self) -> float:
        """The share of questions with a right answer."""
        return self.right / self.of

    @property
    def precision(self) -> float | None:
        """The share of the answers that are right; None if there is no answer."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def refusal_accuracy(self) -> float:
        """The share of questions that are answered right, or refused where the answer would be wrong."""
        return (self.right + self.refused_wrong) / self.of

    def to_json(self, threshold: float) -> dict[str, float | None]:
        """Return the point at a threshold; minus infinity is None, since JSON has none."""
        return {
            "threshold": threshold if math.isfinite(threshold) else None,
            "answered": round(self.answered, 4),
            "accuracy": round(self.accuracy, 4),
            "precision": None if self.precision is None else round(self.precision, 4),
            "refusal_accuracy": round(self.refusal_accuracy, 4),
        }


def curve_of(confidence: Sequence[float | None], given: Sequence[bool], right: Sequence[bool]) -> list[ThresholdPoint]:
    """Return the points at every threshold that changes something, from minus infinity (all answers are left) up.

    `confidence`: the confidence in each question's answer; `given`, `right`: whether there is an answer, and a right one.

    >>> [(p.threshold, p.right, p.wrong) for p in curve_of([1.5, 3.0, None], [True] * 3, [False, True, True])]
    [(-inf, 2, 1), (3.0, 2, 0), (inf, 1, 0)]
    """
    answers = sorted(
        (math.inf if value is None else value, is_right)
        for value, is_given, is_right in zip(confidence, given, right, strict=True)
        if is_given
    )
    left = [sum(is_right for _, is_right in answers), sum(not is_right for _, is_right in answers)]
    wrong, thresholds = left[1], sorted({value for value, _ in answers})
    points, at = list[ThresholdPoint](), 0
    for threshold in [-math.inf, *thresholds[1:], *([math.inf] if thresholds and thresholds[-1] < math.inf else [])]:
        while at < len(answers) and answers[at][0] < threshold:
            left[not answers[at][1]] -= 1
            at += 1
        refused = wrong - left[1] + len(given) - len(answers)
        points.append(
            ThresholdPoint(threshold=threshold, right=left[0], wrong=left[1], refused_wrong=refused, of=len(given))
        )
    return points


def at_threshold(points: Sequence[ThresholdPoint], threshold: float) -> ThresholdPoint:
    """Return the point that holds at a threshold: the first of a curve that is not below it."""
    return next((point for point in points if point.threshold >= threshold), points[-1])


def best_point(points: Sequence[ThresholdPoint], precision: float | None = None) -> ThresholdPoint | None:
    """Return the best point of a curve.

    Without `precision` it has the most right answers minus wrong ones, and of several such points the most answers. With
    it, it has the most right answers of those whose precision is at least as high, and of several such points the fewest
    wrong ones; None if there is none.

    >>> curve = curve_of([1.0, 2.0, 3.0, 4.0], [True] * 4, [False, True, False, True])
    >>> best_point(curve).threshold, best_point(curve, 0.9).threshold, best_point(curve_of([1.0], [True], [False]), 0.9)
    (2.0, 4.0, None)
    """
    if precision is None:
        return max(points, key=lambda point: (point.right - point.wrong, point.right, -point.threshold))
    fit = [point for point in points if point.precision is not None and point.precision >= precision]
    return max(fit, key=lambda point: (point.right, -point.wrong, -point.threshold), default=None)


def table_of(points: Sequence[ThresholdPoint], confidence: Sequence[float]) -> list[dict[str, float | None]]:
    """Return answers at all confidences, and at round thresholds among the confidences `confidence`, as JSON."""
    shown = [
        -math.inf,
        *(float(threshold) for threshold in THRESHOLDS if min(confidence) < threshold <= max(confidence)),
    ]
    return [at_threshold(points, threshold).to_json(threshold) for threshold in shown]


def confidence_of(
    confidence: Sequence[float | None], given: Sequence[bool], right: Sequence[bool]
) -> dict[str, Any] | None:
    """Return the answers of a run by threshold, for the report; None if no given answer has a confidence.

    `points`: every threshold that changes something, for the plot; `table`: some thresholds.
    """
    of_given = [value for value, is_given in zip(confidence, given, strict=True) if is_given and value is not None]
    if not of_given:
        return None
    points = curve_of(confidence, given, right)
    return {
        "of": len(of_given),
        "points": [point.to_json(point.threshold) for point in points if point.right + point.wrong],
        "table": table_of(points, of_given),
    }
