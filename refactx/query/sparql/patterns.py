"""The patterns of a SPARQL query: triples as steps between terms, conditions, and what is asked for."""

from dataclasses import dataclass, field, replace

from refactx.query.language import Closure
from refactx.query.values import Day


@dataclass(frozen=True, slots=True)
class Term:
    """A variable, an entity by its id, or a literal by its text: one of these."""

    variable: str | None = None
    id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A step along a property, or against it (`inverse`). `others`: properties that may be read the other way too."""

    iri: str
    inverse: bool = False
    closure: Closure = ""
    others: tuple[str, ...] = ()

    def reversed(self) -> "Step":
        return replace(self, inverse=not self.inverse)


@dataclass(frozen=True, slots=True)
class Edge:
    """A triple: steps from a subject to an object. `position`: of the pattern in the query."""

    subject: Term
    steps: tuple[Step, ...]
    object: Term
    position: int

    @property
    def may_be_empty(self) -> bool:
        """Whether it leads from values to themselves, too."""
        return not (self.subject.id or self.object.id) and all(step.closure == "*" for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A comparison of a term. `sign`: `=`, `<`, `>`, `is`, `starts with` or `contains`; for days also `<=` and `>=`.

    `is_text`: whether text is compared, or a label.
    """

    term: Term
    sign: str
    position: int
    value: str = ""
    id: str | None = None
    day: Day | None = None
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """What is sorted by: a variable, or how many values it has; `distinct`: each of them counts once."""

    variable: str
    descending: bool
    counted: bool
    distinct: bool


@dataclass(slots=True)
class Patterns:
    """A query. `asked`: the variable that is asked for; `counts`: its number of values is asked for; `distinct`: each
    of them counts, or is a row, once; `has_labels`: labels are asked for; `iris`: variables that
    are said to be IRIs, each with the variable that it may be equal to instead, if any."""

    ask: bool = False
    asked: str | None = None
    counts: bool = False
    distinct: bool = False
    has_labels: bool = False
    iris: list[tuple[str, str | None]] = field(default_factory=list)
    order: Order | None = None
    limit: int | None = None
    edges: list[Edge] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)

    @property
    def says_no_more_of_iris(self) -> bool:
        """Whether variables that are said to be IRIs are so by a walk: they have a second fact, and values have none.

        Over a path of no steps a value leads to itself, so there it may be equal to the end.
        """
        for name, same in self.iris:
            edges = [edge for edge in self.edges if name in (edge.subject.variable, edge.object.variable)]
            facts = [edge for edge in edges if not edge.may_be_empty]
            ends = {term.variable for edge in edges if edge.may_be_empty for term in (edge.subject, edge.object)}
            if len(edges) < 2 or (not facts if same is None else same not in ends):
                return False
        return True

    @property
    def has_rows_of_members(self) -> bool:
        """Whether its rows are those of a walk: a member each, all that there are, compared as facts compare.

        Not so if there is a limit without an order, if values that are not distinct are counted or limited, although a
        member may have several rows, or if text is compared, which walks do without the case of letters.
        """
        order, is_list = self.order, not (self.ask or self.counts)
        if any(condition.is_text for condition in self.conditions) or (is_list and self.limit and order is None):
            return False
        if order is not None and order.counted and not order.distinct:
            return self.has_one_row_each(order.variable)
        needs_one_each = self.counts or (order is not None and not order.counted and (self.limit or 1) > 1)
        return not needs_one_each or self.distinct or self.has_one_row_each()

    def has_one_row_each(self, besides: str | None = None) -> bool:
        """Return whether each value of the variable has one row: no other has values, and no path leads there twice."""
        ends = [term.variable for edge in self.edges for term in (edge.subject, edge.object) if term.variable]
        if self.has_labels or set(ends) - {self.asked, besides} or ends.count(besides or "") > 1:
            return False
        return all(len(e.steps) == 1 and not e.steps[0].closure and not e.steps[0].others for e in self.edges)
