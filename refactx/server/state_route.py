"""`GET /health`, `GET /ready` and `GET /metrics`."""

from collections.abc import Callable

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from refactx.server.metrics import CONTENT_TYPE
from refactx.server.text.service import TextService


def state_router(service: TextService, drains: Callable[[], bool]) -> APIRouter:
    """Return the routes of a server's state. `drains`: whether it is about to stop."""
    router = APIRouter()

    @router.get("/health")
    async def health() -> Response:
        """Say whether the model writes and the database answers."""
        error = service.availability.error
        found = {"status": "ok" if error is None else "unavailable", "model": service.options.name}
        found["database"] = "ok" if error is None else "away"
        return JSONResponse(found, 200 if error is None else 503)

    @router.get("/ready")
    async def ready() -> Response:
        """Say whether requests should be sent here: the model has read its prompt, and the server does not stop."""
        reasons = {
            "starting": not service.is_warm,
            "stopping": drains(),
            "unavailable": service.availability.error is not None,
        }
        status = next((name for name, holds in reasons.items() if holds), "ready")
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return the figures of the server, as Prometheus reads them."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    return router
