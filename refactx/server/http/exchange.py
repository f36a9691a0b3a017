"""The answer to one request while it is made: events until the client goes away, with a sign of life in silences."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

Event = TypeVar("Event")


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


Document = dict[str, Any]


def sse(document: Document, event: str | None = None) -> bytes:
    """Return a document as a server-sent event.

    >>> sse({"a": 1})
    b'data: {"a":1}\\n\\n'
    """
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return format_sse_event(data_str=data.encode("utf-8", "replace").decode(), event=event)


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
    "sse",
]
