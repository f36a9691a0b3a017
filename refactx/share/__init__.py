"""The export of an index to a file, and the import of such a file into a database.

| names | what they are |
|---|---|
| `export_index`, `export_stream`, `ExportResult` | a ready index written to a file or a stream |
| `import_index`, `import_stream`, `ImportResult` | a file or a stream imported as an index |

docs/reference/file-formats.md describes the file. Importing this package does not load psycopg; using a name does.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.share.export import ExportResult, export_index, export_stream
    from refactx.share.importing import ImportResult, import_index, import_stream

__all__ = ["ExportResult", "ImportResult", "export_index", "export_stream", "import_index", "import_stream"]
__getattr__ = lazy_exports(
    __name__,
    {"export": "ExportResult export_index export_stream", "importing": "ImportResult import_index import_stream"},
)
