"""The answers of queries, by a SPARQL store of claims and by an index of the same claims, so that both compare.

An answer is whether there are rows, or the set of its members: ids of entities, and literals as facts have them. The
answer of a count is the set of that number.
"""

import gzip
from pathlib import Path

from pyoxigraph import Literal, NamedNode, QueryBoolean, RdfFormat, Store

from refactx.fact import clean_part
from refactx.ingest.parsers.values import format_literal
from refactx.iris import OWN_PREFIXES as PREFIXES
from refactx.walks.answered import answer_query
from refactx.walks.language import FactSet, Query, QueryError
from refactx.walks.sets import WalkLimits

Answer = bool | frozenset[str]


def load(claims: Path) -> Store:
    """Return a store in memory of a file of N-Triples, which may be compressed by gzip."""
    store = Store()
    with gzip.open(claims) if claims.suffix == ".gz" else claims.open("rb") as file:
        store.bulk_load(file, RdfFormat.N_TRIPLES)
    return store


def answer_of_store(sparql: str, store: Store) -> Answer:
    """Return the answer of a store: of several columns, that of entities, or else the first one."""
    found = store.query(sparql, prefixes=PREFIXES)
    if isinstance(found, QueryBoolean):
        return bool(found)
    columns = list(zip(*found, strict=True)) or [()]
    column = next((one for one in columns if one and isinstance(one[0], NamedNode)), columns[0])
    return frozenset(map(_text, column))


def answer_of_index(query: Query, facts: FactSet) -> Answer:
    """Return the answer of an index. Raises QueryError if it refuses the query, or has a part of the answer only.

    The limits are the default ones, but for the time, which depends on the machine.
    """
    answered = answer_query(query, facts, WalkLimits(seconds=60))
    result = answered.result
    if not result.is_complete:
        raise QueryError(f"a part of the answer: {result.reason}")
    if query.head == "ask":
        return bool(result.truth)
    if query.head == "count" and query.per is None:
        return frozenset((str(result.count),))
    return frozenset(row if isinstance(row, str) else row.id or row.label for row in answered.rows)


def _text(term: object) -> str:
    if isinstance(term, NamedNode):
        return term.value.rpartition("/")[2]
    if not isinstance(term, Literal):
        return str(term)
    return clean_part(term.value if term.language else format_literal(term.value, term.datatype.value) or "")
