"""Prefix trees of token ids with exact leaf counts, in memory or in the rows of an index.

| names | what they are |
|---|---|
| `FactTree`, `Children` | the protocol: which tokens may follow a prefix, and how many facts each leads to |
| `MemoryTree` | a tree in memory, for tests and small graphs |
| `SummedTree` | several trees as one, with a cache |
| `StoredTree`, `RowSource` | the tree in the rows of one segment, and the source of these rows |

The package does not depend on PostgreSQL, on tokenizers or on models.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.tree.stored import RowSource, StoredTree
    from refactx.tree.tree import Children, FactTree, MemoryTree, SummedTree

__all__ = ["Children", "FactTree", "MemoryTree", "RowSource", "StoredTree", "SummedTree"]
__getattr__ = lazy_exports(
    __name__, {"tree": "Children FactTree MemoryTree SummedTree", "stored": "RowSource StoredTree"}
)
