"""Assistants look facts up by a real client: in the same process, and over stdio as they start it."""

import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer
from support.command import complains, run_refactx
from support.ingest.tiny import ingest_tiny
from support.memory.graph import build, ingest_named
from support.memory.letters import LetterEncoder
from support.sparql.text_models import chat_stub
from support.tiny_asker import save_tiny, tiny_asker
from support.tiny_model import one_thread

import refactx
from refactx.errors import DatabaseError
from refactx.fact import split_fact
from refactx.mcp import asks_alone, checks_alone, fact_server

__all__ = ["one_thread"]
TOOLS = ["find", "complete", "facts", "check_fact", "query", "sparql", "classes"]
FACTS = [f"<Ann> <p> <b{n}>" for n in range(12)] + ["<Ann> <q> <Bo>", "<Bo> <q of> <Ann>", "<Bé> <p> <in>"]


@pytest.fixture(scope="module")
def database(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("facts") / "facts.txt"
    file.write_text("".join(f"{fact} .\n" for fact in FACTS))
    ingest_tiny(module_url, file)
    return module_url


@pytest.fixture(scope="module")
def index(database: str) -> Iterator[refactx.Index]:
    with refactx.open_index(db=database) as opened:
        yield opened


def call(server: Any, tool: str, **arguments: Any) -> Any:
    """Call a tool and return what it returned, or the text of its error."""

    async def ask() -> Any:
        async with Client(server) as client:
            result = await client.call_tool(tool, arguments)
            return result.content[0].text if result.is_error else result.structured_content  # type: ignore[union-attr]

    return anyio.run(ask)


def tools(server: MCPServer) -> list[str]:
    async def ask() -> list[str]:
        async with Client(server) as client:
            found = (await client.list_tools()).tools
            assert all(tool.output_schema for tool in found)
            return [tool.name for tool in found]

    return anyio.run(ask)


@pytest.mark.long
def test_every_fact_is_found_by_completing_from_the_beginning(index: refactx.Index) -> None:
    server, found, open_ = fact_server(index), set[str](), ["<"]
    while open_:
        for one in call(server, "complete", prefix=open_.pop(), limit=100)["completions"]:
            if split_fact(one["text"]):
                found.add(one["text"].removesuffix(" ."))
            else:
                open_.append(f"{one['text']} <")
    assert found == set(FACTS)


def test_facts_of_a_subject_are_those_of_the_index(index: refactx.Index) -> None:
    server = fact_server(index)
    found = call(server, "facts", subject="Ann", limit=100)
    assert {one["text"].removesuffix(" .") for one in found["facts"]} == {
        one for one in FACTS if one.startswith("<Ann>")
    }
    assert [(one["label"], one["facts"]) for one in found["properties"]] == [("p", 12), ("q", 1)]
    assert call(server, "facts", subject="Ann", predicate="q")["facts"][0]["object"]["label"] == "Bo"
    for limit in (1, 5):
        some = call(server, "facts", subject="Ann", limit=limit)
        assert (len(some["facts"]), some["truncated"]) == (limit, True)
    assert call(server, "facts", subject="Anne")["near"] == ["Ann"]
    found = call(server, "facts", subject="ANN", predicate="Q")
    assert found["resolved"] == {"label": "ANN", "name": "Ann", "among": 1, "others": []}
    assert [fact["text"] for fact in found["facts"]] == ["<Ann> <q> <Bo> ."]
    assert "subject is empty" in call(server, "facts", subject=" ")


def test_a_fact_exists_if_the_index_has_it(index: refactx.Index) -> None:
    server = fact_server(index)
    for fact in FACTS:
        assert call(server, "check_fact", fact=fact)["exists"]
    found = call(server, "check_fact", fact="<Ann> <q> <Be> .")
    assert (found["exists"], found["nearest"][0]["text"]) == (False, "<Ann> <q> <Bo> .")
    found = call(server, "check_fact", fact="<ann> <Q> <bo>")
    assert (found["exists"], found["fact"]["text"]) == (True, "<Ann> <q> <Bo> .")
    for text, number in (("Ann q Bo", 0), ("<a> <b> <c> . <a> <b> <d> .", 2), ("", 0)):
        assert call(server, "check_fact", fact=text).endswith(
            f"the text has {number} facts: give one, written as <subject> <predicate> <object>"
        )


GRAPH = """@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
:Ann rdfs:label "Ann Lee" ; skos:altLabel "The Boss" ; a :Engineer ; :knows :Bo , :Cy ; :age 41 .
:Bo rdfs:label "Bo Berg" ; a :Engineer ; :age 35 . :Cy rdfs:label "Cy" ; a :Person .
:Engineer rdfs:label "Engineer" ; rdfs:subClassOf :Person . :Person rdfs:label "Person" ; rdfs:subClassOf :Agent .
:Agent rdfs:label "Agent" .
"""


@pytest.fixture(scope="module")
def graph(module_url: str, smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MCPServer]:
    file = tmp_path_factory.mktemp("graph") / "graph.ttl"
    file.write_text(GRAPH)
    given = ("--index", "graph", "--inverse", "--aliases", "--tokenizer", smollm2_folder, "--db", module_url)
    assert run_refactx("ingest", file, *given).returncode == 0
    with refactx.open_index("graph", module_url) as opened:
        yield fact_server(opened)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Ann Lee", ("Ann Lee", "name")),
        ("ANN lee", ("Ann Lee", "name")),
        ("the boss", ("Ann Lee", "alias")),
        ("Lee, Ann", ("Ann Lee", "name")),
        ("lee,ann", ("Ann Lee", "name")),
        ("Bo Bergg", ("Bo Berg", "near")),
    ],
)
def test_a_thing_is_found_by_any_of_its_names(graph: MCPServer, name: str, expected: tuple[str, str]) -> None:
    [first, *_] = call(graph, "find", name=name)["entities"]
    assert (first["name"], first["by"]) == expected
    assert first["id"] == f"http://example.org/{expected[0].split()[0]}"
    assert first["facts"] == len(call(graph, "facts", subject=first["name"], limit=100)["facts"])


