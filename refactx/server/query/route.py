"""The route of queries: walk lines, and questions in words, for which the model chooses a query."""

from collections.abc import AsyncGenerator, Callable

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from refactx.asking.replies import Replies
from refactx.index.index import Index
from refactx.query.line import is_line
from refactx.server.http.errors import ApiError
from refactx.server.http.exchange import Document, JsonReply, JsonRoute
from refactx.server.http.replying import gone, last_of, note
from refactx.server.text.service import TextService

MOST = 10_000


class QueryRequest(BaseModel):
    """A question about sets of facts, in words or as a query. `run`: whether it is answered; `explain`: with what the model
    chose from."""

    question: str = Field(min_length=1, max_length=10_000)
    run: bool = True
    explain: bool = False
    limit: int = Field(default=100, ge=1, le=MOST)


def query_router(service: TextService) -> APIRouter:
    """Return the route of queries."""
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/query", response_class=JsonReply)
    async def query(asked: QueryRequest, request: Request) -> Response:
        """Answer a question for numbers, yes or no, the highest, or a list, by a query on the index."""
        service.availability.check()
        index = service.index
        if not isinstance(index, Index):
            raise ApiError(404, "the index of this server has no queries: it is in no database")

        def answer(cancelled: Callable[[], bool]) -> Document:
            choose = lambda text: service.asker.query(text, cancelled=cancelled)  # noqa: E731
            replies = Replies(index, choose, runs=asked.run, facts=asked.limit)
            return replies.to(asked.question).to_json(asked.limit, explains=asked.explain)

        if service.options.logs_text:
            note(request, question=asked.question)
        if is_line(asked.question):
            return JsonReply(await service.look_up(answer, lambda: False))
        slot = service.slots.take()

        async def events() -> AsyncGenerator[Document, None]:
            yield await service.compute(answer, slot)

        found = await last_of(service, request, slot, events())
        return gone(request) if found is None else JsonReply(found)

    return router
