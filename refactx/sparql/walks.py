"""Walks of SPARQL queries, such as the gold queries of data sets: what `refactx.walks.sparql_text` writes, read back.

A query is a walk if one variable is asked for (or none), and each of its patterns lies on a chain from that variable to
an entity, a value, or what it is sorted by. One chain that ends in an entity becomes the start and the hops, others
become filters. Names of the index stand for ids: of entities, and of predicates that read properties.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS
from refactx.iris import PREFIXES, id_of_property
from refactx.sparql.syntax.pattern_values import Edge, Patterns, PatternTerm, PropertyStep, TermComparison
from refactx.sparql.syntax.patterns import read_patterns
from refactx.walks.language import (
    BOUNDS,
    FactSet,
    Groups,
    Head,
    Hop,
    MemberValue,
    Operator,
    Query,
    QueryError,
    StatementFilter,
    WalkFilter,
)
from refactx.walks.sparql_text import leaves_values_backwards
from refactx.walks.sparql_values import filters_of_days

_CLASSES = (
    *(PREFIXES["wdt"] + id_ for id_ in ("P31", "P279")),
    PREFIXES["rdf"] + "type",
    PREFIXES["rdfs"] + "subClassOf",
)
_OPERATORS: dict[str, Operator] = {
    "=": "equals",
    ">": "over",
    "<": "under",
    ">=": "from",
    "<=": "up to",
    "is": "is",
    "starts with": "starts with",
    "contains": "contains",
}


def from_sparql(text: str, facts: FactSet, *, exact: bool = False) -> Query | None:
    """Return the walk that a SPARQL query is; None if it is not one, or if the index lacks one of its names.

    The walk starts at an entity that is no hub; rather at one that is not merely a class of the members; and among
    these where the first hop has fewest facts. It means what the query means, but for this:

    * a predicate has the facts of inverse properties too, if the index joins them (P1696): `<Germany> <capital>` leads to
      what is said to be the capital of Germany, too;
    * members are distinct, where rows that are counted or limited may be equal; a limit without an order is dropped;
    * what is asked for may be the groups of a walk, each with its number, where filters are about what leads to it;
    * text is compared without the case of letters, and labels as the names that the index has;
    * a value leads nowhere, where a query may go backwards from it to all that have it.

    With `exact`, a query to which one of these applies is None too.

        >>> query = "SELECT (COUNT(?x) AS ?n) WHERE { wd:Q1588 wdt:P1449 ?x }"
        >>> write_line(from_sparql(query, facts))  # doctest: +SKIP
        'count <Louisiana> <nickname>'

    Raises QueryError, with line and column, if the text is not SPARQL, and as the methods of `facts` do.
    """
    patterns = read_patterns(text)
    if patterns is None or not patterns.says_no_more_of_iris or (exact and not patterns.has_rows_of_members):
        return None
    for names in [_FactNames(facts, exact=True), *([] if exact else [_FactNames(facts, exact=False)])]:
        with suppress(_NotAWalk, QueryError):
            walk = _ask(patterns, names) if patterns.ask else _select(patterns, names)
            return None if exact and leaves_values_backwards(walk, facts) else walk
    return None


def followed_backwards(text: str, facts: FactSet) -> list[str]:
    """Return the properties that a query follows against their direction, where each way to read it as a walk needs that and
    the facts have no predicate for it; none if the query is no walk for another reason.

    Raises as `from_sparql` does.
    """
    patterns = read_patterns(text)
    if patterns is None or patterns.ask:
        return []
    found = list[list[str]]()
    try:
        for chain in _chains(PatternTerm(variable=patterns.asked), patterns):
            if chain.end.id is not None:
                ids = [id_of_property(step.iri) for step in chain.steps if not step.inverse]
                found.append([id_ for id_ in dict.fromkeys(ids) if id_ not in facts.names([id_], inverse=True)])
    except _NotAWalk:
        return []
    return [] if not found or not all(found) else [facts.names([id_]).get(id_, id_) for id_ in found[0]]


class _NotAWalk(Exception):  # noqa: N818  # the reason for None
    """A query that is not a walk."""


class _FactNames:
    """The names of a set of facts. `exact`: predicates must have the facts of what a step says, and no others.

    Methods raise _NotAWalk if there is no such name, and as those of `facts` do.
    """

    def __init__(self, facts: FactSet, *, exact: bool) -> None:
        self.facts, self.exact = facts, exact

    def entity(self, term: PatternTerm) -> str:
        """Return the name of an entity that is given by its id."""
        name = self.facts.names([term.id]).get(term.id) if term.id is not None and not term.also else None
        if name is None:
            raise _NotAWalk
        return name

    def entities(self, term: PatternTerm) -> list[str]:
        """Return the names of an entity and of those that may take its place."""
        return [self.entity(PatternTerm(id=id_)) for id_ in (term.id, *term.also)]

    def hops(self, steps: Sequence[PropertyStep]) -> tuple[Hop, ...]:
        """Return the hops that steps are, by the predicates that read their properties in that direction."""
        return tuple(self._hop(step) for step in steps)

    def _hop(self, step: PropertyStep) -> Hop:
        said, predicate = step.statement, self._predicate(step)
        if said is None:
            return Hop(predicate, step.closure)
        if said.its is not None and step.inverse:
            raise _NotAWalk
        where = [] if said.being is None else [StatementFilter("being", (self._value(said.being),))]
        for iri, conditions in said.where:
            if any(one.sign == "is not" for one in conditions):
                raise _NotAWalk
            compared = [one for _, one in _compared((), conditions, self)]
            where += [StatementFilter("with", (self.qualifier(iri), one.value), one.operator) for one in compared]
        where += [StatementFilter("now")] if said.now else []
        return Hop(predicate, step.closure, tuple(where), None if said.its is None else self.qualifier(said.its))

    def qualifier(self, iri: str) -> str:
        """Return the name of a qualifier, given the IRI of its property."""
        return self.entity(PatternTerm(id=id_of_property(iri)))

    def _value(self, term: PatternTerm) -> str:
        return self.entity(term) if term.id is not None else term.text or ""

    def has_text(self, predicate: str) -> bool:
        """Return whether a predicate leads to text: SPARQL has it in the order of the alphabet, walks as numbers."""
        described = self.facts.describe([predicate]).get(predicate)
        return described is not None and described.kind == "text"

    def _predicate(self, step: PropertyStep) -> str:
        if step.iri == PREFIXES["schema"] + "description" and not step.inverse:
            return DESCRIPTIONS[0]
        if step.inverse and len(step.others) == 1:  # `(^wdt:P36|wdt:P1376)` is `(wdt:P1376|^wdt:P36)`
            step = PropertyStep(step.others[0], False, step.closure, (step.iri,))
        id_, *others = map(id_of_property, (step.iri, *step.others))
        name = self.facts.names([id_], inverse=step.inverse).get(id_, "")
        found = self.facts.describe([name]).get(name)
        if found is None or (others and (step.inverse or set(others) != set(found.also))):
            raise _NotAWalk
        if found.inverse or set(others) == set(found.also):
            return name
        # The predicate has facts of other properties too: of one that is the inverse property, or more.
        if self.exact or (step.inverse and found.also != (id_,)):
            raise _NotAWalk
        return name


@dataclass(frozen=True, slots=True)
class _Chain:
    """Steps from a root to a term, and where in the query the chain is complete."""

    steps: tuple[PropertyStep, ...]
    end: PatternTerm
    position: int


def _select(patterns: Patterns, names: _FactNames) -> Query:
    if patterns.either is not None:
        one, other, iri, has_more = patterns.either
        measure = MemberValue(names.hops([PropertyStep(iri)])[0].predicate)
        return Query("most" if has_more else "least", names.entity(one), by=measure, also=(names.entity(other),))
    with suppress(_NotAWalk):
        return _members(patterns, names)
    return _groups(patterns, names)


def _members(patterns: Patterns, names: _FactNames) -> Query:
    """Return the question about what is asked for as members of a set."""
    asked = PatternTerm(variable=patterns.asked)
    chains = _chains(asked, patterns)
    by: MemberValue | None = None
    limit = 1
    head: Head = "count" if patterns.counts else "list"
    sorted_by = [chain for chain in chains if (said := chain.steps[0].statement) is not None and said.sorts is not None]
    order = patterns.order
    if order is not None and len(sorted_by) == 1:
        head, limit = "most" if order.descending else "least", patterns.limit or 1
        said = sorted_by[0].steps[0].statement
        by = MemberValue(names.qualifier(said.sorts if said is not None and said.sorts else ""), its=True)
    elif order is not None or patterns.total is not None:
        if order is not None:
            head, limit = "most" if order.descending else "least", patterns.limit or 1
            variable, is_counted = order.variable, order.counted
        elif patterns.total is not None:
            (head, variable), is_counted = patterns.total, False
        end = PatternTerm(variable=variable)
        sorts = [chain for chain in chains if chain.end == end]
        if len(sorts) != 1:
            raise _NotAWalk
        if any(condition.term == end for condition in patterns.conditions):  # a walk sorts by all values that there are
            raise _NotAWalk
        by = _value_at(names.hops(sorts[0].steps), is_counted)
        if not by.counted and names.has_text(by.predicate):
            raise _NotAWalk
        chains.remove(sorts[0])
    show = _columns(chains, patterns, names)
    groups, which = None, list[WalkFilter]()
    if patterns.group is not None:
        groups = Groups(names.hops(_taken(chains, patterns.group, patterns).steps), *_bound(patterns, asked.variable))
    elif patterns.having is not None:
        hops = names.hops(_taken(chains, patterns.having[0], patterns).steps)
        which = [WalkFilter(hops, _OPERATORS[patterns.having[1]], str(patterns.having[2]), counted=True)]
    if patterns.members is not None:
        start, *also = names.entities(patterns.members)
        hops = ()
    else:
        chain, (start, *also), hops = _start(sorted_by or chains, names)
        chains.remove(chain)
    which += _filters(asked, chains, patterns, names)
    return Query(head, start, hops, tuple(which), by, limit, also=tuple(also), per=groups, show=show)


def _columns(chains: list[_Chain], patterns: Patterns, names: _FactNames) -> tuple[MemberValue, ...]:
    """Return the columns of a table, which are beside what is asked for. Those that a row need not have are no filters."""
    found, asked = list[MemberValue](), PatternTerm(variable=patterns.asked)
    for variable, must_have in patterns.columns.items():
        end = PatternTerm(variable=variable)  # of a chain, or on the way of one
        chain = next((one.steps for one in _chains(asked, patterns) if one.end == end), ())
        own = (edge.steps for edge in patterns.edges if (edge.subject, edge.object) == (asked, end))
        steps = chain or next(own, ())
        if any(step.inverse for step in steps):
            raise _NotAWalk
        found.append(_value_at(names.hops(steps)))
        if not must_have:
            _taken(chains, variable, patterns)
    return tuple(found)


def _value_at(hops: Sequence[Hop], is_counted: bool = False) -> MemberValue:
    """Return the values to which hops lead from members. Raises _NotAWalk unless each is made once, by plain facts."""
    *via, last = [hop.predicate for hop in hops if not (hop.closure or hop.has_statements)] or [""]
    if not last or len(via) + 1 < len(hops):
        raise _NotAWalk
    return MemberValue(last, is_counted, via=tuple(via))


def _groups(patterns: Patterns, names: _FactNames) -> Query:
    """Return the question for what is asked for as the groups of members of another variable, or of an entity: each is what
    some member leads to, so filters of members say what is on the way to it."""
    asked, order = PatternTerm(variable=patterns.asked), patterns.order
    if (
        patterns.counts
        or patterns.total
        or patterns.members
        or patterns.columns
        or (order is not None and not order.counted)
    ):
        raise _NotAWalk
    terms = dict.fromkeys(term for edge in patterns.edges for term in (edge.subject, edge.object) if not term.also)
    for root in [term for term in terms if term != asked and term.text is None]:
        with suppress(_NotAWalk, QueryError):
            chains = _chains(root, patterns)
            hops = names.hops(_taken(chains, patterns.asked or "", patterns).steps)
            operator, value = _bound(patterns, root.variable)
            best: Literal["", "most", "least"] = ""
            if order is not None:
                best = "most" if order.descending else "least"
                if order.variable != root.variable:
                    raise _NotAWalk
            per = Groups(hops, operator, value, best, patterns.limit or 1 if order else 0)
            chain, (start, *also), to_root = _start(chains, names)
            chains.remove(chain)
            itself = [] if root.id is None else [WalkFilter((), "is", names.entity(root))]
            which = (*itself, *_filters(root, chains, patterns, names))
            return Query("count", start, to_root, which, also=tuple(also), per=per)
    raise _NotAWalk


def _taken(chains: list[_Chain], variable: str, patterns: Patterns) -> _Chain:
    """Take the chain that ends at a variable, of which no condition holds, out of some chains."""
    end = PatternTerm(variable=variable)
    found = [chain for chain in chains if chain.end == end]
    if len(found) != 1 or any(condition.term == end for condition in patterns.conditions):
        raise _NotAWalk
    chains.remove(found[0])
    return found[0]


def _bound(patterns: Patterns, counted: str | None) -> tuple[Operator | None, str]:
    """Return the bound of groups on how many members each has, of which the variable is `counted`."""
    if patterns.having is None:
        return None, ""
    variable, sign, number = patterns.having
    if variable != counted:
        raise _NotAWalk
    return _OPERATORS[sign], str(number)


def _ask(patterns: Patterns, names: _FactNames) -> Query:
    """Return the question about an entity that is part of all chains, or about the objects of one of its predicates."""
    parts = (patterns, *patterns.negated)
    terms = [term for part in parts for edge in part.edges for term in (edge.subject, edge.object)]
    terms += [condition.term for condition in patterns.conditions]
    for root in dict.fromkeys(terms):
        try:
            chains = _chains(root, patterns)
            if root.id is not None:
                return Query("ask", names.entity(root), (), _filters(root, chains, patterns, names))
            if root.variable is not None:
                chain, (start, *also), hops = _start([chain for chain in chains if len(chain.steps) == 1], names)
                chains.remove(chain)
                return Query("ask", start, hops, _filters(root, chains, patterns, names), also=tuple(also))
        except (_NotAWalk, QueryError):
            continue
    raise _NotAWalk


def _chains(root: PatternTerm, patterns: Patterns) -> list[_Chain]:
    """Return the chains from a term: together they have to be all patterns, and each its own ones."""
    left, found = list(enumerate(patterns.edges)), []
    for number, edge in enumerate(patterns.edges):
        if (number, edge) not in left or root not in (edge.subject, edge.object):
            continue
        steps, at, position = list[PropertyStep](), root, 0
        following: tuple[int, Edge] | None = (number, edge)
        while following is not None:
            left.remove(following)
            onwards = following[1].subject == at
            steps += following[1].steps if onwards else [step.reversed() for step in reversed(following[1].steps)]
            at, position = following[1].object if onwards else following[1].subject, following[1].position
            touching = [] if at.variable is None else [e for e in left if at in (e[1].subject, e[1].object)]
            is_inside = bool(touching) and not any(condition.term == at for condition in patterns.conditions)
            if (at == root and at.variable is not None) or (touching and not is_inside) or len(touching) > 1:
                raise _NotAWalk
            following = touching[0] if touching else None
        found.append(_Chain(tuple(steps), at, position))
    if left:
        raise _NotAWalk
    return found


def _start(chains: Sequence[_Chain], names: _FactNames) -> tuple[_Chain, list[str], tuple[Hop, ...]]:
    """Choose the chain that the walk goes along, backwards, and return it with the walk's starts and hops: that from one of
    some entities, if there is one, which no filter compares with."""
    options = list[tuple[tuple[bool, bool, int], _Chain, list[str], tuple[Hop, ...]]]()
    chains = [chain for chain in chains if chain.end.also and chain.end.id is not None] or chains
    for chain in chains:
        try:
            if chain.end.text is not None:
                if chain.end.also:
                    continue
                starts, last = [f"{chain.end.text}{ALIAS}"], chain.steps[-1]
                known = names.facts.predicates(starts[0])
                if last != PropertyStep(PREFIXES["skos"] + "altLabel") or ALIAS_OF not in known:
                    continue
                hops = (Hop(ALIAS_OF), *names.hops([step.reversed() for step in reversed(chain.steps[:-1])]))
            else:
                starts, hops = names.entities(chain.end), names.hops([s.reversed() for s in reversed(chain.steps)])
        except _NotAWalk:
            continue
        first = hops[0].predicate
        is_class = chain.steps[0].iri in _CLASSES and not chain.steps[0].inverse
        size = names.facts.counts(starts, first)[0] if len(chains) > 1 else 0
        options.append(((names.facts.is_hub(starts[0], first), is_class, size), chain, starts, hops))
    if not options:
        raise _NotAWalk
    return min(options, key=lambda option: option[0])[1:]


def _filters(
    root: PatternTerm, chains: Sequence[_Chain], patterns: Patterns, names: _FactNames
) -> tuple[WalkFilter, ...]:
    """Return the filters that chains and conditions are, in the order of the query."""
    found = list[tuple[int, WalkFilter]]()
    for chain in chains:
        hops = names.hops(chain.steps)
        if chain.end.variable is None:
            end = chain.end
            value, *also = names.entities(end) if end.id is not None else (end.text or "", *end.also)
            found.append((chain.position, WalkFilter(hops, "is", value, also=tuple(also))))
            continue
        conditions = [condition for condition in patterns.conditions if condition.term == chain.end]
        if not conditions:
            found.append((chain.position, WalkFilter(hops, "over", "0", counted=True)))
            continue
        compared = list(_compared(hops, conditions, names))
        if len(compared) > 1:  # they hold for one value, two filters of a walk maybe for two
            raise _NotAWalk
        found += compared
    found += _compared((), [condition for condition in patterns.conditions if condition.term == root], names)
    ends = {root, *(chain.end for chain in chains if chain.end.variable is not None)}
    if any(condition.term not in ends for condition in patterns.conditions):
        raise _NotAWalk
    for _, which in found:
        if which.operator in BOUNDS and which.hops and names.has_text(which.hops[-1].predicate):
            raise _NotAWalk
    others = [one for part in patterns.negated for one in _negated(root, part, names)]
    return (*(which for _, which in sorted(found, key=lambda pair: pair[0])), *others)


def _negated(root: PatternTerm, part: Patterns, names: _FactNames) -> Iterator[WalkFilter]:
    """Yield the filter that patterns which do not hold are."""
    found = _filters(root, _chains(root, part), part, names)
    if len(found) != 1:
        raise _NotAWalk
    yield replace(found[0], negated=not found[0].negated)


def _compared(
    hops: tuple[Hop, ...], conditions: Sequence[TermComparison], names: _FactNames
) -> Iterator[tuple[int, WalkFilter]]:
    """Yield filters for conditions of one term, with their positions. Those on days are taken together."""
    days = [(condition.sign, condition.day) for condition in conditions if condition.day is not None]
    for operator, value in filters_of_days(days):
        yield next(c.position for c in conditions if c.day is not None), WalkFilter(hops, operator, value)
    for condition in conditions:
        if condition.day is None:
            if condition.other is not None and hops:
                than, start = names.hops(condition.other.steps), names.entity(condition.other.subject)
                yield condition.position, WalkFilter(hops, _OPERATORS[condition.sign], start, than)
                continue
            if condition.sign == "is not" and not hops:
                name = names.entity(PatternTerm(id=condition.id))
                yield condition.position, WalkFilter((), "is", name, negated=True)
                continue
            if condition.sign not in _OPERATORS or condition.than is not None:
                raise _NotAWalk
            name = condition.value if condition.id is None else names.entity(PatternTerm(id=condition.id))
            yield condition.position, WalkFilter(hops, _OPERATORS[condition.sign], name)
