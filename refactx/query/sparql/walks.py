"""Walks of SPARQL queries, such as the gold queries of data sets: what `refactx.query.sparql.writer` writes, read back.

A query is a walk if one variable is asked for (or none), and each of its patterns lies on a chain from that variable to
an entity, a value, or what it is sorted by. One chain that ends in an entity becomes the start and the hops, others
become filters. `refactx.query.sparql.reader` reads the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from refactx.extras import require
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS
from refactx.query.fact_set import FactSet
from refactx.query.sparql.patterns import Condition, Edge, Patterns, Step, Term
from refactx.query.sparql.values import filters_of_days
from refactx.query.sparql.writer import PREFIXES
from refactx.query.walk import By, Head, Hop, Operator, Query, QueryError, Which

_CLASSES = (PREFIXES["wdt"] + "P31", PREFIXES["wdt"] + "P279")


def from_sparql(text: str, facts: FactSet) -> Query | None:
    """Return the walk that a SPARQL query is; None if it is not one, or if the index lacks one of its names.

    The walk starts at an entity that is no hub; rather at one that is not merely a class of the members; and among
    these where the first hop has fewest facts. It has the rows of the query as a set: a limit without an order, and
    duplicates in a count, are dropped. Text is compared without the case of letters.

        >>> query = "SELECT (COUNT(?x) AS ?n) WHERE { wd:Q1588 wdt:P1449 ?x }"
        >>> write_line(from_sparql(query, facts))  # doctest: +SKIP
        'count <Louisiana> <nickname>'

    Raises QueryError, with line and column, if the text is not SPARQL; InputError if rdflib is not installed; and as
    the methods of `facts` do.
    """
    require("rdflib", "sparql")
    from refactx.query.sparql.reader import read_patterns

    patterns = read_patterns(text)
    if patterns is None:
        return None
    try:
        if patterns.ask:
            return _ask(patterns, facts)
        return _select(patterns, facts)
    except (_NotAWalk, QueryError):
        return None


class _NotAWalk(Exception):  # noqa: N818  # the reason for None, within this module
    """A query that is not a walk."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """Steps from a root to a term, and where in the query the chain is complete."""

    steps: tuple[Step, ...]
    end: Term
    position: int


def _select(patterns: Patterns, facts: FactSet) -> Query:
    asked = Term(variable=patterns.asked)
    chains = _chains(asked, patterns)
    by, limit = None, 1
    head: Head = "count" if patterns.counts else "list"
    if patterns.order is not None:
        head = "most" if patterns.order.descending else "least"
        limit = patterns.limit or 1
        end = Term(variable=patterns.order.variable)
        sorts = [chain for chain in chains if chain.end == end]
        if len(sorts) != 1 or len(sorts[0].steps) != 1 or sorts[0].steps[0].closure:
            raise _NotAWalk
        by = By(_hops(sorts[0].steps, facts)[0].predicate, patterns.order.counted)
        if not any(condition.term == end for condition in patterns.conditions):
            chains.remove(sorts[0])
    chain, start, hops = _start(chains, facts)
    chains.remove(chain)
    return Query(head, start, hops, _filters(asked, chains, patterns, facts), by, limit)


def _ask(patterns: Patterns, facts: FactSet) -> Query:
    """Return the question about an entity that is part of all chains, or about the objects of one of its predicates."""
    terms = [term for edge in patterns.edges for term in (edge.subject, edge.object)]
    terms += [condition.term for condition in patterns.conditions]
    for root in dict.fromkeys(terms):
        try:
            chains = _chains(root, patterns)
            if root.id is not None:
                return Query("ask", _name(root, facts), (), _filters(root, chains, patterns, facts))
            if root.variable is not None:
                chain, start, hops = _start([chain for chain in chains if len(chain.steps) == 1], facts)
                chains.remove(chain)
                return Query("ask", start, hops, _filters(root, chains, patterns, facts))
        except (_NotAWalk, QueryError):
            continue
    raise _NotAWalk


def _chains(root: Term, patterns: Patterns) -> list[_Chain]:
    """Return the chains from a term: together they have to be all patterns, and each its own ones."""
    left, found = list(enumerate(patterns.edges)), []
    for number, edge in enumerate(patterns.edges):
        if (number, edge) not in left or root not in (edge.subject, edge.object):
            continue
        steps, at, position = list[Step](), root, 0
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


def _start(chains: Sequence[_Chain], facts: FactSet) -> tuple[_Chain, str, tuple[Hop, ...]]:
    """Choose the chain that the walk goes along, backwards, and return it with the walk's start and hops."""
    options = list[tuple[tuple[bool, bool, int], _Chain, str, tuple[Hop, ...]]]()
    for chain in chains:
        try:
            if chain.end.text is not None:
                start, hops = _alias(chain, facts)
            else:
                start, hops = _name(chain.end, facts), _hops([s.reversed() for s in reversed(chain.steps)], facts)
        except _NotAWalk:
            continue
        first = hops[0].predicate
        is_class = chain.steps[0].iri in _CLASSES and not chain.steps[0].inverse
        size = facts.counts([start], first)[0] if len(chains) > 1 else 0
        options.append(((facts.is_hub(start, first), is_class, size), chain, start, hops))
    if not options:
        raise _NotAWalk
    return min(options, key=lambda option: option[0])[1:]


