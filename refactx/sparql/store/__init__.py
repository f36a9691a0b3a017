"""An embedded store of an index's facts as RDF triples, which answers SPARQL queries.

| names | what they are |
|---|---|
| `open_store`, `FactStore` | the store of an index, open for queries |
| `describe_store` | its figures |
| `build_store`, `update_store`, `StoreReport` | a store made, or brought to what its index has now |
| `StoreError` | why it cannot be opened, and what to run |
"""

from refactx.sparql.store.building import StoreReport, build_store
from refactx.sparql.store.errors import StoreError
from refactx.sparql.store.opening import FactStore, describe_store, open_store
from refactx.sparql.store.updating import update_store

__all__ = ["FactStore", "StoreError", "StoreReport", "build_store", "describe_store", "open_store", "update_store"]
