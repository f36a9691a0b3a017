"""The view of a SPARQL query: its triple patterns with where they stand, its conditions and its names.

Terms are texts as SPARQL writes them, with whole IRIs: `?x`, `<http://e.org/a>`, `"cane"@it`, `_:b1`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal, TypeAlias

from refactx.sparql.syntax import tree
from refactx.sparql.syntax.parser import ParsedQuery

GroupKind = Literal[
    "select", "group", "optional", "branch", "graph", "service", "minus", "lateral", "exists", "not exists"
]  # fmt: skip
ConditionKind = Literal["filter", "bind", "having", "order", "group", "select"]
Closure = Literal["", "*", "+", "?"]
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class CallView:
    """An expression with parts. `name`: a function in upper case (`STR`, `REGEX`, `COUNT`), an operator (`=`, `&&`, `!`),
    `IN`, `EXISTS`, or the IRI of a function as a term; `groups`: numbers of the groups that EXISTS has."""

    name: str
    arguments: tuple["Expression", ...] = ()
    distinct: bool = False
    groups: tuple[int, ...] = ()


Expression: TypeAlias = CallView | str
"""A call, or a term."""


def parts(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all expressions within it.

    >>> [part for part in parts(CallView("=", (CallView("STR", ("?x",)), '"a"'))) if isinstance(part, str)]
    ['?x', '"a"']
    """
    yield expression
    if isinstance(expression, CallView):
        for argument in expression.arguments:
            yield from parts(argument)


