"""Attempts at the query of a question, and the translation that comes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from refactx.nl2sparql.retrieval import Retrieved
from refactx.nl2sparql.validation import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One query for a question.

    `text`: what the model wrote; `sparql`: the query in it, with the prefixes that it lacked, None if there is none;
    `report`: what validation found in it, None without a query or without validation; `doubt`: why its rows do not answer
    the question, as far as that was asked.
    """

    text: str
    sparql: str | None = None
    report: Report | None = None
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
            return ("there is no SELECT or ASK query in the reply",)
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
    all of them, in order; `reason`: why there is no query, or why no more attempts were made.
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

    def with_confidence(self, confidence: float | None) -> "Translation":
        """Return the same translation with a confidence."""
        return replace(self, confidence=confidence)

    def to_json(self) -> dict[str, Any]:
        """Return the translation as `refactx translate --json` prints it."""
        return {
            "question": self.question,
            "sparql": self.sparql,
            "valid": self.valid,
            "rows": self.rows,
            "confidence": None if self.confidence is None else round(self.confidence, 3),
            "patterns": {name: round(score, 3) for name, score in self.patterns.items()},
            "examples": [{"id": one.example.id, "score": round(one.score, 3)} for one in self.evidence],
            "attempts": [
                {"sparql": one.sparql, "valid": one.is_valid, "rows": one.rows, "problems": list(one.problems)}
                for one in self.attempts
            ],
            "reason": self.reason,
        }


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the best attempt, of equal ones the first; None if there is none."""
    return max(attempts, key=lambda one: one.rank, default=None)
