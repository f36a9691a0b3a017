"""The account of an ingest's first stage: what became of every line that was read."""

from dataclasses import dataclass, field
from typing import Any

REPORTED_FAULTS = 10
"""How many malformed lines a report names; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Report:
    """What went in and what came out.

    `facts = claims + descriptions + derived` counts distinct facts; `lines_read = kept + sum(dropped.values())`.
    `dropped` maps a reason to how many lines were left out for it, sorted by reason, without zeros. `cut` counts the
    parts longer than `refactx.fact.MAX_PART_CHARACTERS`, once for each name, literal or description that was cut.
    `malformed` holds the first malformed lines as `file:line: what`.
    """

    facts: int
    claims: int
    descriptions: int
    derived: int
    lines_read: int
    kept: int
    dropped: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    malformed: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Report":
        """From `dataclasses.asdict` of one, after it went through JSON."""
        return cls(**{**document, "malformed": tuple(document["malformed"])})