def _alias(chain: _Chain, facts: FactSet) -> tuple[str, tuple[Hop, ...]]:
    name, last = f"{chain.end.text}{ALIAS}", chain.steps[-1]
    if last != Step(PREFIXES["skos"] + "altLabel") or ALIAS_OF not in facts.predicates(name):
        raise _NotAWalk
    return name, (Hop(ALIAS_OF), *_hops([step.reversed() for step in reversed(chain.steps[:-1])], facts))


def _filters(root: Term, chains: Sequence[_Chain], patterns: Patterns, facts: FactSet) -> tuple[Which, ...]:
    """Return the filters that chains and conditions are, in the order of the query."""
    found = list[tuple[int, Which]]()
    for chain in chains:
        hops = _hops(chain.steps, facts)
        if chain.end.variable is None:
            value = _name(chain.end, facts) if chain.end.id is not None else chain.end.text or ""
            found.append((chain.position, Which(hops, "is", value)))
            continue
        conditions = [condition for condition in patterns.conditions if condition.term == chain.end]
        if not conditions:
            raise _NotAWalk
        compared = list(_compared(hops, conditions, facts))
        if len(compared) > 1:  # they hold for one value, two filters of a walk maybe for two
            raise _NotAWalk
        found += compared
    found += _compared((), [condition for condition in patterns.conditions if condition.term == root], facts)
    ends = {root, *(chain.end for chain in chains if chain.end.variable is not None)}
    if any(condition.term not in ends for condition in patterns.conditions):
        raise _NotAWalk
    return tuple(which for _, which in sorted(found, key=lambda pair: pair[0]))


def _compared(hops: tuple[Hop, ...], conditions: Sequence[Condition], facts: FactSet) -> Iterator[tuple[int, Which]]:
    """Yield filters for conditions of one term, with their positions. Those on days are taken together."""
    days = [(condition.sign, condition.day) for condition in conditions if condition.day is not None]
    for operator, value in filters_of_days(days):
        yield next(c.position for c in conditions if c.day is not None), Which(hops, operator, value)
    for condition in conditions:
        if condition.day is None:
            name = condition.value if condition.id is None else _name(Term(id=condition.id), facts)
            yield condition.position, Which(hops, _operator(condition.sign), name)


def _operator(sign: str) -> Operator:
    signs: dict[str, Operator] = {"=": "equals", ">": "over", "<": "under", "is": "is"}
    signs |= {"starts with": "starts with", "contains": "contains"}
    if sign not in signs:
        raise _NotAWalk
    return signs[sign]


def _name(term: Term, facts: FactSet) -> str:
    name = facts.names([term.id]).get(term.id) if term.id is not None else None
    if name is None:
        raise _NotAWalk
    return name


def _hops(steps: Sequence[Step], facts: FactSet) -> tuple[Hop, ...]:
    """Return the hops that steps are, by the predicates of the index that read their properties in that direction."""
    return tuple(Hop(_predicate(step, facts), step.closure) for step in steps)


def _predicate(step: Step, facts: FactSet) -> str:
    if step.iri == PREFIXES["schema"] + "description" and not step.inverse:
        return DESCRIPTIONS[0]
    id_ = step.iri.removeprefix(PREFIXES["wdt"])
    name = facts.names([id_]).get(id_) if id_ != step.iri else None
    if step.other is not None:  # what to_sparql writes for two properties of which each is the other's inverse
        return _predicate_of_two(step, name, facts)
    if name is not None and step.inverse:
        name = facts.inverse_of(name)
    if name is None or name not in facts.describe([name]):
        raise _NotAWalk
    return name


def _predicate_of_two(step: Step, name: str | None, facts: FactSet) -> str:
    other = facts.names([id_]).get(id_) if (id_ := (step.other or "").removeprefix(PREFIXES["wdt"])) else None
    if name is None or other is None or facts.inverse_of(name) != other or facts.inverse_of(other) != name:
        raise _NotAWalk
    return other if step.inverse else name
