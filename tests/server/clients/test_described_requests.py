"""Requests that schemathesis draws from `/openapi.json`: no reply is an error of the server."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.ingest.tiny import ingest_tiny
from support.server.running import Running, running
from support.translate.kennel import DOGS, KENNEL, Scripted, kennel_engine

import refactx
from refactx.sparql.packs.translator import Translator

pytestmark = pytest.mark.slow

SECONDS = 300
HOOKS = """
import random, schemathesis

@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and isinstance(body.get("model"), str) and random.random() < 0.8:
        body["model"] = random.choice(["tiny", "tiny:answer", "tiny:free"])
    return body
"""
"""Most requests name a model that there is: others are refused before their fields are read."""


@pytest.fixture(scope="module")
def whole(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with all routes: of an index in PostgreSQL, and of a pack."""
    file = tmp_path_factory.mktemp("facts") / "facts.txt"
    file.write_text("".join(f"<Ann> <p> <b{n}> .\n" for n in range(12)))
    ingest_tiny(module_url, file)
    translator = Translator(KENNEL, Scripted([DOGS]), engine=kennel_engine())
    with (
        refactx.open_index(db=module_url) as index,
        running(index=index, translator=translator, max_tokens=8, max_waiting=8) as server,
    ):
        yield server


def test_no_described_request_makes_an_error_of_the_server(
    whole: Running, run_client: Callable[..., "CompletedProcess[str]"], tmp_path: Path
) -> None:
    seconds, hooks = os.environ.get("REFACTX_FUZZ_SECONDS", str(SECONDS)), tmp_path / "hooks.py"
    hooks.write_text(HOOKS)
    checks = "not_a_server_error,content_type_conformance,response_headers_conformance"
    done = run_client(
        "schemathesis", "run", f"{whole.url}/openapi.json", "--checks", checks, "--continue-on-failure", "--no-color",
        "--phases", "examples,coverage,fuzzing", "--max-time", seconds, "--suppress-health-check", "all",
        timeout=2 * SECONDS + float(seconds), cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": str(hooks)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert whole.get("/health").status_code == 200
    failed = [line for line in whole.requests if line["status"] >= 500 and line["status"] != 503]
    assert failed == []
    assert len(whole.requests) > 100
