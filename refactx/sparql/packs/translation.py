"""Attempts at the query of a question, and the translation that comes of them.

A calibration is for one pack and one model, and is kept in the folder of ReFactX's own data.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from refactx.errors import InputError
from refactx.fact import LinkedFact
from refactx.paths import make_home, refactx_home
from refactx.sparql.packs.pack import Pack
from refactx.sparql.packs.retrieval import Retrieved
from refactx.sparql.packs.validation import ValidationReport
from refactx.sparql.placeholders.entry import MemoryEntry, MentionChoice

FEATURES = ("constant", "valid", "has rows", "attempts", "best example", "patterns", "doubted")
FEWEST = 20
"""Fewer translations say nothing."""
_RIDGE = 1.0
"""The weight of the squares of the coefficients, so that few translations do not make a confidence certain."""
_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One query for a question.

    `text`: what the model wrote, or the walk that it chose; `sparql`: the query, None if there is none, and then `reason`
    may say why; `writer`: the name of what wrote it, empty for a pack's text; `choices`: what names of the text became, by
    placeholder; `made_up`: ids of the query that the index does not have; `given`: the entities and properties that the
    model was given; `facts`: those that it wrote before; `confidence`: how much likelier than no query the query makes the
    question, in nats, None if nobody asked.

    `report`: what validation found in it, None without a query or without validation; `doubt`: why its rows do not answer
    the question, as far as that was asked.
    """

    text: str
    sparql: str | None = None
    reason: str = ""
    writer: str = ""
    choices: Mapping[str, MentionChoice] = field(default_factory=dict)
    made_up: tuple[str, ...] = ()
    given: tuple[MemoryEntry, ...] = ()
    facts: tuple[LinkedFact, ...] = ()
    confidence: float | None = None
    report: ValidationReport | None = None
    doubt: str = ""

    @property
    def is_valid(self) -> bool:
        """Whether it is a query in which validation found nothing wrong."""
        return self.sparql is not None and (self.report is None or self.report.ok)

    @property
    def rows(self) -> int | None:
        """How many rows it had; None if it was not run, or failed."""
        return None if self.report is None else self.report.count

    @property
    def problems(self) -> tuple[str, ...]:
        """What is to be told of it to whoever writes the next one; empty if nothing is wrong."""
        if self.sparql is None:
            return (self.reason or "there is no SELECT or ASK query in the reply",)
        found = [] if self.report is None else [f"{one.text}: {one.hint}" for one in self.report.problems]
        if not found and self.rows == 0:
            found = ["the query has no rows"]
        return (*found, self.doubt) if self.doubt else tuple(found)

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """How good it is, to be compared with others: a later attempt is not always better."""
        return self.is_valid, bool(self.rows), not self.doubt, -len(self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The SPARQL of a question.

    `sparql`: the best query, None if there is none; `valid`: whether validation found nothing wrong in it; `rows`: how
    many rows it had, None if it was not run; `confidence`: how likely it is right, None without a calibration;
    `evidence`: the examples that it was written after; `patterns`: those of the question, with their scores; `attempts`:
    all of them, in order; `reason`: why there is no query, or why no more attempts were made; `writing`: the seconds that
    models took.
    """

    question: str
    sparql: str | None
    valid: bool
    rows: int | None
    confidence: float | None = None
    evidence: tuple[Retrieved, ...] = ()
    patterns: Mapping[str, float] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    reason: str = ""
    writing: float = 0.0

    @property
    def best(self) -> Attempt | None:
        """The attempt with the query, None if nothing was written."""
        return best_of(self.attempts)


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the best attempt, of equal ones the first; None if there is none."""
    return max(attempts, key=lambda one: one.rank, default=None)


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
        value = sum(c * x for c, x in zip(self.coefficients, features, strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, value))))


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

    Raises InputError for less than `fewest`.
    """
    if len(features) < fewest:
        raise InputError(f"a calibration needs at least {fewest} translations, but there are {len(features)}: ask more")
    return PackCalibration(
        pack=pack.name,
        fingerprint=pack.fingerprint,
        model=model,
        translations=len(features),
        coefficients=logistic(features, right),
    )


def logistic(features: Sequence[Sequence[float]], right: Sequence[float]) -> tuple[float, ...]:
    """Return the coefficients of features, the first of which is 1, in the log odds of being right.

    Newton's method, with a ridge on all coefficients but the first.

    >>> [round(one, 3) for one in logistic([(1.0,)] * 4, [1.0, 1.0, 1.0, 0.0])]  # log 3, of 3 to 1
    [1.099]
    """
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
    return tuple(round(float(w), 6) for w in weights)


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
