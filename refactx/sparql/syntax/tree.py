"""The syntax tree of a SPARQL query: values with spans, the numbers of the tokens that a part was read from.

Spans do not count where trees are compared: they are given by keyword, and `__match_args__` are the other fields.
Brackets around expressions and paths leave no node. Property lists are taken apart into triples; blank nodes in brackets
and collections have terms for themselves, and triples of their own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from refactx.sparql.syntax.tokens import Span

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
PathSign = Literal["/", "|", "^", "!", "*", "+", "?"]
_BINDING = {"|": 0, "/": 1, "^": 2, "*": 3, "+": 3, "?": 3, "!": 4}
"""How strongly the signs of paths bind."""


@dataclass(frozen=True, slots=True)
class Term:
    """A variable, an IRI, a blank node or a literal.

    `value`: the name of a variable without `?`, the whole IRI (or `prefix:name`, if the prefix is not declared), the text
    of a literal without its quotes and escapes, or the label of a blank node. One without a label has its own value, with a
    bracket, and the span of its brackets.
    """

    kind: Literal["variable", "iri", "blank", "literal"]
    value: str
    language: str = ""
    datatype: str = ""
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Path:
    """A property path: parts that follow each other (`/`), alternatives (`|`), or one part with a sign; `!` has any number
    of alternatives."""

    sign: PathSign
    parts: tuple["Path | Term", ...]
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


def path_text(path: Path | Term, text: Callable[[Span], str]) -> str:
    """Return a path as SPARQL, by the texts of its terms: spans may leave out brackets that it was written with."""
    if isinstance(path, Term):
        return text(path.span)
    parts = [path_text(part, text) for part in path.parts]
    if path.sign == "!":
        return f"!({'|'.join(parts)})"
    own = _BINDING[path.sign]
    for at, part in enumerate(path.parts):
        if isinstance(part, Path) and _BINDING[part.sign] <= own:
            parts[at] = f"({parts[at]})"
    return path.sign.join(parts) if own < 2 else f"^{parts[0]}" if path.sign == "^" else f"{parts[0]}{path.sign}"


@dataclass(frozen=True, slots=True)
class TriplePattern:
    """A triple. Those of a collection have an empty span in place of their path."""

    subject: Term
    path: Path | Term
    object: Term

    @property
    def is_within(self) -> bool:
        """Whether the subject is a blank node in whose brackets the triple stands."""
        return self.subject.span[0] <= self.path.span[0] < self.subject.span[1] or self.is_listed

    @property
    def is_listed(self) -> bool:
        """Whether it is one of those that make a collection."""
        return self.path.span[0] == self.path.span[1]


@dataclass(frozen=True, slots=True)
class Call:
    """An expression with parts. `name`: a function in upper case, an operator (`=`, `&&`, `!`, `IN`), `EXISTS`, or the IRI
    of a function in angle brackets; `group`: that of EXISTS. `COUNT(*)` has no arguments."""

    name: str
    arguments: tuple["Expression", ...] = ()
    distinct: bool = False
    separator: str = ""
    group: "Group | None" = None
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


Expression: TypeAlias = Call | Term


@dataclass(frozen=True, slots=True)
class NamedExpression:
    """An expression of SELECT or GROUP BY, and the variable that it is called, if any; a variable alone is an expression."""

    expression: Expression
    variable: Term | None = None
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A key of ORDER BY."""

    expression: Expression
    descending: bool = False
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Block:
    """The triples of one subject, with those within brackets."""

    kind: ClassVar = "triples"
    triples: tuple[TriplePattern, ...]
    span: Span = field(default=(0, 0), compare=False, kw_only=True)

    @property
    def own(self) -> tuple[TriplePattern, ...]:
        """The triples of the subject itself."""
        return tuple(one for one in self.triples if not one.is_within)


