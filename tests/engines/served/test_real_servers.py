"""Real servers: answers over the sample by the demo model on llama-server and vLLM, beside those of its own engine.

Run by `make test-served`, in environments that have the servers: SERVED_PYTHON and VLLM_PYTHON name their interpreters.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import refactx
from refactx.ask.prompt import Example, Prompt
from refactx.engines.served.connection import Connection
from refactx.engines.served.model import load_served
from refactx.errors import ModelError
from refactx.models import demo

pytestmark = pytest.mark.slow

QUESTIONS = (
    "What is the capital of Alaska?",
    "What is the currency of Japan?",
    "Where was Marie Curie born?",
    "How many children does Brad Pitt have?",
)
LLAMA_SERVER = """
import sys, threading, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.port, given.n_parallel, given.n_ctx = sys.argv[1], int(sys.argv[2]), 4, 16384
given.hostnames, given.endpoint_props = ["127.0.0.1"], True
server = xllamacpp.Server(given)
threading.Event().wait()
"""
STARTED_WITHIN = 600
MOST_REQUESTS = 40
FACTS = int(os.environ.get("SERVED_FACTS", "100"))
"""How many facts are sampled."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], port: int) -> Iterator[str]:
    """The URL of a server that a command starts, once it answers."""
    url, end = f"http://127.0.0.1:{port}/v1", time.monotonic() + STARTED_WITHIN
    with subprocess.Popen(command) as process:
        try:
            while True:
                try:
                    if Connection(url, wait=0.01).look("v1/models") is not None:
                        break
                except ModelError:
                    assert process.poll() is None, "the server has ended"
                assert time.monotonic() < end, "the server does not answer"
                time.sleep(1)
            yield url
        finally:
            process.terminate()


@pytest.fixture(params=["llama-server", "vllm"])
def url(request: pytest.FixtureRequest, smollm2_folder: Path) -> Iterator[str]:
    name, port = {"llama-server": "SERVED_PYTHON", "vllm": "VLLM_PYTHON"}[request.param], free_port()
    python = os.environ.get(name)
    if python is None:
        pytest.skip(f"no {name}: run `make test-served`")
    if request.param == "llama-server":
        command = [python, "-c", LLAMA_SERVER, str(demo.gguf_file()), str(port)]
    else:
        options = {"--port": str(port), "--dtype": "float32", "--max-model-len": "4096", "--served-model-name": "demo"}
        flags = [part for option in options.items() for part in option]
        serve = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(smollm2_folder)]
        command = [*serve, *flags, "--enforce-eager", "--enable-prompt-tokens-details"]
    with running(command, port) as address:
        yield address


def test_answers_are_those_of_the_own_engine(url: str, sample_url: str, smollm2_folder: Path) -> None:
    with refactx.open_index(db=sample_url) as index:
        known = {fact.text for fact in index.all_facts()}
        own: Any = refactx.Asker(*refactx.load_model(str(smollm2_folder)), index)
        model: Any = load_served(url, None, index)
        served, same = refactx.Asker(model, model.tokenizer, index), 0
        for question in QUESTIONS:
            before = model.usage.requests
            answer, other = served.ask(question, max_new_tokens=120), own.ask(question, max_new_tokens=120)
            print(f"{question} {answer.answer!r}, own: {other.answer!r}, {model.usage.requests - before} requests")
            assert {fact.text for fact in answer.facts} <= known
            assert model.usage.requests - before <= MOST_REQUESTS
            same += answer.answer == other.answer
        print(model.usage)
        assert same >= len(QUESTIONS) - 1


def test_no_sampled_fact_is_made_up(url: str, sample_url: str) -> None:
    found = seed = 0
    with refactx.open_index(db=sample_url) as index:
        facts = list(index.all_facts())
        known, some = {fact.text for fact in facts}, "".join(f"Fact: {fact.text}\n" for fact in facts[:80:10])
        model: Any = load_served(url, None, index)
        prompt = Prompt(system="Write many facts.", examples=(Example("What is known?", f"{some}Answer: that"),))
        asker = refactx.Asker(model, model.tokenizer, index, prompt)
        while found < FACTS:
            options: Any = {"temperature": 1.0, "max_facts": 10, "max_new_tokens": 1000, "seed": seed}
            for answer in asker.ask_all(QUESTIONS, batch_size=4, **options):
                assert {fact.text for fact in answer.facts} <= known
                found += len(answer.facts)
            seed += 1
            print(f"{found} sampled facts in {seed * len(QUESTIONS)} texts, {model.usage}", flush=True)
