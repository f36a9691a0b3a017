"""A limit on the rows of a query."""

from itertools import pairwise

from refactx.sparql.syntax.reader import shape_of
from refactx.sparql.syntax.shape import ShapeError
from refactx.sparql.syntax.tokens import tokens_of


def with_limit(query: str, limit: int) -> str:
    """Return a SELECT with a limit on its rows, unless it has a smaller one.

    >>> with_limit("SELECT ?x { ?x ?y ?z } ORDER BY ?x VALUES ?x { 1 }", 5)
    'SELECT ?x { ?x ?y ?z } ORDER BY ?x LIMIT 5 VALUES ?x { 1 }'
    >>> with_limit("SELECT ?x { ?x ?y ?z } LIMIT 9", 5), with_limit("SELECT ?x { ?x ?y ?z } LIMIT 2", 5)
    ('SELECT ?x { ?x ?y ?z } LIMIT 5', 'SELECT ?x { ?x ?y ?z } LIMIT 2')
    """
    tokens = tokens_of(query)
    try:
        shape = shape_of(tokens)
    except ShapeError:  # syntax beyond SPARQL 1.1
        return query
    after = range(*shape.modifiers)
    words = [tokens[at] for at in after if not tokens[at].is_space]
    for word, number in pairwise(words):
        if word.upper == "LIMIT":
            lower = min(int(number.text), limit)
            return query[: number.start] + str(lower) + query[number.start + len(number.text) :]
    before = next((tokens[at].start for at in after if tokens[at].upper == "VALUES"), None)
    if before is None:
        return f"{query.rstrip()}\nLIMIT {limit}"  # on a line of its own: the last one may end in a comment
    return f"{query[:before]}LIMIT {limit} {query[before:]}"
