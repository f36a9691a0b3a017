"""An index as one file: its blocks, which are written and checked in order, and its rows, which are read in place.

| names | what they are |
|---|---|
| `FileSource` | an index in a file, as what an `Index` reads |

docs/reference/file-formats.md describes the file. `refactx.share` writes it, and imports it into a database.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.index.file.source import FileSource

__all__ = ["FileSource"]
__getattr__ = lazy_exports(__name__, {"source": "FileSource"})
