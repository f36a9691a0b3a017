"""ReFactX for assistants, by the Model Context Protocol (https://modelcontextprotocol.io).

`pack_server` returns a server with the tools of a domain pack. It needs the package mcp: `pip install 'refactx[mcp]'`.
"""

from typing import TYPE_CHECKING

from refactx.exports import lazy_exports

if TYPE_CHECKING:
    from refactx.mcp.packs import pack_server

__all__ = ["pack_server"]
__dir__ = __all__.copy
__getattr__ = lazy_exports(__name__, {"packs": "pack_server"})
