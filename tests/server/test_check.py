"""Claims over HTTP and by assistants' tools: what the command says, in slots, with limits, and given up with the client."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from support.ingest.tiny import opened_tiny
from support.server.running import Running, eventually, running, served
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model

import refactx
from refactx.ask import claims
from refactx.ask.checked import CheckedAsker
from refactx.documents import claims_document, extracted_document, to_json
from refactx.mcp import checks_alone, fact_server
from refactx.server import ServingOptions, TextService

TEXT = "The p of Ann is b. Is it so?\n\nThe p of Zed is b.\n"
PROMPT = refactx.load_prompt("wikidata")


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[refactx.Index]:
    source = tmp_path_factory.mktemp("facts") / "facts.txt"
    with opened_tiny(module_url, source, ["<Ann> <p> <b> .", "<Ann> <p> <c> .", "<Bo> <q> <Ann> ."]) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(index: refactx.Index) -> Iterator[Running]:
    options = ServingOptions(name="tiny", max_running=1, max_waiting=1)
    with served([TextService(tiny_model(), chat_tokenizer(), index, options, prompt=PROMPT)]) as started:
        yield started


@pytest.fixture(autouse=True)
def _any_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LEAST_OF_NAMED", -1e9)


def asker(index: refactx.Index) -> refactx.Asker:
    return refactx.Asker(tiny_model(), chat_tokenizer(), index, PROMPT)


def call(server: Any, text: str) -> Any:
    """What the tool returns, or the text of its error."""

    async def ask() -> Any:
        async with Client(server) as client:
            done = await client.call_tool("check_text", {"text": text})
            return done.content[0].text if done.is_error else done.structured_content  # type: ignore[union-attr]

    return anyio.run(ask)


def test_claims_are_the_same_in_python_over_http_and_for_assistants(server: Running, index: refactx.Index) -> None:
    found = server.post("/v1/check", {"text": TEXT}).json()
    assert [one["verdict"] for one in found["claims"]] == ["holds", "not in the index"]
    assert [TEXT[one["start"] : one["end"]] for one in found["claims"]] == [one["text"] for one in found["claims"]]
    assert (found["sentences"], found["without_claim"]) == (3, 1)
    assert found["claims"][0]["fact"]["text"] in ("<Ann> <p> <b> .", "<Ann> <p> <c> .")
    assert found == to_json(claims_document(index, asker(index).check(TEXT)))
    told = call(fact_server(index, check=checks_alone(asker(index), index)), TEXT)
    for claim in told["claims"]:
        assert all(
            fact.pop("references") == [] for fact in (claim["fact"], claim["instead"]) if fact
        )  # as its schema has
    assert told == found
    assert server.service.slots.running == 0


def test_the_function_of_python_is_that_of_the_asker(index: refactx.Index) -> None:
    model = refactx.Asker(tiny_model(), chat_tokenizer(), index, PROMPT)._model
    assert refactx.check(index, TEXT, model).sentences == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" ", "the text is empty"),
        ("a" * 60_000, "the text has 60,000 characters: check at most 50,000 at once"),
        ("So. " * 600, "sentences: check at most 500 at once"),
    ],
)
def test_a_text_that_is_empty_or_too_long_is_refused(
    server: Running, index: refactx.Index, text: str, reason: str
) -> None:
    reply = server.post("/v1/check", {"text": text})
    assert (reply.status_code, reason in reply.json()["error"]["message"]) == (400, True)
    assert reason in call(fact_server(index, check=checks_alone(asker(index), index)), text)


@pytest.mark.parametrize(
    "text", ["Fact: <Ann> <p> <b> .", "<script>alert(1)</script> Ann is b.", "\0 \x1b[2J Ann is b."]
)
def test_hostile_texts_are_texts(server: Running, text: str) -> None:
    reply = server.post("/v1/check", {"text": text})
    assert reply.status_code == 200
    for one in reply.json()["claims"]:
        assert text[one["start"] : one["end"]] == one["text"]


def test_facts_of_a_text_are_the_same_in_python_and_over_http(server: Running, index: refactx.Index) -> None:
    text = "The p of Ann is Bo. The q of Bo is Ann."
    options = refactx.ExtractionOptions(min_confidence=-1e9)
    found = server.post("/v1/extract", {"text": text, "min_confidence": -1e9}).json()
    assert found == to_json(extracted_document(index, asker(index).extract(text, options)))
    assert found["facts"]
    for one in found["facts"]:
        assert text[one["start"] : one["end"]] == one["text"]
        assert {one["fact"]["subject"]["label"], one["fact"]["object"]["label"]} <= {"Ann", "Bo"}
    schema = {"predicates": {"says": {}}}
    given = {"text": text, "schema": schema, "new_names": "any", "min_confidence": -1e9}
    assert {one["fact"]["predicate"]["label"] for one in server.post("/v1/extract", given).json()["facts"]} == {"says"}


@pytest.mark.parametrize(
    ("given", "status", "reason"),
    [
        ({"text": " "}, 400, "the text is empty"),
        ({"text": "Ann.", "schema": {"predicates": {}}}, 400, "has to have tables"),
        ({"text": "Ann.", "schema": {"predicates": {"p": {"most": 0}}}}, 400, "whole number"),
        ({"text": "Ann.", "new_names": "typed"}, 400, "classes of a schema"),
        ({"text": "Ann.", "new_names": "some"}, 400, "new_names"),
    ],
)
def test_an_order_for_facts_that_is_wrong_is_refused(
    server: Running, given: dict[str, Any], status: int, reason: str
) -> None:
    reply = server.post("/v1/extract", given)
    assert (reply.status_code, reason in reply.json()["error"]["message"]) == (status, True), reply.text


def test_a_server_that_cannot_judge_says_so(index: refactx.Index, tiny: Running) -> None:
    assert tiny.post("/v1/check", {"text": TEXT}).status_code == 404  # its facts are in no database
    assert tiny.post("/v1/extract", {"text": TEXT}).status_code == 404
    with running(index=index) as server:  # its prompt has no channel
        assert "a prompt with `channel`" in server.post("/v1/check", {"text": TEXT}).json()["error"]["message"]
    chats: Any = CheckedAsker.__new__(CheckedAsker)
    assert checks_alone(chats, index) is None


def test_a_check_waits_for_its_turn_and_ends_with_its_client(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def check(text: str, *, cancelled: Callable[[], bool]) -> Any:
        begun.set()
        eventually(cancelled)
        ended.set()
        raise refactx.InputError("the check of a text was cancelled")

    monkeypatch.setattr(server.service.asker, "check", check)
    with httpx2.Client(timeout=httpx2.Timeout(60, read=0.5)) as client, pytest.raises(httpx2.ReadTimeout):
        client.post(f"{server.url}/v1/check", json={"text": TEXT})
    assert begun.is_set()
    assert ended.wait(60)
    eventually(lambda: server.service.slots.running == 0)


def test_too_many_checks_are_told_to_come_again(server: Running) -> None:
    slots = server.service.slots
    places = []

    async def fill() -> None:
        places.extend([slots.take(), slots.take()])

    anyio.run(fill)
    try:
        assert server.post("/v1/check", {"text": TEXT}).status_code == 429
    finally:
        for one in reversed(places):
            one.release()
