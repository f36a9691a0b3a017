"""A language model on a server with an OpenAI-compatible API of chat completions."""

import contextlib
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from refactx.errors import InputError, ModelError
from refactx.extras import require
from refactx.writing.conversation import Message

SECONDS = 120.0
"""The most time of a request."""
RETRIES = 4
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not (?:allowed|permitted)|extra |deprecated|only the default",
    re.IGNORECASE,
)
_INSTEAD = {"max_tokens": "max_completion_tokens"}
"""The names that newer models have for parameters."""


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

    `key`: by default that of the environment. Requests that fail temporarily (no connection, time-out, 429, 5xx) are
    sent again, at most `retries` times, at growing intervals; one with a parameter that the model does not know, without
    it or under its newer name, as all later ones. Raises InputError if `url` is not one, or if the client is not
    installed.
    """

    def __init__(
        self, model: str, url: str, role: ServerRole, *, key: str | None = None, retries: int = RETRIES
    ) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:  # such as `http://[`, or a port of 99999
            host = port = None
        if not host or parts.scheme not in ("http", "https"):
            shown = url.rpartition("@")[2]
            raise InputError(f"{shown!r} is not the URL of a server: give one such as http://127.0.0.1:8000/v1")
        require("openai", role.extra)
        import openai  # takes a second

        self._model, self._role = model, role
        self._parameters = {"max_tokens": "max_tokens", "temperature": "temperature"}
        """The names that the model has for what requests set; what it does not know is left out."""
        self._port = port or (443 if parts.scheme == "https" else 80)
        self._local = host if is_local(host) else None
        self.shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
        """The URL without what may be secret."""
        # The client needs some key; a server without keys accepts any.
        given = key or os.environ.get(role.key) or "none"
        self._client = openai.OpenAI(api_key=given, base_url=url, timeout=SECONDS, max_retries=retries)

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the reply to a conversation, greedily, of at most `max_new_tokens` tokens.

        Raises ModelError if the server cannot be reached, refuses the request, or replies with something else.
        """
        import openai

        role, said = self._role, cast(Any, [dict(message) for message in messages])
        values = {"max_tokens": max_new_tokens, "temperature": 0}
        try:
            self._check_port()
            while True:
                names = self._parameters
                options: dict[str, Any] = {name: values[meant] for meant, name in names.items()}
                try:
                    completion = self._client.chat.completions.create(model=self._model, messages=said, **options)
                    return completion.choices[0].message.content or ""
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    self._parameters = _without(names, error)  # or it raises the error
        except openai.APITimeoutError as error:
            raise ModelError(
                f"{role.name} at {self.shown} did not answer within {SECONDS:g} seconds: check {role.option} and its load"
            ) from error
        except (openai.APIConnectionError, OSError) as error:
            raise ModelError(
                f"{role.name} at {self.shown} cannot be reached: check {role.option} and that it runs"
            ) from error
        except openai.AuthenticationError as error:
            raise ModelError(f"{role.name} at {self.shown} did not accept the key: set {role.key}") from error
        except openai.APIStatusError as error:
            reason = " ".join(str(error.message).split())[:200]
            raise ModelError(
                f"{role.name} at {self.shown} refused the request for model {self._model!r}: {reason}"
            ) from error
        except (openai.OpenAIError, AttributeError, IndexError, TypeError, ValueError) as error:
            raise ModelError(
                f"the reply of {role.name} at {self.shown} is not a chat completion ({error}): check {role.option}"
            ) from error

    def _check_port(self) -> None:
        """Raise OSError if nothing listens there on this machine, where trying again does not help."""
        if self._local is not None:
            with contextlib.suppress(TimeoutError), socket.create_connection((self._local, self._port), timeout=5):
                pass


def is_local(host: str) -> bool:
    """Return whether a host is this machine, where a refused connection is final."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _without(names: Mapping[str, str], error: Any) -> dict[str, str]:
    """Return the names of parameters without the one that a model has refused, or with its newer name.

    Raises `error` if it is about something else.
    """
    said = f"{error.param or ''} {error.message}"
    refused = next((meant for meant, name in names.items() if re.search(rf"\b{name}\b", said)), None)
    if refused is None or not _UNSUPPORTED.search(f"{error.code or ''} {error.message}"):
        raise error
    newer = _INSTEAD.get(names[refused])
    left = {meant: name for meant, name in names.items() if meant != refused}
    return left if newer is None else {**left, refused: newer}
