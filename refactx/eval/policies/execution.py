"""Queries on an engine, as JSON, and the F1 of their rows."""

import re
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from refactx.sparql.engines import (
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Rows,
    SparqlEngine,
    SparqlSyntaxError,
)

MOST_ROWS = 10_000
"""The rows of a result that are kept and compared."""
_NUMBER = re.compile(r'"([^"]*)"\^\^<http://www\.w3\.org/2001/XMLSchema#(?:integer|decimal|double|float|int|long)>')
_WIDEST = 5
"""Results with more columns than this are compared as the columns stand."""

Result = Mapping[str, Any]
"""`{"truth": bool}` of an ASK; `{"variables", "rows", "truncated"}` of a SELECT, with terms as N-Triples or null; or
`{"error"}`, why the engine could not run the query."""


def run_query(engine: SparqlEngine, sparql: str, seconds: float | None) -> dict[str, Any]:
    """Run a query and return its result.

    Raises EngineError if the engine is an endpoint that cannot be asked: that says nothing of the query.
    """
    try:
        result = engine.run(sparql, limit=MOST_ROWS, seconds=seconds)
    except (EngineError, QueryRefusedError, SparqlSyntaxError) as error:
        is_down = isinstance(error, EngineError) and not isinstance(error, EngineTimeoutError)
        if is_down and "://" in engine.name:
            raise
        return {"error": str(error)}
    if not isinstance(result, Rows):
        return {"truth": result}
    rows = [[None if term is None else str(term) for term in row] for row in result.rows]
    return {"variables": list(result.variables), "rows": rows, "truncated": result.truncated}


def has_answer(gold: Result) -> bool:
    """Return whether the result of a gold query can be compared with: it is a truth, or has rows."""
    return "truth" in gold or bool(gold.get("rows"))


def row_f1(gold: Result, found: Result | None) -> float:
    """Return the F1 of the rows of a result against those of the gold query, each row once; 0 without a result.

    Columns may be in any order, and further ones are ignored: those are compared that give the best F1. Numbers are
    equal if their values are.

    >>> gold = {"rows": [["<a>"], ["<b>"]]}
    >>> row_f1(gold, {"rows": [["<b>"], ["<c>"]]}), row_f1(gold, {"rows": [['"x"', "<a>"], ['"y"', "<b>"]]})
    (0.5, 1.0)
    >>> row_f1({"truth": True}, {"truth": True}), row_f1(gold, {"error": "no"})
    (1.0, 0.0)
    """
    if found is None or "error" in found:
        return 0.0
    if "truth" in gold or "truth" in found:
        return float("truth" in gold and gold["truth"] == found.get("truth"))
    wanted, rows = _rows_of(gold), _rows_of(found)
    if not wanted or not rows or len(rows[0]) < len(wanted[0]):
        return 0.0
    columns = range(len(rows[0]))
    orders = permutations(columns, len(wanted[0])) if len(columns) <= _WIDEST else [tuple(columns[: len(wanted[0])])]
    return max(_f1(set(wanted), {tuple(row[at] for at in order) for row in rows}) for order in orders)


def _f1(wanted: set[tuple[Any, ...]], found: set[tuple[Any, ...]]) -> float:
    return 2 * len(wanted & found) / (len(wanted) + len(found))


def _rows_of(result: Result) -> Sequence[tuple[Any, ...]]:
    return [tuple(map(_value, row)) for row in result["rows"]]


def _value(term: str | None) -> Any:
    number = _NUMBER.fullmatch(term) if term is not None else None
    try:
        return float(number[1]) if number else term
    except ValueError:
        return term
