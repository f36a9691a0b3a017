"""The patterns of a SPARQL query: triples as steps between terms, conditions, and what is asked for.

The triples about a statement node of Wikidata are one step: `?x p:P39 ?s . ?s ps:P39 ?y ; pq:P580 ?t` is a step by P39 from
`?x` to `?y`, by statements of which a condition on `?t` holds. Queries with UNION, OPTIONAL, subqueries, VALUES, arithmetic
or variable predicates have no patterns, and of BIND only the choice of one of two entities has.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from refactx.iris import DIRECT, ENTITY, NAMESPACES, PREFIXES, XSD, id_of_entity, split_uri
from refactx.sparql.syntax import tree
from refactx.sparql.syntax.parser import read_sparql
from refactx.sparql.syntax.tree import Call, Expression, Path
from refactx.walks.language import Closure
from refactx.walks.sparql_values import DATES, NUMBERS, date_text, lexical_day, number_text
from refactx.walks.values import Day

_LABEL = PREFIXES["rdfs"] + "label"
_SWAPPED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_PATTERN = re.compile(r"(\^?)([^\\.\[\](){}*+?|^$]+)(\$?)")
_TEXT = ("LCASE", "UCASE", "STR")
_RANK, _AMOUNT, _TIME = (f"{PREFIXES['wikibase']}{name}" for name in ("rank", "quantityAmount", "timeValue"))
_DEPRECATED = f"{PREFIXES['wikibase']}DeprecatedRank"
_END = "P582"
_P, _PS, _PQ = (PREFIXES[name] for name in ("p", "ps", "pq"))
_VALUES = frozenset(PREFIXES[name] for name in ("ps", "psv", "psn"))
_OF_STATEMENTS = NAMESPACES - {ENTITY, DIRECT}


class _OtherPart(Exception):  # noqa: N818  # the reason for None
    """A part of SPARQL that patterns do not have."""


@dataclass(frozen=True, slots=True)
class PatternTerm:
    """A variable, an entity by its id, or a literal by its text: one of these."""

    variable: str | None = None
    id: str | None = None
    text: str | None = None


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
    (their edges and conditions alone); `either`: two entities, of which the one with more (True) or less by a property is
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


def read_patterns(text: str) -> Patterns | None:
    """Return the patterns of a query; None if it has other parts too. Raises QueryError if it is not SPARQL.

    >>> read_patterns("ASK { wd:Q1 wdt:P2 ?x }").edges  # doctest: +NORMALIZE_WHITESPACE
    [Edge(subject=PatternTerm(variable=None, id='Q1', text=None), steps=(PropertyStep(iri='http://www.wikidata.org/prop/direct/P2',
        inverse=False, closure='', others=(), statement=None),),
        object=PatternTerm(variable='x', id=None, text=None), position=0)]
    """
    try:
        return _PatternReader(read_sparql(text).query).patterns
    except _OtherPart:
        return None


class _PatternReader:
    """Reads the patterns of a query."""

    def __init__(self, query: tree.QueryTree, *, within: bool = False) -> None:
        """`within`: the patterns are those of a group that does not hold."""
        self.patterns = Patterns(ask=query.form == "ASK")
        self._labels: dict[str, PatternTerm] = {}  # variables of labels, and whose they are
        if query.form not in ("ASK", "SELECT") or query.datasets or query.having or query.values or query.where is None:
            raise _OtherPart
        self._group(query.where)
        if within:
            return
        if self.patterns.either is None:
            shown = _variables_in((query.selected, query.group_by))
            if not query.selected and not self.patterns.ask:
                shown |= {term.variable or "" for edge in self.patterns.edges for term in (edge.subject, edge.object)}
            _StatementEdges(self.patterns, shown, _variables_in(query.order_by)).collapse()
            for part in self.patterns.negated:
                _StatementEdges(part, set(), set()).collapse()
            self._compare_with_others(shown)
            if not self.patterns.ask:
                self._select(query)
        elif (
            self.patterns.ask
            or query.order_by
            or [_variable(one.expression) for one in query.selected] != [self._chosen]
        ):
            raise _OtherPart

    def _group(self, group: tree.Group) -> None:
        elements = list(enumerate(group.elements))
        for number, element in elements:
            if isinstance(element, tree.Block):
                self._triples(element.triples, number)
            elif isinstance(element, tree.Nested) and element.kind == "minus":
                self._not(element.groups[0])
            elif not isinstance(element, (tree.Filter, tree.Bind)):
                raise _OtherPart
        for number, element in elements:
            if isinstance(element, tree.Filter):
                for expression in _conjunction(_bare(element.expression)):
                    self._condition(expression, 1000 * number)
            elif isinstance(element, tree.Bind):
                self._choice(element)

    def _not(self, group: tree.Group) -> None:
        """Read patterns that do not hold."""
        self.patterns.negated.append(_PatternReader(tree.QueryTree("ASK", group), within=True).patterns)

    def _compare_with_others(self, shown: set[str]) -> None:
        """Take the triple that leads from an entity to what a condition compares with into the condition."""
        for at, one in enumerate(self.patterns.conditions):
            if one.than is None:
                continue
            ends = [(one.term.variable, one.than, one.sign), (one.than, one.term.variable, _SWAPPED[one.sign])]
            for term, than, sign in ends:
                edges = [edge for edge in self.patterns.edges if than in (edge.subject.variable, edge.object.variable)]
                if len(edges) == 1 and edges[0].subject.id is not None and than not in shown:
                    self.patterns.edges.remove(edges[0])
                    changed = replace(one, term=PatternTerm(variable=term), sign=sign, than=than, other=edges[0])
                    self.patterns.conditions[at] = changed
                    break
            else:
                raise _OtherPart

    def _choice(self, bind: tree.Bind) -> None:
        """Read `BIND(IF(?a > ?b, wd:Q1, wd:Q2) AS ?x)`, where one triple each leads from the entities to the values."""
        parts = bind.expression.arguments if isinstance(bind.expression, Call) and bind.expression.name == "IF" else ()
        edges = {edge.object.variable: edge for edge in self.patterns.edges}
        test = _bare(parts[0]) if parts else None
        if len(edges) != 2 or self.patterns.conditions or not isinstance(test, Call) or test.name not in _SWAPPED:
            raise _OtherPart
        more, less = (edges.get(_variable(_bare(part))) for part in test.arguments)
        chosen, other = map(_term_of, parts[1:])
        if more is None or less is None or more.steps != less.steps or len(more.steps) != 1 or test.name == "=":
            raise _OtherPart
        if {more.subject, less.subject} != {chosen, other} or more.steps[0] != PropertyStep(more.steps[0].iri):
            raise _OtherPart
        has_more = (test.name[0] == ">") == (more.subject == chosen)
        self.patterns.either, self._chosen = (chosen, other, more.steps[0].iri, has_more), bind.variable.value

    def _triples(self, triples: Sequence[tree.TriplePattern], number: int) -> None:
        for position, triple in enumerate(triples, 1000 * number):
            if isinstance(triple.path, tree.Term) and triple.path.value == _LABEL:
                self._label(_term_of(triple.subject), triple.object, position)
            else:
                steps = tuple(_steps_of(triple.path))
                self.patterns.edges.append(Edge(_term_of(triple.subject), steps, _term_of(triple.object), position))

    def _label(self, entity: PatternTerm, label: tree.Term, position: int) -> None:
        if label.kind == "variable":
            if self._labels.setdefault(label.value, entity) != entity:
                raise _OtherPart
        else:
            condition = TermComparison(term=entity, sign="=", value=label.value, position=position, is_text=True)
            self.patterns.conditions.append(condition)

    def _condition(self, expression: Expression, position: int) -> None:
        """Read a condition, or leave out that a label is in English."""
        if not isinstance(expression, Call):
            raise _OtherPart
        if expression.name == "NOT EXISTS" and expression.group is not None:
            self._not(expression.group)
            return
        name, arguments = expression.name, [_bare(part) for part in expression.arguments]
        if name in _SWAPPED:
            left, right, sign = *arguments, name
            if _is(left, "literal") or (_is(left, "iri") and not _is(right, "iri")):
                left, right, sign = right, left, _SWAPPED[sign]
            if _name(left) == "LANG" and sign == "=":
                self._language(left, right)
            else:
                self._relation(left, sign, right, position)
        elif name == "!=" and _is(arguments[1], "iri"):
            other = TermComparison(
                term=_term_of(arguments[0]), sign="is not", id=_term_of(arguments[1]).id, position=position
            )
            self.patterns.conditions.append(other)
        elif name in ("STRSTARTS", "CONTAINS"):
            self._text(arguments[0], "starts with" if name == "STRSTARTS" else "contains", arguments[1], position)
        elif name == "REGEX":
            pattern = _PATTERN.fullmatch(arguments[1].value) if isinstance(arguments[1], tree.Term) else None
            if pattern is None or not _is(arguments[1], "literal") or (pattern[3] and not pattern[1]):
                raise _OtherPart
            sign = "=" if pattern[3] else "starts with" if pattern[1] else "contains"
            self._compare_text(arguments[0], sign, pattern[2], position)
        elif name == "LANGMATCHES" and _name(arguments[0]) == "LANG":
            self._language(arguments[0], arguments[1])
        elif name == "ISIRI" and _is(arguments[0], "variable"):
            self.patterns.iris.append((_variable(arguments[0]), None))
        elif name == "||":
            self.patterns.iris.append(_iri_or_same(arguments))
        else:
            raise _OtherPart

    def _language(self, call: Expression, tag: Expression) -> None:
        of = _bare(call.arguments[0]) if isinstance(call, Call) else call
        if not _is(of, "variable") or not isinstance(tag, tree.Term) or tag.value.lower() != "en":
            raise _OtherPart

    def _relation(self, left: Expression, sign: str, right: Expression, position: int) -> None:
        add = functools.partial(TermComparison, position=position)
        if not isinstance(right, tree.Term):
            raise _OtherPart
        if right.kind == "iri" and sign == "=":
            self.patterns.conditions.append(add(term=_term_of(left), sign="is", id=_term_of(right).id))
        elif isinstance(left, Call) and left.name == "YEAR" and (year := _integer_of(right)) is not None:
            first, after, variable = (year, 1, 1), (year + 1, 1, 1), _term_of(_bare(left.arguments[0]))
            bounds = {"=": [(">=", first), ("<", after)], "<": [("<", first)], "<=": [("<", after)]}
            for operator, bound in (bounds | {">": [(">=", after)], ">=": [(">=", first)]})[sign]:
                self.patterns.conditions.append(add(term=variable, sign=operator, day=bound))
        elif right.kind == "variable" and sign in ("<", ">", "=") and _is(left, "variable"):
            self.patterns.conditions.append(add(term=_term_of(left), sign=sign, than=right.value))
        elif right.kind != "literal":
            raise _OtherPart
        elif right.datatype in DATES:
            if (day := lexical_day(right.value)) is None:
                raise _OtherPart
            self.patterns.conditions.append(add(term=_term_of(left), sign=sign, day=day))
        elif right.datatype in NUMBERS:
            if (number := number_text(right.value)) is None:
                raise _OtherPart
            self.patterns.conditions.append(add(term=_term_of(left), sign=sign, value=number))
        elif right.datatype in ("", XSD + "string"):
            self._text(left, sign, right, position)
        else:
            raise _OtherPart

    def _text(self, argument: Expression, sign: str, value: Expression, position: int) -> None:
        if not isinstance(value, tree.Term) or value.kind != "literal" or sign not in ("=", "starts with", "contains"):
            raise _OtherPart
        self._compare_text(argument, sign, value.value, position)

    def _compare_text(self, argument: Expression, sign: str, value: str, position: int) -> None:
        """Read a comparison of an expression that is the text or the label of a term, in any case of letters."""
        while isinstance(argument, Call) and argument.name in _TEXT:
            argument = _bare(argument.arguments[0])
        term = _term_of(argument)
        term = self._labels.get(term.variable or "", term)
        self.patterns.conditions.append(
            TermComparison(term=term, sign=sign, value=value, position=position, is_text=True)
        )

    def _select(self, query: tree.QueryTree) -> None:
        terms = [term for edge in self.patterns.edges for term in (edge.subject, edge.object)]
        variables = list(dict.fromkeys(term.variable for term in terms if term.variable is not None))
        names = {one.variable.value: _bare(one.expression) for one in query.selected if one.variable is not None}
        shown = plain = [_variable(one.expression) for one in query.selected if one.variable is None]
        order = self._order(query, names)
        grouped = [_variable(one.expression) if one.variable is None else "" for one in query.group_by]
        if order is not None and order.counted:
            names = {name: node for name, node in names.items() if _counted(node) is None}
        elif grouped:
            raise _OtherPart
        counts = [_counted(node) for node in names.values()]
        if counts:
            self.patterns.counts = True
            self.patterns.distinct = any(_is_distinct(node) for node in names.values())
            shown = variables if counts == ["*"] else [name for name in counts if name is not None]
            if len(counts) > 1 or len(shown) != 1 or plain or order:
                raise _OtherPart
        elif not query.selected:
            shown = [name for name in variables if order is None or name != order.variable]
            self.patterns.distinct = False if order else query.modifier == "DISTINCT"
        else:
            self.patterns.distinct = query.modifier == "DISTINCT" and len(shown) == 1
        asked = [name for name in shown if name in variables]
        labelled = {name for name, term in self._labels.items() if term.variable in asked}
        if len(asked) != 1 or any(name in self._labels and name not in labelled for name in shown):
            raise _OtherPart
        if grouped and grouped != asked:
            raise _OtherPart
        self.patterns.asked, self.patterns.order, self.patterns.has_labels = asked[0], order, bool(self._labels)

    def _order(self, query: tree.QueryTree, names: dict[str, Expression]) -> SortKey | None:
        if query.offset is not None and _integer_of(query.offset) != 0:
            raise _OtherPart
        self.patterns.limit = None if query.limit is None else _integer_of(query.limit)
        if query.limit is not None and self.patterns.limit is None:
            raise _OtherPart
        if not query.order_by:
            return None
        if len(query.order_by) != 1 or not self.patterns.limit:
            raise _OtherPart
        key = _bare(query.order_by[0].expression)
        key = names.get(_variable(key), key)
        counted = _counted(key)
        if counted == "*" or (counted is None and not _is(key, "variable")):
            raise _OtherPart
        return SortKey(counted or _variable(key), query.order_by[0].descending, counted is not None, _is_distinct(key))


class _StatementEdges:
    """The edges of patterns with one for all those about a statement node. `shown`, `sorted_by`: variables of the query."""

    def __init__(self, patterns: Patterns, shown: set[str], sorted_by: set[str]) -> None:
        self._patterns, self._shown, self._sorted_by = patterns, shown, sorted_by

    def collapse(self) -> None:
        edges = [replace(edge, steps=_one_step_each(edge.steps)) for edge in self._patterns.edges]
        self._patterns.edges = edges
        for edge in edges:
            if edge.steps[-1].iri.startswith(_P) and _uri(edge.steps[-1])[0] == _P:
                self._patterns.edges = self._with_one(edge)
        if any(_uri(step)[0] in _OF_STATEMENTS for edge in self._patterns.edges for step in edge.steps):
            raise _OtherPart

    def _with_one(self, claim: Edge) -> list[Edge]:
        """Return the edges with one or two in place of those that lead from a statement."""
        node, (_, id_) = claim.object, _uri(claim.steps[-1])
        edges = self._patterns.edges
        said = [edge for edge in edges if edge.subject == node]
        others = [edge for edge in edges if edge not in said and edge != claim]
        uses = [_uri(edge.steps[0]) for edge in said]
        if node.variable is None or node.variable in self._shown or claim.steps[-1].inverse or not said:
            raise _OtherPart
        if any(node in (edge.subject, edge.object) for edge in others):
            raise _OtherPart
        values = [edge for edge, use in zip(said, uses, strict=True) if use == (_PS, id_)]
        qualifiers = [edge for edge, use in zip(said, uses, strict=True) if use[0] == _PQ]
        if len(values) > 1 or len(values) + len(qualifiers) < len(said):
            raise _OtherPart
        value = values[0].object if values and len(values[0].steps) == 1 else PatternTerm(variable=f"_:{node.variable}")
        linked = [edge for edge in qualifiers if self._is_linked(edge, others)]
        where = tuple(self._condition(edge) for edge in qualifiers if edge not in linked)
        statement = StatementStep(where, now=self._is_current(node))
        step, before = PropertyStep(PREFIXES["wdt"] + id_), claim.steps[:-1]
        found = list[Edge]()
        for edge in linked:
            q = PREFIXES["wdt"] + _uri(edge.steps[0])[1]
            if edge.object.variable in self._sorted_by - self._shown and len(linked) == 1:
                statement = replace(statement, sorts=q)
                continue
            if self._is_needed(value, others) or found:
                raise _OtherPart
            its = replace(statement, its=q, being=None if value.variable is not None else value)
            steps = (*before, replace(step, statement=its), *edge.steps[1:])
            found.append(replace(edge, subject=claim.subject, steps=steps))
        if not found or (claim.subject.variable in self._shown and value.variable is None):
            whole = (*before, replace(step, statement=statement), *(values[0].steps[1:] if values else ()))
            end = values[0].object if values else value
            found.append(Edge(claim.subject, whole, end, claim.position))
        return [*others, *found]

    def _is_needed(self, term: PatternTerm, others: Sequence[Edge]) -> bool:
        return term.variable is not None and (
            term.variable in self._shown | self._sorted_by
            or any(term in (edge.subject, edge.object) for edge in others)
            or any(one.term == term for one in self._patterns.conditions)
        )

    def _is_linked(self, edge: Edge, others: Sequence[Edge]) -> bool:
        """Return whether more than conditions are about the value of a qualifier."""
        end = edge.object.variable
        if end is None or len(edge.steps) > 1:
            return len(edge.steps) > 1
        is_other = any(end in (one.subject.variable, one.object.variable) for one in others)
        than = any(one.than and end in (one.than, one.term.variable) for one in self._patterns.conditions)
        return is_other or than or end in self._shown | self._sorted_by

    def _condition(self, edge: Edge) -> tuple[str, tuple[TermComparison, ...]]:
        """Take the comparisons of a qualifier's value out of the conditions."""
        q, end = PREFIXES["wdt"] + _uri(edge.steps[0])[1], edge.object
        if end.variable is None:
            sign, text = ("is", "") if end.id is not None else ("=", end.text or "")
            return q, (TermComparison(term=end, sign=sign, value=text, id=end.id, position=edge.position),)
        own = tuple(one for one in self._patterns.conditions if one.term == end)
        if not own:
            raise _OtherPart
        self._patterns.conditions = [one for one in self._patterns.conditions if one not in own]
        return q, own

    def _is_current(self, node: PatternTerm) -> bool:
        """Take `NOT EXISTS { ?s pq:P582 ?end }` out of what does not hold, and that a statement is deprecated."""
        own = [part for part in self._patterns.negated if any(edge.subject == node for edge in part.edges)]
        self._patterns.negated = [part for part in self._patterns.negated if part not in own]
        is_current = False
        for part in own:
            edge = part.edges[0]
            if len(part.edges) > 1 or part.conditions or len(edge.steps) != 1:
                raise _OtherPart
            if edge.steps[0].iri == PREFIXES["pq"] + _END and edge.object.variable is not None:
                is_current = True
            elif edge.steps[0].iri != _RANK or edge.object.id != _DEPRECATED:
                raise _OtherPart
        return is_current