def variables(expression: Expression) -> Iterator[str]:
    """Yield the variables of an expression, without those of groups within it."""
    return (part for part in parts(expression) if isinstance(part, str) and is_variable(part))


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternView:
    """A triple pattern; a path is taken apart into several, with blank nodes between them and subject before object.

    `predicate`: an IRI, a variable, or `!(<a>|^<b>)` for what a negated set leaves; `closure`: the sign after it in a path;
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
class GroupView:
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
class ConditionView:
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
class QueryView:
    """A query. `form`: SELECT, ASK, CONSTRUCT or DESCRIBE; `groups`: by number, the first is the query
    itself; `prefixes`: the declared ones;
    `names`: IRIs that it writes with a prefix, as (prefix, IRI); `iris`: all of its IRIs, each once, in order."""

    form: str
    groups: tuple[GroupView, ...]
    patterns: tuple[PatternView, ...] = ()
    conditions: tuple[ConditionView, ...] = ()
    data: tuple[Data, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    names: tuple[tuple[str, str], ...] = ()
    iris: tuple[str, ...] = ()

    def around(self, group: int) -> Iterator[GroupView]:
        """Yield a group and those around it, from the inside out."""
        number: int | None = group
        while number is not None:
            yield self.groups[number]
            number = self.groups[number].parent

    def inside(self, group: int) -> Iterator[GroupView]:
        """Yield the groups that stand directly in a group."""
        return (one for one in self.groups if one.parent == group)

    def has_to_match(self, group: int) -> bool:
        """Whether rows have what the patterns of a group have: it is within no MINUS and NOT EXISTS."""
        return not any(one.kind in ("minus", "not exists") for one in self.around(group))

    def ends_of(self, property_: str, *, at_subject: bool) -> Iterator[tuple[PatternView, str, str]]:
        """Yield the patterns with a property, each with its subject and its object, or in the other order."""
        for pattern in self.patterns:
            if pattern.predicate == property_:
                yield pattern, *(pattern.terms[::2] if at_subject else pattern.terms[::-2])

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


def is_variable(term: str) -> bool:
    """Return whether a term is a variable."""
    return term.startswith("?")


def is_blank(term: str) -> bool:
    """Return whether a term is a blank node, which is a variable that has no name."""
    return term.startswith("_:")


def is_literal(term: str) -> bool:
    """Return whether a term is a literal."""
    return term.startswith('"')


def iri_of(term: str) -> str | None:
    """Return the IRI of a term, None if it is none.

    >>> iri_of("<http://e.org/a>"), iri_of("?x")
    ('http://e.org/a', None)
    """
    return term[1:-1] if term.startswith("<") else None


def literal(text: str, language: str = "", datatype: str = "") -> str:
    r"""Return a literal as a term.

    >>> literal('say "ciao"', "it"), literal("3", datatype="http://www.w3.org/2001/XMLSchema#integer")
    ('"say \\"ciao\\""@it', '"3"^^<http://www.w3.org/2001/XMLSchema#integer>')
    """
    written = "".join(_ESCAPED.get(character, character) for character in text)
    return f'"{written}"' + (f"@{language}" if language else f"^^<{datatype}>" if datatype else "")


# --- Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _PathStep:
    """A step of a path, over a property or, in brackets, over one of several `ways`. `inverse`: from object to subject."""

    property: str = ""
    closure: Closure = ""
    inverse: bool = False
    ways: "_Ways" = ()


_Ways: TypeAlias = tuple[tuple[_PathStep, ...], ...]
"""The alternatives of a path, each a sequence of steps."""


def view_of(parsed: ParsedQuery) -> QueryView:
    """Return the view of a query, without the template of a CONSTRUCT.

    >>> from refactx.sparql.syntax.parser import read_sparql
    >>> query = view_of(read_sparql("SELECT ?y { GRAPH <a:g> { ?x <a:p>/^<a:q> ?y } FILTER(STRLEN(?y) < 3) }"))
    >>> [pattern.text for pattern in query.patterns], query.patterns[0].graph
    (['?x <a:p> _:1', '?y <a:q> _:1'], '<a:g>')
    >>> sorted(query.in_scope(0)), query.conditions[0].expression.arguments[1]
    (['?x', '?y'], '"3"^^<http://www.w3.org/2001/XMLSchema#integer>')
    """
    return _Viewing(parsed).read()


class _Viewing:
    def __init__(self, parsed: ParsedQuery) -> None:
        self._parsed = parsed
        self._groups: list[GroupView] = []
        self._patterns: list[PatternView] = []
        self._conditions: list[ConditionView] = []
        self._data: list[Data] = []
        self._names: dict[tuple[str, str], None] = {}
        self._iris: dict[str, None] = {}
        self._blanks: dict[str, str] = {}
        self._numbers, self._unions = count(1), count(1)

    def read(self) -> QueryView:
        self._select(self._parsed.query, None)
        return QueryView(
            form=self._parsed.query.form,
            groups=tuple(self._groups),
            patterns=tuple(self._patterns),
            conditions=tuple(self._conditions),
            data=tuple(self._data),
            prefixes=self._parsed.prologue.declared,
            names=tuple(self._names),
            iris=tuple(self._iris),
        )

    # --- Groups

    def _new(self, parent: GroupView | None, kind: GroupKind, **changes: Any) -> GroupView:
        inherited: Mapping[str, Any] = {} if parent is None else {"graph": parent.graph, "service": parent.service}
        number = None if parent is None else parent.number
        group = GroupView(number=len(self._groups), parent=number, kind=kind, **{**inherited, **changes})
        self._groups.append(group)
        return group

    def _select(self, query: tree.QueryTree, parent: GroupView | None) -> None:
        shown = tuple(self._term(one.variable or one.expression) for one in query.selected)
        group = self._new(parent, "select", selected=shown if shown or query.form == "ASK" else None)
        if query.where is not None:
            self._parts(query.where, group)
        for one in query.group_by:
            self._condition("group", group, one.expression, one.variable)
        for expression in query.having:
            self._condition("having", group, expression)
        for key in query.order_by:
            self._condition("order", group, key.expression)
        for one in query.selected:
            if one.variable is not None:
                self._condition("select", group, one.expression, one.variable)
        if query.values is not None:
            self._values(query.values, group)

    def _condition(
        self, kind: ConditionKind, group: GroupView, node: tree.Expression, variable: tree.Term | None = None
    ) -> None:
        expression = self._expression(node, group)
        name = None if variable is None else self._term(variable)
        self._conditions.append(ConditionView(kind=kind, group=group.number, expression=expression, variable=name))

    def _parts(self, node: tree.Group, group: GroupView) -> None:
        """Read the parts of a group, and then its conditions."""
        for part in node.elements:
            if isinstance(part, tree.Block):
                for triple in part.triples:
                    start, end = self._term(triple.subject), self._term(triple.object)
                    self._ways(self._steps(triple.path), start, end, group)
            elif isinstance(part, tree.Values):
                self._values(part, group)
            elif isinstance(part, tree.QueryTree):
                self._select(part, group)
            elif isinstance(part, tree.Nested):
                self._nested(part, group)
        for part in node.elements:
            if isinstance(part, tree.Filter):
                self._condition("filter", group, part.expression)
            elif isinstance(part, tree.Bind):
                self._condition("bind", group, part.expression, part.variable)

    def _nested(self, part: tree.Nested, group: GroupView) -> None:
        changes: dict[str, Any] = {}
        if part.name is not None:
            name = self._term(part.name)
            changes = {"graph": name} if part.kind == "graph" else {"graph": None, "service": name}
        if part.kind == "union":
            changes = {"union": next(self._unions)}
        kind: GroupKind = "branch" if part.kind == "union" else part.kind
        for inner in part.groups:
            self._parts(inner, self._new(group, kind, **changes))

    # --- Patterns

    def _ways(self, ways: _Ways, start: str, end: str, group: GroupView) -> None:
        """Add the patterns of a path: of several ways, each is a branch of a union."""
        union = next(self._unions) if len(ways) > 1 else None
        for way in ways:
            inner = group if union is None else self._new(group, "branch", union=union)
            at = start
            for number, step in enumerate(way):
                to = end if number == len(way) - 1 else self._blank()
                if step.ways:
                    self._ways(step.ways, *((to, at) if step.inverse else (at, to)), inner)
                elif step.inverse:
                    self._pattern(to, step.property, at, inner, step.closure)
                else:
                    self._pattern(at, step.property, to, inner, step.closure)
                at = to

    def _steps(self, path: tree.Path | tree.Term) -> _Ways:
        """Return the ways that a path has, from subject to object."""
        if isinstance(path, tree.Term):
            return ((_PathStep(property=self._term(path)),),)
        if path.sign == "!":
            negated = (
                f"^{self._term(one.parts[0])}" if isinstance(one, tree.Path) else self._term(one) for one in path.parts
            )
            return ((_PathStep(property=f"!({'|'.join(negated)})"),),)
        parts = [self._steps(part) for part in path.parts]
        if path.sign == "|":
            return tuple(way for ways in parts for way in ways)
        if path.sign == "/":
            return (tuple(step for ways in parts for step in _joined(ways)),)
        (ways,) = parts
        if path.sign == "^":
            return (tuple(replace(step, inverse=not step.inverse) for step in reversed(_joined(ways))),)
        signs = {"", path.sign}  # of signs that differ, any number of steps is left: `(p?)+` is `p*`
        closed = (replace(step, closure=path.sign if step.closure in signs else "*") for step in _joined(ways))
        return (tuple(closed),)

    def _pattern(self, subject: str, name: str, value: str, group: GroupView, closure: Closure = "") -> None:
        self._patterns.append(
            PatternView(
                subject=subject,
                predicate=name,
                object=value,
                closure=closure,
                graph=group.graph,
                service=group.service,
                group=group.number,
            )
        )

    def _values(self, node: tree.Values, group: GroupView) -> None:
        names = tuple(map(self._term, node.variables))
        rows = tuple(tuple(None if cell is None else self._term(cell) for cell in row) for row in node.rows)
        self._data.append(Data(group=group.number, variables=names, rows=rows))

    # --- Terms and expressions

    def _blank(self) -> str:
        return f"_:{next(self._numbers)}"

    def _expression(self, node: tree.Expression, group: GroupView) -> Expression:
        if isinstance(node, tree.Term):
            return self._term(node)
        if node.group is not None:
            inner = self._new(group, "exists" if node.name == "EXISTS" else "not exists")
            self._parts(node.group, inner)
            return CallView(node.name, groups=(inner.number,))
        if node.name.startswith("<") and node.name.endswith(">") and len(node.name) > 1:
            self._note(node.name[1:-1], node.span[0])
        arguments = tuple(self._expression(part, group) for part in node.arguments)
        return CallView(node.name, arguments, distinct=node.distinct)

    def _term(self, node: Any) -> str:
        if node.kind == "variable":
            return f"?{node.value}"
        if node.kind == "blank":
            if node.value not in self._blanks:
                self._blanks[node.value] = self._blank()
            return self._blanks[node.value]
        if node.kind == "iri":
            self._note(node.value, node.span[0])
            return f"<{node.value}>"
        if node.datatype and self._parsed.token(node).kind in ("name", "iri", "label"):  # else of a number
            self._note(node.datatype, node.span[1] - 1)
        return literal(node.value, node.language, node.datatype)

    def _note(self, iri: str, at: int) -> None:
        """Note an IRI that was read from a token."""
        token = self._parsed.tokens[at]
        if token.kind == "name":
            self._names[token.text.partition(":")[0], iri] = None
        self._iris[iri] = None


def _joined(ways: _Ways) -> tuple[_PathStep, ...]:
    """Return ways as steps: those of the only one, or one step over all."""
    return ways[0] if len(ways) == 1 else (_PathStep(ways=ways),)
