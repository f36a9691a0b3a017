"""The account of an ingest's first stage: what became of every line that was read."""

from dataclasses import dataclass, field
from typing import Any

REPORTED_FAULTS = 10
"""How many malformed lines a report names; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Report:
    """What went in and what came out.

    `facts = claims + descriptions + derived` counts distinct facts; `lines_read = kept + sum(dropped.values())`.
    `aliases` of the claims are other names of entities (`ingest.aliases`).
    `dropped` maps a reason to how many lines were left out for it, sorted by reason, without zeros. `cut` counts the
    parts longer than `refactx.fact.MAX_PART_CHARACTERS`, once for each name, literal or description that was cut.
    `malformed` holds the first malformed lines as `file:line: what`.

    `entities` counts the items and properties that occur in facts, and `names` their names by the rule that made them
    (docs/names.md), with those of inverse properties; `collisions` the names that more than one had at first. `not_inverted`
    maps a reason to how many claims about entities have no inverse fact for it, if inverse facts were asked for: these and
    `derived` are all such claims. `inverse_properties` are the properties whose inverse facts are another property's, each
    with that one (`P25`: `P40`): changes of the index go on so. `selection` is what was asked for (`ingest.selection`).
    `notes` say what else a person should know of a source: which columns of a table were ignored.
    """

    facts: int
    claims: int
    descriptions: int
    derived: int
    lines_read: int
    kept: int
    aliases: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    malformed: tuple[str, ...] = ()
    entities: int = 0
    names: dict[str, int] = field(default_factory=dict)
    collisions: int = 0
    not_inverted: dict[str, int] = field(default_factory=dict)
    selection: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    inverse_properties: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Report":
        """From `dataclasses.asdict` of one, after it went through JSON."""
        return cls(**{**document, "malformed": tuple(document["malformed"]), "notes": tuple(document["notes"])})
