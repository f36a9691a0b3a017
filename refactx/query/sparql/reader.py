"""The reader of the patterns of SPARQL queries.

rdflib's parser reads the text. Queries with UNION, OPTIONAL, subqueries, VALUES, BIND, arithmetic or variable
predicates have no patterns.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any

from rdflib import Literal, URIRef, Variable

from refactx.query.sparql.patterns import Condition, Edge, Order, Patterns, Term
from refactx.query.sparql.tree import (
    OtherPart,
    bare,
    conjunction,
    counted_variable,
    integer_of,
    is_distinct,
    name_of,
    parse_sparql,
    steps_of,
    term_of,
)
from refactx.query.sparql.values import DATES, NUMBERS, XSD, lexical_day, number_text
from refactx.query.sparql.writer import PREFIXES

_LABEL = URIRef(PREFIXES["rdfs"] + "label")
_SWAPPED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_PATTERN = re.compile(r"(\^?)([^\\.\[\](){}*+?|^$]+)(\$?)")
_TEXT = ("Builtin_LCASE", "Builtin_UCASE", "Builtin_STR")


def read_patterns(text: str) -> Patterns | None:
    """Return the patterns of a query; None if it has other parts too. Raises QueryError if it is not SPARQL.

    >>> read_patterns("ASK { wd:Q1 wdt:P2 ?x }").edges  # doctest: +NORMALIZE_WHITESPACE
    [Edge(subject=Term(variable=None, id='Q1', text=None), steps=(Step(iri='http://www.wikidata.org/prop/direct/P2',
        inverse=False, closure='', others=()),), object=Term(variable='x', id=None, text=None), position=0)]
    """
    try:
        return _Reader(parse_sparql(text)).patterns
    except OtherPart:
        return None


class _Reader:
    """The patterns of a tree of rdflib's parser, whose nodes have a name and parts by name."""

    def __init__(self, tree: Any) -> None:
        self.patterns = Patterns(ask=tree.name == "AskQuery")
        self._labels: dict[str, Term] = {}  # variables of labels, and whose they are
        if tree.name not in ("AskQuery", "SelectQuery") or tree.datasetClause or tree.having or tree.valuesClause:
            raise OtherPart
        if tree.where.name != "GroupGraphPatternSub":
            raise OtherPart
        parts = list(enumerate(tree.where.part or []))
        for number, part in parts:
            if part.name == "TriplesBlock":
                self._triples(part.triples, number)
            elif part.name != "Filter":
                raise OtherPart
        for number, part in parts:
            if part.name == "Filter":
                for expression in conjunction(bare(part.expr)):
                    self._condition(expression, 1000 * number)
        if not self.patterns.ask:
            self._select(tree)

    def _triples(self, blocks: Sequence[Sequence[Any]], number: int) -> None:
        parts = [part for block in blocks for part in block]
        for at in range(0, len(parts), 3):
            subject, predicate, object_ = parts[at : at + 3]
            position = 1000 * number + at // 3
            if predicate == _LABEL:
                self._label(term_of(subject), object_, position)
            else:
                steps = tuple(steps_of(predicate))
                self.patterns.edges.append(Edge(term_of(subject), steps, term_of(object_), position))

    def _label(self, entity: Term, label: Any, position: int) -> None:
        if isinstance(label, Variable):
            if self._labels.setdefault(str(label), entity) != entity:
                raise OtherPart
        else:
            condition = Condition(term=entity, sign="=", value=str(label), position=position, is_text=True)
            self.patterns.conditions.append(condition)

    def _condition(self, expression: Any, position: int) -> None:
        """Read a condition, or leave out that a label is in English."""
        name = name_of(expression)
        if name == "RelationalExpression":
            left, right, sign = bare(expression.expr), bare(expression.other), str(expression.op)
            if isinstance(left, Literal) or (isinstance(left, URIRef) and not isinstance(right, URIRef)):
                left, right, sign = right, left, _SWAPPED.get(sign, sign)
            if name_of(left) == "Builtin_LANG" and sign == "=":
                self._language(left.arg, right)
            else:
                self._relation(left, sign, right, position)
        elif name in ("Builtin_STRSTARTS", "Builtin_CONTAINS"):
            sign = "starts with" if name == "Builtin_STRSTARTS" else "contains"
            self._text(expression.arg1, sign, bare(expression.arg2), position)
        elif name == "Builtin_REGEX":
            pattern = _PATTERN.fullmatch(str(bare(expression.pattern)))
            if pattern is None or not isinstance(bare(expression.pattern), Literal):
                raise OtherPart
            if pattern[3] and not pattern[1]:
                raise OtherPart
            sign = "=" if pattern[3] else "starts with" if pattern[1] else "contains"
            self._compare_text(expression.text, sign, pattern[2], position)
        elif name == "Builtin_LANGMATCHES" and name_of(bare(expression.arg1)) == "Builtin_LANG":
            self._language(bare(expression.arg1).arg, bare(expression.arg2))
        elif name == "Builtin_isIRI" and isinstance(bare(expression.arg), Variable):
            self.patterns.iris.append((str(bare(expression.arg)), None))
        elif name == "ConditionalOrExpression":
            self.patterns.iris.append(_iri_or_same([bare(expression.expr), *map(bare, expression.other)]))
        else:
            raise OtherPart

    def _language(self, argument: Any, tag: Any) -> None:
        if not isinstance(bare(argument), Variable) or str(tag).lower() != "en":
            raise OtherPart

    def _relation(self, left: Any, sign: str, right: Any, position: int) -> None:
        add = functools.partial(Condition, position=position)
        if sign not in _SWAPPED:
            raise OtherPart
        if isinstance(right, URIRef) and sign == "=":
            self.patterns.conditions.append(add(term=term_of(left), sign="is", id=term_of(right).id))
        elif name_of(left) == "Builtin_YEAR" and (year := integer_of(right)) is not None:
            first, after, variable = (year, 1, 1), (year + 1, 1, 1), term_of(bare(left.arg))
            bounds = {"=": [(">=", first), ("<", after)], "<": [("<", first)], "<=": [("<", after)]}
            for operator, bound in (bounds | {">": [(">=", after)], ">=": [(">=", first)]})[sign]:
                self.patterns.conditions.append(add(term=variable, sign=operator, day=bound))
        elif not isinstance(right, Literal):
            raise OtherPart
        elif right.datatype is not None and str(right.datatype) in DATES:
            if (day := lexical_day(str(right))) is None:
                raise OtherPart
            self.patterns.conditions.append(add(term=term_of(left), sign=sign, day=day))
        elif right.datatype is not None and str(right.datatype) in NUMBERS:
            if (number := number_text(str(right))) is None:
                raise OtherPart
            self.patterns.conditions.append(add(term=term_of(left), sign=sign, value=number))
        elif right.datatype is None or str(right.datatype) == XSD + "string":
            self._text(left, sign, right, position)
        else:
            raise OtherPart

    def _text(self, argument: Any, sign: str, value: Any, position: int) -> None:
        if not isinstance(value, Literal) or sign not in ("=", "starts with", "contains"):
            raise OtherPart
        self._compare_text(argument, sign, str(value), position)

    def _compare_text(self, argument: Any, sign: str, value: str, position: int) -> None:
        """Read a comparison of an expression that is the text or the label of a term, in any case of letters."""
        node = bare(argument)
        while name_of(node) in _TEXT:
            node = bare(node.arg)
        term = term_of(node)
        term = self._labels.get(term.variable or "", term)
        self.patterns.conditions.append(Condition(term=term, sign=sign, value=value, position=position, is_text=True))

    def _select(self, tree: Any) -> None:
        terms = [term for edge in self.patterns.edges for term in (edge.subject, edge.object)]
        variables = list(dict.fromkeys(term.variable for term in terms if term.variable is not None))
        names: dict[str, Any] = {str(item.evar): bare(item.expr) for item in tree.projection or [] if item.evar}
        shown = [str(item.var) for item in tree.projection or [] if item.var]
        order = self._order(tree, names)
        grouped = [str(bare(item)) for item in tree.groupby.condition] if tree.groupby else []
        if order is not None and order.counted:
            names = {name: node for name, node in names.items() if counted_variable(node) is None}
        elif grouped:
            raise OtherPart
        counts = [counted_variable(node) for node in names.values()]
        if counts:
            self.patterns.counts = True
            self.patterns.distinct = any(is_distinct(node) for node in names.values())
            shown = variables if counts == ["*"] else [name for name in counts if name is not None]
            if len(counts) > 1 or len(shown) != 1 or any(item.var for item in tree.projection) or order:
                raise OtherPart
        elif not tree.projection:
            shown = [name for name in variables if order is None or name != order.variable]
            self.patterns.distinct = False if order else tree.modifier == "DISTINCT"
        else:
            self.patterns.distinct = tree.modifier == "DISTINCT" and len(shown) == 1
        asked = [name for name in shown if name in variables]
        labelled = {name for name, term in self._labels.items() if term.variable in asked}
        if len(asked) != 1 or any(name in self._labels and name not in labelled for name in shown):
            raise OtherPart
        if grouped and grouped != asked:
            raise OtherPart
        self.patterns.asked, self.patterns.order, self.patterns.has_labels = asked[0], order, bool(self._labels)

    def _order(self, tree: Any, names: dict[str, Any]) -> Order | None:
        clause = tree.limitoffset
        if clause and clause.offset is not None and integer_of(clause.offset) != 0:
            raise OtherPart
        self.patterns.limit = integer_of(clause.limit) if clause and clause.limit is not None else None
        if clause and clause.limit is not None and self.patterns.limit is None:
            raise OtherPart
        if not tree.orderby:
            return None
        if len(tree.orderby.condition) != 1 or not self.patterns.limit:
            raise OtherPart
        key = bare(tree.orderby.condition[0].expr)
        key = names.get(str(key), key)
        counted = counted_variable(key)
        if counted == "*" or (counted is None and not isinstance(key, Variable)):
            raise OtherPart
        is_descending = tree.orderby.condition[0].order == "DESC"
        return Order(counted or str(key), is_descending, counted is not None, is_distinct(key))


def _iri_or_same(parts: Sequence[Any]) -> tuple[str, str]:
    """Return the variables of `isIRI(?x) || sameTerm(?x, ?y)`."""
    if [name_of(part) for part in parts] != ["Builtin_isIRI", "Builtin_sameTerm"]:
        raise OtherPart
    terms = [bare(parts[0].arg), bare(parts[1].arg1), bare(parts[1].arg2)]
    if terms[0] != terms[1] or not all(isinstance(term, Variable) for term in terms):
        raise OtherPart
    return str(terms[0]), str(terms[2])