def test_words_that_are_no_name_are_found_by_the_memory(db_url: str, tmp_path: Path) -> None:
    living = ingest_named(db_url, tmp_path)
    encoder = LetterEncoder(name="support.memory.letters:letters")
    build(living, encoder)
    with refactx.open_index(db=db_url) as index:
        server = fact_server(index)
        [first, *_] = call(server, "find", name="a colony of french Louisiana")["entities"]
        assert (first["name"], first["id"], first["by"]) == ("Louisiana (colony of France)", "Q2", "meaning")
        [first, *_] = call(server, "find", name="pelican state")["entities"]
        assert (first["id"], first["by"]) == ("Q1", "alias")


def test_what_has_no_name_is_nothing(graph: MCPServer) -> None:
    assert call(graph, "find", name="zzz qqq") == {"entities": [], "truncated": False}
    assert "the name is empty" in call(graph, "find", name=" ")


def test_a_query_on_the_facts_is_answered_with_labels_and_proof(graph: MCPServer) -> None:
    found = call(graph, "query", query="count <the boss> <knows>")
    assert (found["answer"], found["count"], found["complete"]) == ("2", 2, True)
    assert found["resolved"] == [{"label": "the boss", "name": "Ann Lee", "among": 1, "others": []}]
    assert set(found["facts"]) == {"<Ann Lee> <knows> <Bo Berg>", "<Ann Lee> <knows> <Cy>"}
    some = call(graph, "query", query="list <Ann Lee> <knows>", limit=1)
    assert (len(some["rows"]), some["complete"], some["answer"]) == (1, False, some["rows"][0]["label"])
    assert call(graph, "query", query="ask <Ann Lee> <knows> <Bo Berg>")["answer"] == "yes"
    assert "in place of one of list, count" in call(graph, "query", query="who knows <Ann Lee>")


def test_sparql_has_rows_with_labels(graph: MCPServer) -> None:
    found = call(graph, "sparql", query="SELECT ?x { <Ann Lee> <knows> ?x }")
    assert found["columns"] == ["x"]
    assert {row[0] for row in found["rows"]} == {
        "Bo Berg (http://example.org/Bo)",
        "Cy (http://example.org/Cy)",
    }
    short = call(graph, "sparql", query="SELECT ?x { <Ann Lee> <knows> ?x }", limit=1)
    assert (len(short["rows"]), short["truncated"]) == (1, True)
    assert call(graph, "sparql", query="ASK { <Ann Lee> <knows> <Cy> }")["rows"] == [["yes"]]
    for query in ("SELECT ?x {", "INSERT DATA { <Ann Lee> <knows> <Cy> }"):
        message = call(graph, "sparql", query=query)
        assert message.startswith("Error executing tool sparql: ")
        assert "\n" not in message


def test_classes_go_up_and_down(graph: MCPServer) -> None:
    found = call(graph, "classes", name="ann lee")
    assert (found["instance_of"], found["above"], found["below"]) == (["Engineer"], ["Person", "Agent"], [])
    found = call(graph, "classes", name="Person")
    assert (found["above"], found["below"], found["members"]) == (["Agent"], ["Engineer"], 1)
    assert "there is no 'nonesuch'" in call(graph, "classes", name="nonesuch")


