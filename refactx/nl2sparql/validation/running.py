"""L3: what a query returns, or why it cannot be run."""

from dataclasses import replace

from refactx.nl2sparql.validation.report import Problem, Report
from refactx.sparql.engines import (
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Rows,
    SparqlEngine,
    SparqlSyntaxError,
)


def run(sparql: str, engine: SparqlEngine, rows: int, seconds: float) -> Report:
    """Return the report of a query that is run: its rows, at most `rows`, or the problem that it has.

    An engine that is down or fails is no problem of the query: then the report has a `failure`.
    """
    try:
        result = engine.run(sparql, limit=rows, seconds=seconds)
    except EngineTimeoutError as error:
        hint = "bind more: begin with the pattern that fits least, and give a SERVICE a FILTER of its own"
        return _failed("time", f"the query takes more than {seconds:g} seconds: {error}", hint)
    except SparqlSyntaxError as error:
        return _failed(
            "refused", f"{engine.name} refused the query: {error}", "write it in the SPARQL 1.1 of the examples"
        )
    except QueryRefusedError as error:
        return _failed("refused", str(error), "leave out what it says")
    except EngineError as error:
        return Report(failure=str(error))
    if isinstance(result, Rows):
        report = Report(count=len(result.rows), truncated=result.truncated, variables=result.variables)
        return replace(report, rows=result.rows)
    return Report(count=1, answer=result)


def _failed(code: str, text: str, hint: str) -> Report:
    return Report(problems=(Problem("L3", code, text, hint),))
