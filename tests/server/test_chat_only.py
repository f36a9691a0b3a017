"""A server in front of a model that only chats: what it tells as a fact exists, whatever the model writes."""

import json
from collections.abc import Iterator
from threading import Event
from typing import Any

import openai
import pytest
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import opened_tiny
from support.server.running import Running, eventually, running, said
from support.sparql.text_models import ChatStub, chat_stub, inventing

import refactx
from refactx.ask.answer import NOT_FOUND
from refactx.ask.chat_server import ChatServer, ServerRole

NAMES = {"Q1": "Alaska", "Q2": "Juneau", "Q3": "Bo", "P36": "capital", "P6": "mayor"}
LINES: list[Line] = [*(("label", number, name, "en") for number, name in NAMES.items())]
LINES += [("claim", "Q1", "P36", "Q2"), ("claim", "Q2", "P6", "Q3")]
FACTS = {"<Alaska> <capital> <Juneau> .": "Q1#P36", "<Juneau> <mayor> <Bo> .": "Q2#P6"}
ROLE = ServerRole(name="the model", option="--model-url", key="REFACTX_TEST_KEY", extra="client")
RIGHT = "I looked it up.\nFact: <Alaska> <capital> <Juneau> .\nAnswer: Juneau"
ASKED: dict[str, Any] = {"model": "tiny", "messages": said("capital of Alaska?")}


