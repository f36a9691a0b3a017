"""What every request passes: errors in OpenAI's form, its id, key, host and limits, and its line in the log.

It is an ASGI application around another one.
"""

import asyncio
import hmac
import json
import logging
import math
import re
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, TextIO, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refactx.decoding.markers import TEXT
from refactx.errors import (
    DatabaseError,
    IndexChangedError,
    IndexExistsError,
    IndexNotFoundError,
    InputError,
    ModelServerError,
    text_for_clients,
    without_password,
)

RETRY_SECONDS = 2
"""After how many seconds a client should ask again if the database or the model's server is away."""
LONGEST = 500
"""The most characters of a path, which clients write."""
QUIET_SECONDS, MOST_REPORTS = 60.0, 1000
"""How long a report is not repeated, and how many reports are remembered for that."""
_QUOTED = re.compile(
    r"""(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w)|`[^`]*`|“[^”]*”|<[^<>]*>""", re.DOTALL
)
QUOTES = "quotes_texts"
"""The attribute of a log record whose message may quote texts of clients."""
LONGEST_RETRY = 60
"""The most seconds after which a client is told to ask again."""
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_KEYED = re.compile(r"/(?:v1|mcp|metrics|openapi\.json)(?:/|$)")
BODY_SECONDS = 60.0
"""How long the body of a request may take."""
GONE = 499
"""The status in the log of a request whose client has gone, as of nginx."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_UNSAID = frozenset({"/mcp"})
"""Routes that do not say that they have answered."""
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]@/\s]*))(?::\d*)?")
_MAY_WRITE = ContextVar("may_write", default=False)
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"})


class ApiError(Exception):
    """An error that a client gets. `status`: of HTTP; `param`: the field of the request that it is about; `reason`: what
    the log has about it, by default the message."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(without_password(message))
        self.reason = without_password(reason or message)
        self.status, self.code, self.param, self.headers = status, code, param, dict(headers or {})

    @property
    def type(self) -> str:
        """The kind of error, as OpenAI names it.

        >>> ApiError(400, "no").type, ApiError(503, "later").type
        ('invalid_request_error', 'service_unavailable_error')
        """
        kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error"}
        return kinds.get(self.status) or ("service_unavailable_error" if self.status > 500 else "invalid_request_error")

    def to_json(self) -> dict[str, Any]:
        message = " ".join(str(self).encode("utf-8", "replace").decode().split())
        return {"error": {"message": message, "type": self.type, "param": self.param, "code": self.code}}


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error of a request that cannot be answered as it is."""
    return ApiError(400, message, code=code, param=param)


def no_model(name: str, known: Iterable[str]) -> ApiError:
    """Return the error of a request for a model that the server does not have. `known`: the names of those it has."""
    said = f"the model {name[:500]!r} does not exist: ask for one of {', '.join(known)}"
    return ApiError(404, said, code="model_not_found", param="model")


def away(message: str, reason: str = "") -> ApiError:
    """Return the error of a request that may be answered a little later. `reason`: for the log."""
    return ApiError(503, message, code="unavailable", headers={"Retry-After": str(RETRY_SECONDS)}, reason=reason)


def api_error(error: BaseException) -> ApiError:
    """Return the error that a client gets for one of refactx, or of a bug.

    Its text has nothing about the database and the machine of the server, see `text_for_clients`.
    """
    if isinstance(error, ApiError):
        return error
    message = str(error)
    if isinstance(error, InputError):
        return bad_request(error.for_clients)
    if isinstance(error, DatabaseError | IndexExistsError | IndexNotFoundError | IndexChangedError):
        return away(text_for_clients(error), message)
    if isinstance(error, ModelServerError):
        headers = {"Retry-After": str(RETRY_SECONDS)} if error.status in (429, 503) else {}
        said = text_for_clients(error)
        return ApiError(error.status, said, code="model_server_error", headers=headers, reason=message)
    failed = "the server failed at this request: its log has the reason"
    return ApiError(500, failed, code="internal_error", reason=f"{type(error).__name__}: {message}")


def schema_error(problems: Sequence[Mapping[str, Any]], body: object) -> ApiError:
    """Return the error of a request with fields that are wrong, in a sentence about one of them.

    `problems`: as pydantic lists them. Where a field may have several types, there are some for each: those about the
    innermost place are meant.
    """
    places = [_place(one["loc"], body, is_missing=one["type"] == "missing") for one in problems]
    at = max(places, key=len, default=())
    found = [one for one, place in zip(problems, places, strict=True) if place == at]
    if not at:
        return bad_request("the body of the request has to be an object of JSON, with `Content-Type: application/json`")
    field, says = ".".join(map(str, at)), list(dict.fromkeys(str(one["msg"]) for one in found))
    says = [text.replace("a valid dictionary or object to extract fields from", "an object") for text in says]
    expected = [text.removeprefix("Input should be ") for text in says]
    if any(one["type"] == "missing" for one in found):
        message = f"{field} is missing"
    elif any(one["type"] == "extra_forbidden" for one in found):
        message = f"{field} is not known: leave it out"
    elif all(text != says[number] for number, text in enumerate(expected)):
        message = f"{field} has to be {' or '.join(expected)}"
    else:
        message = f"{field} cannot be read: {' or '.join(says)}"
    return bad_request(message, field)


def _place(loc: Sequence[str | int], body: object, *, is_missing: bool = False) -> tuple[str | int, ...]:
    """Return where a problem is, without the names of types that pydantic adds.

    >>> _place(("body", "stop", "list[str]", 0), {"stop": [1]})
    ('stop', 0)
    """
    found, value = list[str | int](), body
    for part in loc[1:]:
        if loc[0] != "body":
            found.append(part)
        elif isinstance(value, dict) and (part in value or is_missing):
            found.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            found.append(part)
            value = value[part]
    return tuple(found)


def without_quotes(message: str) -> str:
    """Return a message without what stands in quotes, which may be of the texts that clients send.

    >>> without_quotes("no thing is called 'Ann Lee': the query's <Ann Lee> has no facts")
    "no thing is called '…': the query's <…> has no facts"
    """
    return _QUOTED.sub(lambda match: f"{match[0][0]}…{match[0][-1]}", message)


class RequestLog:
    """Lines of JSON on a stream, by default standard error. `has_texts`: whether they may have texts of clients."""

    def __init__(self, stream: TextIO | None = None, *, has_texts: bool = False) -> None:
        self._stream, self.has_texts = stream, has_texts

    def request(self, number: str, scope: Scope, status: int, seconds: float, fields: Mapping[str, Any]) -> None:
        """Write the line of a request. The query of its address is left out: it may have a question; so is what an error
        quotes, unless the log may have texts."""
        if "error" in fields and not self.has_texts:
            fields = {**fields, "error": without_quotes(str(fields["error"]))}
        self.write(
            "request",
            id=number,
            method=scope["method"],
            path=scope["path"][:LONGEST],
            client=(scope.get("client") or ["unknown"])[0],
            status=status,
            seconds=round(seconds, 4),
            **fields,
        )

    def write(self, event: str, **fields: Any) -> None:
        """Write a line. `event`: what has happened."""
        now = time.time()
        moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"
        line = json.dumps({"time": moment, "event": event, **fields}, default=str)
        print(line, file=self._stream or sys.stderr, flush=True)


class LogHandler(logging.Handler):
    """What libraries report, as lines of the same log. The same report has one line a minute, with how often it was
    `repeated` before."""

    def __init__(self, log: RequestLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._last: dict[tuple[str, str, str], tuple[float, int]] = {}  # when it had a line, and how often it had none

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a report, unless it had one in the last minute."""
        try:
            fields: dict[str, Any] = {"level": record.levelname.lower(), "source": record.name}
            fields["message"] = without_password(record.getMessage())
            if not self._log.has_texts and (text := getattr(record, TEXT, "")):
                fields["message"] = fields["message"].replace(repr(text), "…").replace(text, "…")
            if not self._log.has_texts and getattr(record, QUOTES, False):
                fields["message"] = without_quotes(fields["message"])
            error = record.exc_info[1] if record.exc_info else None
            report, now = (record.name, fields["message"], repr(error)), time.monotonic()
            moment, repeated = self._last.get(report, (-QUIET_SECONDS, 0))
            if now - moment < QUIET_SECONDS:
                self._last[report] = (moment, repeated + 1)
                return
            if len(self._last) >= MOST_REPORTS:
                self._last.clear()
            self._last[report] = (now, 0)
            if repeated:
                fields["repeated"] = repeated
            if record.exc_info:
                trace = without_password(logging.Formatter().formatException(record.exc_info))
                lines = trace.split("\n")  # an indented one is of the code
                shown = (one if self._log.has_texts or one[:1] == " " else without_quotes(one) for one in lines)
                fields["trace"] = "\n".join(shown)
            self._log.write("log", **fields)
        except Exception:
            self.handleError(record)


