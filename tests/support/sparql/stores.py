"""Stores of small indexes, compared with the triples of all facts."""

from pyoxigraph import DefaultGraph, Quad, Store

from refactx.index import Index
from refactx.sparql.store import FactStore
from refactx.sparql.store.building import all_triples


def triples_in(store: FactStore) -> set[Quad]:
    """Return what queries see of a store."""
    return set(store.oxigraph.quads_for_pattern(None, None, None, DefaultGraph()))


def triples_anew(index: Index) -> set[Quad]:
    """Return the triples of a store of an index that is built now, as a store gives them back."""
    store = Store()
    store.extend(all_triples(index, lambda done: None, {}))
    return set(store)