@pytest.fixture(scope="module")
def index(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[refactx.Index]:
    source = tmp_path_factory.mktemp("facts") / "graph.nt"
    with opened_tiny(module_url, source, map(written, LINES)) as opened:
        yield opened


@pytest.fixture(scope="module")
def stub() -> Iterator[ChatStub]:
    with chat_stub() as made:
        yield made


@pytest.fixture(scope="module")
def server(stub: ChatStub, index: refactx.Index) -> Iterator[Running]:
    with running(ChatServer("m", stub.url, ROLE, retries=0), index) as started:
        yield started


@pytest.fixture(scope="module")
def hasty(stub: ChatStub, index: refactx.Index) -> Iterator[Running]:
    """A server that does not wait for the model's for long."""
    with running(ChatServer("m", stub.url, ROLE, retries=0, seconds=0.5), index) as started:
        yield started


@pytest.fixture(autouse=True)
def right(stub: ChatStub) -> Iterator[None]:
    stub.reply, stub.calls, stub.requests = lambda _: RIGHT, lambda _: [], []
    yield
    stub.status, stub.missing = 200, 0


def streamed(client: openai.OpenAI, **more: Any) -> Any:
    """The last state of a chat's stream, as OpenAI's client joins it, and the facts and citations of its chunks."""
    text, facts, cited, last = "", [], [], None
    for chunk in client.chat.completions.create(**ASKED | more, stream=True):
        (choice,) = chunk.choices
        delta: Any = choice.delta
        text += delta.content or ""
        told = getattr(delta, "refactx", None) or {}
        facts += [told["fact"]] if "fact" in told else []
        cited += getattr(delta, "annotations", None) or []
        last = told if choice.finish_reason else last
    return text, facts, cited, last


def test_a_chat_has_its_facts_as_citations_and_the_tokens_of_all_requests(server: Running, stub: ChatStub) -> None:
    stub.calls = lambda request: [("complete", {"prefix": "<A"})] if len(stub.requests) == 1 else []
    done: Any = server.openai().chat.completions.create(**ASKED)
    message = done.choices[0].message
    assert message.content == RIGHT
    assert message.refactx["answer"] == "Juneau"
    (cited,) = message.annotations
    assert cited.url_citation.url == "https://www.wikidata.org/wiki/Q1#P36"
    begin, end = cited.url_citation.start_index, cited.url_citation.end_index
    assert RIGHT[begin:end] == "Fact: <Alaska> <capital> <Juneau> ."
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (200, 20)


def test_the_answer_alone_has_its_facts_before_it(server: Running) -> None:
    message: Any = server.openai().chat.completions.create(**ASKED | {"model": "tiny:answer"}).choices[0].message
    assert (message.content, len(message.annotations)) == ("Juneau", 1)
    assert message.reasoning == RIGHT.partition("\nAnswer")[0]


def test_without_facts_the_reply_is_passed_on_unchecked(server: Running, stub: ChatStub) -> None:
    stub.reply = lambda _: "Fact: <a> <b> <c> ."
    message: Any = server.openai().chat.completions.create(**ASKED | {"model": "tiny:free"}).choices[0].message
    assert (message.content, message.refactx["facts"]) == ("Fact: <a> <b> <c> .", [])
    assert "tools" not in stub.requests[-1]


def test_what_a_client_says_reaches_the_model(server: Running, stub: ChatStub) -> None:
    messages = [{"role": "system", "content": "In French."}, *said("Hi"), {"role": "assistant", "content": "Yes?"}]
    client = server.openai()
    client.chat.completions.create(model="tiny", messages=[*messages, *said("Capital?")], max_tokens=7, stop="So")
    sent = stub.requests[-1]
    assert "In French." in sent["messages"][0]["content"]
    assert [one["content"] for one in sent["messages"][-3:]] == ["Hi", "Yes?", "Capital?"]
    assert sent["max_tokens"] == 7


@pytest.mark.long
@pytest.mark.parametrize("variant", ["tiny", "tiny:answer"])
def test_facts_told_by_a_server_exist_though_every_answer_invents(
    server: Running, stub: ChatStub, variant: str
) -> None:
    client, told = server.openai(), 0
    invent = inventing(["Alaska", "Juneau", "Bo", "capital", "mayor", "Nome", "a>b"])
    for number in range(16):
        text = "\n".join([invent(""), *([RIGHT] if number % 2 else []), invent("")])
        stub.reply = lambda _, text=text: text  # type: ignore[misc]
        whole: Any = client.chat.completions.create(**ASKED | {"model": variant}).choices[0].message
        response: Any = client.responses.create(model=variant, input="capital of Alaska?")
        content, pieces, cited, last = streamed(client, model=variant)
        with client.responses.stream(model=variant, input="capital of Alaska?") as stream:
            events: Any = list(stream)
        facts = [fact["text"] for fact in whole.refactx["facts"]]
        told += len(facts)
        assert set(facts) <= set(FACTS)
        assert facts == [fact["text"] for fact in pieces] == [fact["text"] for fact in last["facts"]]
        assert facts == [fact["text"] for fact in response.refactx["facts"]]
        urls = [f"https://www.wikidata.org/wiki/{FACTS[fact]}" for fact in facts]
        flat = [one.url for one in response.output[-1].content[0].annotations]
        assert flat == [one.url_citation.url for one in whole.annotations] == urls
        assert urls == [one["url_citation"]["url"] for one in cited]
        assert content == whole.content == response.output_text == events[-1].response.output_text
        for line in (getattr(whole, "reasoning", None) or whole.content).splitlines():
            if "fact:" in line.casefold() and NOT_FOUND not in line:
                assert any(fact in line for fact in FACTS), line
    assert told


def test_options_of_sampling_are_passed_on(server: Running, stub: ChatStub) -> None:
    drawn = {"temperature": 0.7, "top_p": 0.9, "seed": 3}
    assert server.post("/v1/chat/completions", ASKED | drawn).status_code == 200
    assert server.post("/v1/chat/completions", ASKED).status_code == 200
    asked, plain = ({name: one[name] for name in drawn if name in one} for one in stub.requests)
    assert asked == drawn
    assert plain == {"temperature": 0}


REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("chat/completions", "logprobs", {"logprobs": True}),
    ("chat/completions", "response_format", {"response_format": {"type": "json_object"}}),
    ("chat/completions", "refactx.fact_beams", {"refactx": {"fact_beams": 2}}),
    ("chat/completions", "refactx.min_confidence", {"refactx": {"min_confidence": 2}}),
    ("chat/completions", "refactx.max_facts", {"refactx": {"max_facts": 2}}),
    ("chat/completions", "refactx.think", {"refactx": {"think": "on"}}),
    ("chat/completions", "tools", {"tools": [{"type": "function", "function": {"name": "f"}}]}),
    ("responses", "text.format", {"input": "a?", "text": {"format": {"type": "json_object"}}}),
    ("completions", "prompt", {"prompt": "Fact:"}),
]


