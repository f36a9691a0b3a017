"""The route of responses."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from refactx.server.conversation import ContentPart, Message, Role, conversation, no_tools
from refactx.server.http.errors import bad_request
from refactx.server.http.exchange import STREAMED, Document, JsonRoute, sse
from refactx.server.http.replying import reply, stream_reply
from refactx.server.requests import TextRequest
from refactx.server.responses.documents import ResponseDocuments
from refactx.server.text.answer_alone import answer_alone
from refactx.server.text.events import Event, Finished
from refactx.server.text.service import Order, TextService


class InputItem(BaseModel):
    """A message of the input, or what a client sends back of an earlier response."""

    model_config = ConfigDict(extra="allow")

    type: str = "message"
    role: Role | None = None
    content: str | list[ContentPart] | None = None

    def message(self, field: str) -> Message:
        """Return the message. `field`: its name, for errors. Raises ApiError (400) for calls of tools and other items."""
        if self.type != "message":
            raise no_tools(f"{field}.type", repr(self.type))
        if self.role is None:
            raise bad_request(f"{field}.role is missing: give user, assistant, system or developer", f"{field}.role")
        return Message(role=self.role, content=self.content)


class ResponseRequest(TextRequest):
    """A question, or a conversation whose next message is asked for."""

    input: str | list[InputItem]
    instructions: str | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)

    def messages(self) -> list[Message]:
        """Return the conversation, without what the model has thought. Raise ApiError (400) for other items."""
        if isinstance(self.input, str):
            return [Message(role="user", content=self.input)]
        items = enumerate(self.input)
        return [item.message(f"input.{number}") for number, item in items if item.type != "reasoning"]


def responses_router(service: TextService) -> APIRouter:
    """Return the route of responses."""
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/responses", response_class=JSONResponse, responses=STREAMED)
    async def responses(asked: ResponseRequest, request: Request) -> Response:
        """Answer a question, with facts of the index as citations. Responses are not stored."""
        asked.refuse()
        variant, most = asked.variant(service.options.name), service.options.max_tokens
        said = conversation(asked.messages(), "input", asked.instructions or "")
        order = Order(
            question=said.question,
            history=said.history,
            system=said.system,
            generation=asked.generation(asked.max_output_tokens or most, most, free=variant == "free"),
            free=variant == "free",
        )
        given: dict[str, Any] = {
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "temperature": asked.temperature or 0.0,
            "top_p": asked.top_p or 1.0,
            "metadata": (asked.model_extra or {}).get("metadata") or {},
        }
        documents = ResponseDocuments(asked.model, given, answer_alone=variant == "answer")

        def shaped(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
            return answer_alone(events, service.prompt.marker) if variant == "answer" else events

        if asked.stream:
            return await stream_reply(service, request, order, lambda events: _events(shaped(events), documents))
        return await reply(service, request, order, documents.whole)

    return router


async def _events(events: AsyncGenerator[Event, None], documents: ResponseDocuments) -> AsyncGenerator[bytes, None]:
    """Yield the events of a response."""
    begun = False
    async with aclosing(events):
        async for event in events:
            found: list[Document] = [] if begun else documents.first()
            begun = True
            found += documents.last(event) if isinstance(event, Finished) else documents.piece(event)
            for document in found:
                yield sse(document, document["type"])
