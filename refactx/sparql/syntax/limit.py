"""A limit on the rows of a query."""

from refactx.sparql.syntax.reader import shape_of
from refactx.sparql.syntax.shape import ShapeError
from refactx.sparql.syntax.tokens import tokens_of


def with_limit(query: str, limit: int) -> str:
    """Return a SELECT with a limit on its rows, unless it has a lower one.

    >>> with_limit("SELECT ?x { ?x ?y ?z } ORDER BY ?x VALUES ?x { 1 }", 5)
    'SELECT ?x { ?x ?y ?z } ORDER BY ?x LIMIT 5 VALUES ?x { 1 }'
    >>> with_limit("SELECT ?x { ?x ?y ?z } LIMIT 9 OFFSET 2", 5), with_limit("SELECT ?x { ?x ?y ?z } LIMIT 3", 5)
    ('SELECT ?x { ?x ?y ?z } LIMIT 5 OFFSET 2', 'SELECT ?x { ?x ?y ?z } LIMIT 3')
    """
    tokens = tokens_of(query)
    try:
        shape = shape_of(tokens)
    except ShapeError:  # syntax beyond SPARQL 1.1
        return query
    after = range(*shape.modifiers)
    own = next((at for at in after if tokens[at].upper == "LIMIT"), None)
    if own is not None:
        number = next(token for token in tokens[own + 1 :] if token.text.isdigit())
        return f"{query[: number.start]}{min(int(number.text), limit)}{query[number.start + len(number.text) :]}"
    before = next((tokens[at].start for at in after if tokens[at].upper == "VALUES"), None)
    if before is None:
        return f"{query.rstrip()}\nLIMIT {limit}"  # on a line of its own: the last one may end in a comment
    return f"{query[:before]}LIMIT {limit} {query[before:]}"
