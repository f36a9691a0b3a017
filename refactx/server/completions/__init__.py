"""`POST /v1/completions`."""

from refactx.server.completions.route import completions_router

__all__ = ["completions_router"]
