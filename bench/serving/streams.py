"""Streams of questions to a server, one after another or at once, and the tokens that they had."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx2


@dataclass(frozen=True, slots=True)
class Streamed:
    """What some streams had together. `tokens`: of their texts; `seconds`: from the first request to the last end;
    `passes`: of the model, counted for each text."""

    tokens: int
    seconds: float
    passes: int

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


def stream_all(url: str, model: str, questions: Sequence[str], *, tokens: int, clients: int) -> Streamed:
    """Ask questions as streams, each by a client of its own, `clients` of them at once, for at most `tokens` tokens each."""

    def one(question: str) -> tuple[int, int]:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        used, passes = 0, 0
        with httpx2.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=600) as reply:
            reply.raise_for_status()
            for line in reply.iter_lines():
                if not line.startswith("data: {"):
                    continue
                chunk = json.loads(line.removeprefix("data: "))
                if "error" in chunk:
                    raise RuntimeError(f"a stream ended by an error: {chunk['error']['message']}")
                for choice in chunk["choices"]:
                    passes = choice["delta"].get("refactx", {}).get("forward_passes", passes)
                used = (chunk.get("usage") or {}).get("completion_tokens", used)
        return used, passes

    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(one, questions))
    seconds = time.perf_counter() - begun
    return Streamed(sum(used for used, _ in found), seconds, sum(passes for _, passes in found))
