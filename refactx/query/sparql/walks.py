"""Walks of SPARQL queries, such as the gold queries of data sets: what `refactx.query.sparql.writer` writes, read back.

A query is a walk if one variable is asked for (or none), and each of its patterns lies on a chain from that variable to
an entity, a value, or what it is sorted by. One chain that ends in an entity becomes the start and the hops, others
become filters. `refactx.query.sparql.reader` reads the text.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from refactx.fact import ALIAS, ALIAS_OF
from refactx.lazy import require
from refactx.query.language import By, FactSet, Head, Hop, Operator, Query, QueryError, Which
from refactx.query.sparql.patterns import Condition, Edge, Patterns, Step, Term
from refactx.query.sparql.predicates import Names, NotAWalk
from refactx.query.sparql.values import filters_of_days
from refactx.query.sparql.writer import PREFIXES, leaves_values_backwards

_CLASSES = (PREFIXES["wdt"] + "P31", PREFIXES["wdt"] + "P279")


def from_sparql(text: str, facts: FactSet, *, exact: bool = False) -> Query | None:
    """Return the walk that a SPARQL query is; None if it is not one, or if the index lacks one of its names.

    The walk starts at an entity that is no hub; rather at one that is not merely a class of the members; and among
    these where the first hop has fewest facts. It means what the query means, but for this:

    * a predicate has the facts of inverse properties too, if the index joins them (P1696): `<Germany> <capital>` leads to
      what is said to be the capital of Germany, too;
    * members are distinct, where rows that are counted or limited may be equal; a limit without an order is dropped;
    * text is compared without the case of letters, and labels as the names that the index has;
    * a value leads nowhere, where a query may go backwards from it to all that have it.

    With `exact`, a query to which one of these applies is None too.

        >>> query = "SELECT (COUNT(?x) AS ?n) WHERE { wd:Q1588 wdt:P1449 ?x }"
        >>> write_line(from_sparql(query, facts))  # doctest: +SKIP
        'count <Louisiana> <nickname>'

    Raises QueryError, with line and column, if the text is not SPARQL; InputError if rdflib is not installed; and as
    the methods of `facts` do.
    """
    require("rdflib", "sparql")
    from refactx.query.sparql.reader import read_patterns

    patterns = read_patterns(text)
    if patterns is None or not patterns.says_no_more_of_iris or (exact and not patterns.has_rows_of_members):
        return None
    for names in [Names(facts, exact=True), *([] if exact else [Names(facts, exact=False)])]:
        with suppress(NotAWalk, QueryError):
            walk = _ask(patterns, names) if patterns.ask else _select(patterns, names)
            return None if exact and leaves_values_backwards(walk, facts) else walk
    return None


@dataclass(frozen=True, slots=True)
class _Chain:
    """Steps from a root to a term, and where in the query the chain is complete."""

    steps: tuple[Step, ...]
    end: Term
    position: int


def _select(patterns: Patterns, names: Names) -> Query:
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
            raise NotAWalk
        if any(condition.term == end for condition in patterns.conditions):  # a walk sorts by all values that there are
            raise NotAWalk
        by = By(names.hops(sorts[0].steps)[0].predicate, patterns.order.counted)
        if not by.counted and names.has_text(by.predicate):
            raise NotAWalk
        chains.remove(sorts[0])
    chain, start, hops = _start(chains, names)
    chains.remove(chain)
    return Query(head, start, hops, _filters(asked, chains, patterns, names), by, limit)


def _ask(patterns: Patterns, names: Names) -> Query:
    """Return the question about an entity that is part of all chains, or about the objects of one of its predicates."""
    terms = [term for edge in patterns.edges for term in (edge.subject, edge.object)]
    terms += [condition.term for condition in patterns.conditions]
    for root in dict.fromkeys(terms):
        try:
            chains = _chains(root, patterns)
            if root.id is not None:
                return Query("ask", names.entity(root), (), _filters(root, chains, patterns, names))
            if root.variable is not None:
                chain, start, hops = _start([chain for chain in chains if len(chain.steps) == 1], names)
                chains.remove(chain)
                return Query("ask", start, hops, _filters(root, chains, patterns, names))
        except (NotAWalk, QueryError):
            continue
    raise NotAWalk


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
                raise NotAWalk
            following = touching[0] if touching else None
        found.append(_Chain(tuple(steps), at, position))
    if left:
        raise NotAWalk
    return found


def _start(chains: Sequence[_Chain], names: Names) -> tuple[_Chain, str, tuple[Hop, ...]]:
    """Choose the chain that the walk goes along, backwards, and return it with the walk's start and hops."""
    options = list[tuple[tuple[bool, bool, int], _Chain, str, tuple[Hop, ...]]]()
    for chain in chains:
        try:
            if chain.end.text is not None:
                start, hops = _alias(chain, names)
            else:
                start, hops = names.entity(chain.end), names.hops([s.reversed() for s in reversed(chain.steps)])
        except NotAWalk:
            continue
        first = hops[0].predicate
        is_class = chain.steps[0].iri in _CLASSES and not chain.steps[0].inverse
        size = names.facts.counts([start], first)[0] if len(chains) > 1 else 0
        options.append(((names.facts.is_hub(start, first), is_class, size), chain, start, hops))
    if not options:
        raise NotAWalk
    return min(options, key=lambda option: option[0])[1:]


