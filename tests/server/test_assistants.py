"""Assistants at `/mcp` by a real client: the same tools as over stdio, guarded as the rest of the server."""

import io
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from support.ingest.tiny import opened_tiny
from support.server.running import PROMPT, Gate, Running, eventually, running
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model

import refactx
from refactx.errors import DatabaseError
from refactx.mcp import fact_server
from refactx.server import Availability
from refactx.server.app import reported
from refactx.server.http import RequestLog

FACTS = [f"<Ann> <p> <b{n}>" for n in range(12)] + ["<Ann> <q> <Bo>", "<Bo> <q of> <Ann>"]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("complete", {"prefix": "<"}),
    ("complete", {"prefix": "<Ann> <p> <", "limit": 3}),
    ("facts", {"subject": "Ann", "limit": 5}),
    ("facts", {"subject": "Nobody"}),
    ("check_fact", {"fact": "<Ann> <q> <Be>"}),
    ("check_fact", {"fact": "no fact"}),
]


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[refactx.Index]:
    source = tmp_path_factory.mktemp("facts") / "facts.txt"
    with opened_tiny(module_url, source, (f"{fact} ." for fact in FACTS)) as opened:
        yield opened


@pytest.fixture(scope="module")
def served(index: refactx.Index) -> Iterator[Running]:
    with running(index=index, max_tokens=60) as server:
        yield server


@asynccontextmanager
async def connected(server: Any, key: str = "") -> Any:
    if not isinstance(server, Running):
        async with Client(server) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
    ):
        yield client


def call_all(server: Any, calls: list[tuple[str, dict[str, Any]]] = CALLS, key: str = "") -> list[Any]:
    """What tools return, or the texts of their errors."""

    async def ask() -> list[Any]:
        async with connected(server, key) as client:
            results = [await client.call_tool(tool, arguments) for tool, arguments in calls]
        return [one.content[0].text if one.is_error else one.structured_content for one in results]

    return anyio.run(ask)


def test_tools_return_what_they_return_over_stdio(served: Running, index: refactx.Index) -> None:
    assert call_all(served) == call_all(fact_server(index))


def test_an_answer_is_that_of_the_asker(served: Running, index: refactx.Index) -> None:
    alone = refactx.Asker(tiny_model(), chat_tokenizer(), index, PROMPT).ask("hello Fact:", max_new_tokens=60)
    (found,) = call_all(served, [("ask", {"question": "hello Fact:"})])
    assert alone.facts
    assert (found["text"], found["answer"]) == (alone.text, alone.answer)
    assert [one["text"] for one in found["facts"]] == list(dict.fromkeys(fact.text for fact in alone.facts))
    assert served.service.slots.running == 0


def test_many_assistants_at_once_get_their_own_answers(served: Running) -> None:
    questions = [("ask", {"question": f"{word} Fact:"}) for word in ("hello", "a b", "who", "in Ann")]
    alone = call_all(served, questions)
    found = dict[int, Any]()

    async def ask() -> None:
        async def one(number: int) -> None:
            async with connected(served) as client:
                tool, arguments = questions[number]
                found[number] = (await client.call_tool(tool, arguments)).structured_content

        async with anyio.create_task_group() as group:
            for number in range(len(questions)):
                group.start_soon(one, number)

    anyio.run(ask)
    assert [found[number] for number in range(len(questions))] == alone


def initialize(server: Running, **headers: str) -> httpx2.Response:
    parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    accepts = {"Accept": "application/json, text/event-stream"}
    return server.post("/mcp", body, headers=accepts | headers)


def test_a_body_that_is_no_message_is_refused_in_one_line(served: Running) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    for body, code, confidence in (
        (b'{"model": "tiny"}', -32600, "the body is no request or notification of JSON-RPC 2.0"),
        (b"[]", -32600, "the body is no request or notification"),
        (
            b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
            -32600,
            "the id of a request has to be a text or an integer",
        ),
        (
            b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
            -32600,
            "the id of a request has to be a text or an integer",
        ),
        (
            b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
            -32600,
            "the id of a request has to be a text or an integer",
        ),
        (b"{", -32700, "Parse error: EOF while parsing an object at line 1 column 1"),
        (
            rb'{"jsonrpc": "2.0", "id": "\ud800", "method": "ping"}',
            -32700,
            "Parse error: unexpected end of hex escape at line 1",
        ),
    ):
        for version in ({}, {"MCP-Protocol-Version": "2025-06-18"}):
            reply = httpx2.post(f"{served.url}/mcp", content=body, headers=headers | version)
            error = reply.json()["error"]
            assert (reply.status_code, error["code"], "\n" in error["message"]) == (400, code, False)
            assert confidence in error["message"]


