"""A language model on a server with an OpenAI-compatible API of chat completions."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from refactx.errors import InputError, ModelError
from refactx.extras import require
from refactx.writing.conversation import Message

SECONDS = 120.0
"""The most time of a request."""
RETRIES = 4


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
    sent again, at most `retries` times, at growing intervals. Raises InputError if `url` is not one, or if the client is
    not installed.
    """

    def __init__(
        self, model: str, url: str, role: ServerRole, *, key: str | None = None, retries: int = RETRIES
    ) -> None:
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError:  # such as `http://[`
            host = None
        if not host or parts.scheme not in ("http", "https"):
            shown = url.rpartition("@")[2]
            raise InputError(f"{shown!r} is not the URL of a server: give one such as http://127.0.0.1:8000/v1")
        require("openai", role.extra)
        import openai  # takes a second

        self._model, self._role = model, role
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

        role, said = self._role, [dict(message) for message in messages]
        options: dict[str, Any] = {
            "model": self._model,
            "messages": said,
            "max_tokens": max_new_tokens,
            "temperature": 0,
        }
        try:
            completion = self._client.chat.completions.create(**options)
            return completion.choices[0].message.content or ""
        except openai.APITimeoutError as error:
            raise ModelError(
                f"{role.name} at {self.shown} did not answer within {SECONDS:g} seconds: check {role.option} and its load"
            ) from error
        except openai.APIConnectionError as error:
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
