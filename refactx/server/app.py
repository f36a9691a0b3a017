"""The application: routes, errors, and what every request passes.

A server of HTTP over an application: its connections, which are bounded in number and time, and its end, before which
running texts may end.
"""

import asyncio
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.metadata import version
from types import FrameType

import h11
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from refactx.errors import InputError, RefactxError
from refactx.server.chat import chat_router, completions_router, models_router
from refactx.server.http import BODY_SECONDS, ApiError, Gate, LogHandler, RequestLog, api_error, no_model, schema_error
from refactx.server.responses import responses_router
from refactx.server.routes import (
    assistants_app,
    check_router,
    facts_router,
    feedback_router,
    page_router,
    query_router,
    sparql_router,
    state_router,
    translate_router,
    writing_router,
)
from refactx.server.service import TextService
from refactx.server.uploads import Uploads, uploads_router

_log = logging.getLogger(__name__)
_LOADING = "refactx.loading"
"""The logger of what is loaded, which a terminal shows."""
_WITH_MODEL = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses"})
PAUSE = 0.05
"""The seconds between two looks at whether all texts have ended."""
HEAD_SECONDS, UNREAD_SECONDS = 10.0, 60.0
"""How long the head of a request may take, and how long a client may leave some of a reply unread."""
CONNECTIONS, MOST_DESCRIPTORS = 1000, 1 << 16
"""The most connections besides those of texts, and the most file descriptors that are asked for."""


def create_app(
    *services: TextService,
    log: RequestLog | None = None,
    drains: Callable[[], bool] = lambda: False,
    uploads: Uploads | None = None,
) -> ASGIApp:
    """Return the ASGI application of a server.

    `services`: each a model with an index; the first one answers requests that name none. `drains`: whether the server is
    about to stop, and refuses new requests; `uploads`: how indexes are made of files.
    """
    chooser, options = Chooser(services, drains, uploads), services[0].options
    gate = Gate(
        chooser.app,
        keys=options.keys,
        write_keys=options.write_keys,
        hosts=options.hosts,
        root=options.root,
        max_bytes={"": options.max_bytes} | ({} if uploads is None else {"/v1/indexes": uploads.most}),
        drains=drains,
        log=log or RequestLog(),
        count=services[0].metrics.count,
    )
    if not options.origins:
        return gate
    exposed = ("X-Request-Id", "Retry-After")
    return CORSMiddleware(
        gate,
        allow_origins=options.origins,
        allow_methods=("GET", "POST"),
        allow_headers=("*",),
        expose_headers=exposed,
    )