def test_batches_are_answered_where_the_version_has_them(served: Running) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    ping, told = {"jsonrpc": "2.0", "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/initialized"}
    facts = {"name": "facts", "arguments": {"subject": "Ann", "limit": 2}}
    look = {"jsonrpc": "2.0", "id": "f", "method": "tools/call", "params": facts}

    def post(body: Any, **more: str) -> httpx2.Response:
        return httpx2.post(f"{served.url}/mcp", json=body, headers=headers | more)

    for version in ({}, {"MCP-Protocol-Version": "2025-03-26"}):
        reply = post([{**ping, "id": 1}, told, look, {**ping, "id": None}, 5], **version)
        assert reply.status_code == 200
        first, second, third, last = reply.json()
        assert (first, second["id"]) == ({"jsonrpc": "2.0", "id": 1, "result": {}}, "f")
        assert len(second["result"]["structuredContent"]["facts"]) == 2
        assert [one["error"]["code"] for one in (third, last)] == [-32600, -32600]
        assert (post([told, told], **version).status_code, post([told], **version).content) == (202, b"")
        assert post([{**ping, "id": 1}] * 101, **version).status_code == 400
    assert post([{**ping, "id": 1}], **{"MCP-Protocol-Version": "2025-06-18"}).status_code == 400


def test_keys_guard_it(index: refactx.Index) -> None:
    with running(index=index, keys=("one",)) as server:
        assert initialize(server).status_code == 401
        assert initialize(server, Authorization="Bearer two").status_code == 401
        assert call_all(server, CALLS[:1], key="one")[0]["completions"]


def test_pages_of_other_sites_cannot_use_it(index: refactx.Index) -> None:
    with running(index=index, hosts=("127.0.0.1", "::1", "localhost")) as server:
        for host in ("127.0.0.1:7", "localhost", "[::1]:7"):
            assert initialize(server, Host=host).status_code == 200
            assert initialize(server, Host=host, Origin=f"http://{host}").status_code == 200
        assert initialize(server, Host="evil.example").status_code == 403
        assert initialize(server, Origin="https://evil.example").status_code == 403
        assert initialize(server, Origin="null").status_code == 403


def test_a_client_that_goes_away_ends_its_text_by_the_next_pass(index: refactx.Index) -> None:
    gate = Gate()
    with running(gate.model, index=index) as server:
        assert eventually(lambda: server.service.is_warm)
        gate.close()

        async def leave() -> None:
            async def end() -> None:
                await anyio.to_thread.run_sync(gate.wait_until_reached)
                asking.cancel_scope.cancel()

            async with connected(server) as client, anyio.create_task_group() as asking:
                asking.start_soon(end)
                await client.call_tool("ask", {"question": "hello Fact:"})

        anyio.run(leave)
        assert eventually(lambda: any(line["status"] == 499 for line in server.requests))
        passes = gate.passes
        gate.open()
        assert eventually(lambda: server.service.slots.running == 0)
        assert gate.passes <= passes + 1


@pytest.mark.long
def test_what_the_server_refuses_others_it_refuses_assistants(index: refactx.Index) -> None:
    def away() -> None:
        raise DatabaseError("postgresql://me:secret@db/kb cannot be reached")

    with running(index=index, availability=Availability(away), max_bytes=2000) as server:
        assert eventually(lambda: server.get("/health").status_code == 503)
        for found in call_all(server, [*CALLS[:1], ("ask", {"question": "hello"})]):
            assert "the database does not answer" in found
            assert "secret" not in found
        assert server.post("/mcp", {"x": "y" * 3000}).status_code == 413
        server.server.is_draining = True
        assert initialize(server).status_code == 503
        server.server.is_draining = False


@pytest.mark.parametrize("has_texts", [False, True])
def test_what_a_failed_tool_quotes_is_in_the_log_if_that_may_have_texts(
    index: refactx.Index, monkeypatch: pytest.MonkeyPatch, has_texts: bool
) -> None:
    quoted = "secret thing"

    def failing(*_: object) -> Any:
        raise LookupError(f"there is no {quoted!r}")

    stream = io.StringIO()
    with reported(RequestLog(stream, has_texts=has_texts)), running(index=index) as server:
        assert eventually(lambda: server.service.is_warm)
        with monkeypatch.context() as patched:
            patched.setattr(index, "children", failing)
            found = call_all(server, CALLS[:1])
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (line,) = (one for one in lines if one.get("message", "").startswith("a tool failed"))
    assert (quoted in line["message"], quoted in line["trace"]) == (has_texts, has_texts)
    assert "secret" not in str(found)


def test_requests_are_logged_and_counted_without_what_was_asked(served: Running) -> None:
    call_all(served, CALLS[4:5])
    assert 'path="/mcp"' in served.get("/metrics").text
    assert any(json.loads(line).get("path") == "/mcp" for line in served.log.getvalue().splitlines())
    assert "Ann" not in served.log.getvalue()


def test_an_index_in_no_database_has_no_tools(tiny: Running) -> None:
    assert initialize(tiny).status_code == 404


def test_a_stream_that_nothing_comes_from_is_refused(served: Running) -> None:
    reply = served.get("/mcp", headers={"Accept": "text/event-stream"})
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
