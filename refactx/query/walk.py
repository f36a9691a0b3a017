"""Queries as walks of the fact tree: a head, a start, hops, filters, and what to sort by.

A walk begins at an entity and follows predicates, as facts are written: `<Louisiana> <nickname>` is the set of objects
of all facts that begin so. So a query needs no variables, its parts are names of the index, and the tree answers it.
Predicates that read a property backwards (`director of`) have names of their own, so each hop goes from subject to
object. `refactx.query.line` writes walks as text, `refactx.query.sparql` as SPARQL, `refactx.query.denote` answers them.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from refactx.errors import InputError

Head = Literal["list", "count", "ask", "most", "least"]
"""What is asked: the members of the set, their number, whether there are any, or those that come last or first."""

Closure = Literal["", "+", "*"]
"""How often a hop is made: once, at least once, or any number of times."""

Operator = Literal["is", "equals", "over", "under", "starts with", "contains"]
"""How a filter compares: `is` compares names, `equals`, `over` and `under` compare values, the others compare text."""

HEADS: tuple[Head, ...] = get_args(Head)
OPERATORS: tuple[Operator, ...] = get_args(Operator)


class QueryError(InputError):
    """A query that cannot be read, or cannot be answered in the index."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A step from each member of a set to the objects of its facts with a predicate.

    `predicate`: its name in the index; `closure`: how often the step is made.
    """

    predicate: str
    closure: Closure = ""


@dataclass(frozen=True, slots=True)
class Which:
    """A filter: the members from which `hops` lead to an object that compares with `value`.

    Without hops the member itself is compared. `value`: an entity's name for `is`, or a literal as facts have it. Text
    is compared without the case of letters, and without the description in a name.
    """

    hops: tuple[Hop, ...]
    operator: Operator
    value: str


@dataclass(frozen=True, slots=True)
class By:
    """What members are sorted by: the values of their facts with a predicate, or (`counted`) how many there are."""

    predicate: str
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A query. `start`: the name of an entity; `hops`: the steps from it to the set; `which`: its filters, of which all
    have to hold; `by`: for the heads `most` and `least` alone, of which the first `limit` are asked for.

        >>> Query("count", "Louisiana", (Hop("nickname"),)).head
        'count'

    Raises QueryError if the parts do not fit together.
    """

    head: Head
    start: str
    hops: tuple[Hop, ...] = ()
    which: tuple[Which, ...] = ()
    by: By | None = None
    limit: int = 1

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise QueryError(f"a query begins with one of {', '.join(HEADS)}, not with {self.head!r}")
        if self.limit < 1:
            raise QueryError(f"the {self.limit} first members were asked for: give at least 1")
        if (self.by is not None) != (self.head in ("most", "least")):
            raise QueryError("queries for most and least end in `by <predicate>`, and others do not")
        if self.limit > 1 and self.by is None:
            raise QueryError("only queries for most and least have a number of members")
        if not self.hops and (self.head != "ask" or not self.which):
            raise QueryError(
                f"a query goes from its start over at least one predicate: write one after <{self.start}>, as in "
                "`list <Louisiana> <nickname>`"
            )
        if self.head == "ask" and len(self.hops) > 1:
            raise QueryError("a query for ask has at most one predicate before `which`")
