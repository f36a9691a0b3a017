"""Requests as JSON, and replies: as JSON, or as a stream of server-sent events until the client goes away, with a sign of
life in silences."""

import asyncio
import json
import logging
import math
import re
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any, Generic, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.exceptions import HTTPException

from refactx.decoding.stream import FormPiece, TextPiece
from refactx.errors import RefactxError
from refactx.server.http import GONE, ApiError, RequestSlot, api_error
from refactx.server.service import GenerationOrder, TextService
from refactx.server.texts import Event, Finished

Value = TypeVar("Value")
Document = dict[str, Any]
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")
STREAMED: dict[int | str, Document] = {200: {"content": {"text/event-stream": {}}}}
"""What the description of a route adds if its reply may be a stream."""
DONE = b"data: [DONE]\n\n"
_log = logging.getLogger(__name__)


class ClientGoneError(Exception):
    """The client closed the connection before its answer was whole."""


class ClientConnection(Generic[Value]):
    """Events for the client of a request, whose making uses `slots`. Close it, which closes `events`, and releases slots that
    they have not used."""

    def __init__(
        self, service: TextService, request: Request, slots: Sequence[RequestSlot], events: AsyncGenerator[Value, None]
    ) -> None:
        self._events, self._seconds, self._slots = events, service.options.keep_alive, slots
        self._gone = asyncio.ensure_future(_until_gone(request))
        self._next: asyncio.Future[Value] | None = None

    async def next(self) -> Value | None:
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

    async def close(self) -> None:
        try:
            if self._next is not None:
                self._next.cancel()
                with suppress(BaseException):
                    await self._next
            await self._events.aclose()
        finally:
            self._gone.cancel()
            for slot in self._slots:
                if not slot.is_used:
                    slot.release()


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
    """A request whose body is JSON as RFC 8259 has it, with each key once and whole characters alone."""

    async def json(self) -> Any:
        """Return the body. Raise HTTPException (400) if it cannot be read."""
        try:
            text = (await self.body()).decode("utf-8-sig")
            found = json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_unique)
            if _ESCAPED_HALF.search(text):
                json.dumps(found, ensure_ascii=False).encode()
            return found
        except UnicodeEncodeError as error:
            half = ord(error.object[error.start])
            detail = rf"\u{half:04x} is half of a surrogate pair, which is no character: send both halves, or neither"
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
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


async def last_of(
    service: TextService, request: Request, slots: Sequence[RequestSlot], events: AsyncGenerator[Value, None]
) -> Value | None:
    """Return the last of the events of a request, which use `slots`; None if its client has gone. Raises ApiError."""
    connection, found = ClientConnection(service, request, slots, events), list[Value]()
    try:
        with suppress(StopAsyncIteration):
            while True:
                event = await connection.next()
                found += [] if event is None else [event]
        return found[-1]
    except ClientGoneError:
        return None
    except RefactxError as error:
        raise api_error(error) from error
    finally:
        await connection.close()


async def streamed(
    service: TextService, request: Request, slots: Sequence[RequestSlot], chunks: AsyncGenerator[bytes, None]
) -> Response:
    """Return chunks, whose making uses `slots`, as a stream, which begins with the first one, or with a sign of life if
    that takes long.

    So an error before that has its status. Raises ApiError.
    """
    events = ClientConnection(service, request, slots, chunks)
    try:
        first = await events.next()
    except BaseException as error:
        await events.close()
        if isinstance(error, ClientGoneError):
            return gone(request)
        if isinstance(error, RefactxError):
            raise api_error(error) from error
        raise
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies must pass each event on at once
    return StreamingResponse(_body(events, first, request), media_type="text/event-stream", headers=headers)


Numbered = AsyncGenerator[tuple[int, Event], None]
"""The events of the texts of one request as they come, each with the number of its text, counted from 0."""


class Documents(ABC):
    """The documents of the texts of one request, each by its `index`: `whole`, or those of a stream, before a text, for each
    piece of it, after it, and after all of them."""

    @abstractmethod
    def whole(self, texts: Sequence[Finished]) -> Document:
        """Return texts that have ended as one document."""

    def first(self, index: int) -> list[Document]:
        """Return what comes before a text."""
        return []

    @abstractmethod
    def piece(self, piece: TextPiece | FormPiece, index: int) -> list[Document]:
        """Return what a piece of a text becomes."""

    @abstractmethod
    def last(self, finished: Finished, index: int) -> list[Document]:
        """Return what comes after a text."""

    def end(self, texts: Sequence[Finished]) -> list[Document]:
        """Return what comes after all texts."""
        return []


