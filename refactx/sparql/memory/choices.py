"""What mentions are resolved to, and the refusal of a query."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from refactx.query.pgmr import Mention
from refactx.sparql.memory.entry import Entry

How = Literal["name", "label", "alias", "nearest"]
"""How an id was found: by label and description, by label, by alias, or as the nearest entry."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a mention was resolved to. `similarity`: 1 unless it is only near, or is an entity that is described otherwise;
    `feasible`: whether all patterns with it match facts, None if no pattern says."""

    mention: Mention
    entry: Entry
    similarity: float
    how: How
    feasible: bool | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The choices of a query, by placeholder."""

    choices: Mapping[str, Choice]

    @property
    def ids(self) -> dict[str, str]:
        """The ids by placeholder, for `PgmrQuery.with_ids`."""
        return {name: choice.entry.id for name, choice in self.choices.items()}


@dataclass(frozen=True, slots=True)
class Refused:
    """A query that was refused. `which`: the placeholder of the mention that is least similar to anything in the memory;
    `best`: what it would have been, None if there is nothing; `similarity`: of that; `reason`: in words."""

    which: str
    best: Choice | None
    similarity: float
    reason: str


@dataclass(frozen=True, slots=True)
class Option:
    """A choice that may be made. `weight`: what speaks for it, some 0 to 1."""

    choice: Choice
    weight: float
