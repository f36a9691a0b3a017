"""The patterns of a SPARQL query: triples as steps between terms, conditions, and what is asked for."""

from dataclasses import dataclass, field, replace

from refactx.query.values import Day
from refactx.query.walk import Closure


@dataclass(frozen=True, slots=True)
class Term:
    """A variable, an entity by its id, or a literal by its text: one of these."""

    variable: str | None = None
    id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A step along a property, or against it (`inverse`). `other`: the property that may be read the other way too."""

    iri: str
    inverse: bool = False
    closure: Closure = ""
    other: str | None = None

    def reversed(self) -> "Step":
        return replace(self, inverse=not self.inverse)


@dataclass(frozen=True, slots=True)
class Edge:
    """A triple: steps from a subject to an object. `position`: of the pattern in the query."""

    subject: Term
    steps: tuple[Step, ...]
    object: Term
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A comparison of a term. `sign`: `=`, `<`, `>`, `is`, `starts with` or `contains`; for days also `<=` and `>=`."""

    term: Term
    sign: str
    position: int
    value: str = ""
    id: str | None = None
    day: Day | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What is sorted by: a variable, or how many values it has."""

    variable: str
    descending: bool
    counted: bool


@dataclass(slots=True)
class Patterns:
    """A query. `asked`: the variable that is asked for; `counts`: its number of values is asked for."""

    ask: bool = False
    asked: str | None = None
    counts: bool = False
    order: Order | None = None
    limit: int | None = None
    edges: list[Edge] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
