"""`POST /v1/query`."""

from refactx.server.query.route import query_router

__all__ = ["query_router"]
