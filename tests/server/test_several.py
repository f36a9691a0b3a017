"""Several indexes in one server: each is asked by the name of its model, or by its own."""

import json
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from prometheus_client.parser import text_string_to_metric_families
from support.command import complains
from support.ingest.tiny import ingest_tiny
from support.server.running import PROMPT, Running, running, said
from support.server.running import served as serving
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model

import refactx
from refactx.ask.asker import language_model
from refactx.server import ServingOptions, TextService
from refactx.server.http import RequestSlots

FACTS = {"first": [f"<Ann> <p> <b{n}>" for n in range(9)], "second": ["<Bo> <q> <Zoe>", "<Bo> <q> <Ann>"]}


@pytest.fixture(scope="module")
def indexes(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[refactx.Index]]:
    for name, facts in FACTS.items():
        file = tmp_path_factory.mktemp("facts") / "facts.txt"
        file.write_text("".join(f"{fact} .\n" for fact in facts))
        ingest_tiny(module_url, file, index=name)
    with (
        refactx.open_index("first", db=module_url) as first,
        refactx.open_index("second", db=module_url) as second,
    ):
        yield [first, second]


@pytest.fixture(scope="module")
def served(indexes: list[refactx.Index]) -> Iterator[Running]:
    with running(index=indexes[0], others=indexes[1:], max_tokens=60) as server:
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


def test_figures_are_of_each_model_with_each_index_and_once_where_they_are_shared(
    indexes: list[refactx.Index],
) -> None:
    model, slots = language_model(tiny_model(), chat_tokenizer()), RequestSlots(2, 2)
    names = [(name, index) for name in ("tiny", "other") for index in indexes]
    services = [
        TextService(
            model,
            model.tokenizer,
            index,
            ServingOptions(name=f"{name}@{index.name}", short=name),
            prompt=PROMPT,
            slots=slots,
        )
        for name, index in names
    ]
    with serving(services) as server:
        facts_of(server, "other@second")
        text = server.get("/metrics").text
    families = list(text_string_to_metric_families(text))
    series = [(one.name, *sorted(one.labels.items())) for family in families for one in family.samples]
    assert len(series) == len(set(series))
    values = {family.name: {tuple(one.labels.values()): one.value for one in family.samples} for family in families}
    written = values["refactx:generation_tokens"]
    assert set(written) == {(index.name, name) for name, index in names}
    assert [pair for pair, tokens in written.items() if tokens] == [("second", "other")]
    assert set(values["refactx:lookups"]) == {("first",), ("second",)}
    assert values["refactx:num_requests_running"] == {(): 0}


@pytest.mark.long
def test_what_is_for_one_model_is_refused_for_several() -> None:
    several = ("serve", "--model", "demo", "--model", "demo")
    assert "two models have the name demo" in complains(*several)
    assert "--name is for one model" in complains(*several, "--name", "a")
    assert "--adapter is for one model" in complains(*several, "--adapter", "a")
