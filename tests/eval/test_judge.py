"""A language model as judge at a URL, and the errors for one that cannot be used."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from refactx.ask.prompt import Prompt
from refactx.errors import InputError, ModelError
from refactx.eval import AnswerTask, evaluate
from refactx.eval.judge import JudgedAnswer, judge_all, load_judge_prompt, remote_judge


class Judge(BaseHTTPRequestHandler):
    """An OpenAI-compatible server: right if the answer's line has `Bern`. Fails once with 503 before it answers."""

    seen: list[dict[str, Any]]
    keys: set[str | None]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.add(self.headers["Authorization"])  # type: ignore[attr-defined]
        self.server.seen.append(request)  # type: ignore[attr-defined]
        if self.path != "/v1/chat/completions" or request["model"] == "nope":
            return self.say(404, {"error": {"message": "no such model"}})
        if len(self.server.seen) == 1:  # type: ignore[attr-defined]
            return self.say(503, {"error": {"message": "busy"}})
        said = request["messages"][-1]["content"].partition("\nAnswer: ")[2]
        reply = "It is hard to say." if "Zug" in said else "RIGHT" if "Bern" in said else "wrong."
        message = {"role": "assistant", "content": reply}
        return self.say(
            200,
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "judge",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            },
        )

    def say(self, status: int, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Judge) as running:
        running.seen, running.keys = [], set()  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_judge_at_a_url(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_JUDGE_KEY", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "another server's")
    url = f"http://127.0.0.1:{server.server_port}/v1"
    cases = [
        JudgedAnswer(key=str(n), question="Capital?", golds=("Bern", "Berne"), answer=said)
        for n, said in enumerate(["Bern", "Basel $gold", "Zug"])
    ]
    prompt = load_judge_prompt()
    found = judge_all(tmp_path, cases, "m", prompt, lambda: remote_judge("m", url))
    assert found == {"0": True, "1": False, "2": None}, "the third reply is no verdict"
    assert len(server.seen) == 4, "one was tried again"
    assert server.keys == {"Bearer secret"}
    message = server.seen[-2]["messages"][-1]["content"]
    assert "Reference answers: Bern; Berne\n" in message
    assert "Answer: Basel $gold\n" in message, "an answer is data"
    judge_all(
        tmp_path,
        [*cases, JudgedAnswer(key="3", question="Q", golds=("a",), answer="Bern")],
        "m",
        prompt,
        lambda: remote_judge("m", url),
    )
    assert len(server.seen) == 5, "verdicts are kept"
    with pytest.raises(InputError, match="verdicts of another judge"):
        judge_all(tmp_path, cases, "other", prompt, lambda: remote_judge("other", url))


def test_a_judge_that_cannot_be_used_is_reported_without_the_key(server: Any) -> None:
    with pytest.raises(InputError, match="not the URL of a server"):
        remote_judge("m", "localhost:8000")
    asked = Prompt(system="Judge.")
    with pytest.raises(ModelError, match=r"refused the request for model 'nope': .*no such model"):
        remote_judge("nope", f"http://user:secret@127.0.0.1:{server.server_port}/v1")(asked, "Q")
    with socket.socket() as closed:  # a port without a server
        closed.bind(("127.0.0.1", 0))
        url = f"http://user:secret@127.0.0.1:{closed.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="cannot be reached") as raised:
            remote_judge("m", url, retries=0)(asked, "Q")
    assert "secret" not in str(raised.value)


def test_an_invalid_judges_prompt_is_reported(tmp_path: Path) -> None:
    for content in ("system = 1", "system = 'a'\nuser = '$who'\nright = 'R'\nwrong = 'W'", "[", "system = 'a'"):
        (tmp_path / "p.toml").write_text(content)
        with pytest.raises(InputError, match="not a judge's prompt"):
            load_judge_prompt(str(tmp_path / "p.toml"))


def test_a_judges_url_without_a_model_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give the name of the judge's model with --judge"):
        evaluate(AnswerTask(questions=tmp_path / "q.jsonl", model="m", judge_url="http://127.0.0.1:1/v1"))