def _alias(chain: _Chain, names: Names) -> tuple[str, tuple[Hop, ...]]:
    name, last = f"{chain.end.text}{ALIAS}", chain.steps[-1]
    if last != Step(PREFIXES["skos"] + "altLabel") or ALIAS_OF not in names.facts.predicates(name):
        raise NotAWalk
    return name, (Hop(ALIAS_OF), *names.hops([step.reversed() for step in reversed(chain.steps[:-1])]))


def _filters(root: Term, chains: Sequence[_Chain], patterns: Patterns, names: Names) -> tuple[Which, ...]:
    """Return the filters that chains and conditions are, in the order of the query."""
    found = list[tuple[int, Which]]()
    for chain in chains:
        hops = names.hops(chain.steps)
        if chain.end.variable is None:
            value = names.entity(chain.end) if chain.end.id is not None else chain.end.text or ""
            found.append((chain.position, Which(hops, "is", value)))
            continue
        conditions = [condition for condition in patterns.conditions if condition.term == chain.end]
        if not conditions:
            raise NotAWalk
        compared = list(_compared(hops, conditions, names))
        if len(compared) > 1:  # they hold for one value, two filters of a walk maybe for two
            raise NotAWalk
        found += compared
    found += _compared((), [condition for condition in patterns.conditions if condition.term == root], names)
    ends = {root, *(chain.end for chain in chains if chain.end.variable is not None)}
    if any(condition.term not in ends for condition in patterns.conditions):
        raise NotAWalk
    for _, which in found:
        if which.operator in ("over", "under") and which.hops and names.has_text(which.hops[-1].predicate):
            raise NotAWalk
    return tuple(which for _, which in sorted(found, key=lambda pair: pair[0]))


def _compared(hops: tuple[Hop, ...], conditions: Sequence[Condition], names: Names) -> Iterator[tuple[int, Which]]:
    """Yield filters for conditions of one term, with their positions. Those on days are taken together."""
    days = [(condition.sign, condition.day) for condition in conditions if condition.day is not None]
    for operator, value in filters_of_days(days):
        yield next(c.position for c in conditions if c.day is not None), Which(hops, operator, value)
    for condition in conditions:
        if condition.day is None:
            name = condition.value if condition.id is None else names.entity(Term(id=condition.id))
            yield condition.position, Which(hops, _operator(condition.sign), name)


def _operator(sign: str) -> Operator:
    signs: dict[str, Operator] = {"=": "equals", ">": "over", "<": "under", "is": "is"}
    signs |= {"starts with": "starts with", "contains": "contains"}
    if sign not in signs:
        raise NotAWalk
    return signs[sign]
