"""The patterns of a SPARQL query: triples as steps between terms, conditions, and what is asked for.

Queries with UNION, OPTIONAL, subqueries, VALUES, BIND, arithmetic or variable predicates have no patterns.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from refactx.iris import PREFIXES, XSD, id_of_entity
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


class _OtherPart(Exception):  # noqa: N818  # the reason for None
    """A part of SPARQL that patterns do not have."""


@dataclass(frozen=True, slots=True)
class PatternTerm:
    """A variable, an entity by its id, or a literal by its text: one of these."""

    variable: str | None = None
    id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class PropertyStep:
    """A step along a property, or against it (`inverse`). `others`: properties that may be read the other way too."""

    iri: str
    inverse: bool = False
    closure: Closure = ""
    others: tuple[str, ...] = ()

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
    """A comparison of a term. `sign`: `=`, `<`, `>`, `is`, `starts with` or `contains`; for days also `<=` and `>=`.

    `is_text`: whether text is compared, or a label.
    """

    term: PatternTerm
    sign: str
    position: int
    value: str = ""
    id: str | None = None
    day: Day | None = None
    is_text: bool = False


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
    are said to be IRIs, each with the variable that it may be equal to instead, if any."""

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


def read_patterns(text: str) -> Patterns | None:
    """Return the patterns of a query; None if it has other parts too. Raises QueryError if it is not SPARQL.

    >>> read_patterns("ASK { wd:Q1 wdt:P2 ?x }").edges  # doctest: +NORMALIZE_WHITESPACE
    [Edge(subject=PatternTerm(variable=None, id='Q1', text=None), steps=(PropertyStep(iri='http://www.wikidata.org/prop/direct/P2',
        inverse=False, closure='', others=()),), object=PatternTerm(variable='x', id=None, text=None), position=0)]
    """
    try:
        return _PatternReader(read_sparql(text).query).patterns
    except _OtherPart:
        return None


class _PatternReader:
    """Reads the patterns of a query."""

    def __init__(self, query: tree.QueryTree) -> None:
        self.patterns = Patterns(ask=query.form == "ASK")
        self._labels: dict[str, PatternTerm] = {}  # variables of labels, and whose they are
        if query.form not in ("ASK", "SELECT") or query.datasets or query.having or query.values or query.where is None:
            raise _OtherPart
        elements = list(enumerate(query.where.elements))
        for number, element in elements:
            if isinstance(element, tree.Block):
                self._triples(element.triples, number)
            elif not isinstance(element, tree.Filter):
                raise _OtherPart
        for number, element in elements:
            if isinstance(element, tree.Filter):
                for expression in _conjunction(_bare(element.expression)):
                    self._condition(expression, 1000 * number)
        if not self.patterns.ask:
            self._select(query)

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
        name, arguments = expression.name, [_bare(part) for part in expression.arguments]
        if name in _SWAPPED:
            left, right, sign = *arguments, name
            if _is(left, "literal") or (_is(left, "iri") and not _is(right, "iri")):
                left, right, sign = right, left, _SWAPPED[sign]
            if _name(left) == "LANG" and sign == "=":
                self._language(left, right)
            else:
                self._relation(left, sign, right, position)
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


def _iri_or_same(parts: Sequence[Expression]) -> tuple[str, str]:
    """Return the variables of `isIRI(?x) || sameTerm(?x, ?y)`."""
    if [_name(part) for part in parts] != ["ISIRI", "SAMETERM"]:
        raise _OtherPart
    terms = [_bare(term) for part in parts if isinstance(part, Call) for term in part.arguments]
    if terms[0] != terms[1] or not all(_is(term, "variable") for term in terms):
        raise _OtherPart
    return _variable(terms[0]), _variable(terms[2])


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
        if node.kind == "variable":
            return PatternTerm(variable=node.value)
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
