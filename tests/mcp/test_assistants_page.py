"""What docs/how-to/clients.md gives assistants: each configuration starts a server, or reaches one."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from support.doc_pages import DOCS, blocks
from support.ingest.tiny import ingest_tiny
from support.server.running import Running, running
from support.tiny_model import one_thread

import refactx

__all__ = ["one_thread"]
PAGE = DOCS / "how-to" / "clients.md"
CONFIGURATIONS = [json.loads(text) for text in blocks(PAGE, "json")]
SERVERS = [
    server for one in CONFIGURATIONS for key in ("mcpServers", "servers") for server in one.get(key, {}).values()
]


@pytest.fixture(scope="module")
def database(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("facts") / "facts.txt"
    file.write_text("<Ann> <p> <b> .\n")
    ingest_tiny(module_url, file, "wikidata")
    return module_url


@pytest.fixture(scope="module")
def served(database: str) -> Iterator[Running]:
    with refactx.open_index("wikidata", database) as index, running(index=index) as server:
        yield server


def names(server: Any) -> set[str]:
    async def ask() -> set[str]:
        async with Client(server) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    return anyio.run(ask)


def test_the_page_has_a_configuration_for_each_assistant() -> None:
    assert [*map(len, (CONFIGURATIONS, SERVERS))] == [3, 3]
    assert [one.get("type", "stdio") for one in SERVERS] == ["stdio", "stdio", "http"]
    assert set(re.findall(r"http://\S+/mcp", PAGE.read_text())) == {SERVERS[2]["url"]}


@pytest.mark.long
@pytest.mark.parametrize("server", [one for one in SERVERS if "command" in one])
def test_an_assistant_starts_a_server(server: dict[str, Any], database: str) -> None:
    assert Path(server["command"]).name == "refactx"
    arguments = ["-m", "refactx", *server["args"], "--db", database]
    assert {"find", "facts", "query"} <= names(StdioServerParameters(command=sys.executable, args=arguments))


def test_an_assistant_reaches_a_server_that_runs(served: Running) -> None:
    url = SERVERS[2]["url"].replace("http://127.0.0.1:8000", served.url)
    assert {"find", "facts", "query", "ask"} <= names(streamable_http_client(url))
