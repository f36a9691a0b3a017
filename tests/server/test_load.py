"""Many clients at once, clients and a database that die in the middle, and random requests: `make test-serve`."""

import json
import os
import random
import resource
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from support.postgres.embedded_server import ingest_facts, kill_server
from support.server.running import Running, asker_alone, eventually, running, said
from support.servers import new_home, remove_home

import refactx
from refactx.postgres.embedded.server import start
from refactx.postgres.entry import Limits
from refactx.server import Availability, DatabaseChecks

pytestmark = pytest.mark.slow

CLIENTS, SECONDS, KILLS, FUZZ_SECONDS = 200, 60, 20, 300
QUESTIONS = [f"{word} {number} Fact:" for number in range(5) for word in ("hello", "a b", "who", "in Ann")]


def ask(client: httpx2.Client, question: str, *, stream: bool) -> tuple[int, str]:
    """The status of a chat completion, and its text."""
    body = {"model": "tiny", "messages": said(question), "max_tokens": 40, "stream": stream}
    reply = client.post("/v1/chat/completions", json=body, timeout=120)
    if reply.status_code != 200:
        return reply.status_code, ""
    if not stream:
        return 200, reply.json()["choices"][0]["message"]["content"]
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
    return 200, "".join(delta.get("content") or "" for delta in deltas)


def test_two_hundred_clients_get_right_answers_or_are_told_to_wait() -> None:
    asker = asker_alone()
    right = {question: asker.ask(question, max_new_tokens=40).text for question in QUESTIONS}
    end = time.monotonic() + SECONDS
    with running(max_running=16, max_waiting=64) as server:

        def one(seed: int) -> Counter[str]:
            rng, found = random.Random(seed), Counter[str]()
            with httpx2.Client(base_url=server.url, trust_env=False) as client:
                while time.monotonic() < end:
                    question = rng.choice(QUESTIONS)
                    status, text = ask(client, question, stream=rng.random() < 0.5)
                    found[str(status) if status != 200 or text == right[question] else "wrong"] += 1
                    if status == 429:
                        time.sleep(rng.random())
            return found

        with ThreadPoolExecutor(CLIENTS) as pool:
            total = sum(pool.map(one, range(CLIENTS)), Counter[str]())
        assert total.keys() <= {"200", "429"}, total
        assert total["200"] > CLIENTS / 4
        assert (server.service.slots.running, server.service.slots.waiting) == (0, 0)


@pytest.fixture(scope="module")
def home() -> Any:
    folder = new_home()
    with start(folder) as server:
        ingest_facts(server.url, folder, [f"<Ann> <p> <{n}> ." for n in range(60)])
    yield folder
    remove_home(folder)


@pytest.mark.parametrize("kind", ["embedded", "by its URL"])
def test_the_server_outlives_its_database_and_clients(home: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("REFACTX_HOME", str(home))
    with ExitStack() as stack:
        url = None if kind == "embedded" else stack.enter_context(start(home)).url
        checks = DatabaseChecks(url)
        stack.callback(checks.close)
        index = stack.enter_context(refactx.open_index(db=url, cache_bytes=0, limits=Limits(outage=20)))
        server = stack.enter_context(running(index=index, availability=Availability(checks.of("default"))))
        client = stack.enter_context(httpx2.Client(base_url=server.url))
        _, right = ask(client, "hello Fact:", stream=True)
        assert right
        for number in range(KILLS):
            thread = threading.Thread(target=go_away, args=(server,))
            thread.start()
            if url is None:
                kill_server(home)
            else:
                kill_backend(url)
            thread.join()
            answer = (0, "")
            deadline = time.monotonic() + 60
            while answer[0] != 200 and time.monotonic() < deadline:
                answer = ask(client, "hello Fact:", stream=number % 2 == 0)
                assert answer[0] in (200, 503)
                time.sleep(0.2 * (answer[0] != 200))
            assert answer == (200, right)
        assert eventually(lambda: server.service.slots.running == 0)


def kill_backend(url: str) -> None:
    """Kill a process of PostgreSQL that serves a client: it ends all others, and recovers."""
    found = list[int]()

    def find() -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(url) as connection:  # it may recover still
            rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
            found.extend(pid for (pid,) in rows if pid != connection.info.backend_pid)
        return bool(found)

    assert eventually(find)
    with suppress(ProcessLookupError):
        os.kill(found[0], signal.SIGKILL)


def go_away(server: Running) -> None:
    """Ask, and close the connection in the middle of the stream."""
    body = {"model": "tiny", "messages": said("hello Fact:"), "max_tokens": 400, "stream": True}
    with httpx2.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as reply:
        next(reply.iter_bytes(), b"")


VALUES: list[Any] = [None, True, 0, -1, 1e308, "", "a", "\0", "\ud800", [], {}, [[]], [{}], "x" * 9999, [1, 2], 2**70]
VALUES += ["tiny", "tiny:answer", said("hi"), {"role": "user"}, "count <Ann> <p>", "<a> <b> <c>"]
FIELDS = [
    "model",
    "messages",
    "prompt",
    "input",
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "stream",
    "stop",
    "text",
]
FIELDS += ["refactx", "stream_options", "n", "tools", "instructions", "metadata", "question", "limit", "run", "explain"]
PATHS = ["chat/completions", "completions", "responses", "facts/check", "check", "query", "translate"]


def test_no_request_makes_an_error_of_the_server(tiny: Running) -> None:
    rng, end, found = random.Random(7), time.monotonic() + FUZZ_SECONDS, Counter[int]()
    usual: dict[str, Any] = {"model": "tiny", "messages": said("hi"), "input": "hi", "question": "a?"}
    with httpx2.Client(base_url=f"{tiny.url}/v1/") as client:
        while time.monotonic() < end:
            path, headers = rng.choice(PATHS), {"Content-Type": "application/json"}
            own = {"completions": {"prompt": "Fact:"}, "facts/check": {"text": "a"}, "check": {"text": "a"}}.get(
                path, {}
            )
            body = {**(usual | own if rng.random() < 0.7 else {}), "max_tokens": 3, "max_output_tokens": 3}
            body |= {field: rng.choice(VALUES) for field in rng.sample(FIELDS, rng.randint(0, 5))}
            reply = client.post(path, content=json.dumps(body).encode(), headers=headers, timeout=60)
            found[reply.status_code] += 1
            assert reply.status_code < 500, (path, body, reply.text)
    assert found[200]
    assert found[400]


def test_memory_does_not_grow_with_requests(tiny: Running) -> None:
    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    with httpx2.Client(base_url=tiny.url) as client:
        sizes = []
        for number in range(1000):
            ask(client, f"{number} Fact:", stream=number % 2 == 0)
            tiny.log.seek(0)
            tiny.log.truncate()
            if number == 49:
                sizes.append(resident())
        sizes.append(resident())
    assert sizes[1] <= 1.05 * sizes[0]
