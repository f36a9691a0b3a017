"""The answers of two stores to one query, compared.

A LIMIT without an order leaves open which rows are given. So queries are compared without their LIMIT too.
"""

import re
from collections import Counter
from collections.abc import Hashable
from decimal import Decimal
from typing import Literal as OneOf

from pyoxigraph import Literal, QueryBoolean, Store

from refactx.iris import PREFIXES

Outcome = OneOf["same", "values", "more", "other"]
OUTCOMES: dict[Outcome, str] = {
    "same": "the same rows",
    "values": "the same values, numbers with another datatype",
    "more": "all rows of the claims, and more",
    "other": "other rows",
}
Table = Counter[tuple[Hashable, ...]]

_LIMIT = re.compile(r"\s+LIMIT\s+\d+\s*$", re.IGNORECASE)
_NUMBERS = ("decimal", "double", "integer", "float")


def compare(query: str, claims: Store, store: Store) -> Outcome:
    """Return how the answer of a store to a SPARQL query differs from that of the claims."""
    everything = _LIMIT.sub("", query)
    expected, got = rows(everything, claims), rows(everything, store)
    if isinstance(expected, bool) or isinstance(got, bool):
        return "same" if expected == got else "other"
    if expected != got:
        if valued(expected) == valued(got):
            return "values"
        return "more" if valued(expected) < valued(got) else "other"
    limited = [rows(query, one) for one in (claims, store)]
    if "ORDER BY" in query.upper():
        return "same" if limited[0] == limited[1] else "other"
    sizes = [one.total() for one in limited if isinstance(one, Counter)]
    fits = all(one <= expected for one in limited if isinstance(one, Counter))
    return "same" if len(set(sizes)) == 1 and fits else "other"


def rows(query: str, store: Store) -> bool | Table:
    """Return whether there are rows, for ASK, or how often each row is there."""
    found = store.query(query, prefixes=PREFIXES)
    if isinstance(found, QueryBoolean):
        return bool(found)
    return Counter(tuple(row) for row in found)


def valued(found: Table) -> Table:
    """Return rows with numbers as their values."""
    result = Table()
    for row, count in found.items():
        result[tuple(map(_value, row))] += count
    return result


def _value(term: Hashable) -> Hashable:
    if isinstance(term, Literal) and term.datatype.value.rpartition("#")[2] in _NUMBERS:
        return Decimal(term.value)
    return term
