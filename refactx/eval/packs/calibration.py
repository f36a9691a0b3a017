"""The calibration of the confidence of translations by a pack, from a finished evaluation."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.eval.confidence import separation
from refactx.eval.intervals import Estimate
from refactx.eval.logs import RunLog
from refactx.nl2sparql import Pack
from refactx.nl2sparql.attempt import PackCalibration, fit

RIGHT = 0.5
"""A translation counts as right, for the AUC, if the F1 of its rows is more."""


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
    settings = _settings(folder)
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
    told = [whole.of(row) for row in features]
    return PackFit(
        calibration=whole,
        mode=chosen,
        auc=separation(told, [value > RIGHT for value in right]),
        brier=_left_out(pack, model, features, right),
        constant=sum((value - sum(right) / len(right)) ** 2 for value in right) / len(right),
    )


def _left_out(pack: Pack, model: str, features: Sequence[Sequence[float]], right: Sequence[float]) -> float:
    folds, errors = 10, list[float]()
    for fold in range(folds):
        kept = [at for at in range(len(right)) if at % folds != fold]
        part = fit(pack, model, [features[at] for at in kept], [right[at] for at in kept], fewest=1)
        errors += [(part.of(features[at]) - right[at]) ** 2 for at in range(len(right)) if at % folds == fold]
    return sum(errors) / len(errors)


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder} has no run.json ({error}): give the folder of a run of refactx eval --pack"
        ) from None
