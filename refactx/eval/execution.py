"""Queries against gold queries: both run on an engine, the F1 of their rows, and whether they are the same."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, permutations
from typing import Any

from refactx.eval.sparql import Mode
from refactx.eval.sparql.scores import is_same as is_same_text
from refactx.sparql.engines import (
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Rows,
    SparqlEngine,
    SparqlSyntaxError,
    Term,
)
from refactx.sparql.labels import ids_of

MOST_ROWS = 10_000
"""The rows of a result that are kept and compared."""
MOST_TRIED = 5000
"""The most ways to pair columns that are tried, of results that are compared by the names of columns."""
_WIDEST = 5
"""Results with more columns than this are compared as the columns stand, if they are compared by their places."""
_NUMBER = re.compile(r'"([^"]*)"\^\^<http://www\.w3\.org/2001/XMLSchema#(?:integer|decimal|double|float|int|long)>')

Result = Mapping[str, Any]
"""`{"truth": bool}` of an ASK; `{"variables", "rows", "truncated"}` of a SELECT, with terms as N-Triples or null; or
`{"error"}`, why the engine could not run the query."""
_Row = tuple[Any, ...]


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
    wanted, rows = ([tuple(map(_term, row)) for row in result["rows"]] for result in (gold, found))
    if not wanted or not rows or len(rows[0]) < len(wanted[0]):
        return 0.0
    columns = range(len(rows[0]))
    width = len(wanted[0])
    return _best_f1(set(wanted), rows, permutations(columns, width) if len(columns) <= _WIDEST else [columns[:width]])


def rows_f1(gold: Rows, primary: Sequence[str], found: Rows | bool | None) -> float:
    """Return the F1 of a query's rows, as sets, over the primary variables of gold.

    Names of variables are the writer's own, so columns are paired in the best way; one with the same name counts first.
    With fewer columns than primary variables, or none, it is 0.

    >>> from pyoxigraph import Literal
    >>> gold = Rows(("word",), [(Literal("cane"),), (Literal("gatto"),)])
    >>> rows_f1(gold, ["word"], Rows(("n", "w"), [(Literal("1"), Literal("cane")), (Literal("2"), Literal("lupo"))]))
    0.5
    """
    if found is None or isinstance(found, bool):
        return 0.0
    wanted = [gold.variables.index(name) for name in primary if name in gold.variables]
    wanted = wanted or list(range(len(gold.variables)))
    expected = {tuple(_text(row[at]) for at in wanted) for row in gold.rows}
    if len(found.variables) < len(wanted) or not expected:
        return float(not expected and not found.rows)
    names = [gold.variables[at] for at in wanted]
    order = sorted(range(len(found.variables)), key=lambda at: found.variables[at] not in names)
    rows = [tuple(map(_text, row)) for row in found.rows]
    return _best_f1(expected, rows, islice(permutations(order, len(wanted)), MOST_TRIED))


def set_f1(expected: set[Any], found: set[Any]) -> float:
    """Return the F1 of a set; 1 if both are empty.

    >>> set_f1({"A", "B"}, {"B"}), set_f1(set(), set())
    (0.6666666666666666, 1.0)
    """
    return 2 * len(expected & found) / (len(expected) + len(found)) if expected or found else 1.0


def _best_f1(wanted: set[_Row], rows: Sequence[_Row], orders: Iterable[Sequence[int]]) -> float:
    """Return the F1 of rows with those columns that fit best. `orders`: columns that may be those of `wanted`."""
    best = 0.0
    for order in orders:
        best = max(best, set_f1(wanted, {tuple(row[at] for at in order) for row in rows}))
        if best == 1.0:
            break
    return best


def _term(term: str | None) -> Any:
    """Return what of a term counts: numbers as numbers."""
    number = _NUMBER.fullmatch(term) if term is not None else None
    try:
        return float(number[1]) if number else term
    except ValueError:
        return term


def _text(term: Term | None) -> str:
    """Return what of a term counts: not its language or datatype, and numbers as numbers."""
    text = "" if term is None else str(getattr(term, "value", term))
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def is_same(sparql: str | None, gold: str, mode: Mode) -> bool:
    """Return whether a query is the gold query (`same_query`). Queries with other ids are not parsed."""
    return sparql is not None and ids_of(sparql) == ids_of(gold) and is_same_text(sparql, gold, mode)
