"""What stands for a URI in PGMR text: a kind, a label and a description; and the protocols that name and find it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from refactx.query.language import QueryError

Kind = Literal["entity", "relation"]
"""An entity has an id such as Q42 (or L7, of a lexeme), a relation one such as P31, whatever its prefix."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A URI in words. `description`: empty if it has none, None if the text does not say (the inline dialect).

    >>> str(Mention("relation", "nickname", "informal name"))
    '[REL] nickname [/REL] informal name'
    """

    kind: Kind
    label: str
    description: str | None = None

    def __str__(self) -> str:
        mark = "ENT" if self.kind == "entity" else "REL"
        return f"[{mark}] {self.label} [/{mark}] {self.description or ''}".rstrip()


class Names(Protocol):
    """What entities and properties are called."""

    def mentions(self, ids: Sequence[str]) -> Mapping[str, Mention]:
        """Return the mentions of ids (`Q42`, `P31`), without ids that have no name."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a mention has no id, as a part of a sentence: `no entity of the index is called <Louisianna>`."""

    reason: str


class Resolver(Protocol):
    """What finds the ids of mentions."""

    def resolve(self, mentions: Sequence[Mention]) -> Sequence[str | Refusal]:
        """Return the id of each mention (`Q42`; `P31` for a relation), or why it has none."""
        ...


class RefusedError(QueryError):
    """A query that was refused, since some of its mentions have no id. `refusals`: why, by placeholder."""

    def __init__(self, mentions: Mapping[str, Mention], refusals: Mapping[str, Refusal]) -> None:
        self.refusals = refusals
        super().__init__("; ".join(f"{name} = {mentions[name]}: {why.reason}" for name, why in refusals.items()))


def kind_of(id_: str) -> Kind:
    """Return the kind of what has an id.

    >>> kind_of("Q42"), kind_of("P31"), kind_of("L7-F2")
    ('entity', 'relation', 'entity')
    """
    return "relation" if id_.startswith("P") else "entity"
