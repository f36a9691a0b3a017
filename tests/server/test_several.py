"""Several indexes in one server: each is asked by the name of its model, or by its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from support.command import complains
from support.ingest.tiny import ingest_tiny
from support.server.running import Running, running, said

import refactx

FACTS = {"first": [f"<Ann> <p> <b{n}>" for n in range(9)], "second": ["<Bo> <q> <Zoe>", "<Bo> <q> <Ann>"]}


@pytest.fixture(scope="module")
def served(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    for name, facts in FACTS.items():
        file = tmp_path_factory.mktemp("facts") / "facts.txt"
        file.write_text("".join(f"{fact} .\n" for fact in facts))
        ingest_tiny(module_url, file, index=name)
    with (
        refactx.open_index("first", db=module_url) as first,
        refactx.open_index("second", db=module_url) as second,
        running(index=first, others=[second], max_tokens=60) as server,
    ):
        yield server


def facts_of(server: Running, model: str) -> set[str]:
    client = server.openai()
    found = set()
    for seed in range(4):
        reply: Any = client.chat.completions.create(
            model=model, messages=said("hello Fact:"), temperature=1.0, seed=seed
        ).choices[0]
        found |= {str(fact["text"]) for fact in reply.message.refactx["facts"]}
    return found


def test_a_text_has_facts_of_the_index_that_its_model_names(served: Running) -> None:
    for name, model in (("first", "tiny@first"), ("second", "tiny@second"), ("first", "tiny")):
        found = facts_of(served, model)
        assert found
        assert found <= {f"{fact} ." for fact in FACTS[name]}


def test_models_are_listed_with_their_indexes(served: Running) -> None:
    listed = served.get("/v1/models").json()["data"]
    assert [(one["id"], one["refactx"]["index"]) for one in listed if one["refactx"]["variant"] == "facts"] == [
        ("tiny@first", "first"),
        ("tiny@second", "second"),
    ]
    assert len(listed) == 6
    assert served.get("/v1/models/tiny@second:answer").json()["refactx"] == {"index": "second", "variant": "answer"}
    assert served.get("/v1/models/tiny:free").json()["refactx"]["index"] == "first"
    assert served.get("/v1/models/tiny@third").status_code == 404


def test_look_ups_and_queries_name_the_index_or_the_model_in_the_address(served: Running) -> None:
    for chosen, subject in (("", "Ann"), ("&index=second", "Bo"), ("&model=tiny@second", "Bo"), ("&model=tiny", "Ann")):
        found = served.get(f"/v1/facts?prefix=<{chosen}").json()["completions"]
        assert [one["text"] for one in found] == [f"<{subject}>"]
    asked = {"question": "count <Bo> <q>"}
    assert served.post("/v1/query?index=second", asked).json()["answer"] == "2"
    assert served.post("/v1/query", asked).status_code == 400  # the first index has no Bo
    checked = {"text": "Fact: <Bo> <q> <Zoe> ."}
    of_two = [served.post(f"/v1/facts/check{at}", checked).json()["facts"] for at in ("", "?index=second")]
    assert [[one["exists"] for one in found] for found in of_two] == [[False], [True]]


def test_assistants_ask_the_index_of_their_address(served: Running) -> None:
    async def complete(url: str) -> Any:
        async with (
            httpx2.AsyncClient(timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return (await client.call_tool("complete", {"prefix": "<"})).structured_content

    for at, subject in (("", "<Ann>"), ("?index=second", "<Bo>")):
        assert subject in json.dumps(anyio.run(complete, f"{served.url}/mcp{at}"))


@pytest.mark.parametrize(
    ("path", "model", "error"),
    [
        ("/v1/chat/completions", "tiny@third", "ask for one of tiny@first, tiny@first:answer"),
        ("/v1/chat/completions?index=first", "tiny@second", "ask for one of tiny@first"),
        ("/v1/chat/completions?model=tiny@first", "tiny@second", "the model 'tiny@second' does not exist"),
        ("/v1/chat/completions?index=third", "tiny", "the server has no index 'third': ask for one of first, second"),
        ("/v1/responses", "tiny@third", "ask for one of tiny@first"),
    ],
)
def test_what_the_server_does_not_have_is_named(served: Running, path: str, model: str, error: str) -> None:
    reply = served.post(path, {"model": model, "messages": said("hello"), "input": "hello"})
    assert (reply.status_code, error in reply.json()["error"]["message"]) == (404, True), reply.text


def test_bodies_that_cannot_be_read_have_the_errors_of_one_index(served: Running) -> None:
    for body in (b"{", b"[]", b'{"model": ' + b"[" * 200_000, b"\xff", b'{"model": 3, "messages": []}'):
        reply = httpx2.post(f"{served.url}/v1/chat/completions", content=body, timeout=60)
        assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error"), reply.text
    large = httpx2.post(f"{served.url}/v1/chat/completions", content=b" " * (2 << 20), timeout=60)
    assert large.status_code == 413


def test_figures_are_of_each_model_once_and_limits_of_all_together(served: Running) -> None:
    facts_of(served, "tiny@second")
    lines = served.get("/metrics").text.splitlines()
    assert lines.count("# TYPE refactx:generation_tokens_total counter") == 1
    written = [line for line in lines if line.startswith("refactx:generation_tokens_total{")]
    assert [line.split('"')[1] for line in written] == ["tiny@first", "tiny@second"]
    assert float(written[1].split()[-1]) > 0
    assert served.get("/ready").status_code == 200


@pytest.mark.long
def test_what_is_for_one_model_is_refused_for_several(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    several = ("serve", "--model", "demo", "--model", str(tmp_path / "demo"))
    assert "two models have the name demo" in complains(*several)
    assert "--name is for one model" in complains(*several, "--name", "a")
    assert "--adapter is for one model" in complains(*several, "--adapter", "a")
