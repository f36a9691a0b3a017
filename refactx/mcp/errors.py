"""Errors as assistants read them."""

import logging

from refactx.errors import DatabaseError, IndexNotFoundError, RefactxError, without_password

_log = logging.getLogger(__name__)


def tool_error(error: RefactxError) -> Exception:
    """Return the error of a tool, in one line. Where the database is goes to the log alone."""
    from mcp.server.mcpserver.exceptions import ToolError

    told = message = " ".join(without_password(str(error)).split())
    if isinstance(error, IndexNotFoundError):
        told = "the index of this server was replaced or removed: ask again in some seconds"
    elif isinstance(error, DatabaseError):
        told = "the database does not answer: ask again in some seconds"
    if told != message:
        _log.warning("%s", message)
    return ToolError(told)