def _uri(step: PropertyStep) -> tuple[str, str]:
    return split_uri(step.iri)


def _is_exact(step: PropertyStep) -> bool:
    """Return whether a walk makes a step as SPARQL does: times of qualifiers are compared with years alone."""
    said = step.statement
    if said is None:
        return True
    days = [one.day for _, some in said.where for one in some if one.day is not None]
    is_plain = said == StatementStep()  # it has the best rank alone
    return not (is_plain or said.now) and said.sorts is None and all(day[1:] == (1, 1) for day in days)


def _one_step_each(steps: Sequence[PropertyStep]) -> tuple[PropertyStep, ...]:
    """Return steps with one in place of those over a statement (`p:P39/ps:P39`, `p:P39/pq:P580`) or the node of a value."""
    found = list[PropertyStep]()
    for step in steps:
        (use, id_), (before, last) = _uri(step), _uri(found[-1]) if found else ("", "")
        if step.iri in (_AMOUNT, _TIME) and found and found[-1].statement is not None:
            continue
        if before == _P and use in _VALUES and id_ == last and not (step.inverse or found[-1].inverse):
            found[-1] = PropertyStep(PREFIXES["wdt"] + id_, statement=StatementStep())
        elif before == _P and use == _PQ and not (step.inverse or found[-1].inverse):
            its = PREFIXES["wdt"] + id_
            found[-1] = PropertyStep(PREFIXES["wdt"] + last, statement=StatementStep(its=its))
        else:
            found.append(step)
    return tuple(found)