async def answered(
    service: TextService,
    request: Request,
    orders: Sequence[GenerationOrder],
    documents: Documents,
    *,
    streams: bool | None,
    ends: bytes,
) -> Response:
    """Return the reply to a request. `ends`: the last bytes of a stream, empty if its events have names. Raises ApiError."""
    slots = service.take_slots(orders)
    pairs = zip(orders, slots, strict=True)
    events = together([_noted(service.write(order, slot), service, request, order) for order, slot in pairs])
    if streams:
        return await streamed(service, request, slots, _chunks(events, documents, ends))
    finished = await last_of(service, request, slots, _ends(events))
    if finished is None:
        return gone(request)
    if len(finished) < len(orders):
        raise ApiError(500, "the text has no end")
    return JsonReply(documents.whole(finished))


async def _chunks(events: Numbered, documents: Documents, ends: bytes) -> AsyncGenerator[bytes, None]:
    begun, ended = set[int](), dict[int, Finished]()
    async with aclosing(events):
        async for index, event in events:
            found = [] if index in begun else documents.first(index)
            begun.add(index)
            if isinstance(event, Finished):
                ended[index] = event
                found += documents.last(event, index)
            else:
                found += documents.piece(event, index)
            for document in found:
                yield sse(document, None if ends else document["type"])
    for document in documents.end([ended[index] for index in sorted(ended)]):
        yield sse(document, None if ends else document["type"])
    if ends:
        yield ends


async def _ends(events: Numbered) -> AsyncGenerator[list[Finished], None]:
    """Yield once what the texts were at their ends, in their order."""
    found = dict[int, Finished]()
    async with aclosing(events):
        async for number, event in events:
            if isinstance(event, Finished):
                found[number] = event
    yield [found[number] for number in sorted(found)]


async def together(texts: Sequence[AsyncGenerator[Value, None]]) -> AsyncGenerator[tuple[int, Value], None]:
    """Yield the events of several texts as they come, each with the number of its text.

    Raises what the first of them raises that fails; the others are then closed.
    """
    waited = {asyncio.ensure_future(anext(one)): number for number, one in enumerate(texts)}
    try:
        while waited:
            done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=waited.__getitem__):
                number = waited.pop(task)
                try:
                    event = task.result()
                except StopAsyncIteration:
                    continue
                waited[asyncio.ensure_future(anext(texts[number]))] = number
                yield number, event
    finally:
        for task in waited:
            task.cancel()
        await asyncio.gather(*waited, return_exceptions=True)
        for one in texts:
            await one.aclose()


async def _body(events: ClientConnection[bytes], first: bytes | None, request: Request) -> AsyncGenerator[bytes, None]:
    try:
        yield first or KEEPALIVE_COMMENT
        while True:
            yield (await events.next()) or KEEPALIVE_COMMENT
    except StopAsyncIteration:
        return
    except (ClientGoneError, CancelledError, GeneratorExit) as error:
        gone(request)
        if not isinstance(error, ClientGoneError):
            raise
    except Exception as error:  # the status was sent: the error is an event
        found = api_error(error)
        note(request, status=found.status, error=found.reason)
        if found.status == ApiError(500, "").status:
            _log.exception("a text was ended by an error")
        yield sse(found.to_json())
    finally:
        await events.close()


def note(request: Request, **fields: Any) -> None:
    """Add fields to the line of a request in the log."""
    request.state.log.update(fields)


def gone(request: Request) -> Response:
    """Return the response to a client that has gone; the log says so."""
    note(request, status=GONE)
    return Response(status_code=GONE)


async def _noted(
    events: AsyncGenerator[Event, None], service: TextService, request: Request, order: GenerationOrder
) -> AsyncGenerator[Event, None]:
    """Yield events; the line in the log has what was asked for and what was written."""
    logs_text = service.options.logs_text
    if logs_text:
        note(request, question=order.question if order.prompt is None else order.prompt)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Finished):
                noted = request.state.log  # of other texts of the request
                note(
                    request,
                    prompt_tokens=event.prompt_tokens,
                    tokens=noted.get("tokens", 0) + event.tokens,
                    facts=noted.get("facts", 0) + len(event.facts),
                    finish_reason=event.reason,
                )
                if logs_text:
                    note(request, text=event.text)
            yield event
