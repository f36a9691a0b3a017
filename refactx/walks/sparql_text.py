"""Walks as SPARQL 1.1 with the ids of the graph: `list <Louisiana> <nickname>` is `wd:Q1588 wdt:P1449 ?x`.

The rows are those that the walk means on the claims that the index was built of. Where SPARQL and facts differ:

* text is that of the label, in one language, where the index may have the title of a page as the name;
* a claim's text may be in any language, and is compared as the claim has it;
* engines do not compare malformed dates, such as `1956-00-00`, and find that 7 is 7.0;
* a predicate that has facts of other properties too, read backwards (P1696), is all of them: `(wdt:P40|^wdt:P22|^wdt:P25)`
  for `child`;
* facts of hubs are asked for as all others are;
* a statement that has neither the best rank nor qualifiers is no fact;
* the time of a statement is a day, however precise it is; `now` is said of preferred statements, or else of those without an
  end, where facts tell the rank by what others of the subject and predicate have.

Durations, differences of dates, the first of each group and amounts with units are walks without SPARQL 1.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from pyoxigraph import Literal

from refactx.entity_ids import is_wikidata_property
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS
from refactx.iris import PREFIXES, WIKIDATA, entity_term, property_term
from refactx.linking.names import bare_name
from refactx.walks.language import (
    FactSet,
    Hop,
    MemberValue,
    Operator,
    Query,
    QueryError,
    StatementFilter,
    ValueKind,
    WalkFilter,
)
from refactx.walks.sparql_values import SIGNS, comparison, in_time, is_value
from refactx.walks.statements import TIME_IDS, Span, TimeNames, span_of

_SEPARATORS = str.maketrans("(){}^/|,", " " * 8)


def to_sparql(query: Query, facts: FactSet, *, with_labels: bool = False, language: str = "en") -> str:
    """Return a query as SPARQL. `facts` has the ids of its names.

    `with_labels`: names in angle brackets in place of ids, for people to read. `language`: the tag of the labels,
    descriptions and aliases that text is compared with. A limit leaves out members of equal value at will.

        >>> print(to_sparql(read_line("count <Louisiana> <nickname> ."), facts))  # doctest: +SKIP
        PREFIX wd: <http://www.wikidata.org/entity/>
        PREFIX wdt: <http://www.wikidata.org/prop/direct/>
        SELECT (COUNT(DISTINCT ?x) AS ?count) WHERE {
          wd:Q1588 wdt:P1449 ?x .
        }

    Raises QueryError if a name has no id, which the error names, or if a filter cannot be compared; and as the methods
    of `facts` do.
    """
    body = _Body(_Names(query, facts, with_labels, language))
    text = _difference(query, body) if query.minus else _of_set(query, body)
    base = facts.base or WIKIDATA
    used = [
        f"PREFIX {prefix}: <{iri.replace(WIKIDATA, base)}>\n"
        for prefix, iri in PREFIXES.items()
        if f"{prefix}:" in body.prefixes
    ]
    return "".join(used) + text


def _of_set(query: Query, body: "_Body") -> str:
    """Return a query of one set without its prefixes."""
    measures = [one for one in (query.by, *query.show) if one is not None]
    member = body.walk((query.start, *query.also), query.hops, reads_last=any(one.its for one in measures))
    for which in query.which:
        body.filter(member, which)
    if query.by is not None or query.per is not None:
        return _measured(query, body, member)
    columns = body.columns(member, query.show)
    head = {"ask": "ASK", "count": "SELECT (COUNT(DISTINCT ?x) AS ?count)"}.get(query.head, "SELECT DISTINCT ?x")
    return body.text(" ".join([head, *columns]))


def _measured(query: Query, body: "_Body", member: "_Member") -> str:
    """Return a query whose members are sorted, summed or grouped."""
    by, per = query.by, query.per
    if by is not None:
        if by.its:
            body.qualifier(by.predicate, "?value")
        else:
            if not by.counted and body.names.step(by.predicate).kind in ("entity", "coordinates", "text"):
                raise QueryError(f"<{by.predicate}> has no order: give a predicate of times or quantities")
            body.connect(member, by.hops, "?value")
    if query.head in ("most", "least"):
        if per is not None:
            raise QueryError("the first of each group has no SPARQL 1.1")
        direction, counted = "DESC" if query.head == "most" else "ASC", by is not None and by.counted
        value = "COUNT(DISTINCT ?value)" if counted else "?value"
        order = f" {'GROUP BY ?x ' if counted else ''}ORDER BY {direction}({value}) LIMIT {query.limit}"
        text = body.text(f"SELECT {'' if counted else 'DISTINCT '}?x", order)
        if not query.show:
            return text
        if counted or any(one.its for one in query.show):
            raise QueryError("columns of a table that is sorted by counts, or of statements, have no SPARQL 1.1")
        body.lines = [f"{{ {' '.join(text.split())} }}"]
        columns = body.columns(member, query.show)
        return body.text(" ".join(["SELECT DISTINCT ?x", *columns]))
    number = "COUNT(DISTINCT ?x)" if by is None else f"{'SUM' if query.head == 'sum' else 'AVG'}(?value)"
    group = ""
    if per is not None:
        body.connect(member, per.hops, "?group")
        group = "?group "
    if by is not None and by.counted:
        inner = body.text(f"SELECT {group}?x (COUNT(DISTINCT ?value) AS ?number)", f" GROUP BY {group}?x")
        body.lines, number = [f"{{ {' '.join(inner.split())} }}"], number.replace("?value", "?number")
    elif by is not None:
        inner = body.text(f"SELECT DISTINCT {group}?x ?value")
        body.lines = [f"{{ {' '.join(inner.split())} }}"]
    tail = ""
    if per is not None:
        tail = " GROUP BY ?group"
        tail += f" HAVING({comparison(number, per.operator, per.value, 'quantity')})" if per.operator else ""
        tail += f" ORDER BY {'DESC' if per.order == 'most' else 'ASC'}({number})" if per.order else ""
        tail += f" LIMIT {per.limit}" if per.limit else ""
    return body.text(f"SELECT {group}({number} AS ?{query.head})", tail)


def _difference(query: Query, body: "_Body") -> str:
    by, lines = query.by, list[str]()
    for variable, start, hops in (
        ("?a", query.start, query.hops),
        *([("?b", query.minus.start, query.minus.hops)] if query.minus else []),
    ):
        kind = body.walk((start,), hops, variable, reads_last=bool(by and by.its), fixed=by is not None).kind
        member = body.last
        if by is not None:
            kind = "quantity" if by.counted else body.names.kind(by.predicate)
            if by.its:
                body.qualifier(by.predicate, variable)
            else:
                body.connect(member, by.hops, variable if not by.counted else "?value")
        if kind != "quantity":
            raise QueryError("differences of other values than quantities have no SPARQL 1.1")
        counts = by is not None and by.counted
        lines += (
            [f"{{ SELECT (COUNT(DISTINCT ?value) AS {variable}) WHERE {{ {' '.join(body.lines)} }} }}"]
            if counts
            else body.lines
        )
        body.lines = []
    body.lines = lines
    return body.text("SELECT DISTINCT ((?a - ?b) AS ?difference)")


def leaves_values_backwards(query: Query, facts: FactSet) -> bool:
    """Return whether hops go backwards from where values may be: there SPARQL has more rows, unless a condition says no."""
    body = _Body(_Names(query, facts, False, "en"))
    member = body.walk((query.start, *query.also), query.hops)
    for which in query.which:
        if which.hops:
            body.connect(member, which.hops, "?value")
    return any(line.startswith("FILTER(isIRI(") for line in body.lines)


@dataclass(frozen=True, slots=True)
class _Step:
    """A predicate in SPARQL: its path, whether it leads from object to subject, and the kind of what it leads to."""

    path: str
    inverse: bool
    kind: ValueKind

    @property
    def is_back(self) -> bool:
        """Whether facts are read backwards, at least some."""
        return self.inverse or "^" in self.path

    def element(self, closure: str) -> str:
        if closure == "+" and self.path[0] == "(":  # where pyoxigraph takes minutes for `(a|^b)+`, this takes no time
            return f"{self.path}/{self.path}*"
        return f"{'^' if self.inverse else ''}{self.path}{closure}"


@dataclass(frozen=True, slots=True)
class _Member:
    """What a filter is about: its term, and its kind."""

    term: str
    kind: ValueKind


class _Names:
    """The terms of names: all are looked up at once."""

    def __init__(self, query: Query, facts: FactSet, with_labels: bool, language: str) -> None:
        self.language, self._facts, self._with_labels = language, facts, with_labels
        hops = [hop for walk in query.walks for hop in walk.hops]
        where = [one for hop in hops for one in hop.where]
        self.times = (
            TimeNames.of(facts) if any(map(_reads_times, [*where, *hops, query.by, *query.show])) else TimeNames()
        )
        predicates = [hop.predicate for hop in hops] + [hop.its for hop in hops if hop.its]
        predicates += [name for one in (query.by, *query.show) if one is not None for name in one.path]
        predicates += [one.values[0] for one in where if one.word == "with"]
        self._predicates = facts.describe([*predicates, *self.times.all])
        starts = [walk.start for walk in query.walks]
        values = [
            *(value for which in query.which for value in which.values),
            *(value for one in where for value in one.values),
        ]
        self._ids = facts.ids([*starts, *values, *self._predicates, *self.times.all, *predicates])
        self._steps: dict[str, _Step] = {}

    def has_id(self, name: str) -> bool:
        return name in self._ids

    def entity(self, name: str) -> str:
        if self._with_labels:
            return f"<{name}>"
        if name not in self._ids:
            raise QueryError(f"<{name}> has no id: give the name of an entity of the index")
        return entity_term(self._ids[name])

    def kind(self, name: str) -> ValueKind:
        """Return the kind of a qualifier's values, or of a predicate's objects."""
        found = self._predicates.get(name)
        if name in self.times.all and (found is None or found.kind not in ("quantity", "entity")):
            return "time"
        return "mixed" if found is None else found.kind

    def statement(self, predicate: str) -> tuple[str, bool]:
        """Return the id of a predicate's property, and whether it is read backwards. Raise QueryError if it has no statements
        in SPARQL."""
        found = self._predicates.get(predicate)
        if found is None or found.also or not is_wikidata_property(found.id or ""):
            raise QueryError(
                f"<{predicate}> has no statements in SPARQL: its property is none of a Wikibase, or several are joined"
            )
        return found.id or "", found.inverse

    def qualifier(self, name: str) -> str:
        """Return a qualifier as a predicate. Raise QueryError if it has no id."""
        if not name or not is_wikidata_property(self._ids.get(name, "")):
            raise QueryError(
                f"{f'<{name}>' if name else 'a duration'} is no qualifier with an id: it has no SPARQL 1.1"
            )
        return f"pq:{self._ids[name]}"

    def time_paths(self) -> list[str]:
        """Return the paths over the qualifiers that say when something starts, ends and happens: Wikidata's, if the index
        names none."""
        times, kinds = self.times, ("starts", "ends", "points")
        found = [sorted(id_ for name in getattr(times, kind) if (id_ := self._ids.get(name))) for kind in kinds]
        return ["|".join(f"pq:{id_}" for id_ in ids or TIME_IDS[kind]) for kind, ids in zip(kinds, found, strict=True)]

    def step(self, name: str) -> _Step:
        if name not in self._steps:
            self._steps[name] = self._new_step(name)
        return self._steps[name]

    def _new_step(self, name: str) -> _Step:
        if name == DESCRIPTIONS[0]:
            return _Step("schema:description", False, "text")
        if name == ALIAS_OF:
            return _Step("skos:altLabel", True, "entity")
        found = self._predicates.get(name)
        if found is None or found.id is None:
            raise QueryError(f"<{name}> has no id: give the name of a predicate of the index that has one")
        if found.inverse:
            return _Step(self._property(found.id), True, "entity")
        ways = [self._property(found.id), *(f"^{self._property(one)}" for one in found.also)]
        return _Step(ways[0] if len(ways) == 1 else f"({'|'.join(ways)})", False, found.kind)

    def _property(self, id_: str) -> str:
        return f"<{self._facts.names([id_]).get(id_, id_)}>" if self._with_labels else property_term(id_)


class _Body:
    """The patterns of a query, and what they are about."""

    def __init__(self, names: _Names) -> None:
        self.lines: list[str] = []
        self.names, self._numbers, self._statement, self._last_statement = names, count(1), "", ""
        self.last = _Member("", "entity")

    @property
    def prefixes(self) -> set[str]:
        """The prefixes of the terms, with their colons."""
        words = " ".join(self.lines).translate(_SEPARATORS).split()
        return {f"{word.partition(':')[0]}:" for word in words if ":" in word}

    def text(self, head: str, tail: str = "") -> str:
        """Return a query of the patterns, without prefixes."""
        return "\n".join([f"{head} WHERE {{", *(f"  {line}" for line in self.lines), f"}}{tail}\n"])

    def walk(
        self,
        starts: Sequence[str],
        hops: Sequence[Hop],
        end: str = "?x",
        *,
        reads_last: bool = False,
        fixed: bool = False,
    ) -> _Member:
        """Write the hops from starts, with a variable each, and return the member that they lead to, which is `last` too.
        `reads_last`: the statements of the last hop are needed; `fixed`: `end` is for something else."""
        if hops and hops[0].predicate == ALIAS_OF:
            alias = starts[0].removesuffix(ALIAS)
            member = _Member(str(Literal(alias, language=self.names.language)), "text")
        elif len(starts) > 1:
            member = _Member("?x" if not hops else f"?v{next(self._numbers)}", "entity")
            self.lines.append(f"VALUES {member.term} {{ {' '.join(map(self.names.entity, starts))} }}")
        else:
            member = _Member(self.names.entity(starts[0]), "entity")
        for number, hop in enumerate(hops, 1):
            is_last = number == len(hops)
            variable = end if is_last and not fixed else f"?y{number}" if end == "?x" else f"?v{next(self._numbers)}"
            if is_last and reads_last and not hop.has_statements:
                self._step_by_statement(member, hop, variable)
            else:
                self.connect(member, [hop], variable)
            member = _Member(variable, self._kind_after([hop], member.kind))
        self.last, self._last_statement = member, self._statement if reads_last else self._last_statement
        return member

    def qualifier(self, name: str, variable: str) -> None:
        """Write that the statement of the last hop to the set has a value of a qualifier."""
        self.lines.append(f"{self._last_statement} {self.names.qualifier(name)} {variable} .")

    def columns(self, member: _Member, show: Sequence[MemberValue]) -> list[str]:
        """Write the columns of a table, and return their variables."""
        variables = [f"?column{number}" for number in range(1, len(show) + 1)]
        for one, variable in zip(show, variables, strict=True):
            if one.counted:
                raise QueryError("a column of counts has no SPARQL 1.1")
            before, self.lines = self.lines, []
            if one.its:
                self.qualifier(one.predicate, variable)
            else:
                self.connect(member, one.hops, variable)
            self.lines = [*before, f"OPTIONAL {{ {' '.join(self.lines)} }}"]
        return variables

    def _step_by_statement(self, member: _Member, hop: Hop, end: str) -> None:
        value = end if hop.its is None else f"?v{next(self._numbers)}"
        self._statement = f"?s{next(self._numbers)}"
        self.lines += self._admitted(member.term, hop, len(hop.where), self._statement, value)
        if hop.its is not None:
            self.lines.append(f"{self._statement} {self.names.qualifier(hop.its)} {end} .")

    def _admitted(self, term: str, hop: Hop, size: int, statement: str, value: str) -> list[str]:
        """Return the patterns of a statement from a term to a value that the first conditions of a hop admit."""
        before, self.lines = self.lines, []
        id_, inverse = self.names.statement(hop.predicate)
        subject, object_ = (value, term) if inverse else (term, value)
        self.lines += [f"{subject} p:{id_} {statement} .", f"{statement} ps:{id_} {object_} ."]
        if inverse:  # the inverse facts are those of the best rank
            self.lines.append(f"{subject} wdt:{id_} {object_} .")
        self.lines.append(f"FILTER NOT EXISTS {{ {statement} wikibase:rank wikibase:DeprecatedRank }}")
        for place, one in enumerate(hop.where[:size]):
            match one.word:
                case "at" | "between":
                    self._in_span(statement, span_of(one.values[0], one.values[-1]))
                case "now":
                    starts, ends, points = self._times(statement)
                    lasting = (
                        f"NOT EXISTS {{ {ends} ?t }} && (EXISTS {{ {starts} ?t }} || NOT EXISTS {{ {points} ?t }})"
                    )
                    preferred = f"EXISTS {{ {statement} wikibase:rank wikibase:PreferredRank }}"
                    holds = lasting if inverse else f"{preferred} || ({lasting})"
                    self.lines += [f"{statement} a wikibase:BestRank .", f"FILTER({holds})"]
                case "earliest" | "latest":
                    number = next(self._numbers)
                    other, begin, of_other = f"?s{number}", f"?b{number}", f"?c{number}"
                    others = [*self._admitted(term, hop, place, other, f"?v{number}"), self._begin(other, of_other)]
                    sign = ">" if one.word == "latest" else "<"
                    self.lines += [
                        self._begin(statement, begin),
                        f"FILTER NOT EXISTS {{ {' '.join(others)} FILTER({of_other} {sign} {begin}) }}",
                    ]
                case "being":
                    kind = "entity" if inverse else self.names.step(hop.predicate).kind
                    self._where(self._compared(value, kind, "is", one.values[0]))
                case "with":
                    number, (name, wanted) = next(self._numbers), one.values
                    self.lines.append(f"{statement} {self.names.qualifier(name)} ?q{number} .")
                    self._where(self._compared(f"?q{number}", self.names.kind(name), one.operator, wanted))
        found, self.lines = self.lines, before
        return found

    def _times(self, statement: str) -> list[str]:
        return [f"{statement} {path}" for path in self.names.time_paths()]

    def _begin(self, statement: str, variable: str) -> str:
        starts, ends, points = self._times(statement)
        path = f"{starts}|{ends.partition(' ')[2]}"
        return f"{{ {starts} {variable} }} UNION {{ {points} {variable} FILTER NOT EXISTS {{ {path} ?t }} }}"

    def _in_span(self, statement: str, span: Span) -> None:
        starts, ends, points = self._times(statement)
        before, after, within = (in_time("?t", sign, span.first, span.end) for sign in "<>=")
        path = f"{starts}|{ends.partition(' ')[2]}"
        self.lines += [
            f"FILTER(EXISTS {{ {path} ?t }} || EXISTS {{ {points} ?t FILTER({within}) }})",
            f"FILTER NOT EXISTS {{ {starts} ?t FILTER({after}) }}",
            f"FILTER NOT EXISTS {{ {ends} ?t FILTER({before}) }}",
        ]

    def connect(self, member: _Member, hops: Sequence[Hop], object_: str) -> None:
        """Write a path from a member to a term, and the language of the text that it leads to.

        Backwards, SPARQL leads from values too, but facts lead from entities alone. So a place on the way where values
        may be, and from which a hop goes backwards, gets a variable.
        """
        kinds = [member.kind]
        for hop in hops:
            kinds.append(self._kind_after([hop], kinds[-1]))
        cuts = [
            at
            for at in range(1, len(hops))
            if (kinds[at] != "entity" and self.names.step(hops[at].predicate).is_back)
            or hops[at].has_statements
            or hops[at - 1].has_statements
        ]
        term = member.term
        for first, after in pairwise([0, *cuts, len(hops)]):
            end = object_ if after == len(hops) else f"?v{next(self._numbers)}"
            if hops[first].has_statements:
                self._step_by_statement(_Member(term, kinds[first]), hops[first], end)
            else:
                self._path(_Member(term, kinds[first]), hops[first:after], end)
            term = end
        if hops[-1].predicate in DESCRIPTIONS:
            self._where(f'LANG({object_}) = "{self.names.language}"')

    def _path(self, member: _Member, hops: Sequence[Hop], end: str) -> None:
        """Write a path. From a value it leads at most to the value itself: if no hop has to be made."""
        term, steps = member.term, [self.names.step(hop.predicate) for hop in hops]
        if len(steps) == 1 and steps[0].inverse:
            self.lines.append(f"{end} {steps[0].path}{hops[0].closure} {term} .")
        else:
            path = "/".join(step.element(hop.closure) for step, hop in zip(steps, hops, strict=True))
            self.lines.append(f"{term} {path} {end} .")
        if steps[0].is_back and member.kind != "entity" and _is_variable(term):
            may_stay = _is_variable(end) and all(hop.closure == "*" for hop in hops)
            self._where(f"isIRI({term}) || sameTerm({term}, {end})" if may_stay else f"isIRI({term})")

    def filter(self, member: _Member, which: WalkFilter) -> None:
        """Write a filter of a member."""
        if which.counted:
            return self._counted(member, which)
        before, self.lines = self.lines, []
        kind, values = self._kind_after(which.hops, member.kind), dict.fromkeys(which.values)
        if which.than:
            self._compare_sets(member, which, kind)
        elif self._is_entity(kind, which.operator, which.value) and which.hops and len(values) == 1:
            self.connect(member, which.hops, self.names.entity(which.value))
        else:
            term = f"?v{next(self._numbers)}" if which.hops else member.term
            if which.hops:
                self.connect(member, which.hops, term)
            self._where(" || ".join(self._compared(term, kind, which.operator, value) for value in values))
        own = [f"FILTER NOT EXISTS {{ {' '.join(self.lines)} }}"] if which.negated else self.lines
        self.lines = [*before, *own]
        return None

    def _compare_sets(self, member: _Member, which: WalkFilter, kind: ValueKind) -> None:
        """Write that what hops lead to compares with one of another set."""
        if kind not in ("entity", "time", "quantity") or which.operator in ("starts with", "contains"):
            raise QueryError(f"`{which.operator}` compares no set of such values in SPARQL 1.1")
        other, term = f"?v{next(self._numbers)}", member.term
        self.walk((which.value,), which.than, other)
        if which.hops:
            term = f"?v{next(self._numbers)}"
            self.connect(member, which.hops, term)
        if kind == "entity" and which.operator != "is":
            raise QueryError(f"{which.operator} compares with entities: give a predicate of values")
        self._where(f"{term} {SIGNS[which.operator]} {other}")

    def _counted(self, member: _Member, which: WalkFilter) -> None:
        """Write a filter of the number of what hops lead to, which may be none."""
        number, before, value = f"?n{next(self._numbers)}", self.lines, f"?v{next(self._numbers)}"
        self.lines = []
        self.connect(member, which.hops, value)
        counted, group = " ".join(self.lines), ""
        if _is_variable(member.term):
            counted, group = f"{' '.join(before)} OPTIONAL {{ {counted} }}", f" GROUP BY {member.term}"
        projected = f"{member.term} " if group else ""
        self.lines = [
            *before,
            f"{{ SELECT {projected}(COUNT(DISTINCT {value}) AS {number}) WHERE {{ {counted} }}{group} }}",
        ]
        if which.than:
            other, mine = f"?n{next(self._numbers)}", self.lines
            self.lines, end = [], f"?v{next(self._numbers)}"
            self.walk((which.value,), which.than, end)
            inner = f"{{ SELECT (COUNT(DISTINCT {end}) AS {other}) WHERE {{ {' '.join(self.lines)} }} }}"
            self.lines, condition = [*mine, inner], f"{number} {SIGNS[which.operator]} {other}"
        else:
            condition = comparison(number, which.operator, which.value, "quantity")
        self._where(f"!({condition})" if which.negated else condition)

    def _is_entity(self, kind: ValueKind, operator: Operator, value: str) -> bool:
        """Return whether a value is compared as an entity."""
        has_id = kind in ("entity", "mixed") and self.names.has_id(value)
        is_name = operator == "is" or (operator == "equals" and bare_name(value) != value)
        return (operator == "is" and kind == "entity") or (is_name and has_id)

    def _compared(self, term: str, kind: ValueKind, operator: Operator, value: str) -> str:
        """Return the condition that a term compares with a value."""
        if self._is_entity(kind, operator, value):
            return f"{term} = {self.names.entity(value)}"
        if operator in ("starts with", "contains"):
            function = "STRSTARTS" if operator == "starts with" else "CONTAINS"
            return f"{function}(LCASE({self._text(term, kind)}), {Literal(value.lower())})"
        if operator == "equals" and (kind == "entity" or (kind == "mixed" and not is_value(value))):
            return f"LCASE({self._text(term, kind)}) = {Literal(value.lower())}"
        if kind == "entity":
            raise QueryError(f"{operator} <{value}> compares with entities: give a predicate of values")
        return comparison(term, operator, value, kind)

    def _kind_after(self, hops: Sequence[Hop], kind: ValueKind) -> ValueKind:
        """Return the kind of what hops lead to from members of a kind. No step at all leaves the members."""
        for hop in hops:
            after = self.names.step(hop.predicate).kind if hop.its is None else self.names.kind(hop.its)
            kind = after if hop.closure != "*" or after == kind else "mixed"
        return kind

    def _text(self, term: str, kind: ValueKind) -> str:
        """Write a label's pattern where a term may be an entity, and return the expression of its text."""
        if kind not in ("entity", "mixed"):
            return f"STR({term})"
        label = f"?label{next(self._numbers)}"
        language = f'FILTER(LANG({label}) = "{self.names.language}")'
        if kind == "entity":
            self.lines += [f"{term} rdfs:label {label} .", language]
            return f"STR({label})"  # a text with a language is not equal to one without
        self.lines.append(f"OPTIONAL {{ {term} rdfs:label {label} . {language} }}")
        return f"STR(COALESCE({label}, {term}))"

    def _where(self, condition: str) -> None:
        self.lines.append(f"FILTER({condition})")


def _reads_times(one: Hop | StatementFilter | MemberValue | None) -> bool:
    """Return whether the names of qualifiers with times are needed."""
    if isinstance(one, StatementFilter):
        return one.word not in ("being",)
    return one is not None and bool(one.its)


def _is_variable(term: str) -> bool:
    return term.startswith("?")
