"""Models that reply to a conversation, such as one on a server with OpenAI's API.

Servers and models refuse different parameters: newer models of OpenAI want `max_completion_tokens` in place of
`max_tokens` and no `temperature`, some have no system role. A request that is refused is sent again without what the
server names in its refusal, or with the other name, and later requests begin like that.
"""

import contextlib
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from threading import Lock
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from refactx.ask.conversation import Message, folded
from refactx.engines.served.connection import Usage, whole_body
from refactx.errors import InputError, ModelServerError
from refactx.lazy import require

SECONDS = 120.0
"""The most time of a request."""
RETRIES = 4
SAMPLING = ("temperature", "top_p", "seed")
"""The options of sampling that chat APIs have."""
GREEDILY: Mapping[str, Any] = {"temperature": 0}
_LIMITS = ("max_tokens", "max_completion_tokens")
"""The names of the most tokens of a reply, the one that most servers know first."""
MOST_BYTES, MOST_REDIRECTS = 16 << 20, 5
"""The most bytes of a reply, and how often a server may send a request on to another address of its own."""
_OF_CODING = ("content-encoding", "content-length", "transfer-encoding")
_log = logging.getLogger(__name__)
_UNSUPPORTED = re.compile(
    r"unsupported|n[o']t (?:be )?(?:support|accept|permit|allow|recogni[sz]ed|available|valid|used)|deprecated|extra"
    r"|un(?:recogni[sz]ed|known|expected)|\binstead\b|\buse\W+max_",
    re.IGNORECASE,
)
"""What tells that a parameter is refused, and not that its value is too large."""


class TextModel(Protocol):
    """A language model that replies to a conversation, whatever runs it."""

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the reply, greedily, of at most `max_new_tokens` tokens. The first message is the system's.

        Raises ModelError if the model cannot be used, InputError if the conversation is too long for it.
        """
        ...


@runtime_checkable
class CancellableModel(TextModel, Protocol):
    """A model whose texts can be ended while they are written."""

    def cancelled_by(self, cancelled: Callable[[], bool]) -> TextModel:
        """Return the same model for texts that end, with a ModelError, once `cancelled` returns True as well.

        It is asked before each pass of the model, in any thread.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRole:
    """What messages say of a server.

    `name`: what it is for; `option`: the option that has its URL; `key`: the environment variable with its key, a name
    of our own, so that no other key is sent there; `extra`: the extra of refactx that installs the client.
    """

    name: str
    option: str
    key: str
    extra: str


