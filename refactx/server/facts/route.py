"""The routes of facts, which need no model."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from refactx.asking.lookup import Examples, browse, check_text
from refactx.server.http.errors import ApiError
from refactx.server.http.exchange import JsonReply, JsonRoute
from refactx.server.text.service import TextService

MOST = 1000
MOST_EXAMPLES = 20
LONGEST = 4000
"""The most characters of a name or prefix: no part of a fact is longer than 1,000."""
Name = Annotated[str, Query(max_length=LONGEST)]


class CheckRequest(BaseModel):
    """A text whose facts are checked."""

    text: str = Field(min_length=1)


def facts_router(service: TextService) -> APIRouter:
    """Return the routes of facts."""
    router = APIRouter(route_class=JsonRoute)
    examples_of: dict[int, Examples] = {}

    @router.get("/v1/examples", response_class=JsonReply)
    async def examples(
        limit: Annotated[int, Query(ge=1, le=MOST_EXAMPLES)] = 4,
        seed: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
    ) -> Response:
        """Return questions that facts of the index answer, by chance or by a seed."""
        index, known = _opened(service)
        chooser = examples_of.setdefault(id(index), Examples(index, known))
        found = await service.look_up(chooser.some, limit, seed)
        return JsonReply({"index": index.name, "size": index.facts, "examples": [one.to_json() for one in found]})

    @router.get("/v1/facts", response_class=JsonReply)
    async def facts(
        subject: Name = "",
        predicate: Name = "",
        prefix: Name = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = 20,
    ) -> Response:
        """Return how a prefix continues, or the properties and facts of a subject."""
        index, known = _opened(service)

        def read() -> dict[str, Any]:
            return browse(index, known, prefix=prefix, subject=subject, predicate=predicate, limit=limit).to_json()

        return JsonReply({"index": index.name, **await service.look_up(read)})

    @router.post("/v1/facts/check", response_class=JsonReply)
    async def check(asked: CheckRequest) -> Response:
        """Return which facts in a text exist; for one that does not, the nearest that do."""
        index, known = _opened(service)
        found = await service.look_up(check_text, index, known, asked.text)
        return JsonReply({"index": index.name, "facts": [one.to_json() for one in found]})

    return router


def _opened(service: TextService) -> tuple[Any, Any]:
    """Return the index and its facts. Raise ApiError (503) while the database is away."""
    service.availability.check()
    if service.facts is None:
        raise ApiError(404, "the facts of this server cannot be looked up: they are in no database")
    return service.index, service.facts
