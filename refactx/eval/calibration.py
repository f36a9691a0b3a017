"""Calibrations from finished runs: thresholds of the confidence of answers and of the similarity of names, and the
confidence of translations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.eval.answer_task import AnswerTask, answer_confidence
from refactx.eval.pack_task import PackTask
from refactx.eval.policy_task import GOLD
from refactx.eval.run import RunLog, read_document
from refactx.eval.statistics import Estimate, ThresholdPoint, best_point, curve_of, proportion, separation, table_of
from refactx.fact import counted
from refactx.index.open import open_index
from refactx.sparql.labels import ids_of
from refactx.sparql.packs.pack import Pack
from refactx.sparql.packs.translation import FEWEST, Attempt, PackCalibration, fit, logistic
from refactx.sparql.packs.writers import resolved
from refactx.sparql.placeholders.entry import PAPER, Match
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.resolver import FactFeasibility, MemoryResolver

RIGHT = 0.5
"""A translation counts as right, for the AUC, if the F1 of its rows is more."""
_FOLDS = 10
_SCALE = 10
"""The steps from 0 to 1 in which similarities are counted, so that their coefficient is some 1."""


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


def report_in(folder: Path) -> dict[str, Any]:
    """Return the report of a finished run. Raises InputError if there is none."""
    path = folder / "report.json"
    if not path.exists():
        raise InputError(f"{folder} has no report.json: give the folder of a finished run of refactx eval")
    return read_document(path, "run the same command of refactx eval again")


def _results(folder: Path) -> tuple[list[tuple[float | None, bool, bool]], float]:
    """Return each question's confidence, whether it has an answer, and a right one; and the run's own threshold."""
    path, report = folder / "report.json", report_in(folder)
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


@dataclass(frozen=True, slots=True)
class KindOfNames:
    """The names of a kind: how many there are, how many of them mean the right thing, and the least similarity at which a
    name is likely enough to; None if there are none to tell from."""

    names: int
    right: int
    least: float | None


@dataclass(frozen=True, slots=True)
class NameThresholds:
    """Thresholds that are learned from names which an index does not have as they were written. `auc`: of the similarity."""

    kinds: Mapping[Match, KindOfNames]
    auc: Estimate

    def to_json(self) -> dict[str, Any]:
        return {"kinds": {name: asdict(kind) for name, kind in self.kinds.items()}, "auc": self.auc.to_json()}


def calibrate_names(folder: Path, db: str | None = None, precision: float = 0.5) -> NameThresholds:
    """Learn how similar names have to be, from what `placeholders` wrote in a run of `refactx eval --sparql`.

    The names of a query are resolved together, however similar, and right are those whose ids its gold query has. To those
    that the index does not have as written a sigmoid of the similarity and the kind is fitted (`logistic`); a threshold is
    where a name is right with a probability of `precision`. (The paper on PGMR has such a sigmoid as future work.)

    Raises InputError if the folder has no such report, or too few such names, or if similar names are no likelier right.
    """
    report = report_in(folder)
    if "placeholders" not in report.get("runs", {}):
        raise InputError(
            f"{folder} has no names that a memory resolves: give a run of refactx eval --sparql placeholders"
        )
    with open_index(report["settings"]["index"], db) as index:
        resolver = MemoryResolver(open_memory(index), tau=0, feasible=FactFeasibility(index))
        seen = list[tuple[Match, float, bool]]()
        with RunLog(folder, GOLD) as golds, RunLog(folder, "placeholders") as texts:
            for key, record in texts.records.items():
                gold = ids_of(golds.records[key]["sparql"])
                for one in resolved(Attempt(text=record.get("text", "")), resolver).choices.values():
                    if one.match is not None:
                        seen.append((one.match, one.similarity, one.entry.id in gold.all))
    if len(seen) < FEWEST:
        raise InputError(
            f"{folder} has {counted(len(seen), 'name')} that the index does not have as written, and {FEWEST} are needed: "
            "ask more questions"
        )
    return thresholds_of(seen, precision)


def thresholds_of(seen: Sequence[tuple[Match, float, bool]], precision: float) -> NameThresholds:
    """Return the thresholds of names by kind (`calibrate_names`). Of each name: its kind, its similarity, if it is right."""
    right = {kind: [one for other, _, one in seen if other == kind] for kind in PAPER}
    rows = [(1.0, _SCALE * alike, *(float(kind == other) for other in PAPER)) for kind, alike, _ in seen]
    constant, slope, *of_kinds = logistic(rows, [float(one) for *_, one in seen])
    if slope <= 0:
        raise InputError(
            f"of {counted(len(seen), 'name')} {sum(map(sum, right.values()))} are right, and similar ones are no likelier: "
            "ask more questions, or give --tau yourself"
        )
    wanted = math.log(precision / (1 - precision)) if precision < 1 else math.inf
    least = [min(1.0, max(0.0, (wanted - constant - own) / slope / _SCALE)) for own in of_kinds]
    return NameThresholds(
        {
            kind: KindOfNames(len(some), sum(some), round(at, 2) if some else None)
            for (kind, some), at in zip(right.items(), least, strict=True)
        },
        separation([alike for _, alike, _ in seen], [one for *_, one in seen]),
    )