class ChatServer:
    """A model on a server, such as http://127.0.0.1:8000/v1. Threads may share it.

    `key`: by default that of the environment; `seconds`: the most time of a request. Requests that fail temporarily (no
    connection, time-out, 429, 5xx) are sent again, at most `retries` times, at growing intervals. Raises
    InputError if `url` is not one, or if the client is not installed.
    """

    def __init__(
        self,
        model: str,
        url: str,
        role: ServerRole,
        *,
        key: str | None = None,
        retries: int = RETRIES,
        seconds: float = SECONDS,
    ) -> None:
        try:
            parts = urlsplit(url)
            host = None if parts.port == 0 or re.search(r"\s", url) else parts.hostname
            (host or "").encode("idna")
        except ValueError:  # such as `http://[`, port 99999, or a host with two dots
            host = None
        if not host or parts.scheme not in ("http", "https"):
            shown = url.rpartition("@")[2]
            raise InputError(f"{shown!r} is not the URL of a server: give one such as http://127.0.0.1:8000/v1")
        require("openai", role.extra)
        import openai  # takes a second

        self._model, self._role, self._seconds, self._lock = model, role, seconds, Lock()
        self.shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
        """The URL without what may be secret."""
        self.usage = Usage()
        """What was asked of the model so far."""
        self._refused = set[str]()
        """What the server does not take: names of parameters, and `system` for that role."""
        # The client needs some key; a server without keys accepts any.
        given = key or os.environ.get(role.key) or "none"
        client = _client(f"{role.name} at {self.shown}", retries + 1, seconds, is_here=is_here(host))
        self._client = openai.OpenAI(
            api_key=given, base_url=url, timeout=seconds, max_retries=retries, http_client=client
        )

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the text of `reply`."""
        return self.reply(messages, max_new_tokens).text

    def reply(
        self,
        messages: Sequence[Mapping[str, Any]],
        max_new_tokens: int,
        tools: Sequence[Mapping[str, Any]] = (),
        sampling: Mapping[str, Any] = GREEDILY,
    ) -> "ChatReply":
        """Return the reply to a conversation, of at most `max_new_tokens` tokens.

        `tools`: those that the model may call, as OpenAI's API describes them; a server that takes none gets none.
        `sampling`: values of `SAMPLING`; those that the model does not take are left out.

        Raises ModelServerError if the server cannot be reached, refuses the request, or replies with something else.
        """
        import openai

        role = self._role
        try:
            while True:
                request = self._request(messages, max_new_tokens, tools, sampling)
                try:
                    completion = self._client.chat.completions.create(**request)
                    used = _usage(completion.usage)
                    with self._lock:
                        self.usage += used
                    return ChatReply.of(completion.choices[0], used)
                except openai.APIStatusError as error:
                    refused = _refused_of(request, error.param, _words(error))
                    if not refused:
                        raise
                    if "temperature" in refused - self._refused:
                        _log.warning("%s takes no temperature: its replies may vary", self._model)
                    self._refused |= refused
        except openai.APITimeoutError as error:
            raise ModelServerError(
                f"{role.name} at {self.shown} did not answer within {self._seconds:g} seconds: check {role.option} and its "
                "load",
                HTTPStatus.GATEWAY_TIMEOUT,
            ) from error
        except openai.APIConnectionError as error:
            raise ModelServerError(
                f"{role.name} at {self.shown} cannot be reached: check {role.option} and that it runs ({_reason(error)})"
            ) from error
        except openai.AuthenticationError as error:
            raise ModelServerError(f"{role.name} at {self.shown} did not accept the key: set {role.key}") from error
        except openai.APIStatusError as error:
            raise ModelServerError(
                f"{role.name} at {self.shown} refused the request for model {self._model!r}: {_words(error)[:200]}",
                error.status_code,
            ) from error
        except (openai.OpenAIError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ModelServerError(
                f"the reply of {role.name} at {self.shown} is not a chat completion ({error}): check {role.option}"
            ) from error

    def _request(
        self,
        messages: Sequence[Mapping[str, Any]],
        max_new_tokens: int,
        tools: Sequence[Mapping[str, Any]],
        sampling: Mapping[str, Any],
    ) -> dict[str, Any]:
        said = [dict(message) for message in messages]
        if "system" in self._refused:
            said = folded(said)
        request: dict[str, Any] = {"model": self._model, "messages": said}
        limit = next((name for name in _LIMITS if name not in self._refused), None)
        if limit is not None:
            request[limit] = max_new_tokens
        request |= {name: value for name, value in sampling.items() if name not in self._refused}
        if tools and "tools" not in self._refused:
            request["tools"] = list(tools)
        return request


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; `arguments`: JSON, as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A reply: its text, the tools that it calls, itself as a message, whether it was cut off, and what it took."""

    text: str
    calls: tuple[ToolCall, ...]
    message: Mapping[str, Any]
    is_cut: bool
    usage: Usage

    @classmethod
    def of(cls, choice: Any, usage: Usage) -> "ChatReply":
        """Return the reply that a choice of a completion is. Raises as wrong types do: the client does not look at them."""
        given, text = choice.message.tool_calls or (), choice.message.content or ""
        calls = tuple(ToolCall(one.id, one.function.name, one.function.arguments or "") for one in given)
        odd = [one for one in (text, *(part for call in calls for part in (call.id, call.name, call.arguments)))
               if not isinstance(one, str)]  # fmt: skip
        if odd:
            raise TypeError(f"{type(odd[0]).__name__} in place of a text")
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
                for one in calls
            ]
        return cls(text, calls, message, choice.finish_reason == "length", usage)


