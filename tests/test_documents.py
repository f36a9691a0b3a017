"""Every JSON that is said of facts, names, queries and answers: by commands, over HTTP and by tools for assistants."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client
from support.ingest.tiny import ingest_tiny
from support.server.running import Running, running, said
from support.sparql.text_models import ChatStub, chat_stub
from support.tiny_asker import ANSWER
from support.translate.kennel import DOGS, KENNEL, Scripted, kennel_engine

import refactx
from refactx.ask.chat_server import ChatServer, ServerRole
from refactx.cli.main import cli
from refactx.documents import answer_document, to_json
from refactx.ingest.source_options import Selection
from refactx.mcp import fact_server, pack_server
from refactx.sparql.packs.translator import Translator

KEPT = Path(__file__).parent / "support" / "files" / "documents.json"
"""What each of `DOORS` said when somebody has last looked at it."""
GRAPH = """@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix schema: <http://schema.org/> .
wd:Q1 rdfs:label "Ann Lee"@en ; skos:altLabel "The Boss"@en ; wdt:P31 wd:Q5 ; wdt:P40 wd:Q2 , wd:Q3 ; wdt:P2048 "41" .
wd:Q2 rdfs:label "Bo Berg"@en ; wdt:P31 wd:Q5 ; wdt:P2048 "35" ; schema:description "a poet"@en .
wd:Q3 rdfs:label "Cy"@en ; wdt:P31 wd:Q6 .
wd:Q5 rdfs:label "human"@en ; wdt:P279 wd:Q6 . wd:Q6 rdfs:label "agent"@en ; wdt:P279 wd:Q7 . wd:Q7 rdfs:label "thing"@en .
wd:P31 rdfs:label "instance of"@en . wd:P40 rdfs:label "child"@en . wd:P279 rdfs:label "subclass of"@en .
wd:P2048 rdfs:label "height"@en .
"""
TEXT = "I looked.\nFact: <Ann Lee> <child> <Cy> .\nFact: <Ann Lee> <child> <Dee> .\nAnswer: Cy"
LISTED = "list <the boss> <child>"
OF_NAMES = "SELECT DISTINCT ?x { <Ann Lee> <child> ?x }"
COMMANDS = (
    ("facts", "<Ann Lee> <", "--json"),
    ("facts", "the boss", "--json"),
    ("facts", "--all", "--json"),
    ("facts", "--predicates", "--json"),
    ("query", LISTED, "--json"),
    ("query", "count <Ann Lee> <child>", "--json", "--explain"),
    ("query", "ask <Ann Lee> <child> <Cy>", "--json", "--no-run"),
    ("query", "most 1 <human> <has instance> by <height>", "--json"),
    ("sparql", OF_NAMES, "--json"),
    ("sparql", "ASK { <Ann Lee> <child> <Cy> }", "--json"),
)
GETS = (
    "?subject=the%20boss",
    "?subject=Ann%20Lee&predicate=child&limit=1",
    "?subject=Anne",
    "?prefix=%3CAnn",
    "?subject=Cy",
)
POSTS: tuple[tuple[str, Any], ...] = (
    ("facts/check", {"text": "<Ann Lee> <child> <Cy> . <ann lee> <child> <Dee> ."}),
    ("query", {"question": LISTED}),
    ("query", {"question": "count <Ann Lee> <child>", "explain": True, "run": False}),
    ("sparql", {"query": OF_NAMES}),
    ("sparql", {"query": "ASK { <Ann Lee> <child> <Cy> }"}),
    ("translate", {"question": "Which dogs?"}),
    ("chat/completions", {"model": "tiny", "messages": said("child of Ann Lee?")}),
    ("chat/completions", {"model": "tiny:answer", "messages": said("child of Ann Lee?")}),
    ("responses", {"model": "tiny", "input": "child of Ann Lee?"}),
    ("responses", {"model": "tiny:answer", "input": "child of Ann Lee?"}),
)
STREAMED = tuple(
    (path, {**body, "stream": True}) for path, body in POSTS if path in ("translate", "chat/completions", "responses")
)
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("find", {"name": "the boss"}),
    ("find", {"name": "Bo Bergg", "limit": 1}),
    ("complete", {"prefix": "<Ann Lee> <"}),
    ("facts", {"subject": "the boss"}),
    ("facts", {"subject": "Anne"}),
    ("check_fact", {"fact": "<ann lee> <child> <Cy>"}),
    ("check_fact", {"fact": "<Ann Lee> <child> <Dee>"}),
    ("query", {"query": LISTED}),
    ("query", {"query": "most 1 <human> <has instance> by <height>"}),
    ("sparql", {"query": OF_NAMES}),
    ("sparql", {"query": "ASK { <Ann Lee> <child> <Cy> }"}),
    ("classes", {"name": "ann lee"}),
    ("classes", {"name": "agent"}),
)
PACK_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("validate", {"query": "SELECT ?x { ?x a ex:Wolf }"}),
    ("run_sparql", {"query": "SELECT ?x ?l { ?x a ex:Dog OPTIONAL { ?x rdfs:label ?l } } ORDER BY ?x", "limit": 1}),
    ("run_sparql", {"query": "ASK { ex:rex a ex:Cat }"}),
    ("describe", {"uri": "ex:ann"}),
    ("translate", {"question": "Dogs?"}),
)


@pytest.fixture(scope="module")
def database(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("graph") / "graph.ttl"
    file.write_text(GRAPH)
    ingest_tiny(module_url, file, selection=Selection(inverse=True, aliases=True))
    return module_url


@pytest.fixture(scope="module")
def index(database: str) -> Iterator[refactx.Index]:
    with refactx.open_index(db=database) as opened:
        yield opened


@pytest.fixture(scope="module")
def stub() -> Iterator[ChatStub]:
    with chat_stub() as made:
        made.reply = lambda _: TEXT
        yield made


def translator() -> Translator:
    return Translator(KENNEL, Scripted([DOGS]), engine=kennel_engine())


@pytest.fixture(scope="module")
def server(stub: ChatStub, index: refactx.Index) -> Iterator[Running]:
    role = ServerRole(name="the model", option="--model-url", key="REFACTX_TEST_KEY", extra="client")
    with running(ChatServer("m", stub.url, role, retries=0), index, translator=translator()) as started:
        yield started


CHANGING = ("id", "created", "created_at", "completed_at", "item_id", "seconds", "path")


def steady(document: Any) -> Any:
    """A document without what differs from run to run."""
    if isinstance(document, list):
        return [steady(one) for one in document]
    if not isinstance(document, dict):
        return document
    return {
        name: "…"
        if name in CHANGING and (name != "id" or re.fullmatch(r"\w+[-_][0-9a-f]{24,32}", str(value)))
        else steady(value)
        for name, value in document.items()
    }


def printed(database: str, *arguments: str) -> list[Any]:
    """What a command prints: a document, or one a line."""
    done = CliRunner().invoke(cli, [*arguments, "--db", database], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    try:
        return [json.loads(done.stdout)]
    except ValueError:
        return [json.loads(line) for line in done.stdout.splitlines()]


def events(text: str) -> list[Any]:
    """The documents of a stream, without what depends on how its pieces came: those of one kind are one."""
    found = list[Any]()
    for line in text.splitlines():
        if not line.startswith("data: {"):
            continue
        document = json.loads(line[6:])
        document.pop("sequence_number", None)
        place, last = said_in(document), said_in(found[-1]) if found else None
        if place and last and place.keys() == last.keys() and "refactx" not in place:
            for name in {"delta", "content", "reasoning", "reasoning_content"} & place.keys():
                last[name] += place[name]
        else:
            found.append(document)
    return found


def said_in(document: dict[str, Any]) -> dict[str, Any] | None:
    """Where a document of a stream has its text; None if it has none."""
    if document.get("type", "").endswith(".delta"):
        return document
    for choice in document.get("choices", ()):
        delta: dict[str, Any] = choice["delta"]
        if {"content", "reasoning"} & delta.keys() and "role" not in delta:
            return delta
    return None


def called(server: Any, calls: tuple[tuple[str, dict[str, Any]], ...]) -> dict[str, Any]:
    """What tools return, and what is said of them."""

    async def ask() -> dict[str, Any]:
        async with Client(server) as client:
            said = {one.name: one.output_schema for one in (await client.list_tools()).tools}
            done = {f"{tool} {given}": await client.call_tool(tool, given) for tool, given in calls}
            for result in done.values():
                assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
            return {"schemas": said, **{name: result.structured_content for name, result in done.items()}}

    return anyio.run(ask)


def everything(database: str, index: refactx.Index, server: Running) -> dict[str, Any]:
    """What all doors say."""
    found: dict[str, Any] = {"an answer": to_json(answer_document(ANSWER))}
    found |= {f"refactx {' '.join(one)}": printed(database, *one) for one in COMMANDS}
    found |= {f"GET facts{one}": server.get(f"/v1/facts{one}").json() for one in GETS}
    found["GET examples"] = server.get("/v1/examples?seed=1").json()
    found |= {f"POST {path} {body}": server.post(f"/v1/{path}", body).json() for path, body in POSTS}
    for path, body in STREAMED:
        found[f"POST {path} {body}"] = events(server.post(f"/v1/{path}", body).text)
    found["tools of facts"] = called(fact_server(index), CALLS)
    found["tools of a pack"] = called(pack_server(KENNEL, kennel_engine(), translator()), PACK_CALLS)
    return found


@pytest.mark.long
def test_every_json_is_as_it_was(database: str, index: refactx.Index, server: Running) -> None:
    found = steady(json.loads(json.dumps(everything(database, index, server))))
    if not KEPT.exists():
        lines = (f"{json.dumps(door)}: {json.dumps(said, ensure_ascii=False)}" for door, said in found.items())
        KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        pytest.fail(f"{KEPT.name} was missing, and was made: look at it")
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert list(found) == list(kept)
    for door in found:
        assert json.dumps(found[door], ensure_ascii=False) == json.dumps(kept[door], ensure_ascii=False), door
