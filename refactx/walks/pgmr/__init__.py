"""PGMR text: SPARQL with placeholders for URIs, and what these are called.

A model writes structure and names, and the URIs are put in afterwards, so it can make none up (post-generation memory
retrieval, arXiv:2502.13369). `to_pgmr` makes training data of gold queries, `read_pgmr` reads what a model writes, and
a `Resolver` finds the ids. `IndexNames` and `IndexResolver` are
imported when they are first used, since they need psycopg.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports
from refactx.walks.pgmr.text import (
    BatchResolver,
    Dialect,
    Names,
    PgmrQuery,
    Placeholder,
    Refusal,
    RefusedError,
    Resolver,
    Style,
    from_pgmr,
    read_pgmr,
    to_pgmr,
)
from refactx.walks.sparql.prologue import with_declarations

if TYPE_CHECKING:
    from refactx.walks.pgmr.index_names import IndexNames, IndexResolver

__all__ = ["BatchResolver", "Dialect", "IndexNames", "IndexResolver", "Names", "PgmrQuery", "Placeholder", "Refusal"]
__all__ += ["RefusedError", "Resolver", "Style", "from_pgmr", "read_pgmr", "to_pgmr", "with_declarations"]
__getattr__ = lazy_exports(__name__, {"index_names": "IndexNames IndexResolver"})
