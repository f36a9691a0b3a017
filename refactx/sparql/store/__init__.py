"""An embedded store of an index's facts as RDF triples, which answers SPARQL queries.

| names | what they are |
|---|---|
| `open_store`, `FactStore` | the store of an index, open for queries |
| `build_store`, `StoreReport` | the building of a store |
| `StoreError` | why it cannot be opened, and what to run |
"""

from refactx.sparql.store.building import StoreReport, build_store
from refactx.sparql.store.errors import StoreError
from refactx.sparql.store.opening import FactStore, open_store

__all__ = ["FactStore", "StoreError", "StoreReport", "build_store", "open_store"]
