"""Models that reply as a test wants: in this process, or on a server with an OpenAI-compatible API."""

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from refactx.ask.conversation import Message


class Scripted:
    """A `TextModel` whose reply is always the same. `asked`: the conversations that it got."""

    def __init__(self, reply: str) -> None:
        self.reply, self.asked = reply, list[list[Message]]()

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        self.asked.append(list(messages))
        return self.reply


class ChatStub:
    """A server of chat completions. `requests`: their bodies; `keys`, `paths`: their keys and paths; `reply`: to the last
    message; `calls`: the tools that it calls instead, each a name and arguments.

    `status`: of all replies; `body`: in place of a completion; `refuses`: returns why a request is refused, or nothing;
    `missing`: how many bytes of each reply are announced and do not come.
    """

    def __init__(self) -> None:
        self.requests, self.keys, self.paths = list[dict[str, Any]](), list[str | None](), list[str]()
        self.reply: Callable[[str], str] = lambda _: ""
        self.refuses: Callable[[dict[str, Any]], str | dict[str, Any] | None] = lambda _: None
        self.calls: Callable[[dict[str, Any]], list[tuple[str, Any]]] = lambda _: []
        self.status, self.body, self.missing = 200, b"", 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: _Handler(self, *given))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any], key: str | None) -> tuple[int, bytes]:
        self.requests.append(request)
        self.keys.append(key)
        if self.status != 200:
            return self.status, json.dumps({"error": {"message": "no such model"}}).encode()
        if reason := self.refuses(request):
            document = {"error": {"message": reason}} if isinstance(reason, str) else reason
            return 400, json.dumps(document).encode()
        message: dict[str, Any] = {"role": "assistant"}
        if called := self.calls(request):
            message["tool_calls"] = [
                {"id": f"call{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                for n, (name, given) in enumerate(called)
            ]
        else:
            message["content"] = self.reply(request["messages"][-1]["content"])
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        completion = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
        completion["usage"] = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return 200, self.body or json.dumps(completion).encode()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, stub: ChatStub, *given: object) -> None:
        self._stub = stub
        super().__init__(*given)  # type: ignore[arg-type]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._stub.paths.append(self.path)
        status, body = self._stub.answer(request, self.headers["Authorization"])
        self.send_response(status)
        self.send_header("Retry-After-Ms", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) + self._stub.missing))
        self.end_headers()
        with suppress(ConnectionError):  # the client has gone
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


def inventing(words: Sequence[str]) -> Callable[[str], str]:
    """A reply with facts of some words, in many forms, most of which no index has: another one each time."""
    dice = random.Random(0)

    def invent(_: str) -> str:
        lines = [
            dice.choice(["Fact: ", "**Fact:** ", "- Fact: ", "", "fact: ", "So it is: Fact: "])
            + " ".join(f"<{dice.choice(words)}>" for _ in range(dice.choice([2, 3, 3, 3, 4])))
            + dice.choice([" .", ".", "", " !"])
            for _ in range(dice.randrange(1, 5))
        ]
        return "\n".join([*lines, f"Answer: {words[0]}"])

    return invent


@contextmanager
def chat_stub() -> Iterator[ChatStub]:
    """Run a server of chat completions during the block."""
    stub = ChatStub()
    try:
        yield stub
    finally:
        stub.close()
