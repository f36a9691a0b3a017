"""Models that only chat: what is shown as a fact exists, whatever the model writes, and tools tell what there is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.ingest.tiny import opened_tiny
from support.sparql.text_models import ChatStub, chat_stub, inventing

import refactx
from refactx.ask.chat_server import ChatServer, ServerRole
from refactx.ask.checked import CORRECTIONS, NOT_FOUND, CheckedAsker
from refactx.ask.prompt import Prompt

FACTS = ["<Alaska> <capital> <Juneau>", "<Alaska> <mayor> <Bo>", "<Bo> <likes> <tea>", "<Bo> <likes> <milk>"]
ROLE = ServerRole(name="the model", option="--model-url", key="REFACTX_TEST_KEY", extra="client")
RIGHT = "Fact: <Alaska> <capital> <Juneau> .\nAnswer: Juneau"
WRONG = "Fact: <Alaska> <capital> <Nome> .\nAnswer: Nome"


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[refactx.Index]:
    source = tmp_path_factory.mktemp("facts") / "facts.txt"
    with opened_tiny(module_url, source, (f"{fact} ." for fact in FACTS)) as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[ChatStub]:
    with chat_stub() as stub:
        yield stub


def asker(server: ChatStub, index: refactx.Index) -> CheckedAsker:
    return CheckedAsker(ChatServer("m", server.url, ROLE), index, Prompt(system="Be true."))


def test_a_right_answer_is_taken_as_it_is(server: ChatStub, index: refactx.Index) -> None:
    server.reply = lambda _: RIGHT
    asked = asker(server, index)
    answer = asked.ask("capital of alaska?")
    assert (answer.answer, [fact.text for fact in answer.facts]) == ("Juneau", ["<Alaska> <capital> <Juneau> ."])
    assert answer.text == RIGHT
    assert str(asked.usage) == "1 request, 100 prompt tokens, 10 written"


def test_a_fact_that_does_not_exist_is_taken_back_with_the_nearest_one(server: ChatStub, index: refactx.Index) -> None:
    server.reply = lambda said: RIGHT if "cannot be found" in said else WRONG
    answer = asker(server, index).ask("capital of alaska?")
    assert answer.text == RIGHT
    assert "<Alaska> <capital> <Juneau> ." in server.requests[1]["messages"][-1]["content"]


def test_what_stays_wrong_is_marked_and_is_no_fact(server: ChatStub, index: refactx.Index) -> None:
    server.reply = lambda _: f"Fact: Alaska is cold\n{WRONG}"
    answer = asker(server, index).ask("capital of alaska?")
    assert answer.text.splitlines() == [
        f"Fact: Alaska is cold {NOT_FOUND}",
        f"Fact: <Alaska> <capital> <Nome> . {NOT_FOUND}",
        "Answer: Nome",
        "Answer: I don't know.",
    ]
    assert not answer.facts
    assert answer.unknown
    assert len(server.requests) == 1 + CORRECTIONS


def test_tools_tell_what_the_index_has(server: ChatStub, index: refactx.Index) -> None:
    calls = [
        ("complete", {"prefix": "<A"}),
        ("facts", {"subject": "alaska", "predicate": "capital"}),
        ("query", {"line": "count <Bo> <likes>"}),
        ("check", {"fact": "<Alaska> <capital> <Nome>"}),
        ("query", {"line": "nonsense"}),
        ("sing", {}),
        ("facts", {"subject": "Alasca"}),
    ]
    server.calls = lambda request: calls if request["messages"][-1]["role"] == "user" else []
    server.reply = lambda _: RIGHT
    assert asker(server, index).ask("capital of alaska?").facts
    told = [json.loads(one["content"]) for one in server.requests[1]["messages"] if one["role"] == "tool"]
    assert told[0]["completions"] == ["<Alaska>"]
    assert told[1]["facts"] == ["<Alaska> <capital> <Juneau> ."]
    assert told[2] == {"answer": "2"}
    assert told[3][0]["exists"] is False
    assert "error" in told[4]
    assert "error" in told[5]
    assert told[6]["near"] == ["Alaska"]


def test_calls_of_tools_end(server: ChatStub, index: refactx.Index) -> None:
    server.calls = lambda request: [("complete", {"prefix": "<"})] if "tools" in request else []
    server.reply = lambda _: RIGHT
    assert asker(server, index).ask("capital of alaska?").facts


def test_a_server_without_tools_is_asked_without(server: ChatStub, index: refactx.Index) -> None:
    why = '"auto" tool choice requires --enable-auto-tool-choice to be set'
    server.refuses = lambda request: why if "tools" in request else None
    server.reply = lambda _: RIGHT
    assert asker(server, index).ask("capital of alaska?").facts


@pytest.mark.long
def test_no_fact_of_a_model_that_invents_is_shown_as_true(server: ChatStub, index: refactx.Index) -> None:
    server.reply = inventing(["tea", "Alaska", "Juneau", "Bo", "likes", "capital", "Nome", "", "a>b", "Álaska"])
    asked: Any = asker(server, index)
    for _ in range(1_000 // (1 + CORRECTIONS)):
        answer = asked.ask("what does bo like?")
        assert {fact.text.removesuffix(" .") for fact in answer.facts} <= set(FACTS)
        for line in answer.text.splitlines():
            if "fact:" in line.casefold() and NOT_FOUND not in line:
                assert any(fact in line for fact in FACTS), line