def _iri_or_same(parts: Sequence[Expression]) -> tuple[str, str]:
    """Return the variables of `isIRI(?x) || sameTerm(?x, ?y)`."""
    if [_name(part) for part in parts] != ["ISIRI", "SAMETERM"]:
        raise _OtherPart
    terms = [_bare(term) for part in parts if isinstance(part, Call) for term in part.arguments]
    if terms[0] != terms[1] or not all(_is(term, "variable") for term in terms):
        raise _OtherPart
    return _variable(terms[0]), _variable(terms[2])


def _variables_in(part: object) -> set[str]:
    return {node.value for node in tree.nodes(part) if isinstance(node, tree.Term) and node.kind == "variable"}


def _is(node: Expression, kind: str) -> bool:
    return isinstance(node, tree.Term) and node.kind == kind


def _name(node: Expression) -> str:
    return node.name if isinstance(node, Call) else ""


def _variable(node: Expression) -> str:
    """Return the name of a variable; empty for another expression."""
    return node.value if isinstance(node, tree.Term) and node.kind == "variable" else ""


def _bare(node: Expression) -> Expression:
    """Return an expression without a sign before it: a number has its own."""
    if isinstance(node, Call) and len(node.arguments) == 1 and node.name in ("-", "+", "!"):
        inner = _bare(node.arguments[0])
        if node.name == "+":
            return inner
        if node.name == "!" or not isinstance(inner, tree.Term) or inner.kind != "literal":
            raise _OtherPart
        return replace(inner, value=f"-{inner.value}")
    return node


