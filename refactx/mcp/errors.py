"""Errors as assistants read them."""

import logging

from refactx.errors import RefactxError, text_for_clients, without_password

_log = logging.getLogger(__name__)


def tool_error(error: RefactxError) -> Exception:
    """Return the error of a tool, in one line. Where the database is goes to the log alone."""
    from mcp.server.mcpserver.exceptions import ToolError

    told, message = text_for_clients(error), " ".join(without_password(str(error)).split())
    if told != message:
        _log.warning("%s", message)
    return ToolError(told)
