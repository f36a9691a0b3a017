"""The figures of the report on confidence: the area under the ROC curve, and answers by threshold."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

from refactx.eval.confidence.curve import Point, at_threshold, curve_of
from refactx.eval.confidence.separation import separation
from refactx.eval.intervals import Estimate
from refactx.eval.metrics import Score

THRESHOLDS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 30, 50)
"""The thresholds of the report's table, in nats; those above all confidences are left out."""

HALF = 0.5
"""An answer is also compared as right if its F1 is at least this."""


class Told(Protocol):
    """An answer with its confidence, in nats (`refactx.eval.results.QuestionResult`)."""

    @property
    def told(self) -> float | None:
        """The confidence, None if the answer has none."""
        ...

    @property
    def given(self) -> bool:
        """Whether an answer was given."""
        ...

    @property
    def score(self) -> Score:
        """The metrics of the answer."""
        ...


def separation_of(results: Sequence[Told]) -> dict[str, Estimate | None]:
    """Return the areas under the ROC curve of the given answers: for right ones by hit, and by F1 of at least a half.

    None if no answer has a confidence, or if all are right or wrong.
    """
    given = [result for result in results if result.given and result.told is not None]
    told = [result.told for result in given if result.told is not None]
    found = {
        "auc": separation(told, [result.score.hit for result in given]),
        "auc_f1": separation(told, [result.score.f1 >= HALF for result in given]),
    }
    return {name: None if estimate.value is None else estimate for name, estimate in found.items()}


def points_of(results: Sequence[Told]) -> list[Point]:
    """Return the curve of a run's answers, where right is hit."""
    given, hit = [result.given for result in results], [result.score.hit for result in results]
    return curve_of([result.told for result in results], given, hit)


def confidence_of(results: Sequence[Told]) -> dict[str, Any] | None:
    """Return the answers of a run by threshold, for the report; None if no given answer has a confidence.

    `points`: every threshold that changes something, for the plot; `table`: some thresholds.
    """
    told = [result.told for result in results if result.given and result.told is not None]
    if not told:
        return None
    points = points_of(results)
    return {
        "of": len(told),
        "points": [_json(point, point.threshold) for point in points if point.right + point.wrong],
        "table": table_of(points, told),
    }


def table_of(points: Sequence[Point], told: Sequence[float]) -> list[dict[str, float | None]]:
    """Return answers at all confidences, and at round thresholds among the confidences `told`."""
    shown = [-math.inf, *(float(threshold) for threshold in THRESHOLDS if min(told) < threshold <= max(told))]
    return [_json(at_threshold(points, threshold), threshold) for threshold in shown]


def _json(point: Point, threshold: float) -> dict[str, float | None]:
    """Return a point; a threshold of minus infinity is None, since JSON has none."""
    precision = point.precision
    return {
        "threshold": threshold if math.isfinite(threshold) else None,
        "answered": round(point.answered, 4),
        "accuracy": round(point.accuracy, 4),
        "precision": None if precision is None else round(precision, 4),
        "refusal_accuracy": round(point.refusal_accuracy, 4),
    }
