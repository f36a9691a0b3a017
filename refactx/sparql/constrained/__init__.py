"""Decoding of SPARQL: after `SPARQL:` a model writes a query with names of the index, and no other text."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.sparql.constrained.generation import SparqlWriter, write_sparql
    from refactx.sparql.constrained.grammar import SparqlGrammar

__all__ = ["SparqlGrammar", "SparqlWriter", "write_sparql"]
__dir__ = __all__.copy
__getattr__ = lazy_exports(__name__, {"grammar": "SparqlGrammar", "generation": "SparqlWriter write_sparql"})