def test_the_registry_is_told_of_this_release() -> None:
    server = json.loads((Path(__file__).parents[2] / "server.json").read_text())
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    [package] = server["packages"]
    assert server["version"] == package["version"] == project["version"]
    assert package["identifier"] == project["name"]
    assert len(server["description"]) <= 100


def test_facts_have_links_to_wikidata() -> None:
    found = call(fact_server_of_tiny(), "ask", question="hello Fact:")
    (alaska, *_) = found["facts"]
    assert alaska["subject"]["url"] == "https://www.wikidata.org/wiki/Q1"
    assert alaska["url"] == "https://www.wikidata.org/wiki/Q1#P1"
    assert (alaska["object"]["id"], alaska["object"]["url"]) == (None, None)


def fact_server_of_tiny() -> MCPServer:
    """A server whose model is the tiny one; its other tools have no index."""

    class Nowhere:
        name = "tiny"

    nowhere: Any = Nowhere()
    return fact_server(nowhere, facts=nowhere, ask=asks_alone(tiny_asker()))


@pytest.mark.long
def test_an_answer_is_that_of_the_asker_with_each_fact_once() -> None:
    alone = tiny_asker().ask("hello Fact:")
    found = call(fact_server_of_tiny(), "ask", question="hello Fact:")
    assert (found["answer"], found["text"], found["unknown"]) == (alone.answer, alone.text, False)
    assert [one["text"] for one in found["facts"]] == list(dict.fromkeys(fact.text for fact in alone.facts))
    assert "the question is empty" in call(fact_server_of_tiny(), "ask", question=" ")


def test_there_are_the_tools_that_can_be_used(index: refactx.Index) -> None:
    assert tools(fact_server(index)) == TOOLS
    assert tools(fact_server_of_tiny())[-1] == "ask"
    check = checks_alone(tiny_asker(), index)
    assert tools(fact_server(index, check=check)) == [*TOOLS, "check_text"]
    assert "the text is empty" in call(fact_server(index, check=check), "check_text", text=" ")


def test_errors_do_not_tell_where_the_database_is(index: refactx.Index, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(*_: Any) -> Any:
        raise DatabaseError("postgresql://me:secret@db/kb cannot\nbe reached")

    text = call(fact_server(index, look_up=fails), "facts", subject="Ann")
    assert "the database does not answer" in text
    assert "db/kb" not in text
    assert "me:***@db/kb" in caplog.text
    assert "at most 4,000" in call(fact_server(index), "complete", prefix="<" * 5000)


def test_an_assistant_starts_the_server_over_stdio_without_loading_torch(database: str, tmp_path: Path) -> None:
    log = tmp_path / "loaded"
    code = (
        f"import atexit, sys; sys.argv = ['refactx', 'mcp', '--index', 'default', '--db', {database!r}]\n"
        f"atexit.register(lambda: open({str(log)!r}, 'w').write(str('torch' in sys.modules)))\n"
        "from refactx.cli.main import main; main()"
    )
    parameters = StdioServerParameters(command=sys.executable, args=["-c", code])
    assert call(parameters, "check_fact", fact="<Ann> <q> <Bo>")["exists"]
    assert log.read_text() == "False"


INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
CALL = {"method": "tools/call", "params": {"name": "facts", "arguments": {"subject": "Ann", "limit": 3}}}


def piped(database: str, *messages: dict[str, Any] | bytes) -> list[dict[str, Any]]:
    """What the server writes if all messages are its input, which then ends; they are numbered."""
    lines = [
        one if isinstance(one, bytes) else json.dumps({"jsonrpc": "2.0", "id": number, **one}).encode()
        for number, one in enumerate(messages)
    ]
    command = [str(Path(sys.executable).with_name("refactx")), "mcp", "--index", "default", "--db", database]
    done = subprocess.run(command, input=b"\n".join(lines), capture_output=True, timeout=120, check=True)
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_each_request_has_its_reply_if_input_ends_at_once(database: str) -> None:
    replies = piped(database, INITIALIZE, b'{"jsonrpc":"2.0","method":"notifications/initialized"}', *[CALL] * 20)
    found = {one["id"]: one["result"] for one in replies}
    assert len(replies) == len(found) == 21
    assert all(len(found[number]["structuredContent"]["facts"]) == 3 for number in range(2, 22))


def test_lines_that_are_no_messages_have_an_error_and_the_rest_is_answered(database: str) -> None:
    odd: list[Any] = [b"{", b"\xff", b"[]", b'"x"', b"[" * 100_000, b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}']
    replies = piped(database, INITIALIZE, *odd, b"", b'{"jsonrpc":"1.0","id":"me","method":"ping"}', {"method": "ping"})
    errors = [(one["id"], one["error"]["code"]) for one in replies if "error" in one]
    assert errors == [(None, code) for code in (-32700, -32700, -32600, -32600, -32700, -32700)] + [("me", -32600)]
    assert replies[-1] == {"jsonrpc": "2.0", "id": 9, "result": {}}


def test_requests_have_ids_and_batches_are_of_the_first_version(database: str) -> None:
    ping = {"jsonrpc": "2.0", "method": "ping"}
    batch = json.dumps(
        [{**ping, "id": 5}, {**ping, "id": None}, 7, {"jsonrpc": "2.0", "method": "notifications/x"}]
    ).encode()
    early = json.loads(json.dumps(INITIALIZE).replace("2025-06-18", "2025-03-26"))
    for first, taken in ((INITIALIZE, False), (early, True)):
        replies = piped(
            database, first, *({**ping, "id": one} for one in (1.5, None, True, [])), batch, {"method": "ping"}
        )
        errors = [one["error"]["code"] for one in replies if one.get("id") is None]
        assert errors == [-32600] * (6 if taken else 5)
        assert [one["id"] for one in replies if "result" in one] == [0, *([5] if taken else []), 6]


@pytest.mark.long
def test_it_ends_quietly_if_nobody_reads_its_replies_and_at_signals(database: str) -> None:
    command = [str(Path(sys.executable).with_name("refactx")), "mcp", "--index", "default", "--db", database]
    first = json.dumps({"jsonrpc": "2.0", "id": 0, **INITIALIZE}).encode() + b"\n"
    for number in (None, signal.SIGTERM, signal.SIGINT):
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, **pipes) as process:
            process.stdin.write(first)
            process.stdin.flush()
            assert process.stdout.readline()
            if number is None:
                process.stdout.close()
                process.stdin.write(first)
                process.stdin.flush()
            else:
                process.send_signal(number)
            assert process.wait(60) == (0 if number is None else -number)
            assert process.stderr.read() == b""


