"""`GET /v1/facts` and `POST /v1/facts/check`."""

from refactx.server.facts.route import facts_router

__all__ = ["facts_router"]
