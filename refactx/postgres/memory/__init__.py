"""Memories in the database: entries of names with embeddings beside an index, and the queries on them.

| names | what they are |
|---|---|
| `MemoryRecord`, `list_memories`, `find_memory` | the catalogue's record of a memory, and how to find it |
| `EntryRow`, `NearRow` | entries as queries return them |

`records` begins, finishes and drops memories; `pgvector` finds the extension; `entries`, `embeddings` and `lookup` fill
and search the table of one. Importing this package does not load psycopg; using a name does.
"""

from typing import TYPE_CHECKING

from refactx.exports import lazy_exports

if TYPE_CHECKING:
    from refactx.postgres.memory.lookup import EntryRow, NearRow
    from refactx.postgres.memory.records import MemoryRecord, find_memory, list_memories

__all__ = ["EntryRow", "MemoryRecord", "NearRow", "find_memory", "list_memories"]
__getattr__ = lazy_exports(
    __name__, {"lookup": "EntryRow NearRow", "records": "MemoryRecord find_memory list_memories"}
)
