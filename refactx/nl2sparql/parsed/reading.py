"""The reader of queries: rdflib's tree, taken apart into groups, patterns and conditions."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Any

from rdflib import BNode, Literal, URIRef, Variable
from rdflib.plugins.sparql.parserutils import CompValue

from refactx.nl2sparql.parsed import terms
from refactx.nl2sparql.parsed.expressions import Expressions
from refactx.nl2sparql.parsed.paths import steps_of
from refactx.nl2sparql.parsed.query import Condition, ConditionKind, Data, Group, GroupKind, ParsedQuery, Pattern
from refactx.query.language import QueryError
from refactx.query.pgmr.uris import PREFIXES
from refactx.query.sparql.parser import on_a_deep_stack, parse_text
from refactx.sparql.engines import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.syntax.check import read_query

_KINDS: dict[str, GroupKind] = {
    "OptionalGraphPattern": "optional", "MinusGraphPattern": "minus", "GraphGraphPattern": "graph",
    "ServiceGraphPattern": "service",
}  # fmt: skip
_FORMS = {"SelectQuery": "SELECT", "AskQuery": "ASK"}
_REMEMBERED = 512


@lru_cache(maxsize=_REMEMBERED)
def parse(sparql: str) -> ParsedQuery:
    """Return a query taken apart. The usual prefixes of Wikidata need no declaration.

    >>> query = parse("SELECT ?y { GRAPH <a:g> { ?x <a:p>/^<a:q> ?y } FILTER(STRLEN(?y) < 3) }")
    >>> [pattern.text for pattern in query.patterns], query.patterns[0].graph
    (['?x <a:p> _:1', '?y <a:q> _:1'], '<a:g>')
    >>> sorted(query.in_scope(0)), query.conditions[0].expression
    (['?x', '?y'], Call(name='<', arguments=(Call(name='STRLEN', ...), '"3"^^<http://www.w3.org/2001/XMLSchema#integer>'), ...)

    Raises SparqlSyntaxError if the text is not SPARQL, and QueryRefusedError if it is neither SELECT nor ASK, or nested
    too deeply.
    """
    sparql = read_query(sparql)
    try:
        return on_a_deep_stack(lambda: _Reader(*parse_text(sparql)).read())
    except QueryError as error:
        raise SparqlSyntaxError(str(error)) from None


class _Reader:
    def __init__(self, prologue: Any, query: CompValue) -> None:
        self._query = query
        self._base = ""
        self._prefixes: dict[str, str] = {}
        self._groups: list[Group] = []
        self._patterns: list[Pattern] = []
        self._conditions: list[Condition] = []
        self._data: list[Data] = []
        self._names: dict[tuple[str, str], None] = {}
        self._iris: dict[str, None] = {}
        self._blanks: dict[str, str] = {}
        self._numbers = count(1)
        self._unions = count(1)
        self._expressions = Expressions(self._term, self._exists)
        for declaration in prologue:
            if declaration.name == "Base":
                self._base = str(declaration.iri)
            else:
                self._prefixes[declaration.prefix or ""] = str(declaration.iri)

    def read(self) -> ParsedQuery:
        form = _FORMS.get(self._query.name)
        if form is None:
            raise QueryRefusedError(
                f"this is a {self._query.name.removesuffix('Query').upper()} query: expected SELECT or ASK"
            )
        self._select(self._query, None)
        return ParsedQuery(
            form=form,
            groups=tuple(self._groups),
            patterns=tuple(self._patterns),
            conditions=tuple(self._conditions),
            data=tuple(self._data),
            prefixes=self._prefixes,
            names=tuple(self._names),
            iris=tuple(self._iris),
        )

    # --- Groups

    def _new(self, parent: Group | None, kind: GroupKind, **changes: Any) -> Group:
        inherited: Mapping[str, Any] = {} if parent is None else {"graph": parent.graph, "service": parent.service}
        number = None if parent is None else parent.number
        group = Group(number=len(self._groups), parent=number, kind=kind, **{**inherited, **changes})
        self._groups.append(group)
        self._open = group
        return group

    def _select(self, node: CompValue, parent: Group | None) -> None:
        shown = [one.evar if one.evar is not None else one.var for one in node.projection or ()]
        is_star = not shown or str(shown[0]) == "*"
        names = None if is_star else tuple(f"?{name}" for name in shown)
        group = self._new(parent, "select", selected=() if node.name == "AskQuery" else names)
        self._parts(node.where, group)
        for name, clause in (("group", node.groupby), ("having", node.having), ("order", node.orderby)):
            for one in (clause.condition if clause is not None else None) or ():
                self._condition(name, group, one)
        for one in node.projection or ():
            if isinstance(one, CompValue) and one.expr is not None:
                self._condition("select", group, one)
        if node.valuesClause is not None:
            self._values(node.valuesClause, group)

    def _condition(self, kind: Any, group: Group, node: Any) -> None:
        """Read a condition: an expression, or a node with one and perhaps the variable that it gives a value."""
        named = isinstance(node, CompValue) and node.name in ("GroupAs", "OrderCondition", "vars", "Bind", "Filter")
        name = (node.evar if node.evar is not None else node.var) if named else None
        self._open = group
        self._conditions.append(
            Condition(
                kind=kind,
                group=group.number,
                expression=self._expressions.of(node.expr if named else node),
                variable=None if name is None or kind == "order" else f"?{name}",
            )
        )

    def _exists(self, node: Any, kind: Any) -> int:
        group = self._new(self._open, kind)
        parent = self._groups[group.parent or 0]
        self._body(node, group)
        self._open = parent
        return group.number

    def _body(self, node: CompValue, group: Group) -> None:
        """Read a group's node, which is a SELECT or has parts."""
        if node.name == "SubSelect":
            self._select(node, group)
        else:
            self._parts(node, group)

    def _parts(self, node: CompValue, group: Group) -> None:
        filters = []
        for part in node.part or ():
            if part.name == "TriplesBlock":
                for block in part.triples:
                    for triple in zip(block[::3], block[1::3], block[2::3], strict=True):
                        self._triple(*triple, group)
            elif part.name in ("Filter", "Bind"):
                filters.append(part)
            elif part.name == "InlineData":
                self._values(part, group)
            elif part.name == "GroupOrUnionGraphPattern":
                is_union = len(part.graph) > 1
                union = next(self._unions) if is_union else None
                for inner in part.graph:
                    self._body(inner, self._new(group, "branch" if is_union else "group", union=union))
            elif part.name == "SubSelect":
                self._select(part, group)
            else:
                self._block(part, group)
        for part in filters:
            kind: ConditionKind = "filter" if part.name == "Filter" else "bind"
            self._condition(kind, group, part)

    def _block(self, part: CompValue, group: Group) -> None:
        kind = _KINDS.get(part.name)
        if kind is None:
            raise SparqlSyntaxError(f"this query has a {part.name}, which cannot be read: expected SPARQL 1.1")
        inner = self._new(group, kind)
        if kind == "graph":
            inner = replace(inner, graph=self._term(part.term))
        elif kind == "service":
            inner = replace(inner, graph=None, service=self._term(part.term))
        self._groups[inner.number] = inner
        self._body(part.graph, inner)

    # --- Patterns and terms

    def _triple(self, subject: Any, path: Any, value: Any, group: Group) -> None:
        start, end = self._term(subject), self._term(value)
        if isinstance(path, Variable | URIRef):
            self._pattern(start, self._term(path), end, group)
            return
        self._ways(steps_of(path, self._iri), start, end, group)

    def _ways(self, ways: Any, start: str, end: str, group: Group) -> None:
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

    def _pattern(self, subject: str, name: str, value: str, group: Group, closure: Any = "") -> None:
        self._patterns.append(
            Pattern(
                subject=subject,
                predicate=name,
                object=value,
                closure=closure,
                graph=group.graph,
                service=group.service,
                group=group.number,
            )
        )

    def _values(self, node: CompValue, group: Group) -> None:
        names = tuple(f"?{name}" for name in node.var or ())
        rows = [
            row if isinstance(row, list) or type(row).__name__ == "ParseResults" else [row] for row in node.value or ()
        ]
        cells = tuple(tuple(None if str(cell) == "UNDEF" else self._term(cell) for cell in row) for row in rows)
        self._data.append(Data(group=group.number, variables=names, rows=cells))

    def _blank(self) -> str:
        return f"_:{next(self._numbers)}"

    def _term(self, node: Any) -> str:
        if isinstance(node, Variable):
            return f"?{node}"
        if isinstance(node, BNode):
            if str(node) not in self._blanks:
                self._blanks[str(node)] = self._blank()
            return self._blanks[str(node)]
        if isinstance(node, Literal):
            return terms.literal(str(node), node.language or "", str(node.datatype or ""))
        if isinstance(node, CompValue) and node.name == "literal":
            datatype = "" if node.datatype is None else self._iri(node.datatype)[1:-1]
            return terms.literal(str(node.string), str(node.lang or ""), datatype)
        return self._iri(node)

    def _iri(self, node: Any) -> str:
        """Return the IRI of a node as a term."""
        if isinstance(node, CompValue):
            prefix = node.prefix or ""
            namespace = self._prefixes.get(prefix, PREFIXES.get(prefix))
            if namespace is None:
                raise SparqlSyntaxError(
                    f"the prefix {prefix}: is not declared: begin the query with PREFIX {prefix}: <...>"
                )
            iri = f"{namespace}{node.localname or ''}"
            self._names[prefix, iri] = None
        else:
            iri = str(node)
            if self._base and ":" not in iri:
                iri = f"{self._base}{iri}"
        self._iris[iri] = None
        return f"<{iri}>"