def _usage(given: Any) -> Usage:
    """Return what a request took, as the server says; some say nothing."""
    details = getattr(given, "prompt_tokens_details", None)
    places = ((given, "prompt_tokens"), (details, "cached_tokens"), (given, "completion_tokens"))
    found = (getattr(where, name, None) for where, name in places)
    return Usage(1, *(one if isinstance(one, int) and one > 0 else 0 for one in found))


def _refused_of(request: Mapping[str, Any], parameter: str | None, reason: str) -> set[str]:
    """Return what of a request a server does not take. `parameter`: the one that it names, if it names one by itself."""
    sent = {*_LIMITS, *SAMPLING, "tools"} & set(request)
    named = {parameter} & sent or {name for name in sent if re.search(rf"\b{name}\b", reason)}
    if not _UNSUPPORTED.search(reason):
        named -= set(_LIMITS)
    if "tools" in sent and re.search(r"(?i)\btools?\b", reason):
        named.add("tools")
    if request["messages"][0]["role"] == "system" and re.search(
        r"(?is)\bsystem\b.*\brole|\brole\b.*\bsystem\b", reason
    ):
        named.add("system")
    return {name for name in named if name is not None}


def _words(error: Any) -> str:
    """Return why a server refused a request, in its words: in the form of OpenAI's errors, or another one."""
    words = str(error.message)
    if words == f"Error code: {error.status_code}":
        words += f" - {error.response.text}"
    return " ".join(words.split())


def is_here(host: str) -> bool:
    """Return whether a host is this machine by its name, where a refused connection means that nothing listens.

    >>> is_here("localhost"), is_here("127.0.0.2"), is_here("::1"), is_here("kb.example")
    (True, True, True, False)
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host.removesuffix(".").rpartition(".")[2].lower() == "localhost"
    return address.is_loopback or address.is_unspecified


def _client(who: str, attempts: int, seconds: float, *, is_here: bool) -> Any:
    """Return an HTTP client for openai's that tells of each attempt that fails, and makes no other one in vain.

    A reply has bounds of bytes and seconds, and a redirect stays at the server that has the key.
    """
    import httpx2
    import openai

    class Client(openai.DefaultHttpxClient):
        def send(self, *given: Any, **options: Any) -> Any:
            request = given[0]
            try:
                response = self._whole(request)
            except ModelServerError:
                raise
            except Exception as error:
                if is_here and isinstance(_origin(error), ConnectionRefusedError):
                    raise openai.APIConnectionError(request=request) from error  # openai passes its own on at once
                self._tell(request, _reason(error))
                raise
            if response.status_code in (408, 409, 429) or response.status_code >= 500:
                self._tell(request, f"status {response.status_code}")
            return response

        def _whole(self, request: Any) -> Any:
            """Return the response with its body, after redirects."""
            for _ in range(MOST_REDIRECTS + 1):
                response = super().send(request, stream=True, follow_redirects=False)
                with contextlib.closing(response):
                    if response.next_request is None:
                        body = whole_body(response, who, seconds, MOST_BYTES)
                        headers = [one for one in response.headers.multi_items() if one[0] not in _OF_CODING]
                        return httpx2.Response(response.status_code, headers=headers, content=body, request=request)
                before, request = request, response.next_request
                if any(getattr(before.url, part) != getattr(request.url, part) for part in ("scheme", "host", "port")):
                    raise ModelServerError(
                        f"{who} redirects to another server, {request.url.scheme}://{request.url.netloc.decode()}: give the "
                        "URL of that one if it is meant"
                    )
            raise ModelServerError(f"{who} redirects more than {MOST_REDIRECTS} times: check its URL")

        def _tell(self, request: Any, reason: str) -> None:
            number = int(request.headers.get("x-stainless-retry-count", 0)) + 1
            _log.warning("%s: attempt %d of %d failed (%s)", who, number, attempts, reason)

    return Client()


def _origin(error: BaseException) -> BaseException:
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return error


def _reason(error: BaseException) -> str:
    origin = _origin(error)
    return getattr(origin, "strerror", None) or " ".join(str(origin).split()) or type(origin).__name__
