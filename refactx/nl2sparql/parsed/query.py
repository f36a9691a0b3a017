"""What a parsed query is: groups of patterns and conditions, all as values.

Terms are texts as SPARQL writes them (`refactx.nl2sparql.parsed.terms`), with whole IRIs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from refactx.nl2sparql.parsed.terms import is_blank, is_variable

GroupKind = Literal["select", "group", "optional", "branch", "graph", "service", "minus", "exists", "not exists"]
ConditionKind = Literal["filter", "bind", "having", "order", "group", "select"]
Closure = Literal["", "*", "+", "?"]


@dataclass(frozen=True, slots=True)
class Call:
    """An expression with parts. `name`: a function in upper case (`STR`, `REGEX`, `COUNT`), an operator (`=`, `&&`, `!`),
    `IN`, `EXISTS`, or the IRI of a function as a term; `groups`: numbers of the groups that EXISTS has."""

    name: str
    arguments: tuple["Expression", ...] = ()
    distinct: bool = False
    groups: tuple[int, ...] = ()


Expression: TypeAlias = Call | str
"""A call, or a term."""


def parts(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all expressions within it.

    >>> [part for part in parts(Call("=", (Call("STR", ("?x",)), '"a"'))) if isinstance(part, str)]
    ['?x', '"a"']
    """
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from parts(argument)


def variables(expression: Expression) -> Iterator[str]:
    """Yield the variables of an expression, without those of groups within it."""
    return (part for part in parts(expression) if isinstance(part, str) and is_variable(part))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A triple pattern; a path is taken apart into several, with blank nodes between them and subject before object.

    `predicate`: an IRI, a variable, or `!(...)` for what a negated set leaves; `closure`: the sign after it in a path;
    `graph`, `service`: the terms of the innermost GRAPH and SERVICE around it, None outside of them; a GRAPH around a
    SERVICE does not count within it; `group`: the number of its group.
    """

    subject: str
    predicate: str
    object: str
    closure: Closure = ""
    graph: str | None = None
    service: str | None = None
    group: int = 0

    @property
    def text(self) -> str:
        """The pattern as SPARQL: `?x <http://e.org/p>+ "a"`."""
        return f"{self.subject} {self.predicate}{self.closure} {self.object}"

    @property
    def terms(self) -> tuple[str, str, str]:
        return self.subject, self.predicate, self.object

    @property
    def ends(self) -> tuple[str, ...]:
        """Variables and blank nodes at its two ends."""
        return tuple(term for term in (self.subject, self.object) if is_variable(term) or is_blank(term))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of patterns. `parent`: the number of the group that it stands in; `union`: of the UNION of which it is a
    branch; `selected`: the variables that a SELECT shows, None for all."""

    number: int
    parent: int | None
    kind: GroupKind
    graph: str | None = None
    service: str | None = None
    union: int | None = None
    selected: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """An expression and what it is for. `variable`: what its value is called, for `bind`, `select` and `group`."""

    kind: ConditionKind
    group: int
    expression: Expression
    variable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A block VALUES. `rows`: a term for each variable, None for UNDEF."""

    group: int
    variables: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """A query. `form`: SELECT or ASK; `groups`: by number, the first is the query itself; `prefixes`: the declared ones;
    `names`: IRIs that it writes with a prefix, as (prefix, IRI); `iris`: all of its IRIs, each once, in order."""

    form: str
    groups: tuple[Group, ...]
    patterns: tuple[Pattern, ...] = ()
    conditions: tuple[Condition, ...] = ()
    data: tuple[Data, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    names: tuple[tuple[str, str], ...] = ()
    iris: tuple[str, ...] = ()

    def around(self, group: int) -> Iterator[Group]:
        """Yield a group and those around it, from the inside out."""
        number: int | None = group
        while number is not None:
            yield self.groups[number]
            number = self.groups[number].parent

    def inside(self, group: int) -> Iterator[Group]:
        """Yield the groups that stand directly in a group."""
        return (one for one in self.groups if one.parent == group)

    def has_to_match(self, group: int) -> bool:
        """Whether rows have what the patterns of a group have: it is within no MINUS and NOT EXISTS."""
        return not any(one.kind in ("minus", "not exists") for one in self.around(group))

    def bound(self, group: int) -> frozenset[str]:
        """Return the variables that a group may bind, as they are seen outside of it: of a SELECT, what it shows."""
        one, found = self.groups[group], self._bound_within(group)
        return found if one.kind != "select" or one.selected is None else found & frozenset(one.selected)

    def in_scope(self, group: int) -> frozenset[str]:
        """Return the variables that an expression in a group can see."""
        one, found = self.groups[group], self._bound_within(group)
        if one.kind == "optional" and one.parent is not None:
            found |= self._bound_within(one.parent)
        if one.kind in ("exists", "not exists") and one.parent is not None:
            found |= self.in_scope(one.parent)
        return found

    def _bound_within(self, group: int) -> frozenset[str]:
        """Return the variables that patterns, BIND and VALUES in a group may bind."""
        one = self.groups[group]
        found = {term for pattern in self.patterns if pattern.group == group for term in pattern.terms}
        found |= {name for data in self.data if data.group == group for name in data.variables}
        found |= {named.variable or "" for named in self.conditions if named.group == group}
        found |= {one.graph or ""} if one.kind == "graph" else {one.service or ""} if one.kind == "service" else set()
        for inner in self.inside(group):
            if inner.kind not in ("minus", "exists", "not exists"):
                found |= self.bound(inner.number)
        return frozenset(term for term in found if is_variable(term))

    @property
    def selected(self) -> tuple[str, ...]:
        """The variables of the result, in order; those of `SELECT *` are sorted."""
        shown = self.groups[0].selected
        return tuple(sorted(self._bound_within(0))) if shown is None else shown
