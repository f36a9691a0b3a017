"""SPARQL over an index's knowledge base: engines that run queries, and what leads to queries and explains results.

`SparqlGrammar` constrains a model to SPARQL with names of an index; `write_sparql` returns what one writes.
`refactx.sparql.engines` has the engines and their results, `refactx.sparql.store` the store of an index. The names here
are imported when they are first used: they need psycopg.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.sparql.constrained import SparqlGrammar, SparqlWriter, write_sparql
    from refactx.sparql.empty import explain_empty
    from refactx.sparql.labels import LabelError, Labelled, with_iris
    from refactx.sparql.results import written
    from refactx.sparql.walks import from_sparql

__all__ = ["LabelError", "Labelled", "SparqlGrammar", "SparqlWriter", "explain_empty", "from_sparql"]
__all__ += ["with_iris", "write_sparql", "written"]
__getattr__ = lazy_exports(
    __name__,
    {
        "constrained": "SparqlGrammar SparqlWriter write_sparql",
        "empty": "explain_empty",
        "labels": "LabelError Labelled with_iris",
        "results": "written",
        "walks": "from_sparql",
    },
)
