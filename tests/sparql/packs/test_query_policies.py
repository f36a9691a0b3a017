"""`refactx query --policy`, as a user types it: models on a server, the tiny model, and engines that run the query."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.ingest.living_index import LivingIndex
from support.sparql.endpoint import Canned, Endpoint, running
from support.sparql.text_models import ChatStub
from support.tiny_asker import save_tiny

from refactx.cli.main import cli
from refactx.errors import RefactxError
from refactx.sparql.store import open_store

PAGE = "https://www.wikidata.org/wiki/"
CHILDREN = "SELECT ?x { wd:entity1 wdt:relation1 ?x } ORDER BY ?x"
PGMR = f"```sparql\n{CHILDREN}\n```\nentity1 = [ENT] Ann [/ENT] a poet\nrelation1 = [REL] child [/REL]"


@pytest.fixture(scope="module")
def endpoint(stored: LivingIndex) -> Iterator[Endpoint]:
    with stored.open() as index, open_store(index) as store, running(store.oxigraph) as found:
        yield found


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), 20_000)


def run(living: LivingIndex, *arguments: object, **options: Any) -> Result:
    given = ["query", *map(str, arguments), "--db", living.url, "--index", living.name]
    return CliRunner().invoke(cli, given, **options)


def shown(living: LivingIndex, *arguments: object) -> str:
    done = run(living, *arguments)
    assert done.exit_code == 0, (done.exception, done.output)
    return done.stdout


def document(living: LivingIndex, *arguments: object) -> Any:
    return json.loads(shown(living, *arguments, "--json"))


def complaint(living: LivingIndex, *arguments: object) -> str:
    done = run(living, *arguments)
    assert isinstance(done.exception, RefactxError), (done.exception, done.output)
    assert done.stdout == ""
    return str(done.exception)


def at(server: ChatStub, policy: str, *more: object) -> tuple[object, ...]:
    return ("Whom?", "--policy", policy, "--model", "m", "--model-url", server.url, *more)


class TestModelsOnServers:
    def test_text_with_placeholders_is_resolved_and_run_on_the_store(
        self, stored: LivingIndex, server: ChatStub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REFACTX_MODEL_KEY", "secret")
        monkeypatch.setenv("OPENAI_API_KEY", "another server's")
        server.reply = lambda _: PGMR
        assert shown(stored, *at(server, "placeholders")).splitlines() == [
            "Question: Whom?",
            "Answer: Bob; Eve",
            "SPARQL:",
            "  SELECT ?x { wd:Q1 wdt:P3 ?x } ORDER BY ?x",
            "Name: entity1 [ENT] Ann [/ENT] a poet is Q1 Ann (a poet) (similarity 1.00)",
            "Name: relation1 [REL] child [/REL] is P3 child (similarity 1.00)",
            f"Row: Bob  {PAGE}Q3",
            f"Row: Eve  {PAGE}Q4",
            "",
        ]
        assert server.keys == ["Bearer secret"]
        (request,) = server.requests
        assert (request["model"], request["temperature"], request["messages"][-1]["content"]) == ("m", 0, "Whom?")

    def test_json_has_names_rows_and_with_explain_the_text(self, stored: LivingIndex, server: ChatStub) -> None:
        server.reply = lambda _: PGMR
        found = document(stored, *at(server, "placeholders", "--explain", "--limit", 1, "--run-on", "store"))
        assert (found["policy"], found["refused"], found["engine"]) == ("placeholders", None, "store")
        assert found["rows"] == [[{"label": "Bob", "id": "Q3", "url": f"{PAGE}Q3"}]]
        assert (found["variables"], found["truncated"], found["text"]) == (["x"], True, PGMR)
        assert {one["placeholder"]: one["id"] for one in found["names"]} == {"entity1": "Q1", "relation1": "P3"}

    def test_no_run_writes_without_running(self, people: LivingIndex, server: ChatStub) -> None:
        server.reply = lambda _: PGMR
        found = document(people, *at(server, "placeholders", "--no-run"))
        assert found["sparql"].startswith("SELECT ?x { wd:Q1")
        assert (found["rows"], found["engine"], found["failure"]) == (None, None, None)

    def test_ids_that_are_made_up_are_told_and_an_ask_is_yes_or_no(self, stored: LivingIndex, server: ChatStub) -> None:
        server.reply = lambda _: "ASK { wd:Q1 wdt:P3 wd:Q999 }"
        text = shown(stored, *at(server, "ids"))
        assert "Answer: no\n" in text
        assert "Made up: Q999, which the index does not have\n" in text
        found = document(stored, *at(server, "ids"))
        assert (found["truth"], found["made_up"]) == (False, ["Q999"])

    def test_rag_gives_names_to_the_model(self, stored: LivingIndex, server: ChatStub) -> None:
        server.reply = lambda asked: "SELECT ?x { wd:Q3 wdt:P4 ?x }" if "Q3 = Bob\n" in asked else "No."
        found = ("Who is the spouse of Bob?", *at(server, "rag")[1:])
        assert document(stored, *found)["rows"] == [[{"label": "Dan", "id": "Q5", "url": f"{PAGE}Q5"}]]

    def test_a_query_beyond_the_tree_says_what_can_answer_it(self, people: LivingIndex, server: ChatStub) -> None:
        server.reply = lambda _: "SELECT ?x ?y { ?x wdt:P3 ?y }"
        text = shown(people, *at(server, "ids"))
        assert "Not answered: without a store, an index answers queries of one chain of facts alone" in text
        assert "refactx store build" in text

    @pytest.mark.parametrize("policy", ["placeholders", "ids", "rag"])
    def test_a_refused_query_is_never_run(
        self, people: LivingIndex, server: ChatStub, endpoint: Endpoint, policy: str
    ) -> None:
        endpoint.requests.clear()
        for reply in (
            "I cannot.",
            "SELECT ?x { wd:Q1",
            PGMR.replace("Ann", "Zebulon") if policy == "placeholders" else "ASK",
        ):
            server.reply = lambda _, reply=reply: reply  # type: ignore[misc]
            lines = shown(people, *at(server, policy, "--run-on", endpoint.url)).splitlines()
            assert lines[1].startswith("Refused: ")
            assert len(lines) == 3
        assert endpoint.requests == []

    def test_an_endpoint_runs_the_query(self, people: LivingIndex, server: ChatStub, endpoint: Endpoint) -> None:
        server.reply = lambda _: PGMR
        assert "Answer: Bob; Eve\n" in shown(people, *at(server, "placeholders", "--run-on", endpoint.url))

    def test_a_refusal_names_what_is_nearest(self, people: LivingIndex, server: ChatStub) -> None:
        server.reply = lambda _: PGMR.replace("Ann", "Bobb").replace(" a poet", "")
        text = shown(people, *at(server, "placeholders", "--tau", 0.99))
        assert (
            "Refused: no entity of the memory is like <Bobb>: the nearest is <Bob>, with a similarity of 0.86" in text
        )


class TestOurModels:
    """The tiny model has random weights: what matters is that each policy answers or says why not."""

    @pytest.mark.parametrize(
        "policy", ["from-walk", "harvest", "ids", "rag", "placeholders", "rag-placeholders", "constrained"]
    )
    def test_each_policy_answers_or_refuses(self, people: LivingIndex, tiny: Path, policy: str) -> None:
        found = document(people, "Which child has Bob?", "--policy", policy, "--model", tiny, "--run-on", "tree")
        assert found["policy"] == policy
        assert (found["sparql"] is None) == (found["refused"] is not None)
        if policy in ("ids", "rag", "placeholders", "rag-placeholders"):
            assert found["refused"] == "the model wrote no SELECT or ASK query"

    def test_constrained_text_is_a_query_or_none(self, people: LivingIndex, tiny: Path) -> None:
        found = document(people, "Which child has Bob?", "--policy", "constrained", "--model", tiny, "--explain")
        assert found["text"] == "" or "{" in found["text"]
        assert found["made_up"] == []

    @pytest.mark.parametrize(
        ("given", "policy"),
        [
            (("strict",), "from-walk"),
            (("direct",), "ids"),
            (("open",), "constrained"),
            (("open", "--no-grammar"), "placeholders"),
            (("constrained", "--no-grammar"), "placeholders"),
        ],
    )
    def test_names_of_earlier_releases_still_mean_a_policy(
        self, people: LivingIndex, tiny: Path, given: tuple[str, ...], policy: str
    ) -> None:
        found = document(people, "Which child has Bob?", "--run-on", "tree", "--model", tiny, "--policy", *given)
        assert found["policy"] == policy

    def test_a_walk_line_needs_no_model_and_runs_on_any_engine(self, stored: LivingIndex) -> None:
        found = document(stored, "count <Ann (a poet)> <child>", "--run-on", "store")
        assert (found["engine"], found["rows"]) == ("store", [[{"literal": "2"}]])


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (("--policy", "placeholders"), "'Who?' is a question in words, which needs a model"),
            (
                ("--policy", "placeholders", "--model-url", "http://127.0.0.1/v1"),
                "--model-url needs the name of a model",
            ),
            (
                ("--policy", "open", "--model", "m", "--model-url", "localhost"),
                "'localhost' is not the URL of a server",
            ),
            (
                ("--policy", "harvest", "--model", "m", "--model-url", "http://a"),
                "--policy harvest needs a model whose",
            ),
            (
                ("--policy", "constrained", "--model", "m", "--model-url", "http://a"),
                "--policy constrained needs a model whose",
            ),
            (("--policy", "ids", "--model", "m", "--tau", "0.5"), "--tau is of names that a memory resolves"),
            (("--policy", "ids", "--model", "m", "--run-on", "trie"), "--run-on trie is no engine"),
            (("--policy", "ids", "--model", "m", "--run-on", "ftp://a"), "begins with http:// or https://"),
            (
                ("--policy", "open", "--model", "m", "--model-url", "http://a", "--sparql-prompt", "x.toml"),
                "no prompt x",
            ),
        ],
    )
    def test_options_that_cannot_be_used_are_one_clear_line(
        self, people: LivingIndex, options: tuple[str, ...], expected: str
    ) -> None:
        assert expected in complaint(people, "Who?", *options)

    def test_a_model_that_is_down_or_refuses_is_one_clear_line(self, people: LivingIndex, server: ChatStub) -> None:
        server.status = 404
        assert "refused the request for model 'm': " in complaint(people, *at(server, "placeholders"))
        server.status = 401
        assert "did not accept the key: set REFACTX_MODEL_KEY" in complaint(people, *at(server, "ids"))
        server.status, server.body = 200, b"<html>"
        assert "is not a chat completion" in complaint(people, *at(server, "ids"))
        server.close()
        url = server.url.replace("//", "//me:secret@")
        message = complaint(people, "Who?", "--policy", "open", "--model", "m", "--model-url", url)
        assert "cannot be reached: check --model-url" in message
        assert "secret" not in message

    def test_an_endpoint_that_is_down_is_one_clear_line(
        self, people: LivingIndex, server: ChatStub, endpoint: Endpoint
    ) -> None:
        server.reply, endpoint.always = (lambda _: PGMR), Canned(403, "text/plain", b"no")
        try:
            assert "127.0.0.1" in complaint(people, *at(server, "placeholders", "--run-on", endpoint.url))
        finally:
            endpoint.always = None
