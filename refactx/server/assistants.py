"""`/mcp`: the facts and answers of a server for assistants, by the Model Context Protocol."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from refactx.asking.options import Generation
from refactx.errors import RefactxError
from refactx.index.index import Index
from refactx.mcp import Answered, answered, fact_server, http_app
from refactx.server.http.errors import api_error
from refactx.server.text.events import Finished
from refactx.server.text.service import Order, TextService

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from starlette.routing import BaseRoute

_log = logging.getLogger(__name__)


def assistants_app(
    service: TextService,
) -> "tuple[list[BaseRoute], Callable[[FastAPI], AbstractAsyncContextManager[None]] | None]":
    """Return the routes for assistants, and the lifespan that they need; none for an index that is in no database."""
    if not isinstance(service.index, Index) or service.facts is None:
        return [], None
    tools = fact_server(service.index, facts=service.facts, look_up=_looks_up(service), ask=_asks(service))
    app = http_app(tools, hosts=service.options.hosts, max_bytes=service.options.max_bytes)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with app.router.lifespan_context(app):
            yield

    return list(app.routes), lifespan


def _looks_up(service: TextService) -> Callable[..., Any]:
    async def look_up(read: Callable[..., Any], *arguments: Any) -> Any:
        with _safe():
            service.availability.check()
            return await service.look_up(read, *arguments)

    return look_up


def _asks(service: TextService) -> Callable[[str], Any]:
    async def ask(question: str) -> Answered:
        order = Order(question=question, generation=Generation(max_new_tokens=service.options.max_tokens))
        with _safe():
            slot = service.take_slot(order)
            finished = None
            try:
                async with aclosing(service.write(order, slot)) as events:
                    async for event in events:
                        finished = event if isinstance(event, Finished) else None
            finally:
                if not slot.is_used:
                    slot.release()
        if finished is None:
            raise RefactxError("the text has no end")
        facts = [(one.fact, one.linked) for one in finished.facts]
        queries = [query.to_json() for query in finished.queries]
        return answered(finished.answer, finished.text, facts, queries, unknown=finished.unknown)

    return ask


@contextmanager
def _safe() -> Iterator[None]:
    """Raise RefactxError with what a client may read of an error in the block; the log has the rest."""
    try:
        yield
    except Exception as error:
        found = api_error(error)
        if found.reason != str(found):
            _log.warning("a tool failed: %s", found.reason, exc_info=error if found.status == 500 else None)
        raise RefactxError(str(found)) from None
