"""Indexes for reading: facts as a tree, their text, names and ids.

| names | what they are |
|---|---|
| `Index`, `CACHE_BYTES` | an open index, and the default size of its cache |
| `Named` | the id of a name, and the kind of a property's objects |
| `index_document`, `shape_of` | the figures of an index as JSON documents |

`refactx.index.verify` checks a whole index. Importing this package loads neither psycopg nor numpy; using a name does.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.index.index import CACHE_BYTES, Index, index_document, shape_of
    from refactx.index.names import Named

__all__ = ["CACHE_BYTES", "Index", "Named", "index_document", "shape_of"]
__getattr__ = lazy_exports(__name__, {"index": "index_document shape_of CACHE_BYTES Index", "names": "Named"})
