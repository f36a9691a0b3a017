"""Continuations of prompts as they are, without a conversation: a prompt may end within a fact."""

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from refactx.server.chat.documents import usage
from refactx.server.chat.route import StreamOptions
from refactx.server.http.errors import bad_request
from refactx.server.http.exchange import DONE, STREAMED, Document, JsonRoute, sse
from refactx.server.http.replying import reply, stream_reply
from refactx.server.requests import TextRequest, stop_texts
from refactx.server.text.events import Delta, Event, Finished
from refactx.server.text.service import Order, TextService

MAX_TOKENS = 16
"""As in OpenAI's API."""


class CompletionRequest(TextRequest):
    """A prompt whose continuation is asked for: a text, or ids of the model's tokens."""

    prompt: str | list[int] | list[str] | list[list[int]]
    max_tokens: int | None = Field(default=None, ge=1)
    stop: str | list[str] | None = None
    stream_options: StreamOptions | None = None

    def text(self) -> str | list[int]:
        """Return the prompt. Raise ApiError (400) if there are several."""
        prompt = self.prompt
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            if len(prompt) > 1:
                raise bad_request(f"prompt has {len(prompt)} prompts: send a request for each", "prompt")
            only = prompt[0]
            return only if isinstance(only, str) else list(only)
        return prompt if isinstance(prompt, str) else [number for number in prompt if isinstance(number, int)]


def completions_router(service: TextService) -> APIRouter:
    """Return the route of continuations."""
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/completions", response_class=JSONResponse, responses=STREAMED)
    async def completions(asked: CompletionRequest, request: Request) -> Response:
        """Continue a prompt. After the trigger of the index, only its facts can follow."""
        asked.refuse()
        variant = asked.variant(service.options.name)
        if variant == "answer":
            raise bad_request("the continuation of a prompt is no answer: ask the model without `:answer`", "model")
        free = variant == "free"
        order = Order(
            prompt=asked.text(),
            generation=asked.generation(asked.max_tokens or MAX_TOKENS, service.options.max_tokens, free=free),
            free=free,
            stop=stop_texts(asked.stop),
        )
        with_usage = bool(asked.stream and asked.stream_options and asked.stream_options.include_usage)
        documents = CompletionDocuments(asked.model, with_usage=with_usage)
        if asked.stream:
            return await stream_reply(service, request, order, lambda events: _chunks(events, documents))
        return await reply(service, request, order, documents.whole)

    return router


class CompletionDocuments:
    """The documents of one continuation. `with_usage`: whether chunks have a field `usage`."""

    def __init__(self, model: str, *, with_usage: bool = False) -> None:
        self._with_usage = with_usage
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, finished: Finished) -> Document:
        """Return a continuation that has ended as one document."""
        document = self._document(finished.text, finished.reason, finished.to_json())
        return {**document, "usage": usage(finished)}

    def piece(self, delta: Delta) -> Document:
        """Return the chunk of a piece of text."""
        extra: dict[str, Any] | None = {"in_fact": True} if delta.in_fact else None
        if extra is not None and delta.fact is not None:
            extra["fact"] = delta.fact.to_json()
        return self._chunk(self._document(delta.text, None, extra))

    def last(self, finished: Finished) -> list[Document]:
        """Return the chunks after the text."""
        chunks = [self._chunk(self._document("", finished.reason, finished.to_json()))]
        return [*chunks, {**self._head, "choices": [], "usage": usage(finished)}] if self._with_usage else chunks

    def _document(self, text: str, reason: str | None, extra: dict[str, Any] | None) -> Document:
        choice: Document = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        if extra is not None:
            choice["refactx"] = extra
        return {**self._head, "choices": [choice]}

    def _chunk(self, document: Document) -> Document:
        return {**document, "usage": None} if self._with_usage else document


async def _chunks(events: AsyncGenerator[Event, None], documents: CompletionDocuments) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a continuation."""
    async with aclosing(events):
        async for event in events:
            for chunk in documents.last(event) if isinstance(event, Finished) else [documents.piece(event)]:
                yield sse(chunk)
    yield DONE