@dataclass(frozen=True, slots=True)
class Filter:
    """A FILTER."""

    kind: ClassVar = "filter"
    expression: Expression
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Bind:
    """A BIND."""

    kind: ClassVar = "bind"
    expression: Expression
    variable: Term
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Values:
    """A VALUES block. `rows`: a term for each variable, None for UNDEF."""

    kind: ClassVar = "values"
    variables: tuple[Term, ...]
    rows: tuple[tuple[Term | None, ...], ...]
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Nested:
    """Groups within a group: one in brackets, the branches of a union, or that of OPTIONAL and the like. `name`: of GRAPH
    and SERVICE."""

    kind: Literal["group", "union", "optional", "minus", "lateral", "graph", "service"]
    groups: tuple["Group", ...]
    name: Term | None = None
    silent: bool = False
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of patterns. `span`: with its brackets."""

    elements: tuple["Element", ...]
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class QueryTree:
    """A query, or (`kind`) a SELECT within one.

    `selected`: what SELECT shows, or DESCRIBE describes; empty for `*`; `template`: the triples of CONSTRUCT; `datasets`:
    the graphs of FROM and, with True, of FROM NAMED; `values`: those after the patterns; `after`: the span of all that
    follows the patterns.
    """

    kind: ClassVar = "select"
    form: Literal["SELECT", "ASK", "CONSTRUCT", "DESCRIBE"]
    where: Group | None = None
    modifier: Literal["", "DISTINCT", "REDUCED"] = ""
    selected: tuple[NamedExpression, ...] = ()
    template: tuple[TriplePattern, ...] = ()
    datasets: tuple[tuple[Term, bool], ...] = ()
    group_by: tuple[NamedExpression, ...] = ()
    having: tuple[Expression, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    limit: Term | None = None
    offset: Term | None = None
    values: Values | None = None
    after: Span = field(default=(0, 0), compare=False, kw_only=True)
    span: Span = field(default=(0, 0), compare=False, kw_only=True)


Element: TypeAlias = Block | Filter | Bind | Values | Nested | QueryTree


def nodes(tree: Any) -> Iterator[Any]:
    """Yield a node and all nodes below it, in the order of their fields."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            left += reversed(node)
        elif names := getattr(node, "__match_args__", ()):
            yield node
            left += [getattr(node, name) for name in reversed(names)]


def shape_of(tree: Any) -> Any:
    """Return a tree as tuples that are equal for equal queries: blank nodes have numbers in their order, and languages are
    in lower case."""
    blank = dict[str, int]()

    def shape(node: Any) -> Any:
        if isinstance(node, Term):
            if node.kind == "blank":
                return ("blank", blank.setdefault(node.value, len(blank)))
            return (node.kind, node.value, node.language.lower(), node.datatype)
        if isinstance(node, tuple):
            return tuple(shape(part) for part in node)
        names = getattr(node, "__match_args__", ())
        return (type(node).__name__, *(shape(getattr(node, name)) for name in names)) if names else node

    return shape(tree)


def depth_of(tree: Any, most: int) -> int:
    """Return how many nodes of a tree are within each other; once it is more than `most`, a number above that."""
    deepest, left = 0, [(tree, 1)]
    while left:
        node, depth = left.pop()
        if isinstance(node, tuple):
            left += [(part, depth) for part in node]
        elif names := getattr(node, "__match_args__", ()):
            deepest = max(deepest, depth)
            left += [(getattr(node, name), depth + 1) for name in names] if depth <= most else []
    return deepest


def triples_of(tree: Any) -> Iterator[TriplePattern]:
    """Yield all triples of a tree, also those in expressions."""
    return (node for node in nodes(tree) if isinstance(node, TriplePattern))


def groups_of(element: Element) -> tuple[Group, ...]:
    """Return the groups that an element has."""
    if isinstance(element, QueryTree):
        return () if element.where is None else (element.where,)
    return element.groups if isinstance(element, Nested) else ()


def predicates_of(tree: Any) -> set[str]:
    """Return the URIs that stand as predicates in a tree, alone or in paths."""
    paths = [triple.path for triple in triples_of(tree) if not triple.is_listed]
    return {node.value for path in paths for node in nodes(path) if isinstance(node, Term) and node.kind == "iri"}
