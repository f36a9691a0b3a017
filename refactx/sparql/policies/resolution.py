"""PGMR text that a model wrote, as SPARQL whose ids are those that a resolver found, or refused."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from refactx.query.pgmr import read_pgmr
from refactx.query.pgmr.uris import ID, NAMESPACES, split_uri
from refactx.query.walk import QueryError
from refactx.sparql.engines.engine import QueryRefusedError, SparqlSyntaxError
from refactx.sparql.memory import MemoryResolver, Refused
from refactx.sparql.policies.direct import NO_QUERY
from refactx.sparql.policies.extraction import pgmr_in
from refactx.sparql.policies.policy import Written
from refactx.sparql.syntax import check_query


def resolved(written: Written, resolver: MemoryResolver) -> Written:
    """Return what a model wrote with its query, or with the reason why it is refused.

    Refused is a text without a query, one that is no PGMR text or no SPARQL, a mention that the resolver refuses, and an
    id that came into the query in another way than by the resolver. Raises as the resolver's memory does.
    """
    text = pgmr_in(written.text)
    if text is None:
        return replace(written, reason=NO_QUERY)
    try:
        query = read_pgmr(text)
        found = resolver.resolve_query(query)
        if isinstance(found, Refused):
            return replace(written, reason=found.reason)
        sparql = query.with_ids(found.ids)
        check_query(sparql)
        strange = sorted(ids_within(sparql) - set(found.ids.values()))
    except (QueryError, QueryRefusedError, SparqlSyntaxError) as error:
        return replace(written, reason=str(error))
    if strange:
        return replace(written, reason=f"the query has {', '.join(strange)}, which stands for no name")
    return replace(written, sparql=sparql, choices=found.choices)


def ids_within(sparql: str) -> set[str]:
    """Return the ids of a query as a parser reads them: within URIs however these are spelt, and within strings.

    >>> sorted(ids_within("PREFIX q: <http://www.wikidata.org/entity/Q> ASK { q:5 wdt:P1 ?x FILTER(STR(?x) = 'entity/Q7') }"))
    ['P1', 'Q5', 'Q7']

    Raises QueryError if the query is not SPARQL.
    """
    from refactx.query.pgmr.syntax import shape_of

    return {id_ for id_ in _ids(shape_of(sparql)) if ID.fullmatch(id_)}


def _ids(node: Any) -> Iterator[str]:
    match node:
        case ("uri", str(uri)):
            namespace, name = split_uri(uri)
            if namespace in NAMESPACES:
                yield name
        case ("literal", str(text), *_):
            if "/" in text:
                yield text.rpartition("/")[2]
        case tuple():
            for part in node:
                yield from _ids(part)
