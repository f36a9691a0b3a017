"""The values that the patterns of a SPARQL query are read as: terms, steps, edges, comparisons, and the whole query."""

from dataclasses import dataclass, field, replace
from typing import Literal

from refactx.walks.language import Closure
from refactx.walks.values import Day


@dataclass(frozen=True, slots=True)
class PatternTerm:
    """A variable, an entity by its id, or a literal by its text: one of these. `also`: the ids of entities, or the texts of
    literals, that may take the place of the first."""

    variable: str | None = None
    id: str | None = None
    text: str | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StatementStep:
    """What a step says of the statements by which it is made. `where`: qualifiers, each with the comparisons of its value;
    `now`: they have no end; `being`: the value that they have, where the step leads to the qualifier `its` instead;
    `sorts`: the qualifier that a query sorts by."""

    where: tuple[tuple[str, tuple["TermComparison", ...]], ...] = ()
    now: bool = False
    being: PatternTerm | None = None
    its: str | None = None
    sorts: str | None = None


@dataclass(frozen=True, slots=True)
class PropertyStep:
    """A step along a property, or against it (`inverse`). `others`: properties that may be read the other way too;
    `statement`: if it is made by statements."""

    iri: str
    inverse: bool = False
    closure: Closure = ""
    others: tuple[str, ...] = ()
    statement: StatementStep | None = None

    def reversed(self) -> "PropertyStep":
        return replace(self, inverse=not self.inverse)


@dataclass(frozen=True, slots=True)
class Edge:
    """A triple: steps from a subject to an object. `position`: of the pattern in the query."""

    subject: PatternTerm
    steps: tuple[PropertyStep, ...]
    object: PatternTerm
    position: int

    @property
    def may_be_empty(self) -> bool:
        """Whether it leads from values to themselves, too."""
        return not (self.subject.id or self.object.id) and all(step.closure == "*" for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermComparison:
    """A comparison of a term. `sign`: `=`, `<`, `>`, `is`, `is not`, `starts with` or `contains`; for days also `<=`, `>=`.

    `is_text`: whether text is compared, or a label; `than`: the variable that it is compared with, to
    which `other` leads from an entity.
    """

    term: PatternTerm
    sign: str
    position: int
    value: str = ""
    id: str | None = None
    day: Day | None = None
    is_text: bool = False
    than: str | None = None
    other: Edge | None = None


@dataclass(frozen=True, slots=True)
class SortKey:
    """What is sorted by: a variable, or how many values it has; `distinct`: each of them counts once."""

    variable: str
    descending: bool
    counted: bool
    distinct: bool


@dataclass(slots=True)
class Patterns:
    """A query. `asked`: the variable that is asked for; `counts`: its number of values is asked for; `distinct`: each
    of them counts, or is a row, once; `has_labels`: labels are asked for; `iris`: variables that
    are said to be IRIs, each with the variable that it may be equal to instead, if any; `negated`: patterns that do not hold
    (their edges and conditions alone); `members`: entities among which the asked variable is; `group`: the variable by whose
    values it is grouped; `total`: its sum or average by which other variable; `having`: of which variable how many values a
    group has to have, as a comparison; `columns`: variables that are shown beside the asked one, each with whether a row has
    to have it; `either`: two entities, of which the one with more (True) or less by a property is
    asked for."""

    ask: bool = False
    asked: str | None = None
    counts: bool = False
    distinct: bool = False
    has_labels: bool = False
    iris: list[tuple[str, str | None]] = field(default_factory=list)
    order: SortKey | None = None
    limit: int | None = None
    edges: list[Edge] = field(default_factory=list)
    conditions: list[TermComparison] = field(default_factory=list)
    negated: list["Patterns"] = field(default_factory=list)
    members: PatternTerm | None = None
    group: str | None = None
    total: tuple[Literal["sum", "average"], str] | None = None
    having: tuple[str, str, int] | None = None
    columns: dict[str, bool] = field(default_factory=dict)
    either: tuple[PatternTerm, PatternTerm, str, bool] | None = None

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
        ends = [term for edge in self.edges for term in (edge.subject, edge.object)]
        if self.members or self.group or self.total or self.having or self.columns or any(term.also for term in ends):
            return False
        if any(condition.is_text for condition in self.conditions) or (is_list and self.limit and order is None):
            return False
        steps = [step for edge in self.edges for step in edge.steps]
        if self.either or any(one.than for one in self.conditions) or not all(map(_is_exact, steps)):
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
        return all(
            len(e.steps) == 1 and e.steps[0] == PropertyStep(e.steps[0].iri, e.steps[0].inverse) for e in self.edges
        )


def _is_exact(step: PropertyStep) -> bool:
    """Return whether a walk makes a step as SPARQL does: times of qualifiers are compared with years alone."""
    said = step.statement
    if said is None:
        return True
    days = [one.day for _, some in said.where for one in some if one.day is not None]
    is_plain = said == StatementStep()  # it has the best rank alone
    return not (is_plain or said.now) and said.sorts is None and all(day[1:] == (1, 1) for day in days)
