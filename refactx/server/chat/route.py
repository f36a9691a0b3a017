"""The route of chat completions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from refactx.server.chat.documents import ChatDocuments
from refactx.server.conversation import Message, conversation
from refactx.server.http.exchange import DONE, STREAMED, Document, JsonRoute, sse
from refactx.server.http.replying import reply, stream_reply
from refactx.server.requests import TextRequest, stop_texts
from refactx.server.text.answer_alone import answer_alone
from refactx.server.text.events import Event, Finished
from refactx.server.text.service import Order, TextService


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool | None = False


class ChatRequest(TextRequest):
    """A conversation whose next message is asked for."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: str | list[str] | None = None
    stream_options: StreamOptions | None = None


def chat_router(service: TextService) -> APIRouter:
    """Return the route of chat completions."""
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/chat/completions", response_class=JSONResponse, responses=STREAMED)
    async def chat_completions(asked: ChatRequest, request: Request) -> Response:
        """Answer the last message of a conversation, with facts of the index as citations."""
        asked.refuse()
        variant, said = asked.variant(service.options.name), conversation(asked.messages, "messages")
        most = service.options.max_tokens
        order = Order(
            question=said.question,
            history=said.history,
            system=said.system,
            generation=asked.generation(
                asked.max_completion_tokens or asked.max_tokens or most, most, free=variant == "free"
            ),
            free=variant == "free",
            stop=stop_texts(asked.stop),
        )
        with_usage = bool(asked.stream and asked.stream_options and asked.stream_options.include_usage)
        documents = ChatDocuments(asked.model, answer_alone=variant == "answer", with_usage=with_usage)

        def shaped(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
            return answer_alone(events, service.prompt.marker) if variant == "answer" else events

        if asked.stream:
            return await stream_reply(service, request, order, lambda events: _chunks(shaped(events), documents))
        return await reply(service, request, order, documents.whole)

    return router


async def _chunks(events: AsyncGenerator[Event, None], documents: ChatDocuments) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a text."""
    begun = False
    async with aclosing(events):
        async for event in events:
            chunks: list[Document] = [] if begun else [documents.first()]
            begun = True
            chunks += documents.last(event) if isinstance(event, Finished) else [documents.piece(event)]
            for chunk in chunks:
                yield sse(chunk)
    yield DONE
