"""Calibrations from finished runs: the threshold of the confidence of answers, and the confidence of translations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.eval.answer_task import AnswerTask, answer_confidence
from refactx.eval.pack_task import PackTask
from refactx.eval.run import RunLog, read_document
from refactx.eval.statistics import Estimate, ThresholdPoint, best_point, curve_of, proportion, separation, table_of
from refactx.fact import counted
from refactx.sparql.packs.pack import Pack
from refactx.sparql.packs.translation import PackCalibration, fit

RIGHT = 0.5
"""A translation counts as right, for the AUC, if the F1 of its rows is more."""
_FOLDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A threshold, with what it does on the questions of a run.

    `min_confidence`: the threshold, in nats; `point`, `precision`: the answers that are left; `whole`: all answers of the run;
    `auc`: of the confidence, where right is hit; `floor`: the run's own threshold, below which it has no answers;
    `table`: answers by threshold, as the report has them.
    """

    min_confidence: float
    point: ThresholdPoint
    precision: Estimate
    whole: ThresholdPoint
    auc: Estimate
    floor: float
    table: Sequence[Mapping[str, float | None]]

    def to_json(self) -> dict[str, Any]:
        return {
            "min_confidence": self.min_confidence,
            "questions": self.point.of,
            "right": self.point.right,
            "wrong": self.point.wrong,
            "answered": round(self.point.answered, 4),
            "accuracy": round(self.point.accuracy, 4),
            "precision": self.precision.to_json(),
            "refusal_accuracy": round(self.point.refusal_accuracy, 4),
            "auc": self.auc.to_json(),
            "floor": self.floor,
            "table": list(self.table),
        }


def calibrate(folder: Path, precision: float | None = None) -> Calibration:
    """Return the best threshold for the answers with facts of a finished run, by `refactx.eval.statistics.best_point`.

    Without `precision` it is that with the most right answers minus wrong ones, else the one with the most right answers
    of those with at least this precision. Raises InputError if the folder has no report, if no answer has a confidence,
    if no threshold is that precise, or if at none more answers are right than wrong.
    """
    results, floor = _results(folder)
    values = [value for value, given, _ in results if given and value is not None]
    if not values:
        raise InputError(
            f"no answer in {folder} has a confidence: that needs a prompt with `channel` and `unknown`, and no beams"
        )
    points = curve_of(*zip(*results, strict=True))
    best = best_point(points, precision)
    if best is None:
        highest = max(point.precision or 0.0 for point in points)
        raise InputError(
            f"at no threshold the precision is at least {precision:g}: give at most {math.floor(1000 * highest) / 1000:g}"
        )
    if not best.right:
        given = points[0].right + points[0].wrong
        raise InputError(
            f"{folder} recommends no threshold: {points[0].right} of {counted(given, 'answer')} are right, and at no "
            "confidence more are right than wrong. Ask questions that the index can answer, or give another model"
        )
    right = [is_right for value, given, is_right in results if given and value is not None]
    return Calibration(
        min_confidence=_between(values, best.threshold, floor),
        point=best,
        precision=proportion(best.right, best.right + best.wrong),
        whole=points[0],
        auc=separation(values, right),
        floor=floor,
        table=table_of(points, values),
    )


def _between(values: Sequence[float], threshold: float, floor: float) -> float:
    """Return a round number that has the same answers above it as a threshold has; `floor` if it has all.

    >>> _between([1.0, 2.0, 4.04, 4.12], 4.04, 0), _between([1.0, 4.04, 4.12], 4.12, 0), _between([1.5], -math.inf, 0)
    (3.0, 4.1, 0)
    """
    below, above = [value for value in values if value < threshold], [value for value in values if value >= threshold]
    if not below:
        return floor if math.isfinite(floor) else float(math.floor(min(values)))
    if not above:
        return float(math.floor(max(values)) + 1)
    low, high = max(below), min(above)
    near = (round((low + high) / 2, digits) for digits in range(8))
    return next((value for value in near if low < value <= high), high)


def _results(folder: Path) -> tuple[list[tuple[float | None, bool, bool]], float]:
    """Return each question's confidence, whether it has an answer, and a right one; and the run's own threshold."""
    path = folder / "report.json"
    if not path.exists():
        raise InputError(f"{folder} has no report.json: give the folder of a finished run of refactx eval")
    report = read_document(path, "run the same command of refactx eval again")
    if report.get("task") != AnswerTask.name:
        raise InputError(f"{path} is no report on answers of this release of refactx: give the folder of such a run")
    try:
        lines = [line for line in report["results"] if line["run"] == "grounded"]
        found = [(line["key"], line["outcome"] == "given", bool(line["hit"])) for line in lines]
        floor = report["settings"].get("min_confidence")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no report of refactx eval ({error!r}): give the folder of a run") from error
    with RunLog(folder, "grounded") as log:
        answers = {key: record.get("answer") or {} for key, record in log.records.items()}
    values = [(answer_confidence(answers.get(key, {})), given, hit) for key, given, hit in found]
    return values, -math.inf if floor is None else float(floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFit:
    """A calibration, and how well it tells right translations from wrong ones.

    `auc`: of the translations that it is from; `brier`: the mean squared difference of confidence and F1, and `constant`:
    that of the mean F1 for all. Both are over translations that were left out of the fit, a tenth at a time.
    """

    calibration: PackCalibration
    mode: str
    auc: Estimate
    brier: float
    constant: float


def calibrate_pack(folder: Path, pack: Pack, mode: str | None = None) -> PackFit:
    """Return the calibration of a run of `refactx eval --pack`. `mode`: by default the last of the run.

    Raises InputError if the folder has no such run, if the run is of another pack, or if it has too few translations.
    """
    settings = read_document(folder / "run.json", "give the folder of a run of refactx eval --pack")
    if settings.get("task") != PackTask.name:
        raise InputError(f"{folder} has no run of refactx eval --pack of this release: give the folder of such a run")
    if settings.get("pack") != pack.name or settings.get("fingerprint") != pack.fingerprint:
        raise InputError(
            f"{folder} is a run of pack {settings.get('pack')} as it was then: run `refactx eval --pack` again"
        )
    modes = settings.get("modes") or []
    chosen = mode or next((str(one) for one in reversed(modes) if one in ("agent", "repair")), "")
    if chosen not in modes:
        raise InputError(f"{folder} has the modes {', '.join(modes)}, not {mode or 'repair or agent'}: give --mode")
    with RunLog(folder, chosen) as log:
        lines = [line for line in log.records.values() if "features" in line]
    features, right = [line["features"] for line in lines], [float(line["f1"]) for line in lines]
    model = str(settings["model"])
    whole = fit(pack, model, features, right)
    values = [whole.of(row) for row in features]
    return PackFit(
        calibration=whole,
        mode=chosen,
        auc=separation(values, [value > RIGHT for value in right]),
        brier=_left_out(pack, model, features, right),
        constant=sum((value - sum(right) / len(right)) ** 2 for value in right) / len(right),
    )


def _left_out(pack: Pack, model: str, features: Sequence[Sequence[float]], right: Sequence[float]) -> float:
    """Return the mean squared error on translations that were left out of the fit, a tenth at a time."""
    errors = list[float]()
    for fold in range(_FOLDS):
        kept = [at for at in range(len(right)) if at % _FOLDS != fold]
        part = fit(pack, model, [features[at] for at in kept], [right[at] for at in kept], fewest=1)
        errors += [(part.of(features[at]) - right[at]) ** 2 for at in range(len(right)) if at % _FOLDS == fold]
    return sum(errors) / len(errors)
