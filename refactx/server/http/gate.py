"""What every request passes: its id, the check of its key and host, the limit of its body, headers, and its line in the log.

It is an ASGI application around another one.
"""

import asyncio
import hmac
import re
import time
import uuid
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refactx.server.http.errors import ApiError, away
from refactx.server.http.log import RequestLog

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


class Gate:
    """The checks before an application. `drains`: whether the server is about to stop; `count`: counts requests."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Sequence[str],
        hosts: Sequence[str] | None,
        max_bytes: int,
        drains: Callable[[], bool],
        log: RequestLog,
        count: Callable[[str, str, int], None],
    ) -> None:
        self._app, self._max_bytes, self._drains, self._log, self._count = app, max_bytes, drains, log, count
        self._keys = [sha256(key.encode()).digest() for key in keys]
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application answer it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers, started = Headers(scope=scope), time.monotonic()
        scope["path"] = scope["path"].rstrip("/") or "/"
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

        try:
            refused = self._refusal(scope, headers)
            if refused is None:
                await self._app(scope, self._bounded(receive), send_with_headers)
            else:
                response = JSONResponse(refused.to_json(), refused.status, headers=refused.headers)
                await response(scope, receive, send_with_headers)
        except Exception:  # of a bug, which the application has answered and logged
            if status == GONE:
                raise
        finally:
            status = state["log"].pop("status", status)
            self._count(scope["method"] if scope["method"] in _METHODS else "other", _route(scope), status)
            self._log.request(number, scope, status, time.monotonic() - started, state["log"])
        return None

    def _refusal(self, scope: Scope, headers: Headers) -> ApiError | None:
        """Return why a request is not answered; None if it is."""
        host = _host(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            _, port = scope.get("server") or ("", None)
            return ApiError(
                403,
                f"the server answers under names of its own alone, not as {host[:200]!r}: open it as "
                f"http://127.0.0.1:{port}, or start it with --allow-host {host[:200] or 'NAME'}, or with --no-auth",
                code="host",
            )
        path: str = scope["path"]
        if self._keys and _KEYED.match(path) and not self._knows(headers.get("authorization", "")):
            return ApiError(
                401,
                "the API key is missing or not known: send one of the server's as `Authorization: Bearer KEY`",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if self._drains() and scope["method"] == "POST":
            return away("the server is about to stop: ask another one, or again when it has started")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_bytes:
            return self._too_large()
        return None

    def _knows(self, authorization: str) -> bool:
        """Return whether a header has a key of ours, in a time that does not depend on which."""
        scheme, _, key = authorization.partition(" ")
        given = sha256(key.strip().encode("latin-1")).digest()  # as it was sent
        found = [hmac.compare_digest(given, known) for known in self._keys]
        return any(found) and scheme.lower() == "bearer"

    def _bounded(self, receive: Receive) -> Receive:
        """Return what receives a body that is not too large and comes in time; else it raises HTTPException."""
        left, end = self._max_bytes, asyncio.get_running_loop().time() + BODY_SECONDS
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
                    error = self._too_large()
                    raise HTTPException(error.status, str(error), {"Connection": "close"})
            return message

        return bounded

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the body of the request is too large: send at most {self._max_bytes:,} bytes")


_UNSAID = frozenset({"/mcp"})
"""Routes that do not say that they have answered."""
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"})


def _route(scope: Scope) -> str:
    """Return the path of the route that answered: what clients write would be too many names."""
    other = scope["path"] if scope["path"] in _UNSAID else "other"
    return str(getattr(scope.get("route"), "path", other))


def _host(header: str) -> str:
    """Return the name in a `Host` header without the port.

    >>> _host("127.0.0.1:8000"), _host("[::1]:8000"), _host("LOCALHOST")
    ('127.0.0.1', '::1', 'localhost')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()
