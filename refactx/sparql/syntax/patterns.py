"""The patterns of a SPARQL query: triples as steps between terms, conditions, and what is asked for.

The triples about a statement node of Wikidata are one step: `?x p:P39 ?s . ?s ps:P39 ?y ; pq:P580 ?t` is a step by P39 from
`?x` to `?y`, by statements of which a condition on `?t` holds. Queries with UNION, OPTIONAL, subqueries, VALUES, arithmetic
or variable predicates have no patterns, but for alternatives of one entity; of BIND only the choice of one of two
entities has.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from refactx.iris import DIRECT, ENTITY, NAMESPACES, PREFIXES, XSD, id_of_entity, split_uri
from refactx.sparql.syntax import tree
from refactx.sparql.syntax.parser import read_sparql
from refactx.sparql.syntax.pattern_values import (
    Edge,
    Patterns,
    PatternTerm,
    PropertyStep,
    SortKey,
    StatementStep,
    TermComparison,
)
from refactx.sparql.syntax.tree import Call, Expression, Path
from refactx.walks.language import Closure
from refactx.walks.sparql_values import DATES, NUMBERS, date_text, lexical_day, number_text

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


def read_patterns(text: str) -> Patterns | None:
    """Return the patterns of a query; None if it has other parts too. Raises QueryError if it is not SPARQL.

    >>> read_patterns("ASK { wd:Q1 wdt:P2 ?x }").edges  # doctest: +NORMALIZE_WHITESPACE
    [Edge(subject=PatternTerm(variable=None, id='Q1', text=None, also=()),
        steps=(PropertyStep(iri='http://www.wikidata.org/prop/direct/P2', inverse=False, closure='', others=(),
        statement=None),), object=PatternTerm(variable='x', id=None, text=None, also=()), position=0)]
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
        self._among: dict[str, PatternTerm] = {}  # variables that are one of some entities
        if query.form not in ("ASK", "SELECT") or query.datasets or query.values or query.where is None:
            raise _OtherPart
        self._group(query.where)
        if query.form == "SELECT" and not query.selected and any(not name.startswith("_:") for name in self._among):
            raise _OtherPart
        self._put_alternatives(_variables_in(query.selected))
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
        unbound = {name for element in group.elements if (name := _unbound(element))}
        elements = [(number, one) for number, one in enumerate(group.elements) if not _unbound(one)]
        for number, element in elements:
            if isinstance(element, tree.Block):
                self._triples(element.triples, number)
            elif isinstance(element, tree.Values) and len(element.variables) == 1:
                self._one_of(element.variables[0].value, [term for row in element.rows for term in row])
            elif isinstance(element, tree.Nested) and element.kind == "union":
                self._union(element.groups, number)
            elif isinstance(element, tree.Nested) and element.kind == "optional" and unbound:
                unbound -= _variables_in(element)
                self._not(element.groups[0])
            elif isinstance(element, tree.Nested) and element.kind == "optional":
                self._optional(element.groups[0], number)
            elif isinstance(element, tree.Nested) and element.kind == "minus":
                self._not(element.groups[0])
            elif not isinstance(element, (tree.Filter, tree.Bind)):
                raise _OtherPart
        if unbound:
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

    def _optional(self, group: tree.Group, number: int) -> None:
        """Read one triple that a row may have."""
        triples = list(tree.triples_of(group))
        if len(triples) != 1 or len(group.elements) != 1 or triples[0].object.kind != "variable":
            raise _OtherPart
        self._triples(triples, number)
        if triples[0].object.value not in self._labels:
            self.patterns.columns[triples[0].object.value] = False

    def _one_of(self, variable: str, terms: Sequence[Expression | None]) -> None:
        """Read that a variable is one of some entities, or of some literals."""
        found = [_term_of(term) for term in terms if term is not None]
        if variable in self._among or len(found) < len(terms) or not found:
            raise _OtherPart
        ids, texts = (list(dict.fromkeys(some)) for some in ([one.id for one in found], [one.text for one in found]))
        first, *others = texts if ids == [None] else ids
        if first is None or None in others:
            raise _OtherPart
        also = tuple(filter(None, others))
        self._among[variable] = (
            PatternTerm(text=first, also=also) if ids == [None] else PatternTerm(id=first, also=also)
        )

    def _union(self, groups: Sequence[tree.Group], number: int) -> None:
        """Read alternatives that differ by one entity, as such a triple; or by what a path of any number of steps includes."""
        if not all(isinstance(one, tree.Block) for group in groups for one in group.elements):
            raise _OtherPart
        blocks = [list(tree.triples_of(group)) for group in groups]
        shortest, longest = min(blocks, key=len), max(blocks, key=len)
        if len(blocks) == 2 and len(longest) == len(shortest) + 1:
            last = longest[-1]
            bare = [replace(one, object=last.object) if one.object == last.subject else one for one in longest[:-1]]
            is_any = isinstance(last.path, Path) and last.path.sign == "*"
            if not is_any or list(map(_without_span, bare)) != list(map(_without_span, shortest)):
                raise _OtherPart
            return self._triples(longest, number)
        parts = [[part for one in some for part in (one.subject, one.path, one.object)] for some in blocks]
        different = [some for some in zip(*parts, strict=False) if any(one != some[0] for one in some)]
        if len(set(map(len, parts))) > 1 or len(different) != 1 or not all(_is(one, "iri") for one in different[0]):
            raise _OtherPart
        variable = f"_:{number}"
        self._one_of(variable, different[0])
        place, fresh = parts[0].index(different[0][0]), tree.Term("variable", variable)
        if place % 3 == 1:
            raise _OtherPart
        one = replace(blocks[0][place // 3], **{"subject" if place % 3 == 0 else "object": fresh})
        return self._triples([*blocks[0][: place // 3], one, *blocks[0][place // 3 + 1 :]], number)

    def _put_alternatives(self, selected: set[str]) -> None:
        """Put entities or literals in place of the variables that are one of them: of one asked for, beside the patterns."""
        edges = self.patterns.edges
        for variable, term in self._among.items():
            uses = [edge for edge in edges if variable in (edge.subject.variable, edge.object.variable)]
            if variable in selected:
                if self.patterns.members is not None or term.id is None:
                    raise _OtherPart
                self.patterns.members = term
            elif len(uses) != 1 or any(one.term.variable == variable for one in self.patterns.conditions):
                raise _OtherPart
            else:
                edge = uses[0]
                is_subject = edge.subject.variable == variable
                edges[edges.index(edge)] = replace(edge, subject=term) if is_subject else replace(edge, object=term)

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
        if expression.name == "EXISTS" and expression.group is not None:
            self._group(expression.group)
            return
        name, arguments = expression.name, [_bare(part) for part in expression.arguments]
        if name == "IN" or (name == "||" and all(_is_choice(one) for one in arguments)):
            whole = [expression] if name == "IN" else [one for one in arguments if isinstance(one, Call)]
            variables = {_variable(_bare(one.arguments[0])) for one in whole}
            if len(variables) != 1 or "" in variables:
                raise _OtherPart
            self._one_of(variables.pop(), [_bare(one) for call in whole for one in call.arguments[1:]])
        elif name in _SWAPPED:
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
        self.patterns.having = _having(query.having)
        if order is not None and order.counted:
            names = {name: node for name, node in names.items() if _counted(node) is None}
        counts = [_counted(node) for node in names.values()]
        if len(names) == 1 and (total := _total(*names.values())) is not None:
            of = [edge for edge in self.patterns.edges if edge.object.variable == total[1]]
            if len(of) != 1 or of[0].subject.variable is None or order or (set(plain) != set(grouped)):
                raise _OtherPart
            self.patterns.total, shown = total, [of[0].subject.variable]
            self.patterns.group = grouped[0] if grouped else None
        elif counts:
            self.patterns.counts = True
            self.patterns.distinct = any(_is_distinct(node) for node in names.values())
            shown = variables if counts == ["*"] else [name for name in counts if name is not None]
            if len(counts) > 1 or len(shown) != 1 or set(plain) != set(grouped) or order:
                raise _OtherPart
            self.patterns.group = grouped[0] if grouped else None
        elif grouped and not (self.patterns.having or (order is not None and order.counted)):
            raise _OtherPart
        elif not query.selected:
            shown = [name for name in variables if order is None or name != order.variable]
            self.patterns.distinct = False if order else query.modifier == "DISTINCT"
        else:
            self.patterns.distinct = query.modifier == "DISTINCT" and len(shown) == 1
        asked = [name for name in shown if name in variables]
        if not (self.patterns.counts or self.patterns.total or grouped):
            asked = self._without_columns(asked)
        if set(self.patterns.columns) - set(shown):
            raise _OtherPart
        labelled = {name for name, term in self._labels.items() if term.variable in asked}
        if len(asked) != 1 or any(name in self._labels and name not in labelled for name in shown):
            raise _OtherPart
        if len(grouped) > 1 or (grouped and grouped != asked and self.patterns.group is None):
            raise _OtherPart
        self.patterns.asked, self.patterns.order, self.patterns.has_labels = asked[0], order, bool(self._labels)

    def _without_columns(self, shown: list[str]) -> list[str]:
        """Return the variable whose facts have all others that are shown, and take these as columns; else all."""
        for asked in shown:
            subject = PatternTerm(variable=asked)
            ends = [e.object.variable for e in self.patterns.edges if e.subject == subject and len(e.steps) == 1]
            others = [name for name in shown if name != asked]
            if others and all(ends.count(name) == 1 for name in others):
                self.patterns.columns = {name: self.patterns.columns.get(name, True) for name in others}
                return [asked]
        return shown

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


def _unbound(element: tree.Element) -> str:
    """Return the variable of `FILTER(!BOUND(?x))`; empty for anything else."""
    call = element.expression if isinstance(element, tree.Filter) else None
    inner = call.arguments[0] if isinstance(call, Call) and call.name == "!" else None
    return _variable(inner.arguments[0]) if isinstance(inner, Call) and inner.name == "BOUND" else ""


def _without_span(triple: tree.TriplePattern) -> tuple[object, ...]:
    return triple.subject, triple.path, triple.object


def _bare_kind(node: Expression) -> str:
    inner = _bare(node)
    return inner.kind if isinstance(inner, tree.Term) else ""


def _is_choice(node: Expression) -> bool:
    return isinstance(node, Call) and node.name == "=" and _bare_kind(node.arguments[1]) in ("iri", "literal")


def _total(node: Expression) -> tuple[Literal["sum", "average"], str] | None:
    """Return of which variable an expression is the sum or the average."""
    words: dict[str, Literal["sum", "average"]] = {"SUM": "sum", "AVG": "average"}
    word = words.get(_name(node))
    return (word, _variable(_bare(node.arguments[0]))) if isinstance(node, Call) and word else None


def _having(found: Sequence[Expression]) -> tuple[str, str, int] | None:
    """Return what a number of values is compared with: the variable, the sign and the number."""
    if not found:
        return None
    call = _bare(found[0]) if len(found) == 1 else None
    number = _integer_of(_bare(call.arguments[1])) if isinstance(call, Call) and call.name in _SWAPPED else None
    counted = _counted(_bare(call.arguments[0])) if isinstance(call, Call) and number is not None else None
    if not isinstance(call, Call) or number is None or counted in (None, "*"):
        raise _OtherPart
    sign, by = {">=": (">", -1), "<=": ("<", 1)}.get(call.name, (call.name, 0))
    return counted or "", sign, number + by


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
    """Return an expression without a sign before it: a number has its own, and the type that it is cast to."""
    cast = node.arguments[0] if isinstance(node, Call) and node.name[1:-1] in NUMBERS and node.arguments else None
    if isinstance(node, Call) and isinstance(cast, tree.Term) and cast.kind == "literal":
        return replace(cast, datatype=node.name[1:-1])
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
