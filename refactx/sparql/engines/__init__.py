"""Engines that run SPARQL queries, behind one protocol.

`SparqlEngine.run` returns `Rows` for a SELECT and a bool for an ASK.
"""

from refactx.sparql.engines.engine import (
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Result,
    Rows,
    SparqlEngine,
    SparqlSyntaxError,
    Term,
)

__all__ = ["EngineError", "EngineTimeoutError", "QueryRefusedError", "Result", "Rows", "SparqlEngine"]
__all__ += ["SparqlSyntaxError", "Term"]
