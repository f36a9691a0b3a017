"""The comparison of an answer with what the query means by brute force."""

import re

from refactx.walks.evaluate import Result, WalkLimits, evaluate_walk
from refactx.walks.language import FactSet, Query, QueryError
from refactx.walks.sets import Triple
from support.query.twin import NUMBERS, TIMES, Graph, first_by, members, with_inverse

EMPTY = re.compile(
    "is no predicate of|has the predicate|no fact begins|cannot be followed|cannot be compared|of which none is"
)
"""Complaints about queries whose answer is empty."""
HUB = "counted, but not in the index"
AGAIN = "cannot be followed again from literals"
"""The complaint about a closure over values, whether or not what it begins with would answer."""


def check(
    query: Query, facts: FactSet, claims: Graph, *, has_hubs: bool = False, scanned: Graph | None = None
) -> Result | None:
    """Check an answer; return it, or None if the query was refused, after checking that it may be.

    `has_hubs`: inverse facts may be missing; `scanned`: the facts that there are, which are scanned for those.
    """
    graph = with_inverse(claims)
    try:
        result = evaluate_walk(query, facts, WalkLimits(members=10_000, seconds=600))
    except QueryError as error:
        if HUB in str(error):
            assert has_hubs and scanned is None, error
        elif AGAIN not in str(error):
            assert EMPTY.search(str(error)), error
            assert not (first_by if query.by else members)(graph, query), error
        return None
    assert result.is_complete
    expected = members(graph, query)
    match query.head:
        case "list":
            assert len(result.values) == len(set(result.values)) == result.count
            assert set(result.values) == expected
        case "count":
            assert result.count == len(expected)
        case "ask":
            assert result.truth == bool(expected)
        case _:
            assert query.by is not None
            named = zip(result.values, result.sorted_by, strict=True)
            keys = [
                (name, int(by) if query.by.counted else NUMBERS.index(by) if by in NUMBERS else TIMES.index(by))
                for name, by in named
            ]
            ordered = first_by(graph, query)
            assert [name for name, _ in keys] == [name for name, _ in ordered]
    if result.facts or not has_hubs:  # the facts that a hub's count counts are not there
        prove(query, result, graph if scanned is None else scanned, expected)
    return result


def prove(query: Query, result: Result, graph: Graph, expected: set[str]) -> None:
    """Check that the facts of an answer exist, and that they alone give the same answer."""
    shown = frozenset[Triple](result.facts)
    assert shown <= graph
    if len(shown) < WalkLimits().facts and not (query.by and query.by.counted):
        alone = members(with_their_inverse(shown), query)
        if query.head == "ask":
            assert bool(alone) == result.truth
        elif query.by is None:
            assert alone == expected
        else:
            assert set(result.values) <= alone


def with_their_inverse(facts: frozenset[Triple]) -> Graph:
    """Facts, and those that state the same the other way: a hub's are shown so."""
    forwards = {(o, p.removesuffix(" of"), s) if p.endswith(" of") else (s, p, o) for s, p, o in facts}
    return with_inverse(forwards)
