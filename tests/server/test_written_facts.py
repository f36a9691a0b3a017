"""Clients write facts over HTTP and as assistants, with a key of their own, and read them in the next answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from support.ingest.tiny import ingest_tiny
from support.server.running import PROMPT, Running, served
from support.shared_index import opened
from support.tiny_asker import chat_tokenizer
from support.tiny_model import one_thread, tiny_model

import refactx
from refactx.ingest import FactWriter
from refactx.mcp import fact_server
from refactx.server import ServingOptions, TextService

__all__ = ["one_thread"]
READ, WRITE = {"Authorization": "Bearer read"}, {"Authorization": "Bearer write"}


@pytest.fixture
def indexes(db_url: str, tmp_path: Path) -> str:
    for name, facts in (("kb", ["Ann p b1", "Bo p b2"]), ("mine", ["Cid p b3"])):
        file = tmp_path / f"{name}.txt"
        file.write_text("".join(" ".join(f"<{part}>" for part in fact.split()) + " .\n" for fact in facts))
        ingest_tiny(db_url, file, name)
    return db_url


@pytest.fixture
def writer(indexes: str, tmp_path: Path) -> Iterator[FactWriter]:
    with refactx.open_index("kb,mine", indexes) as index, opened(indexes) as database:
        yield FactWriter(index, database, "mine", tmp_path / "work")


@pytest.fixture
def server(indexes: str, tmp_path: Path) -> Iterator[Running]:
    with refactx.open_index("kb,mine", indexes) as index, opened(indexes) as database:
        options = ServingOptions(name="tiny", keys=("read",), write_keys=("write",))
        service = TextService(tiny_model(), chat_tokenizer(), index, options, prompt=PROMPT)
        service.writer = FactWriter(index, database, "mine", tmp_path / "work", service.facts)
        with served([service]) as running:
            yield running


def call(server: Any, tool: str, headers: dict[str, str] | None = None, **arguments: Any) -> Any:
    """Call a tool, over HTTP if there are headers, and return what it returned, or the text of its error."""

    async def ask() -> Any:
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            at = server if headers is None else streamable_http_client(f"{server.url}/mcp", http_client=http)
            async with Client(at) as client:
                result = await client.call_tool(tool, arguments)
                return result.content[0].text if result.is_error else result.structured_content  # type: ignore[union-attr]

    return anyio.run(ask)


def test_what_is_written_over_http_is_in_the_next_answer(server: Running) -> None:
    fact = {"fact": "<Ann> <p> <b9> .", "also": True}
    assert server.post("/v1/facts", fact).status_code == 401
    refused = server.post("/v1/facts", fact, headers=READ)
    assert refused.status_code == 403 and "may only read" in refused.json()["error"]["message"]
    unknown = server.post("/v1/facts", {"fact": "<Dan> <p> <b9> ."}, headers=WRITE)
    assert unknown.status_code == 400 and "name it in `new`" in unknown.json()["error"]["message"]
    contradicting = server.post("/v1/facts", {"fact": "<Ann> <p> <b9> ."}, headers=WRITE)
    assert contradicting.status_code == 409 and contradicting.json()["contradicts"] == ["<Ann> <p> <b1> ."]
    written = server.post("/v1/facts", fact, headers=WRITE)
    assert written.status_code == 200 and written.json()["added"] == ["<Ann> <p> <b9> ."]
    found = server.get("/v1/facts", params={"subject": "Ann", "predicate": "p"}, headers=READ).json()["facts"]
    assert {one["text"]: one["indexes"] for one in found} == {
        "<Ann> <p> <b1> .": ["kb"],
        "<Ann> <p> <b9> .": ["mine"],
    }
    corrected = server.post("/v1/facts/correct", {"old": fact["fact"], "fact": "<Ann> <p> <b2>"}, headers=WRITE)
    assert corrected.json()["added"] == ["<Ann> <p> <b2> ."]
    others = server.post("/v1/facts/forget", {"fact": "<Bo> <p> <b2> ."}, headers=WRITE)
    assert others.status_code == 400 and "is a fact of index kb" in others.json()["error"]["message"]
    assert server.post("/v1/facts/forget", {"fact": "<Ann> <p> <b2> ."}, headers=WRITE).json()["is_written"]
    found = server.get("/v1/facts", params={"subject": "Ann", "predicate": "p"}, headers=WRITE).json()["facts"]
    assert [one["text"] for one in found] == ["<Ann> <p> <b1> ."]


def test_assistants_write_with_a_key(server: Running) -> None:
    given = {"fact": "<Eve> <p> <b1>", "new": ["Eve"]}
    assert "may only read" in call(server, "add_fact", READ, **given)
    assert call(server, "add_fact", WRITE, **given)["added"] == ["<Eve> <p> <b1> ."]
    assert call(server, "check_fact", READ, fact="<Eve> <p> <b1>")["exists"]
    assert call(server, "forget_fact", WRITE, fact="<Eve> <p> <b1>")["removed"] == ["<Eve> <p> <b1> ."]


def test_a_server_without_it_writes_nothing(indexes: str) -> None:
    with refactx.open_index("kb", indexes) as index:
        service = TextService(tiny_model(), chat_tokenizer(), index, ServingOptions(name="tiny"), prompt=PROMPT)
        with served([service]) as running:
            assert running.post("/v1/facts", {"fact": "<Ann> <p> <b9> ."}).status_code == 404
            assert "Unknown tool" in call(running, "add_fact", {}, fact="<Ann> <p> <b9>")


def test_an_assistant_of_ones_own_writes(writer: FactWriter, indexes: str) -> None:
    with refactx.open_index("kb,mine", indexes) as index:
        server = fact_server(index, writer=FactWriter(index, writer._database, "mine", writer._work))
        assert call(server, "add_fact", fact="<Bo> <p> <b2>")["is_written"]
        shown = call(server, "add_fact", fact="<Bo> <p> <b7>")
        assert shown["contradicts"] == ["<Bo> <p> <b2> ."] and not shown["is_written"]
        assert call(server, "correct_fact", old="<Bo> <p> <b2>", fact="<Bo> <p> <b7>")["added"] == ["<Bo> <p> <b7> ."]
