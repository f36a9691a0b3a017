"""Engines that run SPARQL queries, behind one protocol: a SELECT gives `Rows`, an ASK a bool.

`open_engine` opens the engine of an index, its store or its fact tree; `engine_at`
opens any that a user names. Importing this package loads no engine.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports
from refactx.sparql.engines.engine import (
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Result,
    Rows,
    SparqlEngine,
    SparqlSyntaxError,
    Term,
    UnavailableError,
    UnknownFunctionError,
    UnreachableError,
)

if TYPE_CHECKING:
    from refactx.sparql.engines.endpoint import EndpointEngine
    from refactx.sparql.engines.index import EngineName, TreeEngine, engine_at, open_engine, open_file
    from refactx.sparql.engines.store import StoreEngine

__all__ = ["EndpointEngine", "EngineError", "EngineName", "EngineTimeoutError", "QueryRefusedError", "Result", "Rows"]
__all__ += ["SparqlEngine", "SparqlSyntaxError", "StoreEngine", "Term", "TreeEngine", "UnavailableError"]
__all__ += ["UnknownFunctionError", "UnreachableError", "engine_at", "open_engine", "open_file"]
_INDEX = "EngineName TreeEngine engine_at open_engine open_file"
__getattr__ = lazy_exports(__name__, {"endpoint": "EndpointEngine", "index": _INDEX, "store": "StoreEngine"})