class RequestSlots:
    """The turns of requests: `most_running` at once, in the order in which they came, and `most_waiting` that wait.

    It is used by one event loop.
    """

    def __init__(self, most_running: int, most_waiting: int) -> None:
        self._most_running, self._most_waiting = most_running, most_waiting
        self._queue: deque[asyncio.Future[None]] = deque()
        self.running = 0
        self._seconds = 1.0  # of a text, on the average of the last ones

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return len(self._queue)

    def take(self) -> "RequestSlot":
        """Return a place: its turn comes at once, or when others have ended. Raise ApiError (429) if too many wait."""
        if self.running >= self._most_running and self.waiting >= self._most_waiting:
            rounds = (self.waiting + 1) / self._most_running
            retry = max(1, min(LONGEST_RETRY, math.ceil(rounds * self._seconds)))
            raise ApiError(
                429,
                f"{self.running} texts are being written and {self.waiting} requests wait: ask again in {retry} s",
                code="rate_limit_exceeded",
                headers={"Retry-After": str(retry)},
            )
        turn = asyncio.get_running_loop().create_future()
        if self.running < self._most_running:
            self.running += 1
            turn.set_result(None)
        else:
            self._queue.append(turn)
        return RequestSlot(self, turn)

    def leave(self, turn: "asyncio.Future[None]", seconds: float | None) -> None:
        """Give a turn back. `seconds`: how long its text took, None if none was written."""
        if turn in self._queue:
            self._queue.remove(turn)
            return
        if seconds is not None:
            self._seconds += 0.2 * (seconds - self._seconds)
        if self._queue:
            self._queue.popleft().set_result(None)
        else:
            self.running -= 1


