"""Whether a text that a policy's model wrote has a query that is not SPARQL, and how many names it has to resolve."""

from refactx.query.language import QueryError
from refactx.query.pgmr import read_pgmr
from refactx.sparql.engines import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.policies.policy import pgmr_in, query_in
from refactx.sparql.syntax import check_query


def is_broken(policy: str, text: str, *, held: bool) -> bool:
    """Return whether the query in a text is not SPARQL, or PGMR text that cannot be read.

    A text without a query is not broken. `held`: open text that is held to the grammar, with names in angle brackets.

    >>> is_broken("direct", "SELECT ?x { ?x wdt:P31", held=False), is_broken("direct", "I don't know.", held=False)
    (True, False)
    """
    if policy == "strict":
        return False
    names = policy in ("open", "harvest") and not held
    query = pgmr_in(text) if names else query_in(text)
    if query is None:
        return False
    try:
        check_query(read_pgmr(query).sparql if names else query)
    except (QueryError, SparqlSyntaxError):
        return True
    except QueryRefusedError:  # it is SPARQL, but neither SELECT nor ASK
        return False
    return False


def count_mentions(policy: str, text: str, *, held: bool) -> int:
    """Return the names in a PGMR text that are to be resolved; 0 for other texts."""
    if policy not in ("open", "harvest") or held:
        return 0
    query = pgmr_in(text)
    try:
        return 0 if query is None else len(read_pgmr(query).mentions)
    except QueryError:
        return 0