def test_arguments_that_do_not_fit_are_told_in_one_line(index: refactx.Index) -> None:
    server = fact_server(index)
    confidence = "Error executing tool facts: the argument subject is wrong: "
    assert call(server, "facts") == f"{confidence}Field required"
    assert call(server, "facts", subject=5) == f"{confidence}Input should be a valid string"
    for tool, given, most in (
        ("facts", {"subject": "Ann"}, 100),
        ("find", {"name": "Ann"}, 100),
        ("sparql", {"query": "ASK {}"}, 1000),
    ):
        for limit in (-1, 0, most + 1):
            said = call(server, tool, **given, limit=limit)
            assert said.startswith(f"Error executing tool {tool}: the argument limit is wrong: Input should be ")
            assert said.endswith(f" {most if limit > 0 else 1}")


def test_a_question_in_words_is_told_its_tool(index: refactx.Index) -> None:
    for asks in (None, asks_alone(tiny_asker())):
        server = fact_server(index, ask=asks)
        for question in ("Who is Ann?", "How many b has Ann", "count the rivers", "", "Who is <Ann>?", "<Ann>"):
            said = call(server, "query", query=question)
            assert ("are for the tool `ask`" in said, "`ask` of a server with a model" in said) == (True, asks is None)
        assert "SPARQL is for the tool `sparql`" in call(server, "query", query="SELECT ?x { ?x ?y ?z }")


@pytest.mark.long
def test_with_a_model_it_answers_over_stdio(database: str, tmp_path: Path) -> None:
    command = str(Path(sys.executable).with_name("refactx"))
    arguments = ["mcp", "--index", "default", "--db", database, "--model", str(save_tiny(tmp_path))]
    found = call(StdioServerParameters(command=command, args=arguments), "ask", question="hello Fact:")
    assert {one["text"].removesuffix(" .") for one in found["facts"]} <= set(FACTS)
    assert found["facts"]


@pytest.mark.long
def test_with_a_model_that_only_chats_its_facts_are_checked(database: str) -> None:
    command = str(Path(sys.executable).with_name("refactx"))
    with chat_stub() as stub:
        stub.reply = lambda _: "Fact: <Alaska> <p> <nowhere> .\nAnswer: nowhere"
        arguments = ["mcp", "--index", "default", "--db", database, "--model", "tiny", "--model-url", stub.url]
        found = call(StdioServerParameters(command=command, args=arguments), "ask", question="hello?")
    assert (found["answer"], found["facts"]) == ("I don't know.", [])
    assert "(not found)" in found["text"]


def test_mistakes_are_one_line() -> None:
    assert "give --index NAME for its facts, or --pack PACK" in complains("mcp")
    assert "--run-on: for the tools of a pack alone" in complains("mcp", "--index", "demo", "--run-on", "store")
