"""A connection to a model server: HTTP with its key, requests that are sent again, and what was asked.

Each fault of a server is an error of one line, which names the server without its key.
"""

import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from refactx.errors import InputError, ModelError, ModelServerError
from refactx.fact import counted
from refactx.lazy import require

if TYPE_CHECKING:
    from tenacity import RetryCallState

KEY = "REFACTX_MODEL_KEY"
"""The environment variable with the server's key: a name of our own, so that no other key is sent there."""
SECONDS = 300.0
"""The most seconds until a server answers."""
ATTEMPTS = 5
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
_TEMPORARY = (408, 429, 500, 502, 503, 504)
"""The statuses of requests that are sent again."""
MOST_BYTES = 256 << 20
"""The most bytes of an answer."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Usage:
    """What was asked of a model: requests, the tokens of prompts (`cached`: those of them that the server says it had
    read before), and the tokens that were written."""

    requests: int = 0
    prompt: int = 0
    cached: int = 0
    written: int = 0

    def __str__(self) -> str:
        told = f" ({self.cached:,} of them read before)" if self.cached else ""
        return f"{counted(self.requests, 'request')}, {self.prompt:,} prompt tokens{told}, {self.written:,} written"

    def __iadd__(self, other: "Usage") -> "Usage":
        for name in ("requests", "prompt", "cached", "written"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


class TryAgainError(ModelServerError):
    """A request that failed for a reason that may pass. `after`: in how many seconds the server wants it again."""

    after: float = 0.0


class Connection:
    """An HTTP connection to a server. `url`: with or without `/v1` at its end; `key`: None for that of the environment.

    Requests that fail temporarily (no connection, a cut answer, 408, 429, 5xx) are sent again, at growing intervals.
    `usage`: what was asked. `failed`: whether a request had to be sent again: the server may be another one since.

    Raises InputError if it is no http or https URL, or if httpx2 or tenacity is not installed.
    """

    def __init__(self, url: str, key: str | None = None, *, seconds: float = SECONDS, wait: float = FIRST_WAIT) -> None:
        for module in ("httpx2", "tenacity"):
            require(module, "client")
        import httpx2

        try:
            parts = urlsplit(url.strip())
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https"):
            shown = url.rpartition("@")[2]
            raise InputError(f"{shown!r} is not the URL of a server: give one such as http://127.0.0.1:8000/v1")
        path = parts.path.rstrip("/").removesuffix("/v1")
        self.shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path, query="", fragment="").geturl()
        self.usage, self.failed, self._seconds, self._wait = Usage(), False, seconds, wait
        key = key or os.environ.get(KEY)
        user = (parts.username or "", parts.password or "") if "@" in parts.netloc else None
        self._client = httpx2.Client(
            base_url=self.shown + "/",
            auth=user,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(seconds, connect=min(seconds, 10.0)),
        )

    def look(self, path: str) -> Any:
        """Return the JSON at a path; None if the server has none there. Raises ModelError if it does not take the key."""
        response = self._sent("GET", path, None)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            self._refuse(path, response)
        try:
            return response.json() if response.status_code == HTTPStatus.OK else None
        except ValueError:
            return None

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON that a server answers. Raises ModelError, in one line, if it does not."""
        response = self._sent("POST", path, body)
        if response.status_code != HTTPStatus.OK:
            self._refuse(path, response)
        try:
            return response.json()
        except ValueError:
            raise ModelError(f"the model server {self.shown} answered {path} with no JSON: check --model-url") from None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _refuse(self, path: str, response: "_Answer") -> NoReturn:
        if response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise ModelServerError(f"the model server {self.shown} did not accept the key: set {KEY}")
        raise RefusedError(f"the model server {self.shown} refused {path}: {_words(response)}", response.status_code)

    def _sent(self, method: str, path: str, body: Mapping[str, Any] | None) -> "_Answer":
        """Send a request until it is answered, or must not be sent again."""
        import tenacity

        growing = tenacity.wait_exponential_jitter(multiplier=self._wait, max=LONGEST_WAIT * self._wait / FIRST_WAIT)

        def wait(state: "RetryCallState") -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            return max(error.after if isinstance(error, TryAgainError) else 0.0, growing(state))

        def tell(state: "RetryCallState") -> None:
            self.failed = True
            error = state.outcome.exception() if state.outcome is not None else None
            _log.warning("%s (attempt %d of %d)", error, state.attempt_number, ATTEMPTS)

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=wait,
            before_sleep=tell,
            retry=tenacity.retry_if_exception_type(TryAgainError),
            reraise=True,
        )
        return retrying(lambda: self._send(method, path, body))

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> "_Answer":
        import httpx2

        try:
            with self._client.stream(method, path.lstrip("/"), json=body) as reply:
                content = whole_body(reply, f"the model server {self.shown}", self._seconds)
                response = _Answer(reply.status_code, reply.headers.get("Retry-After", ""), content)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise TryAgainError(
                f"the model server {self.shown} cannot be reached ({_reason(error)}): check --model-url and that it runs"
            ) from None
        except httpx2.TimeoutException:
            raise ModelServerError(
                f"the model server {self.shown} did not answer within {self._seconds:g} seconds: check its load",
                HTTPStatus.GATEWAY_TIMEOUT,
            ) from None
        except httpx2.TransportError as error:
            raise TryAgainError(
                f"the model server {self.shown} ended the connection before its answer was whole ({_reason(error)}): check "
                "that it still runs"
            ) from None
        status = response.status_code
        if status in _TEMPORARY:
            said = f"the model server {self.shown} answered with status {status}: {_words(response)}"
            failed = TryAgainError(said, status)
            failed.after = min(60.0, float(response.after)) if response.after.isdigit() else 0.0
            raise failed
        return response


def whole_body(reply: Any, server: str, seconds: float, most: int = MOST_BYTES) -> bytes:
    """Return the body of a reply that is read as it comes. `server`: its name, for messages.

    Raises ModelServerError if it has more than `most` bytes, or has not ended in time.
    """
    body, end = bytearray(), time.monotonic() + seconds
    for part in reply.iter_bytes():
        body += part
        if len(body) > most:
            raise ModelServerError(f"{server} answered with more than {most >> 20} MiB: check its URL")
        if time.monotonic() > end:
            raise ModelServerError(
                f"the answer of {server} did not end within {seconds:g} seconds: check its load",
                HTTPStatus.GATEWAY_TIMEOUT,
            )
    return bytes(body)


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer of a server; `after`: its header Retry-After."""

    status_code: int
    after: str
    content: bytes

    def json(self) -> Any:
        """Return the JSON that it is. Raises ValueError."""
        try:
            return json.loads(self.content)
        except RecursionError as error:
            raise ValueError("it is too deep") from error


class RefusedError(ModelServerError):
    """A request that a server does not take."""


def _words(response: _Answer) -> str:
    """Return a server's own words, short."""
    try:
        said = response.json()
        said = said.get("error", said) if isinstance(said, dict) else said
        said = said.get("message", said) if isinstance(said, dict) else said
    except ValueError:
        said = response.content.decode("utf-8", "replace")
    return " ".join(str(said).split())[:200] or f"status {response.status_code}"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
