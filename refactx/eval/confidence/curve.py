"""What a threshold of the confidence does: how many answers are left, and how many of these are right.

An answer whose confidence is below the threshold counts as not given. One without any, such as an answer by a fact that
the channel did not choose, is left at every threshold.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
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


def curve_of(told: Sequence[float | None], given: Sequence[bool], right: Sequence[bool]) -> list[Point]:
    """Return the points at every threshold that changes something, from minus infinity (all answers are left) up.

    `told`: the confidence in each question's answer; `given`, `right`: whether there is an answer, and a right one.

    >>> [(p.threshold, p.right, p.wrong) for p in curve_of([1.5, 3.0, None], [True] * 3, [False, True, True])]
    [(-inf, 2, 1), (3.0, 2, 0), (inf, 1, 0)]
    """
    answers = sorted(
        (math.inf if value is None else value, is_right)
        for value, is_given, is_right in zip(told, given, right, strict=True)
        if is_given
    )
    left = [sum(is_right for _, is_right in answers), sum(not is_right for _, is_right in answers)]
    wrong, thresholds = left[1], sorted({value for value, _ in answers})
    points, at = list[Point](), 0
    for threshold in [-math.inf, *thresholds[1:], *([math.inf] if thresholds and thresholds[-1] < math.inf else [])]:
        while at < len(answers) and answers[at][0] < threshold:
            left[not answers[at][1]] -= 1
            at += 1
        refused = wrong - left[1] + len(given) - len(answers)
        points.append(Point(threshold=threshold, right=left[0], wrong=left[1], refused_wrong=refused, of=len(given)))
    return points


def at_threshold(points: Sequence[Point], threshold: float) -> Point:
    """Return the point that holds at a threshold: the first of a curve that is not below it."""
    return next((point for point in points if point.threshold >= threshold), points[-1])


def best_point(points: Sequence[Point], precision: float | None = None) -> Point | None:
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
