"""The engines of an index: its store, its fact tree, or whichever can answer a query."""

from typing import Literal

from refactx.index import Index
from refactx.sparql.engines.engine import SparqlEngine
from refactx.sparql.engines.store import StoreEngine
from refactx.sparql.engines.tree import TreeEngine
from refactx.sparql.store import StoreError, open_store

EngineName = Literal["auto", "tree", "store"]


def open_engine(index: Index, name: EngineName = "auto") -> SparqlEngine:
    """Open an engine on an index, which it does not close.

    `auto`: the store if the index has one that has just what the index has; else the tree.

    Raises StoreError, which says what to run, for `store` if there is no such store; and as `Index.refresh` does.
    """
    if name == "tree":
        return TreeEngine(index)
    try:
        store = open_store(index)
    except StoreError as error:
        if name == "store":
            raise
        return TreeEngine(index, str(error))
    return StoreEngine(store.oxigraph, store.close, store.mark.odd_dates)