@pytest.mark.parametrize(("path", "field", "more"), REFUSED)
def test_what_needs_scores_is_refused_by_name(
    server: Running, stub: ChatStub, path: str, field: str, more: dict[str, Any]
) -> None:
    reply = server.post(f"/v1/{path}", (ASKED if path == "chat/completions" else {"model": "tiny"}) | more)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, field)
    assert error["message"].startswith(f"{field} was given, and this server only chats: leave it out")
    assert not stub.requests


def test_an_effort_of_reasoning_is_left_to_the_model(server: Running) -> None:
    assert server.post("/v1/chat/completions", ASKED | {"reasoning_effort": "high"}).status_code == 200


def test_queries_are_answered_as_lines_alone(server: Running) -> None:
    assert server.post("/v1/query", {"question": "count <Alaska> <capital>"}).json()["answer"] == "1"
    refused = server.post("/v1/query", {"question": "How many capitals has Alaska?"})
    assert refused.status_code == 400
    assert "a question in words needs a model that scores ids" in refused.json()["error"]["message"]


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("status", "expected", "words"),
    [
        (429, 429, "has too many requests"),
        (500, 502, "cannot answer now"),
        (503, 503, "cannot answer now"),
        (401, 502, "cannot answer now"),
        (400, 400, "may be too long"),
    ],
)
def test_an_error_of_the_models_server_is_one_sentence_with_a_status(
    server: Running, stub: ChatStub, path: str, streams: bool, status: int, expected: int, words: str
) -> None:
    stub.status = status
    fails(server, stub, path, streams, expected, words)


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
@pytest.mark.parametrize("streams", [False, True])
def test_a_reply_that_is_cut_or_no_reply_is_one_sentence_with_a_status(
    server: Running, hasty: Running, stub: ChatStub, path: str, streams: bool
) -> None:
    stub.missing = 10
    fails(server, stub, path, streams, 502, "cannot answer now")
    stub.missing, ends = 0, Event()
    stub.reply = lambda _: str(ends.wait(60))
    fails(hasty, stub, path, streams, 504, "took too long")
    ends.set()


def fails(server: Running, stub: ChatStub, path: str, streams: bool, status: int, words: str) -> None:
    """A request fails with a status and words that do not tell where the model's server is, which the log does."""
    reply = server.post(f"/v1/{path}", ASKED | {"input": "a?", "stream": streams})
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, "model_server_error")
    assert words in error["message"]
    assert stub.url not in error["message"]
    assert ("retry-after" in reply.headers) == (status in (429, 503))
    assert eventually(lambda: any(stub.url in (line.get("error") or "") for line in server.requests[-1:]))
    kinds = {429: openai.RateLimitError, 400: openai.BadRequestError}
    with pytest.raises(kinds.get(status, openai.InternalServerError)):
        server.openai().chat.completions.create(**ASKED)


def test_an_error_in_the_middle_of_a_stream_is_its_last_event(stub: ChatStub, index: refactx.Index) -> None:
    ends = Event()
    stub.reply = lambda _: str(ends.wait(60))
    with running(ChatServer("m", stub.url, ROLE, retries=0, seconds=0.5), index, keep_alive=0.1) as server:
        reply = server.post("/v1/chat/completions", ASKED | {"stream": True})
    ends.set()
    *_, last = (line for line in reply.text.splitlines() if line.startswith("data: "))
    assert "took too long" in json.loads(last.removeprefix("data: "))["error"]["message"]