def _conjunction(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Call) and expression.name == "&&":
        for part in expression.arguments:
            yield from _conjunction(_bare(part))
    else:
        yield expression


def _term_of(node: Expression) -> PatternTerm:
    if isinstance(node, tree.Term):
        if node.kind in ("variable", "blank"):
            return PatternTerm(variable=node.value if node.kind == "variable" else f"_:{node.value}")
        if node.kind == "literal":
            return PatternTerm(text=_text_of(node))
        if node.kind == "iri":
            return PatternTerm(id=id_of_entity(node.value))
    raise _OtherPart


def _text_of(literal: tree.Term) -> str:
    """Return a literal as facts have it."""
    text: str | None = literal.value
    if literal.datatype in DATES:
        text = date_text(literal.value)
    elif literal.datatype in NUMBERS:
        text = number_text(literal.value)
    elif (literal.language or "en").lower() != "en" or literal.datatype not in ("", XSD + "string"):
        text = None
    if text is None:
        raise _OtherPart
    return text


def _steps_of(path: Path | tree.Term, closure: Closure = "") -> Iterator[PropertyStep]:
    """Yield the steps of a path from subject to object."""
    if isinstance(path, tree.Term):
        if path.kind != "iri":
            raise _OtherPart
        yield PropertyStep(path.value, closure=closure)
    elif path.sign == "^":
        yield from (step.reversed() for step in reversed(list(_steps_of(path.parts[0], closure))))
    elif path.sign == "/" and not closure:
        found = list[PropertyStep]()
        for step in (step for part in path.parts for step in _steps_of(part)):
            if step.others and step.closure == "*" and found and found[-1] == replace(step, closure=""):
                found[-1] = replace(step, closure="+")  # as to_sparql writes it
            else:
                found.append(step)
        yield from found
    elif path.sign in ("+", "*") and not closure:
        yield from _steps_of(path.parts[0], "+" if path.sign == "+" else "*")
    elif path.sign == "|":
        yield _step_of_several(path.parts, closure)
    else:
        raise _OtherPart


