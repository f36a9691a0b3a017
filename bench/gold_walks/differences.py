"""The reason why the answer of a walk is not that of the SPARQL query it was read from, tried out.

A query is run again with one or more of the things changed that a walk reads another way. If it then has the walk's
answer, these are the reason.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from pyoxigraph import Store

from bench.gold_walks.answers import Answer, answer_of_store
from refactx.walks.answered import answer_query
from refactx.walks.language import FactSet, Query

SAME, NO_WALK, REFUSED, TIE, OTHER = "same", "no walk", "refused", "tie", "other"
UNWRITTEN = "no SPARQL"
INVERSE, LIMIT, ROWS = "inverse property", "limit", "rows"
REASONS = {
    INVERSE: "the index has the facts of a property that the claims state by its inverse property",
    LIMIT: "gold has any N of the rows, by a limit without an order",
    ROWS: "gold counts rows, of which a member has several",
    TIE: "members of equal value are cut at the limit, where gold takes others",
    REFUSED: "the index has no answer: its limits, or the facts of a hub",
    OTHER: "not explained",
}

_EVERYTHING = 1 << 30


def reason(sparql: str, query: Query, facts: FactSet, store: Store, answers: tuple[Answer, Answer]) -> str:
    """Return why a query and its walk differ, given both answers; `OTHER` if no change explains it."""
    for size in range(1, len(_CHANGES) + 1):
        for names in combinations(_CHANGES, size):
            changed = sparql
            for name in names:
                changed = _CHANGES[name](changed, facts)
            if changed != sparql and answer_of_store(changed, store) == answers[1]:
                return " + ".join(names)
    return TIE if is_tie(query, facts, answers) else OTHER


def is_tie(query: Query, facts: FactSet, answers: tuple[Answer, Answer]) -> bool:
    """Return whether two answers to a query for the highest or lowest have members of the same values."""
    if query.by is None:
        return False
    every = answer_query(replace(query, limit=_EVERYTHING), facts)
    ids = [row if isinstance(row, str) else row.id or row.label for row in every.rows]
    values = dict(zip(ids, every.result.sorted_by, strict=True))
    ranks = [sorted(values.get(one, "") for one in answer) for answer in answers if isinstance(answer, frozenset)]
    return len(ranks) == 2 and ranks[0] == ranks[1]


def _both_ways(sparql: str, facts: FactSet) -> str:
    """Return a query with the inverse properties of each property that the index joins with it."""

    def path(match: re.Match[str]) -> str:
        name = facts.names([match[1]]).get(match[1], "")
        found = facts.describe([name]).get(name)
        if found is None or not found.also:
            return match[0]
        ways = f"({'|'.join((f'wdt:{match[1]}', *(f'^wdt:{one}' for one in found.also)))})"
        return f"{ways}/{ways}* " if match[2] == "+" else f"{ways}{match[2] or ''}"  # `(a|^b)+` may take minutes

    return re.sub(r"wdt:(P\d+)\b(?:\s*([+*]))?", path, sparql)


def _without_limit(sparql: str, facts: FactSet) -> str:
    return sparql if re.search(r"\bORDER\s+BY\b", sparql, re.I) else re.sub(r"\bLIMIT\s+\d+", "", sparql, flags=re.I)


def _distinct(sparql: str, facts: FactSet) -> str:
    counted = re.sub(r"\bCOUNT\s*\(\s*(?!DISTINCT\b)", "COUNT(DISTINCT ", sparql, flags=re.I)
    return re.sub(r"\bSELECT\s+(?!DISTINCT\b)", "SELECT DISTINCT ", counted, count=1, flags=re.I)


_CHANGES: dict[str, Callable[[str, FactSet], str]] = {INVERSE: _both_ways, LIMIT: _without_limit, ROWS: _distinct}
