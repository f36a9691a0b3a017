"""How likely tokens were: what the model picked, among what might follow, and what the index gave."""

import math
from typing import Any

import pytest
import torch
from support.server.running import Running, asker_alone, said
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model


def complete(server: Running, **fields: Any) -> Any:
    asked: dict[str, Any] = {"model": "tiny", "prompt": "hello Fact:", "max_tokens": 40, "logprobs": 3, **fields}
    return server.openai().completions.create(**asked)


def test_in_free_text_they_are_those_of_the_model(tiny: Running) -> None:
    tokenizer, model = chat_tokenizer(), tiny_model()
    ids, expected, tops = tokenizer.encode("hello", add_special_tokens=False), list[float](), list[list[float]]()
    with torch.no_grad():
        for _ in range(12):
            row = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            ids.append(int(row.argmax()))
            if ids[-1] < len(tiny.service.model.token_bytes):  # else it has no text
                expected.append(float(row.max()))
                tops.append(row.topk(3).values.tolist())
    choice = complete(tiny, model="tiny:free", prompt="hello", max_tokens=12).choices[0]
    found = choice.logprobs
    assert found.token_logprobs == pytest.approx(expected, abs=1e-4)
    for top, values in zip(found.top_logprobs, tops, strict=True):
        assert max(top.values()) == pytest.approx(values[0], abs=1e-4)
        assert all(any(one == pytest.approx(value, abs=1e-4) for value in values) for one in top.values())
    assert_placed(found, choice.text)
    assert not any(found.model_extra["refactx"]["forced"])


def assert_placed(found: Any, text: str) -> None:
    """Fail unless tokens of whole letters stand where they are said to."""
    assert found.text_offset == sorted(found.text_offset)
    for before, token, at in zip(found.tokens, found.tokens[1:], found.text_offset[1:], strict=False):
        if (before + token).isascii():
            assert text[at : at + len(token)] == token


def test_in_a_fact_they_are_among_what_may_follow_and_the_rest_is_marked(tiny: Running) -> None:
    choice = complete(tiny).choices[0]
    found, (fact, *_) = choice.logprobs, choice.refactx["facts"]
    assert_placed(found, choice.text)
    forced = found.model_extra["refactx"]["forced"]
    begin, end = fact["span"]
    within = [n for n, at in enumerate(found.text_offset) if begin <= at < end - 1]
    assert any(forced[n] for n in within)
    picked = [n for n in within if not forced[n]]
    assert picked
    for n in range(len(forced)):
        logprob, top = found.token_logprobs[n], found.top_logprobs[n]
        assert (logprob, top) == (0, {}) if forced[n] else logprob <= 0
    for n in picked:  # all that may follow has a share, and no more than that
        assert sum(map(math.exp, found.top_logprobs[n].values())) <= 1 + 1e-6
        assert max(found.top_logprobs[n].values()) == pytest.approx(found.token_logprobs[n])


@pytest.mark.parametrize("stream", [False, True])
def test_chats_have_them_with_bytes(tiny: Running, stream: bool) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": said("hello Fact:"), "max_tokens": 40, "stop": "zz"}
    asked |= {"logprobs": True, "top_logprobs": 2}
    client: Any = tiny.openai()
    if stream:
        chunks = [chunk for chunk in client.chat.completions.create(**asked, stream=True) if chunk.choices]
        text, content = (
            "".join(one.choices[0].delta.content or "" for one in chunks),
            chunks[-1].choices[0].logprobs.content,
        )
    else:
        choice = client.chat.completions.create(**asked).choices[0]
        text, content = choice.message.content, choice.logprobs.content
    assert text == asker_alone().ask("hello Fact:", max_new_tokens=40).text
    assert b"".join(bytes(one.bytes) for one in content).decode("utf-8", "replace").strip() == text.strip()
    assert all(len(one.top_logprobs) <= 2 for one in content)
    assert any((one.model_extra or {}).get("refactx") == {"forced": True} for one in content)


def test_without_being_asked_for_there_are_none(tiny: Running) -> None:
    for nothing in (None, False):
        assert complete(tiny, logprobs=nothing).choices[0].logprobs is None
    done = tiny.openai().chat.completions.create(model="tiny", messages=said("hello"), max_tokens=5, logprobs=False)  # type: ignore[arg-type]
    assert done.choices[0].logprobs is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"logprobs": True, "model": "tiny:answer"}, "whole texts"),
        ({"logprobs": True, "response_format": {"type": "json_object"}}, "whole texts"),
        ({"top_logprobs": 2}, "top_logprobs needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ],
)
def test_where_there_are_none_they_are_refused(tiny: Running, fields: dict[str, Any], says: str) -> None:
    reply = tiny.post("/v1/chat/completions", {"model": "tiny", "messages": said("hello"), "max_tokens": 5, **fields})
    assert (reply.status_code, says in reply.json()["error"]["message"]) == (400, True), reply.text