class RequestSlot:
    """A place of one request, whose `turn` is done when it has come. Release it once, also before that."""

    def __init__(self, slots: RequestSlots, turn: "asyncio.Future[None]") -> None:
        self._slots: RequestSlots | None = slots
        self._turn, self._started = turn, cast("float | None", None)
        self.is_used = False
        """Whether what it was taken for has begun, which then releases it."""

    async def turn(self) -> None:
        """Wait for the turn."""
        await asyncio.shield(self._turn)
        self._started = time.monotonic()

    def release(self) -> None:
        """Give the place back."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.leave(self._turn, None if self._started is None else time.monotonic() - self._started)


def may_write() -> bool:
    """Return whether the request that is being answered has a key with which an index may be changed."""
    return _MAY_WRITE.get()


class Gate:
    """The checks before an application. `write_keys`: those of requests that may change an index; `root`: a path before
    those of its routes, which proxies may pass on or leave out; `max_bytes`: of a body, by the path ("": of any other one);
    `drains`: whether the server is about to stop; `count`: counts requests."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Sequence[str],
        write_keys: Sequence[str] = (),
        hosts: Sequence[str] | None,
        root: str,
        max_bytes: Mapping[str, int],
        drains: Callable[[], bool],
        log: RequestLog,
        count: Callable[[str, str, int], None],
    ) -> None:
        self._app, self._max_bytes, self._drains, self._log, self._count = app, max_bytes, drains, log, count
        self._write_keys = [sha256(key.encode()).digest() for key in write_keys]
        self._keys = [sha256(key.encode()).digest() for key in keys]
        self._hosts, self._root = hosts, root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application answer it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers, started = Headers(scope=scope), time.monotonic()
        path = scope["path"].rstrip("/")
        if self._root and f"{path}/".startswith(f"{self._root}/"):  # of a proxy that passes it on
            path = path[len(self._root) :]
        scope["path"] = path or "/"
        given = headers.get("x-request-id", "")
        number = given if _ID.fullmatch(given) else uuid.uuid4().hex
        state: dict[str, Any] = scope.setdefault("state", {})
        state |= {"request_id": number, "log": {}}
        status = GONE

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = MutableHeaders(scope=message)
                added["X-Request-Id"] = number
                for name, value in HEADERS.items():
                    added.setdefault(name, value)
            await send(message)

        may_write = _MAY_WRITE.set(self._knows(headers, self._write_keys))
        try:
            refused = self._refusal(scope, headers)
            if refused is None:
                await self._app(scope, self._bounded(receive, self._most(scope)), send_with_headers)
            else:
                state["log"]["error"] = refused.reason
                response = JSONResponse(refused.to_json(), refused.status, headers=refused.headers)
                await response(scope, receive, send_with_headers)
        except Exception:  # of a bug, which the application has answered and logged
            if status == GONE:
                raise
        finally:
            _MAY_WRITE.reset(may_write)
            status = state["log"].pop("status", status)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            # By the path of the route that answered: what clients write would be too many names.
            other = scope["path"] if scope["path"] in _UNSAID else "other"
            self._count(method, str(getattr(scope.get("route"), "path", other)), status)
            self._log.request(number, scope, status, time.monotonic() - started, state["log"])
        return None

    def _refusal(self, scope: Scope, headers: Headers) -> ApiError | None:
        """Return why a request is not answered; None if it is."""
        host = _host(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            _, port = scope.get("server") or ("", None)
            said = (
                f"the server answers under names of its own alone, not as {host[:200]!r}: open it as "
                f"http://127.0.0.1:{port}"
            )
            starts = f", or start it with --allow-host {host[:200] or 'NAME'}, or with --no-auth"
            return ApiError(403, said, code="host", reason=said + starts)
        path: str = scope["path"]
        if self._keys and _KEYED.match(path) and not self._knows(headers, [*self._keys, *self._write_keys]):
            return ApiError(
                401,
                "the API key is missing or not known: send one of the server's as `Authorization: Bearer KEY`",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if self._drains() and scope["method"] == "POST":
            return away("the server is about to stop: ask another one, or again when it has started")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most(scope):
            return self._too_large(self._most(scope))
        return None

    def _most(self, scope: Scope) -> int:
        """Return the most bytes of a body."""
        return self._max_bytes.get(scope["path"], self._max_bytes[""])

    @staticmethod
    def _knows(headers: Headers, keys: Sequence[bytes]) -> bool:
        """Return whether a header has one of some keys (their digests), in a time that does not depend on which."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        given = headers.get("api-key", ""), key if scheme.lower() == "bearer" else ""
        digests = [sha256(one.strip().encode("latin-1")).digest() for one in given]  # as they were sent
        found = [hmac.compare_digest(digest, known) for digest in digests for known in keys]
        return any(found)

    def _bounded(self, receive: Receive, most: int) -> Receive:
        """Return what receives a body that is not too large and comes in time; else it raises HTTPException."""
        left, end = most, asyncio.get_running_loop().time() + BODY_SECONDS
        is_whole = False

        async def bounded() -> Message:
            nonlocal left, is_whole
            try:
                async with asyncio.timeout_at(None if is_whole else end):
                    message = await receive()
            except TimeoutError:
                seconds = f"the body of the request was not whole after {BODY_SECONDS:.0f} s"
                raise HTTPException(408, seconds, {"Connection": "close"}) from None
            if message["type"] == "http.request":
                left -= len(message.get("body", b""))
                is_whole = not message.get("more_body", False)
                if left < 0:
                    error = self._too_large(most)
                    raise HTTPException(error.status, str(error), {"Connection": "close"})
            return message

        return bounded

    def _too_large(self, most: int) -> ApiError:
        return ApiError(413, f"the body of the request is too large: send at most {most:,} bytes")


def _host(header: str) -> str:
    """Return the name in a `Host` header without the port.

    Of a header that is no name and port, it returns all, which is no name of ours.

    >>> _host("127.0.0.1:8000"), _host("[::1]:8000"), _host("LOCALHOST")
    ('127.0.0.1', '::1', 'localhost')
    >>> _host("[::1].evil"), _host("localhost:80:80"), _host("localhost:evil")
    ('[::1].evil', 'localhost:80:80', 'localhost:evil')
    """
    match = _HOST.fullmatch(header)
    return (match[1] or match[2]).lower() if match else header
