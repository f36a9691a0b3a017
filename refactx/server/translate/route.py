"""The route of translations: the SPARQL of a question by a domain pack, step by step."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from refactx.server.http.errors import ApiError
from refactx.server.http.exchange import DONE, STREAMED, Document, JsonReply, JsonRoute, sse
from refactx.server.http.replying import gone, last_of, note, streamed
from refactx.server.http.slots import Slot
from refactx.server.text.live import Work
from refactx.server.text.service import TextService

if TYPE_CHECKING:
    from refactx.nl2sparql import Event, Translator


class TranslateRequest(BaseModel):
    """A question whose SPARQL is wanted. `agent`: plan, verify and explore as well; `run`: run the query to check it;
    `stream`: send each step as it ends."""

    question: str = Field(min_length=1, max_length=10_000)
    agent: bool = False
    run: bool = True
    stream: bool = False


def translate_router(service: TextService) -> APIRouter:
    """Return the route of translations."""
    router = APIRouter(route_class=JsonRoute)

    @cache
    def translator(agent: bool, runs: bool) -> "Translator":
        if service.translator is None:
            raise ApiError(404, "this server translates no questions: start it with --pack PACK")
        return service.translator.changed(agent=agent, runs=runs)

    @router.post("/v1/translate", response_class=JsonReply, responses=STREAMED)
    async def translate(asked: TranslateRequest, request: Request) -> Response:
        """Write the SPARQL of a question for the endpoint of the server's pack, check it and repair it."""
        chosen = translator(asked.agent, asked.run)
        if service.options.logs_text:
            note(request, question=asked.question)
        slot = service.slots.take()
        events = _events(service, request, slot, chosen, asked.question)
        if asked.stream:
            return await streamed(service, request, slot, _chunks(events))
        found = await last_of(service, request, slot, _whole(events, chosen.pack.name))
        return gone(request) if found is None else JsonReply(found)

    return router


async def _events(
    service: TextService, request: Request, slot: Slot, translator: "Translator", question: str
) -> AsyncGenerator["Event", None]:
    """Yield the steps of a translation, which is made when its turn has come."""

    def write(put: "Callable[[Event], None]", stops: Callable[[], bool]) -> None:
        for event in translator.stream(question, cancelled=stops):
            put(event)
            if stops():
                return

    work: Work[Event, None] = write
    async with service.live(work, slot) as live:
        async for burst in live.bursts():
            for event in burst:
                if event.translation is not None:
                    found = event.translation
                    service.metrics.record_translation(event.seconds, found.sparql, found.valid)
                    note(request, steps=event.number, tokens=event.tokens, valid=found.valid, rows=found.rows)
                yield event


async def _whole(events: AsyncGenerator["Event", None], pack: str) -> AsyncGenerator[Document, None]:
    """Yield the translation as one document, with its steps."""
    steps = list[Document]()
    async with aclosing(events):
        async for event in events:
            steps.append(event.to_json())
            if event.translation is not None:
                steps[-1].pop("translation")
                yield {"pack": pack, **event.translation.to_json(), "steps": steps}


async def _chunks(events: AsyncGenerator["Event", None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for event in events:
            yield sse(event.to_json())
    yield DONE
