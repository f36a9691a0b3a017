"""A model on a server that does not know a parameter: it is asked again without it, or under its newer name."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from refactx.errors import InputError, ModelError
from refactx.writing.chat_server import ChatServer, ServerRole

ROLE = ServerRole(name="the model", option="--model-url", key="REFACTX_MODEL_KEY", extra="sparql")
ASKED = [{"role": "user", "content": "Hi"}]


def unsupported(name: str, text: str) -> dict[str, Any]:
    return {"message": text, "type": "invalid_request_error", "param": name, "code": "unsupported_parameter"}


NEWER = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
REFUSALS = {  # by the parameter, as servers say it
    "max_tokens": unsupported("max_tokens", NEWER),
    "max_completion_tokens": {"message": "Unknown parameter: 'max_completion_tokens'.", "param": None},
    "temperature": unsupported(
        "temperature", "'temperature' does not support 0 with this model. Only the default (1)."
    ),
}


@contextmanager
def server(refused: set[str], failure: str = "") -> Iterator[tuple[str, list[set[str]]]]:
    """A server that refuses parameters, or everything. Yields its URL and the parameters of each request."""
    requests: list[set[str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body.keys() - {"model", "messages"})
            error = (
                {"message": failure}
                if failure
                else next((REFUSALS[n] for n in REFUSALS if n in refused & body.keys()), None)
            )
            choice = {"index": 0, "message": {"role": "assistant", "content": "Bern"}, "finish_reason": "stop"}
            reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
            sent = json.dumps({"error": error} if error else reply).encode()
            self.send_response(400 if error else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/v1", requests
        listening.shutdown()


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        (set(), {"max_tokens", "temperature"}),
        ({"max_tokens"}, {"max_completion_tokens", "temperature"}),
        ({"temperature"}, {"max_tokens"}),
        ({"max_tokens", "temperature"}, {"max_completion_tokens"}),
        ({"max_tokens", "max_completion_tokens", "temperature"}, set()),
    ],
)
def test_what_a_model_does_not_know_is_left_out_of_all_later_requests(refused: set[str], left: set[str]) -> None:
    with server(refused) as (url, requests):
        model = ChatServer("m", url, ROLE)
        assert model.generate(ASKED, 5) == "Bern"
        assert requests[-1] == left
        before = len(requests)
        assert model.generate(ASKED, 5) == "Bern"
        assert requests[before:] == [left]


@pytest.mark.parametrize(
    "said", ["Your messages break our rules.", "max_tokens is too large: the context has 4096 tokens."]
)
def test_another_refusal_is_final(said: str) -> None:
    with server(set(), said) as (url, requests):
        with pytest.raises(ModelError, match=said[:20]):
            ChatServer("m", url, ROLE).generate(ASKED, 5)
        assert len(requests) == 1


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:99999/v1", "ftp://a/v1", "a/v1", ""])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(InputError, match="is not the URL of a server"):
        ChatServer("m", url, ROLE)


def test_a_server_that_does_not_run_on_this_machine_is_told_at_once() -> None:
    with server(set()) as (url, _):
        pass
    with pytest.raises(ModelError, match="cannot be reached: check --model-url and that it runs"):
        ChatServer("m", url, ROLE, retries=1000).generate(ASKED, 5)
