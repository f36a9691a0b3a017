"""How likely a translation is right: a logistic regression over what is known of it, fitted to translations with scores.

A calibration is for one pack and one model, and is kept in the folder of ReFactX's own data.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from refactx.errors import InputError
from refactx.nl2sparql.attempt import Translation
from refactx.nl2sparql.pack import Pack
from refactx.paths import make_home, refactx_home

FEATURES = ("constant", "valid", "has rows", "attempts", "best example", "patterns", "doubted")
FEWEST = 20
"""Fewer translations say nothing."""
_RIDGE = 1.0
"""The weight of the squares of the coefficients, so that few translations do not make a confidence certain."""
_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCalibration:
    """The coefficients of `FEATURES`, for a pack (its `fingerprint`) and a model; `translations`: how many they are from."""

    pack: str
    fingerprint: str
    model: str
    translations: int
    coefficients: tuple[float, ...]

    def confidence(self, found: Translation) -> float:
        """Return how likely a translation is right, from 0 to 1."""
        return self.of(features_of(found))

    def of(self, features: Sequence[float]) -> float:
        """Return how likely a translation with these features is right."""
        return _logistic(sum(c * x for c, x in zip(self.coefficients, features, strict=True)))


def features_of(found: Translation) -> tuple[float, ...]:
    """Return the numbers by which translations are told apart, those of `FEATURES`.

    >>> features_of(Translation(question="?", sparql=None, valid=False, rows=None))
    (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    """
    best = found.evidence[0].score if found.evidence else 0.0
    doubted = any(one.doubt for one in found.attempts if one.sparql == found.sparql)
    return (
        1.0,
        float(found.valid),
        float(bool(found.rows)),
        math.log(max(1, len(found.attempts))),
        best,
        float(min(4, len(found.patterns))) / 4,
        float(doubted),
    )


def fit(
    pack: Pack, model: str, features: Sequence[Sequence[float]], right: Sequence[float], *, fewest: int = FEWEST
) -> PackCalibration:
    """Return the calibration of translations. `features`: of each; `right`: how right it is, from 0 to 1, such as its F1.

    Newton's method, with a ridge on all coefficients but the constant. Raises InputError for less than `fewest`.
    """
    if len(features) < fewest:
        raise InputError(f"a calibration needs at least {fewest} translations, but there are {len(features)}: ask more")
    x, y = np.array(features, np.float64), np.array(right, np.float64)
    ridge = _RIDGE * np.eye(x.shape[1])
    ridge[0, 0] = 1e-6
    weights = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (y - p) - ridge @ weights
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + ridge, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return PackCalibration(
        pack=pack.name,
        fingerprint=pack.fingerprint,
        model=model,
        translations=len(features),
        coefficients=tuple(round(float(w), 6) for w in weights),
    )


def save(calibration: PackCalibration) -> Path:
    """Write a calibration, in place of one for the same pack and model, and return its file. Raises InputError if the
    folder cannot be written."""
    path = _file(calibration.pack, calibration.model)
    make_home(path.parent)
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        fresh.write_text(json.dumps(asdict(calibration), indent=1), encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path} ({error.strerror}): set REFACTX_HOME to a folder you can write"
        ) from None
    return path


def load(pack: Pack, model: str) -> PackCalibration | None:
    """Return the calibration of a pack and a model; None if there is none, or if it is of another state of the pack."""
    try:
        document = json.loads(_file(pack.name, model).read_text(encoding="utf-8"))
        found = PackCalibration(**document | {"coefficients": tuple(map(float, document["coefficients"]))})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.fingerprint == pack.fingerprint and len(found.coefficients) == len(FEATURES) else None


def confidence_of(pack: Pack, model: str) -> Callable[[Translation], float | None]:
    """Return what gives translations a confidence; None for each without a calibration."""
    calibration = load(pack, model)
    return (lambda _: None) if calibration is None else calibration.confidence


def _file(pack: str, model: str) -> Path:
    name = str(Path(model).resolve()) if Path(model).exists() else model  # a file has many paths
    digest = hashlib.sha256(f"{pack}\0{name}".encode()).hexdigest()[:16]
    return refactx_home() / "calibrations" / f"{digest}.json"


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, value))))
