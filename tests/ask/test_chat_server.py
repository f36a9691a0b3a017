"""A model on a server: parameters that it refuses, and attempts that fail."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.server.liar import Liar, bomb, dripping, endless, liar
from support.sparql.text_models import ChatStub, chat_stub

from refactx.ask.chat_server import ChatServer, ServerRole
from refactx.errors import InputError, ModelError, ModelServerError

ROLE = ServerRole(name="the model", option="--model-url", key="REFACTX_MODEL_KEY", extra="sparql")
SAID = [{"role": "system", "content": "Write SPARQL."}, {"role": "user", "content": "Who?"}]


@pytest.fixture
def server() -> Iterator[ChatStub]:
    with chat_stub() as running:
        running.reply = lambda message: f"reply to {message}"
        yield running


def new_model(request: dict[str, Any]) -> str | dict[str, Any] | None:
    """Refuse what OpenAI's newer models refuse, in its words."""
    if "max_tokens" in request:
        says = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return {"error": {"message": says, "param": "max_tokens", "code": "unsupported_parameter"}}
    if request.get("temperature", 1) != 1:
        says = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is supported."
        return {"error": {"message": says, "param": "temperature", "code": "unsupported_value"}}
    return None


def sent(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name not in ("messages", "model")}


def test_a_parameter_that_is_refused_is_sent_no_more(server: ChatStub, caplog: pytest.LogCaptureFixture) -> None:
    server.refuses = new_model
    model = ChatServer("m", server.url, ROLE)
    assert model.generate(SAID, 7) == "reply to Who?"
    assert [sent(request) for request in server.requests] == [
        {"max_tokens": 7, "temperature": 0},
        {"max_completion_tokens": 7, "temperature": 0},
        {"max_completion_tokens": 7},
    ]
    model.generate(SAID, 8)
    assert [sent(request) for request in server.requests[3:]] == [{"max_completion_tokens": 8}]
    assert caplog.messages == ["m takes no temperature: its replies may vary"]


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1beta/openai/", ""])
def test_the_addresses_of_providers(server: ChatStub, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_MODEL_KEY", "secret")
    assert ChatServer("m", server.url.removesuffix("/v1") + path, ROLE).generate(SAID, 7) == "reply to Who?"
    assert (server.paths, server.keys) == ([f"{path.rstrip('/')}/chat/completions"], ["Bearer secret"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("temperature", "litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0.0."),
        ("temperature", "invalid temperature: only 1 is allowed for this model"),
        ("temperature", "`temperature` is deprecated for this model."),
        ("temperature", {"detail": [{"loc": ["body", "temperature"], "msg": "Extra inputs are not permitted"}]}),
        ("max_tokens", {"detail": [{"loc": ["body", "max_tokens"], "msg": "Extra inputs are not permitted"}]}),
        ("max_tokens", "Unrecognized request argument supplied: max_tokens"),
    ],
)
def test_refusals_of_many_servers(server: ChatStub, name: str, reason: str | dict[str, Any]) -> None:
    server.refuses = lambda request: reason if name in request else None
    assert ChatServer("m", server.url, ROLE).generate(SAID, 7) == "reply to Who?"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "message",
    [
        {"content": {"a": 1}},
        {"content": 5},
        {"content": ["a", {"type": "text"}]},
        {"content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]},
        {"content": None, "tool_calls": [{"id": 5, "function": {"name": "f", "arguments": "{}"}}]},
        {"content": None, "tool_calls": [{"id": "c", "function": None}]},
        {"content": None, "tool_calls": {"a": 1}},
        None,
        "text",
    ],
)
def test_a_reply_that_is_no_text_is_an_error(server: ChatStub, message: Any) -> None:
    server.body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    with pytest.raises(ModelServerError, match="is not a chat completion"):
        ChatServer("m", server.url, ROLE).generate(SAID, 7)


def test_a_reply_with_more_levels_than_are_read_is_an_error(server: ChatStub) -> None:
    server.body = b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(ModelServerError, match="is not a chat completion"):
        ChatServer("m", server.url, ROLE).generate(SAID, 7)


def test_a_model_without_a_system_role_is_told_all_by_the_user(server: ChatStub) -> None:
    server.refuses = lambda request: "System role not supported" if request["messages"][0]["role"] == "system" else None
    assert ChatServer("m", server.url, ROLE).generate(SAID, 7) == "reply to Write SPARQL.\n\nWho?"


@pytest.mark.parametrize(
    ("reason", "requests"),
    [
        ("max_tokens is too large: 7. This model supports at most 5 completion tokens.", 1),
        ("Unsupported parameters: max_tokens, max_completion_tokens, temperature", 3),
        ("Unsupported parameter: model", 1),
    ],
)
def test_what_is_refused_whatever_is_sent_ends_with_the_servers_words(
    server: ChatStub, reason: str, requests: int
) -> None:
    server.refuses = lambda _: reason
    with pytest.raises(ModelError, match=f"refused the request for model 'm': .*{reason[:20]}"):
        ChatServer("m", server.url, ROLE).generate(SAID, 7)
    assert len(server.requests) == requests


def test_each_attempt_that_fails_is_told(server: ChatStub, caplog: pytest.LogCaptureFixture) -> None:
    server.status = 503
    with pytest.raises(ModelError):
        ChatServer("m", server.url, ROLE, retries=1).generate(SAID, 7)
    assert caplog.messages == [
        f"the model at {server.url}: attempt {number} of 2 failed (status 503)" for number in (1, 2)
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_port_of_this_machine_where_nothing_listens_is_told_at_once(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        model = ChatServer("m", f"http://{host}:{closed.getsockname()[1]}/v1", ROLE, retries=1000)
        with pytest.raises(
            ModelError, match=r"cannot be reached: check --model-url and that it runs \(Connection refused\)"
        ):
            model.generate(SAID, 7)
    assert not caplog.messages


@pytest.mark.parametrize(
    "url",
    ["m", "ftp://a/v1", "http://[", "http://", "http://a:99999/v1", "http://a:x/v1", "http://a b/v1", "http://a..b/v1"],
)
def test_what_is_no_url_is_told(url: str) -> None:
    with pytest.raises(InputError, match="not the URL of a server"):
        ChatServer("m", url, ROLE)


@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        (endless, "answered with more than 16 MiB"),
        (bomb, "answered with more than 16 MiB"),
        (dripping, "did not end within 0.5 seconds"),
    ],
)
def test_a_reply_has_bounds(lie: Callable[[Liar], None], expected: str) -> None:
    with liar(lie) as (url, _), pytest.raises(ModelServerError, match=expected) as raised:
        ChatServer("m", url, ROLE, retries=0, seconds=0.5 if lie is dripping else 60).generate(SAID, 7)
    assert raised.value.status in (502, 504)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_stays_at_the_server(status: int) -> None:
    def answer(request: Liar) -> None:
        request.begin()
        request.wfile.write(b'{"choices": [{"message": {"content": "Juneau"}, "finish_reason": "stop"}]}')

    def moved(request: Liar) -> None:
        if request.path.startswith("/v2"):
            answer(request)
        else:
            request.begin(status, Location=f"/v2{request.path}")

    with liar(answer) as (other, taken):
        elsewhere = f"{other}/chat/completions"
        expected = f"redirects to another server, {other.removesuffix('/v1')}: give"
        with (
            liar(lambda request: request.begin(status, Location=elsewhere)) as (url, _),
            pytest.raises(ModelServerError, match=expected),
        ):
            ChatServer("m", url, ROLE, key="secret").generate(SAID, 7)
        assert not taken
    with liar(moved) as (url, keys):
        if status in (307, 308):  # others turn a POST into a GET
            assert ChatServer("m", url, ROLE, key="secret").generate(SAID, 7) == "Juneau"
            assert keys == ["Bearer secret"] * 2
    with (
        liar(lambda request: request.begin(307, Location=request.path)) as (url, _),
        pytest.raises(ModelServerError, match="redirects more than 5 times"),
    ):
        ChatServer("m", url, ROLE).generate(SAID, 7)
