"""An embedded store of an index's facts as RDF triples, which answers SPARQL queries.

| names | what they are |
|---|---|
| `open_store`, `FactStore` | the store of an index, open for queries |
| `describe_store` | its figures |
| `build_store`, `update_store`, `keep_store`, `StoreReport` | a store made, or brought to what its index has now |
| `StoreError` | why it cannot be opened, and what to run |

Names are imported when they are first used: to make a store needs psycopg, to open one does not.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports
from refactx.sparql.store.folder import StoreError

if TYPE_CHECKING:
    from refactx.sparql.store.building import StoreReport, build_store, keep_store, update_store
    from refactx.sparql.store.folder import FactStore, describe_store, open_store

__all__ = ["FactStore", "StoreError", "StoreReport", "build_store", "describe_store", "keep_store", "open_store"]
__all__ += ["update_store"]
__getattr__ = lazy_exports(
    __name__,
    {"building": "StoreReport build_store keep_store update_store", "folder": "FactStore describe_store open_store"},
)
