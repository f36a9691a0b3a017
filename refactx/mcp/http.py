"""A server of tools as an application for HTTP, to be served beside others."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from starlette.applications import Starlette

PATH = "/mcp"


def http_app(server: "MCPServer", *, hosts: Sequence[str] | None, max_bytes: int) -> "Starlette":
    """Return the ASGI application of a server, at `/mcp`. It needs its lifespan.

    `hosts`: the names under which browsers may reach it, and whose pages may ask, None: any; `max_bytes`: of the body of a
    request. No request depends on an earlier one: there are no sessions, and clients may come back after a restart.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    names = [f"[{name}]" if ":" in name else name for name in hosts or ()]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=hosts is not None,
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[
            form
            for name in names
            for scheme in ("http", "https")
            for form in (f"{scheme}://{name}", f"{scheme}://{name}:*")
        ],
    )
    return server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, max_request_body_size=max_bytes, transport_security=security
    )
