"""`POST /v1/responses`."""

from refactx.server.responses.route import responses_router

__all__ = ["responses_router"]
