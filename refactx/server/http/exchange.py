"""A request as JSON, and the answer to it while it is made: events until the client goes away, with a sign of life in
silences."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.exceptions import HTTPException

Event = TypeVar("Event")
Document = dict[str, Any]


class ClientGoneError(Exception):
    """The client closed the connection before its answer was whole."""


class Exchange(Generic[Event]):
    """Events for the client of a request. Close it, which closes `events`.

    `seconds`: after which a silence is broken; `on_close`: called at last.
    """

    def __init__(
        self,
        request: Request,
        events: AsyncGenerator[Event, None],
        seconds: float,
        on_close: Callable[[], object] = lambda: None,
    ) -> None:
        self._events, self._seconds, self._on_close = events, seconds, on_close
        self._gone = asyncio.ensure_future(_until_gone(request))
        self._next: asyncio.Future[Event] | None = None

    async def next(self) -> Event | None:
        """Return the next event; None after a silence. Raise StopAsyncIteration after the last one, ClientGoneError if
        the client has gone, and what `events` raises."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._events))
        waited: set[asyncio.Future[Any]] = {self._next, self._gone}
        await asyncio.wait(waited, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._gone.done():
            raise ClientGoneError
        if not self._next.done():
            return None
        done, self._next = self._next, None
        return done.result()

    async def all(self) -> list[Event]:
        """Return all events, and close."""
        found: list[Event] = []
        try:
            with suppress(StopAsyncIteration):
                while True:
                    event = await self.next()
                    if event is not None:
                        found.append(event)
        finally:
            await self.close()
        return found

    async def close(self) -> None:
        """End the events."""
        try:
            if self._next is not None:
                self._next.cancel()
                with suppress(BaseException):
                    await self._next
            await self._events.aclose()
        finally:
            self._gone.cancel()
            self._on_close()


async def _until_gone(request: Request) -> None:
    """Return when the client has closed the connection; its request was read to the end."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def sse(document: Document, event: str | None = None) -> bytes:
    """Return a document as a server-sent event.

    >>> sse({"a": 1})
    b'data: {"a":1}\\n\\n'
    """
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return format_sse_event(data_str=data.encode("utf-8", "replace").decode(), event=event)


class JsonRequest(Request):
    """A request whose body is JSON as RFC 8259 has it, with each key once."""

    async def json(self) -> Any:
        """Return the body. Raise HTTPException (400) if it cannot be read."""
        try:
            return json.loads(await self.body(), parse_constant=_finite, parse_float=_finite, object_pairs_hook=_unique)
        except RecursionError:
            detail = "lists or objects are too deep"
        except UnicodeDecodeError as error:
            detail = f"it is not UTF-8 at byte {error.start:,}"
        except json.JSONDecodeError as error:
            detail = f"{error.msg} at character {error.pos:,}"
        except ValueError as error:
            detail = str(error).partition(";")[0]
        raise HTTPException(400, f"the body of the request is no JSON that can be read: {detail}")


def _finite(text: str) -> float:
    if not math.isfinite(found := float(text)):
        raise ValueError(f"{text[:20]} is no number of JSON")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> Document:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:100]!r} stands twice in one object")
    return found


class JsonRoute(APIRoute):
    """A route that reads its body as `JsonRequest` does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def answered(request: Request) -> Response:
            return await answer(JsonRequest(request.scope, request.receive))

        return answered


class JsonReply(JSONResponse):
    """A document as JSON; halves of characters, which JSON can have and UTF-8 cannot, become `?`."""

    def render(self, content: Any) -> bytes:
        """Return the document as bytes."""
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


STREAMED: dict[int | str, Document] = {200: {"content": {"text/event-stream": {}}}}
"""What the description of a route adds if its reply may be a stream."""
DONE = b"data: [DONE]\n\n"


class EventStream(StreamingResponse):
    """A response of server-sent events."""

    media_type = "text/event-stream"

    def __init__(self, body: AsyncGenerator[bytes, None]) -> None:
        # Proxies must pass each event on at once.
        super().__init__(body, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})


__all__ = [
    "DONE",
    "KEEPALIVE_COMMENT",
    "STREAMED",
    "ClientGoneError",
    "Document",
    "EventStream",
    "Exchange",
    "JsonReply",
    "JsonRoute",
    "sse",
]
