"""The route of responses."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from refactx.server.conversation import Message, conversation
from refactx.server.http.exchange import STREAMED, Document, sse
from refactx.server.http.replying import reply, stream_reply
from refactx.server.requests import TextRequest
from refactx.server.responses.documents import ResponseDocuments
from refactx.server.text.answer_alone import answer_alone
from refactx.server.text.events import Event, Finished
from refactx.server.text.service import Order, TextService

REFUSED: tuple[str, ...] = (
    "tools",
    "tool_choice",
    "text",
    "previous_response_id",
    "conversation",
    "background",
    "prompt",
)
REFUSED += ("top_logprobs", "include", "context_management")


class InputMessage(Message):
    """A message of the input."""

    type: Literal["message"] = "message"


class OtherItem(BaseModel):
    """What a client sends back of an earlier response, and is no message: it is left out."""

    model_config = ConfigDict(extra="allow")

    type: Literal["reasoning"]


class ResponseRequest(TextRequest):
    """A question, or a conversation whose next message is asked for."""

    input: str | list[Annotated[OtherItem | InputMessage, Field(union_mode="left_to_right")]]
    instructions: str | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)

    def messages(self) -> list[Message]:
        """Return the conversation."""
        if isinstance(self.input, str):
            return [Message(role="user", content=self.input)]
        return [item for item in self.input if isinstance(item, Message)]


def responses_router(service: TextService) -> APIRouter:
    """Return the route of responses."""
    router = APIRouter()

    @router.post("/v1/responses", response_class=JSONResponse, responses=STREAMED)
    async def responses(asked: ResponseRequest, request: Request) -> Response:
        """Answer a question, with facts of the index as citations. Responses are not stored."""
        asked.refuse(*REFUSED)
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
