"""Parsers: the blocks of a source as rows for the joins (`Parsed`), and an account of every line.

`FORMATS` names each format and its reader; `read_sources` reads all sources of an ingest into staged rows.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.ingest.parsers.formats import FORMATS, SourceFormat, open_sources, read_sources
    from refactx.ingest.parsers.parsed import Parsed

__all__ = ["FORMATS", "Parsed", "SourceFormat", "open_sources", "read_sources"]
__getattr__ = lazy_exports(__name__, {"formats": "FORMATS SourceFormat open_sources read_sources", "parsed": "Parsed"})
