"""Replies to requests that use the model: whole, or as a stream of server-sent events."""

import logging
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request, Response

from refactx.errors import RefactxError
from refactx.server.http.errors import ApiError, api_error
from refactx.server.http.exchange import (
    KEEPALIVE_COMMENT,
    ClientGoneError,
    Document,
    EventStream,
    Exchange,
    JsonReply,
    sse,
)
from refactx.server.http.gate import GONE
from refactx.server.http.slots import Slot
from refactx.server.text.events import Event, Finished
from refactx.server.text.service import Order, TextService

_log = logging.getLogger(__name__)
Value = TypeVar("Value")


async def last_of(
    service: TextService, request: Request, slot: Slot, events: AsyncGenerator[Value, None]
) -> Value | None:
    """Return the last of the events of a request, which use `slot`; None if its client has gone. Raises ApiError."""
    exchange = _exchange(service, request, slot, events)
    try:
        return (await exchange.all())[-1]
    except ClientGoneError:
        return None
    except RefactxError as error:
        raise api_error(error) from error


async def streamed(service: TextService, request: Request, slot: Slot, chunks: AsyncGenerator[bytes, None]) -> Response:
    """Return chunks, whose making uses `slot`, as a stream, which begins with the first one, or with a sign of life if
    that takes long.

    So an error before that has its status. Raises ApiError.
    """
    events = _exchange(service, request, slot, chunks)
    try:
        first = await events.next()
    except ClientGoneError:
        await events.close()
        return gone(request)
    except RefactxError as error:
        await events.close()
        raise api_error(error) from error
    except BaseException:
        await events.close()
        raise
    return EventStream(_body(events, first, request))


async def reply(
    service: TextService, request: Request, order: Order, document: Callable[[Finished], Document]
) -> Response:
    """Return the whole text as one document. Raises ApiError."""
    slot = service.take_slot(order)
    finished = await last_of(service, request, slot, _noted(service.write(order, slot), service, request, order))
    if finished is None:
        return gone(request)
    if not isinstance(finished, Finished):
        raise ApiError(500, "the text has no end")
    return JsonReply(document(finished))


async def stream_reply(
    service: TextService,
    request: Request,
    order: Order,
    chunks: Callable[[AsyncGenerator[Event, None]], AsyncGenerator[bytes, None]],
) -> Response:
    """Return a text as a stream. Raises ApiError."""
    slot = service.take_slot(order)
    events = _noted(service.write(order, slot), service, request, order)
    return await streamed(service, request, slot, chunks(events))


def _exchange(
    service: TextService, request: Request, slot: Slot, events: AsyncGenerator[Value, None]
) -> Exchange[Value]:
    return Exchange(request, events, service.options.keep_alive, lambda: None if slot.is_used else slot.release())


async def _body(events: Exchange[bytes], first: bytes | None, request: Request) -> AsyncGenerator[bytes, None]:
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
    events: AsyncGenerator[Event, None], service: TextService, request: Request, order: Order
) -> AsyncGenerator[Event, None]:
    """Yield events; the line in the log has what was asked for and what was written."""
    logs_text = service.options.logs_text
    if logs_text:
        note(request, question=order.question if order.prompt is None else order.prompt)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Finished):
                note(
                    request,
                    prompt_tokens=event.prompt_tokens,
                    tokens=event.tokens,
                    facts=len(event.facts),
                    finish_reason=event.reason,
                )
                if logs_text:
                    note(request, text=event.text)
            yield event