class Chooser:
    """The applications of the services of a server. `app`: lets that of one of them answer.

    It is the first one with the `model` that the request's body or address names, and the `index` that its address names,
    as far as these are given.
    """

    def __init__(self, services: Sequence[TextService], drains: Callable[[], bool], uploads: Uploads | None) -> None:
        self._services, self._drains, self._uploads = list(services), drains, uploads
        self._apps = [self._app_of(service) for service in services]
        self._live, self._ends = list[asyncio.Task[None]](), asyncio.Event()
        handlers = {ApiError: _reported, HTTPException: _refused, Exception: _reported}
        routes = [Mount("/", self._choose)]
        self.app: ASGIApp = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        if len(services) == 1 and uploads is None:
            self.app = self._apps[0]

    async def add(self, service: TextService) -> None:
        """Answer by another service too, which is closed with the others."""
        await asyncio.get_running_loop().run_in_executor(service.lookups, _warm_up, service)
        try:
            app = self._app_of(service)
            await self._begin(app)
        except BaseException:
            service.close()
            raise
        self._services.append(service)
        self._apps.append(app)

    async def _begin(self, app: FastAPI) -> None:
        """Begin the lifespan of an application. A task of its own leaves what that task entered."""
        began = asyncio.Event()

        async def live() -> None:
            async with app.router.lifespan_context(app):
                began.set()
                await self._ends.wait()

        task = asyncio.ensure_future(live())
        waiting = asyncio.ensure_future(began.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not began.is_set():
            await task
        self._live.append(task)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        count = len(self._apps)
        for app in self._apps:
            await self._begin(app)
        yield
        self._ends.set()
        await asyncio.gather(*self._live, return_exceptions=True)
        for service in self._services[count:]:
            service.close()

    def _app_of(self, service: TextService) -> FastAPI:
        """Return the application that answers for one of the services."""
        # The pages of documentation load scripts from elsewhere.
        (tools, lifespan), options = assistants_app(service), service.options
        app = FastAPI(
            title="ReFactX",
            version=version("refactx"),
            docs_url=None,
            redoc_url=None,
            lifespan=lifespan,
            redirect_slashes=False,
            servers=[{"url": options.root}] if options.root else None,
        )
        for router in (
            chat_router, completions_router, responses_router, facts_router, check_router, query_router, sparql_router,
            feedback_router, translate_router, writing_router,
        ):  # fmt: skip
            app.include_router(router(service))
        app.include_router(
            uploads_router(service, self._uploads, self.add, lambda: {one.index_name for one in self._services})
        )
        app.include_router(models_router(self._services))
        app.include_router(state_router(self._services, self._drains))
        app.include_router(page_router(root=options.root))
        app.router.routes += tools
        for kind in (ApiError, RefactxError, Exception):
            app.add_exception_handler(kind, _reported)
        app.add_exception_handler(RequestValidationError, _invalid)
        app.add_exception_handler(HTTPException, _refused)
        return app

    async def _choose(self, scope: Scope, receive: Receive, send: Send) -> None:
        services, number = self._services, 0
        scope.pop("route", None)  # of all paths, which the one that answers replaces
        if scope["path"].startswith(("/v1/", "/mcp")):  # else a page, whose scripts ask for what its address names
            given = QueryParams(scope["query_string"])
            index, models = given.get("index"), given.getlist("model")
            found = [number for number, one in enumerate(services) if index in (None, one.index_name)]
            if not found:
                names = ", ".join(dict.fromkeys(str(one.index_name) for one in services))
                raise ApiError(404, f"the server has no index {index!r}: ask for one of {names}", param="index")
            if scope["method"] == "POST" and scope["path"] in _WITH_MODEL:
                named, receive = await _model_of(scope, receive)
                models += [] if named is None else [named]
            for model in models:
                known = [(number, services[number].options.variants) for number in found]
                found = [number for number, names in known if model in names]
                if not found:
                    raise no_model(model, dict.fromkeys(name for _, names in known for name in names))
            number = found[0]
        await self._apps[number](scope, receive, send)


async def _model_of(scope: Scope, receive: Receive) -> tuple[str | None, Receive]:
    """Return the `model` in the body of a request, None if there is none, and what receives that body once more."""
    try:
        body = await Request(scope, receive).body()
    except ClientDisconnect:
        raise HTTPException(400, "the body of the request is not whole") from None
    messages: Iterator[Message] = iter([{"type": "http.request", "body": body}])

    async def again() -> Message:
        return next(messages, None) or await receive()

    try:
        model = json.loads(body)["model"]
    except (ValueError, LookupError, TypeError, RecursionError):
        model = None
    return model if isinstance(model, str) else None, again


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


class HttpConnection(H11Protocol):
    """The connection of a client, which is closed if the client takes too long.

    If there are too many, the one that has waited longest for a whole request makes room for a new one; if all of them are
    being answered, uvicorn refuses the new one's request by status 503.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, and close another connection if there are too many."""
        self._doing, self._since = "", self.loop.time()
        super().connection_made(transport)
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        others = [
            one for one in self.connections if isinstance(one, HttpConnection) and one is not self and one.can_close
        ]
        if others:
            _log.warning("there are %d connections, as many as can be: the oldest are closed", self.limit_concurrency)
            min(others, key=lambda one: one._since).abort()

    @property
    def can_close(self) -> bool:
        """Whether no request is being answered."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or self.transport.is_closing()

    def abort(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def check(self) -> None:
        """Close it if what its client does takes too long. It is called every second."""
        seconds, doing = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS + 5}, str(self.conn.their_state)
        limit = seconds.get(self.conn.their_state)
        if self.transport.get_write_buffer_size():
            limit, doing = UNREAD_SECONDS, "reading"
        if doing != self._doing:
            self._doing, self._since = doing, self.loop.time()
        elif limit is not None and self.loop.time() - self._since > limit:
            self.abort()


class HttpServer(uvicorn.Server):
    """A server of one application. `is_draining`: whether it takes no new texts, because it is about to stop."""

    def __init__(
        self,
        services: Sequence[TextService],
        log: RequestLog,
        on_start: Callable[[], object],
        uploads: Uploads | None = None,
    ) -> None:
        self.is_draining = False
        self._services, self._log, self._on_start, self._uploads = services, log, on_start, uploads
        self._tasks: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        descriptors, options = _descriptors(), services[0].options
        config = uvicorn.Config(
            create_app(*services, log=log, drains=lambda: self.is_draining, uploads=uploads),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            ws="none",
            http=HttpConnection,
            # Half of the descriptors are left to the database and files. asyncio accepts a backlog at once.
            limit_concurrency=min(descriptors // 2, CONNECTIONS + options.max_running + options.max_waiting),
            backlog=max(8, min(128, descriptors // 16)),
            # After the grace period, for the ends of streams to be sent.
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and let the model read its prompt."""
        await super().startup(sockets)
        self._on_start()
        self._loop = asyncio.get_running_loop()
        self._tasks.append(self._loop.run_in_executor(self._services[0].lookups, self._warm_up))

    async def on_tick(self, counter: int) -> bool:
        """Look at each connection, every second. Return whether to stop."""
        if counter % 10 == 0:
            for one in list(self.server_state.connections):
                if isinstance(one, HttpConnection):
                    one.check()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop when the running texts have ended, or at the second signal at once.

        The signal is not raised again after that, as uvicorn would: the process ends in good order.
        """
        if self.is_draining or self._loop is None:
            self.force_exit = self.should_exit
            self.should_exit = True
            return
        self.is_draining = True
        self._loop.call_soon_threadsafe(lambda: self._tasks.append(asyncio.ensure_future(self._drain())))

    async def _drain(self) -> None:
        slots, grace = self._services[0].slots, self._services[0].options.grace
        self._log.write("stopping", running=slots.running, waiting=slots.waiting, grace=grace)
        deadline = asyncio.get_running_loop().time() + grace
        making = asyncio.Lock() if self._uploads is None else self._uploads.lock
        while (slots.running or slots.waiting or making.locked()) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(PAUSE)
        if self._uploads is not None:
            self._uploads.close()
        self.should_exit = True

    def _warm_up(self) -> None:
        for service in self._services:
            _warm_up(service)
        self._log.write("ready")


def _warm_up(service: TextService) -> None:
    try:
        service.warm_up()
    except Exception as error:
        _log.warning("the model %s could not be warmed up: %s", service.options.name, error)
        service.is_warm = True


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Port 0 is any free one. Raises InputError if the address cannot be used."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)
        made.set_inheritable(True)
    except OSError as error:
        raise InputError(
            f"the server cannot listen at {host}, port {port}: {error.strerror or error}. Give another --port or --host"
        ) from None
    return made


def serve(
    services: Sequence[TextService],
    listening: socket.socket,
    on_start: Callable[[], object] = lambda: None,
    uploads: Uploads | None = None,
) -> None:
    """Answer requests until a signal ends it. `services`, `uploads`: as `create_app` takes them, where services share their
    slots; `on_start`: called when it does."""
    _descriptors(raised=True)
    log = RequestLog(has_texts=services[0].options.logs_text)
    try:
        with reported(log):
            HttpServer(services, log, on_start, uploads).run(sockets=[listening])
    finally:
        if uploads is not None:
            uploads.close()
        for service in services:
            service.close()


@contextmanager
def reported(log: RequestLog) -> Iterator[None]:
    """Let the log have what libraries report during the block, also by `warnings` and by handlers of their own."""
    root, handler = logging.getLogger(), LogHandler(log)
    own = [
        one for one in map(logging.getLogger, list(root.manager.loggerDict)) if one.handlers and one.name != _LOADING
    ]
    kept = [(one, one.handlers, one.propagate) for one in own]
    for logger in own:
        logger.handlers, logger.propagate = [], True
    root.addHandler(handler)
    logging.captureWarnings(capture=True)
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.removeHandler(handler)
        for logger, handlers, propagates in kept:
            logger.handlers, logger.propagate = handlers, propagates


def _descriptors(raised: bool = False) -> int:
    """Return how many files this process may have open, at most `MOST_DESCRIPTORS`, `raised` to what the system allows."""
    if sys.platform == "win32":
        return MOST_DESCRIPTORS
    import resource  # Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if raised:
        with suppress(ValueError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    return most if soft == resource.RLIM_INFINITY else min(soft, most)
