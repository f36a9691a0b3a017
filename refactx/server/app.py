"""The application: routes, errors, and what every request passes."""

import logging
from collections.abc import Callable
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from refactx.errors import RefactxError
from refactx.server.assistants import assistants_app
from refactx.server.chat import chat_router
from refactx.server.completions import completions_router
from refactx.server.facts import facts_router
from refactx.server.http.errors import ApiError, api_error, schema_error
from refactx.server.http.gate import Gate
from refactx.server.http.log import RequestLog
from refactx.server.models_route import models_router
from refactx.server.page_route import page_router
from refactx.server.query import query_router
from refactx.server.responses import responses_router
from refactx.server.state_route import state_router
from refactx.server.text.service import TextService
from refactx.server.translate import translate_router

_log = logging.getLogger(__name__)


def create_app(
    service: TextService, log: RequestLog | None = None, *, drains: Callable[[], bool] = lambda: False
) -> Gate:
    """Return the ASGI application of a server. `drains`: whether it is about to stop, and refuses new requests."""
    # The pages of documentation load scripts from elsewhere.
    tools, lifespan = assistants_app(service)
    app = FastAPI(
        title="ReFactX",
        version=version("refactx"),
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    for router in (
        chat_router, completions_router, responses_router, facts_router, query_router, translate_router,
    ):  # fmt: skip
        app.include_router(router(service))
    app.include_router(models_router(service.options.name))
    app.include_router(state_router(service, drains))
    app.include_router(page_router())
    app.router.routes += tools
    for kind in (ApiError, RefactxError, Exception):
        app.add_exception_handler(kind, _reported)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    options = service.options
    return Gate(
        app,
        keys=options.keys,
        hosts=options.hosts,
        max_bytes=options.max_bytes,
        drains=drains,
        log=log or RequestLog(),
        count=service.metrics.count,
    )


def _response(error: ApiError) -> Response:
    return JSONResponse(error.to_json(), error.status, headers=error.headers)


async def _reported(request: Request, error: Exception) -> Response:
    found = api_error(error)
    if found.status == 500:
        _log.error("a request failed", exc_info=error)
    request.state.log["error"] = found.reason
    return _response(found)


async def _invalid(request: Request, error: Exception) -> Response:
    problems, body = (error.errors(), error.body) if isinstance(error, RequestValidationError) else ((), None)
    return await _reported(request, schema_error(problems, body))


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    about = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} is not for {request.url.path}"}
    message = about.get(error.status_code, str(error.detail))
    return _response(ApiError(error.status_code, message, headers=error.headers))
