"""Walks as SPARQL, and SPARQL as walks.

`to_sparql` writes a query for any engine with Wikidata's claims; `from_sparql` reads one, such as the gold query of a
data set, if it is a walk. `refactx.walks.sparql.parser` reads all SPARQL.
"""

from refactx.walks.sparql.prologue import OWN_PREFIXES as PREFIXES
from refactx.walks.sparql.walks import from_sparql
from refactx.walks.sparql.writer import to_sparql

__all__ = ["PREFIXES", "from_sparql", "to_sparql"]
