"""The database: its connections, catalogue, tables of rows, locks and rights.

| names | what they are |
|---|---|
| `Database`, `Limits` | a pool of connections, and how long lookups and outages may take |
| `CatalogueEntry`, `find_index`, `list_indexes` | the catalogue's entry of an index, and how to find it |

Importing this package does not load psycopg. Using a name other than `CatalogueEntry` and `Limits` does.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.postgres.catalogue import find_index, list_indexes
    from refactx.postgres.database import Database
    from refactx.postgres.entry import CatalogueEntry, Limits

__all__ = ["CatalogueEntry", "Database", "Limits", "find_index", "list_indexes"]
__getattr__ = lazy_exports(
    __name__, {"catalogue": "find_index list_indexes", "entry": "CatalogueEntry Limits", "database": "Database"}
)
