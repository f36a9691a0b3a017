"""Thoughts of models by clients of OpenAI's API: beside the content, whole and in streams."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.server.running import PROMPT, Running, eventually, running, said
from support.thinking_model import Script, scripted_model, thinking_tokenizer
from support.tiny_asker import LinkedIndex
from support.tiny_model import one_thread, tiny_fact_tokenizer  # noqa: F401

from refactx.errors import InputError

FACTS = ("<Ann> <p> <b>", "<Ann> <p> <c>")
THOUGHT = "I look.\nFact: <Ann> <p> <b> .\nAnswer: no"
CONTENT = "Fact: <Ann> <p> <c> .\nAnswer: c"
TEXT = f"{THOUGHT}\n</think>\n\n{CONTENT}"
QUESTION = "Who?"


@pytest.fixture(scope="module")
def thinks() -> Iterator[tuple[Running, Script]]:
    """A server whose model thinks and answers as `TEXT` has it, from the first id after its prompt on."""
    tokenizer = thinking_tokenizer("option")
    index = LinkedIndex(tiny_fact_tokenizer(), FACTS)
    with (
        scripted_model(tokenizer) as (model, script),
        running(model, index, tokenizer=tokenizer, max_tokens=200) as server,
    ):
        assert eventually(lambda: server.service.is_warm)
        script.say(len(PROMPT.ids(tokenizer, QUESTION, think=True)), TEXT)
        yield server, script


def asked(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": said(QUESTION), "reasoning_effort": "medium", **more}


@pytest.mark.parametrize("model", ["tiny", "tiny:answer"])
def test_a_thought_is_the_reasoning_of_a_message(thinks: tuple[Running, Script], model: str) -> None:
    server, _ = thinks
    done = server.post("/v1/chat/completions", asked(model=model)).json()
    message = done["choices"][0]["message"]
    alone = model == "tiny:answer"
    assert message["content"] == ("c" if alone else CONTENT)
    before = CONTENT.partition("\nAnswer:")[0]
    assert message["reasoning_content"] == message["reasoning"] == (f"{THOUGHT}\n\n{before}" if alone else THOUGHT)
    assert message["refactx"]["answer"] == "c"
    facts = sorted(message["refactx"]["facts"], key=lambda fact: not fact["in_thought"])
    assert [fact["proves"] for fact in facts] == [False, True]
    assert [(fact["text"], fact["in_thought"]) for fact in facts] == [(f"{FACTS[0]} .", True), (f"{FACTS[1]} .", False)]
    for fact, text in zip(facts, (THOUGHT, CONTENT), strict=True):
        assert text[slice(*fact["span"])] == f"Fact: {fact['text']}"
    cited = [one["url_citation"] for one in message["annotations"]]
    spans = [(one["start_index"], one["end_index"]) for one in cited]
    assert spans == [(0, len(message["content"])) if alone else tuple(facts[1]["span"])]
    assert 0 < done["usage"]["completion_tokens_details"]["reasoning_tokens"] < done["usage"]["completion_tokens"]


@pytest.mark.parametrize("model", ["tiny", "tiny:answer"])
def test_a_stream_has_the_thought_as_reasoning(thinks: tuple[Running, Script], model: str) -> None:
    server, _ = thinks
    whole: Any = server.openai().chat.completions.create(**asked(model=model)).choices[0].message
    deltas: list[Any] = [
        chunk.choices[0].delta for chunk in server.openai().chat.completions.create(**asked(model=model), stream=True)
    ]
    pieces = [getattr(delta, "reasoning_content", None) for delta in deltas]
    assert "".join(piece or "" for piece in pieces).rstrip() == whole.reasoning_content
    assert "".join(delta.content or "" for delta in deltas) == whole.content
    cited = [one for delta in deltas for one in getattr(delta, "annotations", None) or ()]
    assert cited == [one.model_dump() for one in whole.annotations]
    assert deltas[-1].refactx == whole.refactx


@pytest.mark.parametrize("model", ["tiny", "tiny:answer"])
def test_a_response_has_the_thought_as_an_item(thinks: tuple[Running, Script], model: str) -> None:
    server, _ = thinks
    asks: Any = {"model": model, "input": QUESTION, "reasoning": {"effort": "medium"}}
    whole = server.openai().responses.create(**asks)
    assert [item.type for item in whole.output] == ["reasoning", "message"]
    first: Any = whole.output[0]
    assert first.summary[0].text.startswith(THOUGHT)
    assert whole.output_text == ("c" if model == "tiny:answer" else CONTENT)
    assert whole.usage is not None and whole.usage.output_tokens_details.reasoning_tokens > 0
    with server.openai().responses.stream(**asks) as stream:
        events: list[Any] = list(stream)
    last = events[-1].response
    assert last.output_text == whole.output_text
    pieces = [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"]
    assert "".join(pieces).rstrip() == first.summary[0].text
    assert [event.output_index for event in events if event.type == "response.output_item.added"] == [0, 1]


def test_json_comes_after_the_thought_and_the_text(thinks: tuple[Running, Script]) -> None:
    server, _ = thinks
    schema = {"items": {"x-refactx": "object"}, "type": "array", "minItems": 1, "maxItems": 1}
    form: Any = {"type": "json_schema", "json_schema": {"name": "found", "schema": schema}}
    create = server.openai().chat.completions.create
    whole: Any = create(**asked(response_format=form)).choices[0].message
    assert whole.reasoning_content == f"{THOUGHT}\n\n{CONTENT}"
    assert json.loads(whole.content) in (["b"], ["c"])
    deltas: list[Any] = [chunk.choices[0].delta for chunk in create(**asked(response_format=form), stream=True)]
    pieces = [getattr(delta, "reasoning_content", None) or "" for delta in deltas]
    assert ("".join(pieces).rstrip(), "".join(delta.content or "" for delta in deltas)) == (
        whole.reasoning_content,
        whole.content,
    )


def test_a_thought_is_asked_for_in_three_ways(thinks: tuple[Running, Script]) -> None:
    server, script = thinks

    def tokens(**fields: Any) -> int:
        found = server.post("/v1/chat/completions", {**asked(), "reasoning_effort": None, **fields}).json()
        return int(found["usage"]["completion_tokens_details"]["reasoning_tokens"])

    assert tokens() == 0
    assert tokens(reasoning_effort="none") == tokens(refactx={"think": "off"}, reasoning_effort="high") == 0
    assert tokens(refactx={"think": "on"}) == tokens(reasoning_effort="low") > 20
    assert 0 < tokens(refactx={"think": 12}) <= 12
    then, script.then = script.then, script.ids[0]
    ids, script.ids = script.ids, []
    try:
        done = server.post("/v1/chat/completions", asked(max_tokens=40)).json()
        assert 38 <= done["usage"]["completion_tokens"] <= 40, "the thought counts"
        assert 18 <= done["usage"]["completion_tokens_details"]["reasoning_tokens"] <= 20
        assert done["choices"][0]["finish_reason"] == "length"
    finally:
        script.then, script.ids = then, ids


def test_stop_texts_end_the_answer_and_not_the_thought(thinks: tuple[Running, Script]) -> None:
    server, _ = thinks
    message = server.post("/v1/chat/completions", asked(stop=["Answer:", "look"])).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (THOUGHT, CONTENT.partition("\nAnswer:")[0])


def test_a_server_may_think_by_default() -> None:
    tokenizer = thinking_tokenizer("option")
    with (
        scripted_model(tokenizer) as (model, script),
        running(model, LinkedIndex(tiny_fact_tokenizer(), FACTS), tokenizer=tokenizer, think=100) as server,
    ):
        assert eventually(lambda: server.service.is_warm)
        script.say(len(PROMPT.ids(tokenizer, QUESTION, think=True)), TEXT)
        message = server.post("/v1/chat/completions", {"model": "tiny", "messages": said(QUESTION)}).json()
        assert message["choices"][0]["message"]["reasoning_content"] == THOUGHT


def test_a_model_without_thoughts_ignores_efforts_and_refuses_what_is_meant(tiny: Running) -> None:
    plain, asks = ({"model": "tiny", "messages": said("hello"), "max_tokens": 4} for _ in range(2))
    both = [tiny.post("/v1/chat/completions", one).json() for one in (plain, {**asks, "reasoning_effort": "high"})]
    assert both[0]["choices"] == both[1]["choices"]
    refused = tiny.post("/v1/chat/completions", {**asks, "refactx": {"think": "on"}})
    assert (refused.status_code, "cannot think" in refused.text) == (400, True)
    with pytest.raises(InputError, match="cannot be told to think"), running(think=10):
        pass