def _step_of_several(paths: Sequence[Path | tree.Term], closure: Closure) -> PropertyStep:
    """Return the step over alternatives, of which one is a property, and all others are read the other way."""
    ways = [(p.parts[0], True) if isinstance(p, Path) and p.sign == "^" else (p, False) for p in paths]
    if not all(isinstance(iri, tree.Term) for iri, _ in ways):
        raise _OtherPart
    named = [(iri.value, inverse) for iri, inverse in ways if isinstance(iri, tree.Term)]
    onwards, back = ([iri for iri, inverse in named if inverse == sign] for sign in (False, True))
    if len(onwards) == 1 and back:
        return PropertyStep(onwards[0], False, closure, tuple(sorted(set(back))))
    if len(back) == 1 and onwards:
        return PropertyStep(back[0], True, closure, tuple(sorted(set(onwards))))
    raise _OtherPart


def _integer_of(node: Expression) -> int | None:
    """Return the whole number that a literal is; None if it is another, or has more digits than any that is meant."""
    return int(node.value) if isinstance(node, tree.Term) and re.fullmatch(r"-?\d{1,18}", node.value) else None


def _counted(node: Expression) -> str | None:
    """Return the variable, or `*`, of which an expression is the count."""
    if not isinstance(node, Call) or node.name != "COUNT":
        return None
    return _variable(_bare(node.arguments[0])) if node.arguments else "*"


def _is_distinct(node: Expression) -> bool:
    """Return whether an expression is the count of distinct values."""
    return isinstance(node, Call) and node.name == "COUNT" and node.distinct
