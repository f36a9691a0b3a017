"""Walks as SPARQL 1.1 with the ids of the graph: `list <Louisiana> <nickname>` is `wd:Q1588 wdt:P1449 ?x`.

The rows are those that the walk means on the claims that the index was built of. Where SPARQL and facts differ:

* text is that of the label, in one language, where the index may have the title of a page as the name;
* a claim's text may be in any language, and is compared as the claim has it;
* engines do not compare malformed dates, such as `1956-00-00`, and find that 7 is 7.0;
* a predicate that has facts of other properties too, read backwards (P1696), is all of them: `(wdt:P40|^wdt:P22|^wdt:P25)`
  for `child`;
* facts of hubs are asked for as all others are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from pyoxigraph import Literal

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS
from refactx.iris import OWN_PREFIXES, WIKIDATA, entity_term, property_term
from refactx.linking.names import bare_name
from refactx.walks.language import FactSet, Hop, Query, QueryError, ValueKind, WalkFilter
from refactx.walks.sparql_values import comparison, is_value


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
    names = _Names(query, facts, with_labels, language)
    body = _Body(names)
    member = body.walk(query.start, query.hops)
    for which in query.which:
        body.filter(member, which)
    head, tail = "SELECT DISTINCT ?x WHERE", ""
    if query.head == "ask":
        head = "ASK WHERE"
    elif query.head == "count":
        head = "SELECT (COUNT(DISTINCT ?x) AS ?count) WHERE"
    elif query.by is not None:
        if not query.by.counted and names.step(query.by.predicate).kind in ("entity", "coordinates", "text"):
            raise QueryError(f"<{query.by.predicate}> has no order: give a predicate of times or quantities")
        body.connect(member, [Hop(query.by.predicate)], "?value")
        value, group = "?value", ""
        if query.by.counted:
            head, value, group = "SELECT ?x WHERE", "COUNT(DISTINCT ?value)", "GROUP BY ?x "
        tail = f" {group}ORDER BY {'DESC' if query.head == 'most' else 'ASC'}({value}) LIMIT {query.limit}"
    text = "\n".join([f"{head} {{", *(f"  {line}" for line in body.lines), f"}}{tail}\n"])
    base = facts.base or WIKIDATA
    used = [
        f"PREFIX {prefix}: <{iri.replace(WIKIDATA, base)}>\n"
        for prefix, iri in OWN_PREFIXES.items()
        if f"{prefix}:" in body.prefixes
    ]
    return "".join(used) + text


def leaves_values_backwards(query: Query, facts: FactSet) -> bool:
    """Return whether hops go backwards from where values may be: there SPARQL has more rows, unless a condition says no."""
    body = _Body(_Names(query, facts, False, "en"))
    member = body.walk(query.start, query.hops)
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
        paths = [*query.hops, *(hop for which in query.which for hop in which.hops)]
        predicates = [hop.predicate for hop in paths] + ([query.by.predicate] if query.by else [])
        self._predicates = facts.describe(predicates)
        self._ids = facts.ids([query.start, *(which.value for which in query.which)])
        self._steps: dict[str, _Step] = {}

    def has_id(self, name: str) -> bool:
        return name in self._ids

    def entity(self, name: str) -> str:
        if self._with_labels:
            return f"<{name}>"
        if name not in self._ids:
            raise QueryError(f"<{name}> has no id: give the name of an entity of the index")
        return entity_term(self._ids[name])

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
        self._names, self._numbers = names, count(1)

    @property
    def prefixes(self) -> set[str]:
        """The prefixes of the terms, with their colons."""
        words = " ".join(self.lines).replace("(", " ").replace("^", " ").replace("/", " ").replace("|", " ").split()
        return {f"{word.partition(':')[0]}:" for word in words if ":" in word}

    def walk(self, start: str, hops: Sequence[Hop]) -> _Member:
        """Write the hops from a start, with a variable each, and return the member that they lead to."""
        if hops and hops[0].predicate == ALIAS_OF:
            member = _Member(str(Literal(start.removesuffix(ALIAS), language=self._names.language)), "text")
        else:
            member = _Member(self._names.entity(start), "entity")
        for number, hop in enumerate(hops, 1):
            variable = "?x" if number == len(hops) else f"?y{number}"
            self.connect(member, [hop], variable)
            member = _Member(variable, self._kind_after([hop], member.kind))
        return member

    def connect(self, member: _Member, hops: Sequence[Hop], object_: str) -> None:
        """Write a path from a member to a term, and the language of the text that it leads to.

        Backwards, SPARQL leads from values too, but facts lead from entities alone. So a place on the way where values
        may be, and from which a hop goes backwards, gets a variable.
        """
        kinds = [member.kind]
        for hop in hops:
            kinds.append(self._kind_after([hop], kinds[-1]))
        cuts = [
            at for at in range(1, len(hops)) if kinds[at] != "entity" and self._names.step(hops[at].predicate).is_back
        ]
        term = member.term
        for first, after in pairwise([0, *cuts, len(hops)]):
            end = object_ if after == len(hops) else f"?v{next(self._numbers)}"
            self._path(_Member(term, kinds[first]), hops[first:after], end)
            term = end
        if hops[-1].predicate in DESCRIPTIONS:
            self._where(f'LANG({object_}) = "{self._names.language}"')

    def _path(self, member: _Member, hops: Sequence[Hop], end: str) -> None:
        """Write a path. From a value it leads at most to the value itself: if no hop has to be made."""
        term, steps = member.term, [self._names.step(hop.predicate) for hop in hops]
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
        kind = self._kind_after(which.hops, member.kind)
        has_id = kind in ("entity", "mixed") and self._names.has_id(which.value)
        is_name = which.operator == "is" or (which.operator == "equals" and bare_name(which.value) != which.value)
        if (which.operator == "is" and kind == "entity") or (is_name and has_id):
            value = self._names.entity(which.value)
            if which.hops:
                self.connect(member, which.hops, value)
            else:
                self._where(f"{member.term} = {value}")
            return
        term = member.term
        if which.hops:
            term = f"?v{next(self._numbers)}"
            self.connect(member, which.hops, term)
        if which.operator in ("starts with", "contains"):
            function = "STRSTARTS" if which.operator == "starts with" else "CONTAINS"
            self._where(f"{function}(LCASE({self._text(term, kind)}), {Literal(which.value.lower())})")
        elif which.operator == "equals" and (kind == "entity" or (kind == "mixed" and not is_value(which.value))):
            self._where(f"LCASE({self._text(term, kind)}) = {Literal(which.value.lower())}")
        elif kind == "entity":
            raise QueryError(f"{which.operator} <{which.value}> compares with entities: give a predicate of values")
        else:
            self._where(comparison(term, which.operator, which.value, kind))

    def _kind_after(self, hops: Sequence[Hop], kind: ValueKind) -> ValueKind:
        """Return the kind of what hops lead to from members of a kind. No step at all leaves the members."""
        for hop in hops:
            after = self._names.step(hop.predicate).kind
            kind = after if hop.closure != "*" or after == kind else "mixed"
        return kind

    def _text(self, term: str, kind: ValueKind) -> str:
        """Write a label's pattern where a term may be an entity, and return the expression of its text."""
        if kind not in ("entity", "mixed"):
            return f"STR({term})"
        label = f"?label{next(self._numbers)}"
        language = f'FILTER(LANG({label}) = "{self._names.language}")'
        if kind == "entity":
            self.lines += [f"{term} rdfs:label {label} .", language]
            return f"STR({label})"  # a text with a language is not equal to one without
        self.lines.append(f"OPTIONAL {{ {term} rdfs:label {label} . {language} }}")
        return f"STR(COALESCE({label}, {term}))"

    def _where(self, condition: str) -> None:
        self.lines.append(f"FILTER({condition})")


def _is_variable(term: str) -> bool:
    return term.startswith("?")
