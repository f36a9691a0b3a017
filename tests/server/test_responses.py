"""Responses by OpenAI's client: the same texts as chat completions, whole and as events."""

from typing import Any

import openai
import pytest
from support.server.running import Running, asker_alone, said

TOKENS = 60


@pytest.mark.parametrize("model", ["tiny", "tiny:answer", "tiny:free"])
@pytest.mark.parametrize("facts", [None, 1])
def test_a_response_is_the_chat_completion_in_another_form(tiny: Running, model: str, facts: int | None) -> None:
    extra: Any = {} if facts is None or model == "tiny:free" else {"refactx": {"max_facts": facts}}
    client = tiny.openai()
    chat: Any = client.chat.completions.create(
        model=model, messages=said("hello Fact:"), max_tokens=TOKENS, extra_body=extra
    )
    done: Any = client.responses.create(model=model, input="hello Fact:", max_output_tokens=TOKENS, extra_body=extra)
    message = chat.choices[0].message
    assert done.output_text == message.content
    flat = [one.model_dump() for one in done.output[-1].content[0].annotations]
    assert flat == [{"type": "url_citation", **one.url_citation.model_dump()} for one in message.annotations]
    assert done.refactx == message.refactx
    is_whole = chat.choices[0].finish_reason == "stop"
    assert (done.status, done.incomplete_details is None) == ("completed" if is_whole else "incomplete", is_whole)
    assert done.usage.output_tokens == chat.usage.completion_tokens
    assert [item.type for item in done.output] == (["reasoning"] if model == "tiny:answer" else []) + ["message"]
    if model == "tiny:answer":
        assert done.output[0].summary[0].text == message.reasoning


@pytest.mark.parametrize("model", ["tiny", "tiny:answer", "tiny:free"])
@pytest.mark.parametrize("facts", [None, 1])
def test_events_build_the_whole_response(tiny: Running, model: str, facts: int | None) -> None:
    asked: Any = {"model": model, "input": "hello Fact:", "max_output_tokens": TOKENS}
    if facts is not None and model != "tiny:free":
        asked["extra_body"] = {"refactx": {"max_facts": facts}}
    whole = tiny.openai().responses.create(**asked)
    with tiny.openai().responses.stream(**asked) as stream:
        events: list[Any] = list(stream)
    last = events[-1].response
    ignored = {"id", "created_at", "completed_at", "output"}
    dumps = [one.model_dump(exclude=ignored) for one in (last, whole)]
    for dump in dumps:
        dump.pop("parsed", None)
    assert dumps[0] == dumps[1]
    assert last.output_text == whole.output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-4:-1] == ["response.output_text.done", "response.content_part.done", "response.output_item.done"]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text == events[-4].text
    added = [dict(event.annotation) for event in events if event.type == "response.output_text.annotation.added"]
    expected: Any = whole.output[-1]
    assert added == [one.model_dump() for one in expected.content[0].annotations]
    opened = [event.item.id for event in events if event.type == "response.output_item.added"]
    closed = [event.item.id for event in events if event.type == "response.output_item.done"]
    assert opened == closed == [item.id for item in last.output]
    if model == "tiny:answer":
        pieces = [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"]
        reasoning: Any = whole.output[0]
        assert "".join(pieces).rstrip() == reasoning.summary[0].text


def test_instructions_and_earlier_items_are_those_of_the_asker(tiny: Running) -> None:
    from refactx.ask.prompt import Example

    items: Any = [
        {"role": "user", "content": "Who?"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Ann.", "annotations": []}],
        },
        {"role": "user", "content": [{"type": "input_text", "text": "hello Fact:"}]},
    ]
    done = tiny.openai().responses.create(model="tiny", input=items, instructions="Be kind.", max_output_tokens=30)
    alone = asker_alone().ask("hello Fact:", history=[Example("Who?", "Ann.")], system="Be kind.", max_new_tokens=30)
    assert done.output_text == alone.text
    assert done.instructions == "Be kind."


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "web_search"}]},
        {"previous_response_id": "resp_1"},
        {"text": {"format": {"type": "json_schema"}}},
        {"background": True},
        {"input": ""},
        {"input": []},
        {"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
    ],
)
def test_what_would_change_the_meaning_is_refused(tiny: Running, fields: dict[str, Any]) -> None:
    reply = tiny.post("/v1/responses", {"model": "tiny", "input": "hello", "max_output_tokens": 2, **fields})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error"), reply.text


def test_other_models_do_not_exist(tiny: Running) -> None:
    with pytest.raises(openai.NotFoundError):
        tiny.openai().responses.create(model="other", input="hello")
