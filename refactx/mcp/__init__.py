"""ReFactX for assistants, by the Model Context Protocol (https://modelcontextprotocol.io).

`pack_server` returns a server with the tools of a domain pack, `fact_server` one with those of an index, and `http_app` makes
an application of it for HTTP. They need the package mcp: `pip install 'refactx[mcp]'`.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.mcp.facts import asks_alone, checks_alone, fact_server, sparql_result
    from refactx.mcp.packs import pack_server
    from refactx.mcp.serving import http_app

__all__ = ["asks_alone", "checks_alone", "fact_server", "http_app", "pack_server", "sparql_result"]
__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__,
    {"facts": "asks_alone checks_alone fact_server sparql_result", "packs": "pack_server", "serving": "http_app"},
)
