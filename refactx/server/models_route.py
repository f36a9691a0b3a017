"""`GET /v1/models`: the model of a server in its three variants."""

import time

from fastapi import APIRouter

from refactx.server.http.errors import ApiError
from refactx.server.http.exchange import Document
from refactx.server.requests import VARIANTS, model_name


def models_router(name: str) -> APIRouter:
    """Return the routes of models. `name`: that of the model."""
    router, created = APIRouter(), int(time.time())

    def document(variant: str) -> Document:
        named = model_name(name, variant)
        return {"id": named, "object": "model", "created": created, "owned_by": "refactx"}

    @router.get("/v1/models")
    async def models() -> Document:
        """List the variants: with facts, the answer alone, and without facts."""
        return {"object": "list", "data": [document(variant) for variant in VARIANTS]}

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> Document:
        """Describe a variant."""
        for variant in VARIANTS:
            if model == model_name(name, variant):
                return document(variant)
        raise ApiError(404, f"the model {model!r} does not exist", code="model_not_found", param="model")

    return router
