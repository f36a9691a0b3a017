"""Thirty tasks of an assistant on the sample, each done in at most two calls by a script: it asks with the words of the
task, and where a name is not known, again with the nearest one."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer

import refactx
from refactx.mcp import fact_server

Call = tuple[str, dict[str, str]]


def find(name: str) -> Call:
    return "find", {"name": name}


def facts(subject: str, predicate: str = "") -> Call:
    return "facts", {"subject": subject, "predicate": predicate}


def query(line: str) -> Call:
    return "query", {"query": line}


def check(fact: str) -> Call:
    return "check_fact", {"fact": fact}


TASKS: list[tuple[Call, str]] = [
    (find("alaska"), "Q797"),
    (find("JOHN LENNON"), "Q1203"),
    (find("Albert Einstien"), "Q937"),
    (find("dolly parton"), "Q180453"),
    (find("William Shakespeare"), "Q692"),
    (find("Leonardo da Vinci"), "Q762"),
    (facts("Alaska", "capital"), "<Juneau ("),
    (facts("john lennon", "instrument"), "guitar"),
    (facts("Albert Einstein", "place of birth"), "<Ulm ("),
    (facts("J. R. R. Tolkien", "cause of death"), "pneumonia"),
    (facts("j r r tolkien", "sex or gender"), "<male ("),
    (facts("Hillary Clinton", "educated at"), "Yale Law School"),
    (facts("Jamaica", "described by source"), "Brockhaus"),
    (facts("Albert Einstein"), "'label': 'employer'"),
    (facts("Dolly Partn", "instrument"), "guitar"),
    (query("count <Albert Einstein> <award received>"), "'answer': '11'"),
    (query("count <Albert Einstein> <employer>"), "'answer': '12'"),
    (query("count <Alaska> <language used>"), "'answer': '19'"),
    (query("count <alaska> <contains administrative territorial entity>"), "'answer': '9'"),
    (query("list <Albert Einstein> <place of birth>"), "Ulm"),
    (query("list <Alaska> <capital>"), "Juneau"),
    (query("list <Albert Einstein> <field of work>"), "physics"),
    (query("ask <Albert Einstein> <place of birth> <Ulm>"), "'answer': 'yes'"),
    (query("ask <Alaska> <capital> <Anchorage>"), "'answer': 'no'"),
    (check("<Alaska> <capital> <Juneau>"), "'exists': True"),
    (check("<alaska> <capital> <anchorage>"), "'exists': False"),
    (check("<Alaska> <capital> <Anchorage>"), "<Juneau ("),
    (check("<John Lennon> <instrument> <guitar>"), "'exists': True"),
    (check("<J. R. R. Tolkien> <cause of death> <pneumonia>"), "'exists': True"),
    (check("<Albert Einstein> <place of birth> <Berlin>"), "<Ulm ("),
]


@pytest.fixture(scope="module")
def server(sample_url: str) -> Iterator[MCPServer]:
    with refactx.open_index("default", sample_url) as index:
        yield fact_server(index)


@pytest.mark.long
@pytest.mark.parametrize(("asked", "expected"), TASKS)
def test_a_task_takes_at_most_two_calls(server: MCPServer, asked: Call, expected: str) -> None:
    async def do() -> Any:
        tool, given = asked
        async with Client(server) as client:
            found: Any = (await client.call_tool(tool, given)).structured_content
            if found.get("near"):
                found = (await client.call_tool(tool, given | {"subject": found["near"][0]})).structured_content
            return found

    assert expected in str(anyio.run(do))


def test_there_are_thirty_tasks() -> None:
    assert len(TASKS) == 30
