"""Errors as assistants read them."""

from refactx.errors import RefactxError, without_password


def tool_error(error: RefactxError) -> Exception:
    """Return the error of a tool, in one line."""
    from mcp.server.mcpserver.exceptions import ToolError

    return ToolError(" ".join(without_password(str(error)).split()))
