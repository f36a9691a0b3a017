"""Servers of models that score ids, in this process: the documented API of each kind, over a function of our own.

What they tell is true: each answer is computed by a plain pass over all ids.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from refactx.engines.engine import Logits
from refactx.engines.served.connection import Usage
from refactx.engines.writer import common_length

KINDS = ("vllm", "sglang", "llama")

WRITING = ("v1/completions", "generate", "completion", "v1/chat/completions")
"""The paths where a model writes."""

Answer = tuple[int, Any]
"""A status, and a document; bytes are sent as they are."""


class Stub:
    """A server's answers. `logits`: those after each of some ids, float32[n, vocabulary]; `ends`: ids that end a text;
    `decode`, `encode`: the model's tokenizer; `converse`: the ids of a conversation.

    `asked`: the paths and bodies of the requests that it has had; `faults`: for the next requests, what is answered
    instead, None for the right answer; `name`: that of its model.
    """

    def __init__(
        self,
        kind: str,
        logits: Callable[[Sequence[int]], Logits],
        *,
        ends: Sequence[int] = (),
        decode: Callable[[Sequence[int]], str] = lambda ids: "",
        encode: Callable[[str], list[int]] = lambda text: [],
        converse: Callable[[Any], list[int]] = lambda messages: [],
        key: str | None = None,
    ) -> None:
        self.kind, self._logits, self._ends = kind, logits, set(ends)
        self._decode, self._encode, self._converse, self._key = decode, encode, converse, key
        self.name, self.url = "tiny", ""
        self.asked: list[tuple[str, Any]] = []
        self.faults: list[Answer | None] = []
        self.slots: list[Sequence[int]] = [()] * 4

    def is_there(self, path: str) -> bool:
        """Whether there is something at a path to look at."""
        return getattr(self, self.kind)(path, None) is not None

    # --- What all of them compute

    def scores(self, ids: Sequence[int]) -> Logits:
        """The log-probabilities after the last of some ids, float32[vocabulary]."""
        logits = np.asarray(self._logits(list(ids))[-1], np.float64)
        found: Logits = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        return found

    def write(
        self,
        ids: Sequence[int],
        most: int,
        stop: Sequence[str],
        allowed: Sequence[int] | None,
        forced: Sequence[int] = (),
    ) -> tuple[list[int], list[Logits], str]:
        """The likeliest continuation, the scores before each id, and why it ended."""
        new: list[int] = []
        rows: list[Logits] = []
        while len(new) < most:
            row = self.scores([*ids, *new])
            choice = [forced[len(new)]] if forced else allowed
            token = int(row.argmax()) if choice is None else max(choice, key=lambda one: float(row[one]))
            new.append(token)
            rows.append(row)
            if token in self._ends and not forced:
                return new, rows, "end"
            if any(text in self._decode(new) for text in stop):
                return new, rows, "stop"
        return new, rows, "length"

    def answer(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
        if self._key is not None and headers.get("Authorization") != f"Bearer {self._key}":
            return 401, {"error": {"message": "invalid key"}}
        if method == "POST":
            self.asked.append((path, body))
            if path.strip("/") in WRITING and self.faults and (fault := self.faults.pop(0)) is not None:
                return fault
        found = getattr(self, self.kind)(path.strip("/"), body)
        return (404, {"detail": "Not Found"}) if found is None else (200, found)

    # --- vLLM

    def vllm(self, path: str, body: Any) -> Any:
        if path == "version":
            return {"version": "0.32.0"}
        if path == "v1/models":
            return {"data": [{"id": self.name, "root": f"/models/{self.name}", "max_model_len": 4096}]}
        if path == "tokenize":
            ids = self._converse(body["messages"]) if "messages" in body else self._encode(body["prompt"])
            return {"tokens": ids, "count": len(ids)}
        if path == "v1/completions":
            choices = [self._vllm_choice(number, ids, body) for number, ids in enumerate(body["prompt"])]
            usage = {"prompt_tokens": sum(map(len, body["prompt"])), "completion_tokens": len(choices)}
            return {"choices": choices[::-1], "usage": usage}
        return None

    def _vllm_choice(self, number: int, ids: Sequence[int], body: Any) -> Any:
        new, rows, why = self.write(ids, body["max_tokens"], body.get("stop", ()), body.get("allowed_token_ids"))
        count = min(body["logprobs"], len(rows[0]))
        top = []
        for row, token in zip(rows, new, strict=True):
            given = body.get("logprob_token_ids") or np.argsort(-row, kind="stable")[:count].tolist()
            top.append({f"token_id:{one}": float(row[one]) for one in [*given, token]})
        logprobs = {
            "tokens": [f"token_id:{token}" for token in new],
            "token_logprobs": [float(row[token]) for row, token in zip(rows, new, strict=True)],
            "top_logprobs": top,
        }
        reason, stopped = "length" if why == "length" else "stop", body.get("stop") if why == "stop" else None
        return {"index": number, "logprobs": logprobs, "finish_reason": reason, "stop_reason": stopped}

    # --- SGLang

    def sglang(self, path: str, body: Any) -> Any:
        if path == "get_model_info":
            return {"model_path": f"/models/{self.name}", "is_generation": True}
        if path == "v1/models":
            return {"data": [{"id": self.name, "max_model_len": 4096}]}
        if path == "tokenize":
            return {"tokens": self._encode(body["prompt"])}
        if path == "generate":
            return [self._sglang_text(number, ids, body) for number, ids in enumerate(body["input_ids"])]
        return None

    def _sglang_text(self, number: int, ids: Sequence[int], body: Any) -> Any:
        sampling, bias = body["sampling_params"], body["sampling_params"].get("logit_bias")
        allowed = None if bias is None else [int(token) for token in bias]
        new, rows, why = self.write(ids, sampling["max_new_tokens"], sampling.get("stop", ()), allowed)
        meta: dict[str, Any] = {"prompt_tokens": len(ids), "completion_tokens": len(new), "cached_tokens": 0}
        meta["output_token_logprobs"] = [[float(row[one]), one, None] for row, one in zip(rows, new, strict=True)]
        count = body.get("top_logprobs_num", 0)
        meta["output_top_logprobs"] = [
            [[float(row[one]), one, None] for one in np.argsort(-row, kind="stable")[:count].tolist()] for row in rows
        ]
        if "token_ids_logprob" in body:
            some = body["token_ids_logprob"][number]
            meta["output_token_ids_logprobs"] = [[[float(row[one]), one, None] for one in some] for row in rows]
        if "logprob_start_len" in body:
            start = body["logprob_start_len"][number]
            scored = [[float(self.scores(ids[:at])[ids[at]]), ids[at], None] for at in range(start + 1, len(ids))]
            meta["input_token_logprobs"] = [[None, ids[start], None], *scored]
        matched = {"end": new[-1] if new else 0, "stop": "Fact:"}.get(why)
        meta["finish_reason"] = {"type": "length" if why == "length" else "stop", "matched": matched}
        return {"text": "", "meta_info": meta}

    # --- llama-server

    def llama(self, path: str, body: Any) -> Any:
        if path == "props":
            name = f"/models/{self.name}.gguf"
            return {"total_slots": len(self.slots), "model_path": name, "default_generation_settings": {"n_ctx": 4096}}
        if path == "apply-template":
            return {"prompt": json.dumps(body["messages"])}
        if path == "tokenize":
            if body.get("parse_special"):
                return {"tokens": self._converse(json.loads(body["content"]))}
            return {"tokens": self._encode(body["content"])}
        if path == "completion":
            prompts = body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]]
            found = [self._llama_text(ids, body) for ids in prompts for _ in range(body.get("n_cmpl", 1))]
            return found[0] if len(found) == 1 else found
        return None

    def _llama_text(self, ids: Sequence[int], body: Any) -> Any:
        forced = [int(one.strip("<[]>")) for one in body.get("grammar", "").split()[2:]]
        bias = body.get("logit_bias")
        allowed = None if bias is None else [token for token, _ in bias]
        new, rows, why = self.write(ids, body["n_predict"], body.get("stop", ()), allowed, forced)
        places = [
            {
                "id": token,
                "logprob": float(row[token]),
                "top_logprobs": [
                    {"id": one, "logprob": float(row[one])}
                    for one in np.argsort(-row, kind="stable")[: body["n_probs"]].tolist()
                ],
            }
            for end, (row, token) in enumerate(zip(rows, new, strict=True), 1)
            if not self._decode(new[:end]).endswith("\ufffd")  # nothing is told of ids that do not end a character
        ]
        kind = {"end": "eos", "stop": "word", "length": "limit"}[why]
        if why == "stop":  # nothing is told of the ids of the text that ended it
            places = places[: -len(self._encode(body["stop"][0])) or None]
        slot = body.get("id_slot", 0)
        read = max(1, len(ids) - common_length(ids, self.slots[slot]))
        self.slots[slot] = (*ids, *new)
        told = {"tokens_evaluated": len(ids), "tokens_predicted": len(new), "timings": {"prompt_n": read}}
        return {"tokens": new, "completion_probabilities": places, "stop_type": kind, **told}


class Direct:
    """A `refactx.engines.served.connection.Connection` to a stub without HTTP."""

    shown, failed = "http://127.0.0.1:8000", False

    def __init__(self, stub: Stub) -> None:
        self._stub, self.usage = stub, Usage()

    def look(self, path: str) -> Any:
        return self._stub.answer("GET", f"/{path}", None, {})[1] if self._stub.is_there(path) else None

    def post(self, path: str, body: Any) -> Any:
        return self._stub.answer("POST", f"/{path}", body, {})[1]


@contextmanager
def serving(stub: Any) -> Iterator[str]:
    """The URL of a stub while it runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer: two wait for each other for 40 ms

        def do_GET(self) -> None:
            self._answer("GET", None)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self._answer("POST", json.loads(self.rfile.read(length)))

        def _answer(self, method: str, body: Any) -> None:
            status, found = stub.answer(method, self.path, body, dict(self.headers))
            if status == 0:  # the connection ends in the middle of the answer
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"cho')
                self.close_connection = True
                return
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield stub.url
    finally:
        server.shutdown()
        server.server_close()
