"""Chat completions by OpenAI's client: the same texts as the asker's, with facts as citations."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest
from support.server.running import PROMPT, Running, asker_alone, running, said
from support.tiny_asker import FACTS, chat_tokenizer

from refactx.ask.prompt import Example

TOKENS = 60


def test_a_completion_is_the_text_of_the_asker_with_its_facts_as_citations(tiny: Running) -> None:
    alone = asker_alone().ask("hello Fact:", max_new_tokens=TOKENS)
    done = tiny.openai().chat.completions.create(model="tiny", messages=said("hello Fact:"), max_tokens=TOKENS)
    message = done.choices[0].message
    assert alone.facts
    assert message.content == alone.text
    assert done.choices[0].finish_reason == "length"
    assert done.usage is not None
    assert done.usage.completion_tokens == alone.tokens
    assert done.usage.prompt_tokens == len(PROMPT.ids(chat_tokenizer(), "hello Fact:"))
    assert message.annotations is not None
    for one, fact in zip(message.annotations, alone.facts, strict=True):
        span = message.content[one.url_citation.start_index : one.url_citation.end_index]
        assert span.removeprefix("Fact:").strip() == fact.text
        assert one.url_citation.url == "https://www.wikidata.org/wiki/Q1#P1"
    extra: Any = message.model_extra
    assert [fact["text"] for fact in extra["refactx"]["facts"]] == [fact.text for fact in alone.facts]
    assert extra["refactx"]["answer"] == alone.answer
    assert extra["refactx"]["forward_passes"] > 0


@pytest.mark.parametrize("model", ["tiny", "tiny:answer", "tiny:free"])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.9, "seed": 3}, {"stop": ["c", "."]}])
def test_a_stream_is_the_whole_text_in_pieces(tiny: Running, model: str, options: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": model, "messages": said("hello Fact:"), "max_tokens": TOKENS, **options}
    whole = tiny.openai().chat.completions.create(**asked)
    chunks = list(tiny.openai().chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    deltas: list[Any] = [chunk.choices[0].delta for chunk in chunks[:-1]]
    message: Any = whole.choices[0].message
    assert "".join(delta.content or "" for delta in deltas) == message.content
    assert deltas[0].role == "assistant"
    pieces = [(delta.model_extra or {}).get("reasoning", "") for delta in deltas]
    assert "".join(pieces).rstrip() == (message.model_extra or {}).get("reasoning", "")
    annotations = [one for delta in deltas for one in (delta.model_extra or {}).get("annotations", ())]
    assert annotations == [one.model_dump() for one in message.annotations]
    extra = [(delta.model_extra or {}).get("refactx", {}) for delta in deltas]
    assert _same(extra[-1], message.refactx, but="forward_passes" if "stop" in options else "")
    placed = sorted(message.refactx["facts"], key=lambda fact: fact["span"])
    pieces = {one["fact"]["text"]: one["fact"] for one in reversed(extra) if "fact" in one}.values()
    assert [{**one, "proves": fact["proves"]} for one, fact in zip(reversed(pieces), placed, strict=True)] == placed
    assert bool(message.refactx["facts"]) == (model != "tiny:free")
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage or "stop" in options  # a text may be some tokens ahead of its end
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason


def test_several_texts_are_those_of_seeds_that_count_up(tiny: Running) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": said("hello Fact:"), "max_tokens": 30, "temperature": 0.9}
    create = tiny.openai().chat.completions.create
    alone = [create(**asked, seed=seed) for seed in (5, 6, 7)]
    whole = create(**asked, seed=5, n=3)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    texts = [choice.message.content for choice in whole.choices]
    assert texts == [one.choices[0].message.content for one in alone]
    assert len({*texts}) > 1
    numbers = [one.usage for one in alone if one.usage is not None]
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == numbers[0].prompt_tokens
    assert whole.usage.completion_tokens == sum(number.completion_tokens for number in numbers)
    chunks = list(create(**asked, seed=5, n=3, stream=True, stream_options={"include_usage": True}))
    for number, text in enumerate(texts):
        own = [chunk.choices[0] for chunk in chunks[:-1] if chunk.choices[0].index == number]
        assert "".join(choice.delta.content or "" for choice in own) == text
        assert own[-1].finish_reason == whole.choices[number].finish_reason
    assert (chunks[-1].choices, chunks[-1].usage) == ([], whole.usage)


def test_several_texts_take_as_many_places(tiny: Running) -> None:
    with running(max_running=1, max_waiting=1) as server:
        asked = {"model": "tiny", "messages": said("hello"), "max_tokens": 3, "temperature": 1}
        assert len(server.post("/v1/chat/completions", {**asked, "n": 2}).json()["choices"]) == 2
        assert server.post("/v1/chat/completions", {**asked, "n": 3}).status_code == 429
        assert (server.service.slots.running, server.service.slots.waiting) == (0, 0)


def test_a_stream_ends_with_done_and_has_a_comment_in_silences(tiny: Running) -> None:
    body = {"model": "tiny", "messages": said("hello"), "max_tokens": 3, "stream": True}
    reply = tiny.post("/v1/chat/completions", body)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.text.endswith("data: [DONE]\n\n")


def test_the_model_without_facts_writes_what_the_asker_writes_freely(tiny: Running) -> None:
    alone = asker_alone().ask("hello Fact:", max_new_tokens=TOKENS, free=True)
    done = tiny.openai().chat.completions.create(model="tiny:free", messages=said("hello Fact:"), max_tokens=TOKENS)
    assert done.choices[0].message.content == alone.text


def test_the_answer_alone_has_the_rest_as_reasoning(tiny: Running) -> None:
    done = tiny.openai().chat.completions.create(
        model="tiny:answer",
        messages=said("hello Fact:"),
        max_tokens=TOKENS,
        extra_body={"refactx": {"max_facts": 1}},  # then the answer has to follow
    )
    alone = asker_alone().ask("hello Fact:", max_new_tokens=TOKENS, max_facts=1)
    message: Any = done.choices[0].message
    before, marker, _ = alone.text.partition("Answer:")
    assert marker
    assert message.content == alone.answer
    assert message.reasoning == message.reasoning_content == before.rstrip()
    proof = [one for one in alone.evidence if one.proves]  # (what the tiny model says is seldom in its facts)
    assert [one.url_citation.end_index for one in message.annotations] == [len(alone.answer)] * len(proof)


def test_sixteen_streams_at_once_are_not_mixed_up(tiny: Running) -> None:
    questions = [f"{word} {number} Fact:" for number in range(4) for word in ("hello", "a b", "who", "in Ann")]
    asker = asker_alone()
    alone = [asker.ask(question, max_new_tokens=40) for question in questions]

    def stream(question: str) -> tuple[str, list[str]]:
        with openai.OpenAI(base_url=f"{tiny.url}/v1", api_key="none", max_retries=0) as client:
            created = client.chat.completions.create(model="tiny", messages=said(question), max_tokens=40, stream=True)
            chunks = [chunk.choices[0].delta for chunk in created]
        facts = [(chunk.model_extra or {}).get("refactx", {}).get("fact") for chunk in chunks]
        return "".join(chunk.content or "" for chunk in chunks), [fact["text"] for fact in facts if fact]

    with ThreadPoolExecutor(len(questions)) as pool:
        found = list(pool.map(stream, questions))
    assert found == [(answer.text, [fact.text for fact in answer.facts]) for answer in alone]
    assert len({text for text, _ in found}) > 4


def test_earlier_turns_and_system_messages_are_those_of_the_asker(tiny: Running) -> None:
    messages: Any = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "Ann."},
        {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": " Fact:"}]},
    ]
    done = tiny.openai().chat.completions.create(model="tiny", messages=messages, max_completion_tokens=30)
    alone = asker_alone().ask("hello Fact:", history=[Example("Who?", "Ann.")], system="Be kind.", max_new_tokens=30)
    assert done.choices[0].message.content == alone.text


def test_options_are_those_of_generation(tiny: Running) -> None:
    done = tiny.openai().chat.completions.create(
        model="tiny",
        messages=said("hello Fact:"),
        max_tokens=50,
        temperature=0.8,
        top_p=0.9,
        seed=5,
        extra_body={"refactx": {"fact_beams": 2, "max_facts": 2}},
    )
    options = {"temperature": 0.8, "top_p": 0.9, "seed": 5, "fact_beams": 2, "max_facts": 2}
    assert done.choices[0].message.content == asker_alone().ask("hello Fact:", max_new_tokens=50, **options).text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function", "function": {}}]}, "tools.0.function.name"),
        ({"response_format": {"type": "json_object"}, "stop": "a"}, "stop"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"messages": []}, "messages"),
        ({"messages": said(" ")}, "messages"),
        ({"messages": [*said("a"), {"role": "assistant", "content": "b"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages.0"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages.0.tool_call_id"),
        ({"temperature": 3}, "temperature"),
        ({"refactx": {"beams": 3}}, "refactx.beams"),
        ({"model": "tiny:free", "refactx": {"fact_beams": 3}}, "refactx"),
        ({"stop": list("abcde")}, "stop"),
    ],
)
def test_what_would_change_the_meaning_is_refused_by_name(tiny: Running, fields: dict[str, Any], param: str) -> None:
    reply = tiny.post("/v1/chat/completions", {"model": "tiny", "messages": said("hello"), "max_tokens": 2, **fields})
    error = reply.json()["error"]
    assert (reply.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"]


def _same(some: dict[str, Any], other: dict[str, Any], but: str) -> bool:
    return {**some, but: 0} == {**other, but: 0}


def test_what_is_no_text_is_refused(tiny: Running) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (
        b'{"model": "tiny", "messages": [{"role": "user", "content": "\xff"}]}',
        b"{",
        b"",
        b"[]",
        b"[" * 100_000,
    ):
        reply = httpx2.post(f"{tiny.url}/v1/chat/completions", content=body, headers=headers)
        assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", b'{"model": "tiny", "messages": [{"role": "user", "content": %s}]}'),
        ("completions", b'{"model": "tiny", "prompt": %s}'),
        ("responses", b'{"model": "tiny", "input": "a", "instructions": %s}'),
        ("query", b'{"question": %s}'),
        ("translate", b'{"question": %s}'),
        ("facts/check", b'{"text": %s}'),
        ("check", b'{"text": %s}'),
    ],
)
def test_half_of_a_character_is_refused_and_a_whole_one_is_not(tiny: Running, path: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    for half, confidence in ((rb'"a \ud800"', "ud800"), (rb'"\uDE00\ud83d"', "ude00")):
        reply = httpx2.post(f"{tiny.url}/v1/{path}", content=body % half, headers=headers, timeout=60)
        assert reply.status_code == 400
        assert reply.json()["error"]["message"] == (
            f"the body of the request is no JSON that can be read: \\{confidence} is half of a surrogate pair, which is no "
            "character: send both halves, or neither"
        )
    raw = httpx2.post(f"{tiny.url}/v1/{path}", content=body % b'"\xed\xa0\x80"', headers=headers, timeout=60)
    assert (raw.status_code, "it is not UTF-8 at byte" in raw.text) == (400, True)
    whole = httpx2.post(f"{tiny.url}/v1/{path}", content=body % rb'"\ud83d\uDE00 \\ud800"', headers=headers, timeout=60)
    assert "surrogate" not in whole.text
    assert whole.status_code != 400, whole.text


def test_what_does_not_is_ignored(tiny: Running) -> None:
    asked = {"model": "tiny", "messages": said("hello"), "max_tokens": 2}
    ignored = {"user": "me", "metadata": {"a": "b"}, "store": True, "n": 1, "tools": [], "logprobs": False}
    ignored |= {"response_format": {"type": "text"}, "presence_penalty": 0.0, "parallel_tool_calls": True, "x": 1}
    plain, other = (tiny.post("/v1/chat/completions", body).json() for body in (asked, asked | ignored))
    assert plain["choices"] == other["choices"]


def test_other_models_and_paths_do_not_exist(tiny: Running) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        tiny.openai().chat.completions.create(model="gpt-5", messages=said("hello"))
    assert caught.value.code == "model_not_found"
    assert tiny.get("/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    assert tiny.get("/v1/chat/completions").status_code == 405


def test_a_question_that_is_too_long_is_refused(tiny: Running) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="the model takes at most 512"):
            tiny.openai().chat.completions.create(model="tiny", messages=said("long " * 400), stream=stream)


def test_the_models_are_listed(tiny: Running) -> None:
    client = tiny.openai()
    assert [model.id for model in client.models.list()] == ["tiny", "tiny:answer", "tiny:free"]
    assert client.models.retrieve("tiny:free").id == "tiny:free"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("tiny:other")


def test_facts_in_texts_are_facts_of_the_index(tiny: Running) -> None:
    for seed in range(5):
        done = tiny.openai().chat.completions.create(
            model="tiny", messages=said("Fact:"), max_tokens=80, temperature=1.5, seed=seed
        )
        extra: Any = done.choices[0].message.model_extra
        assert {fact["text"] for fact in extra["refactx"]["facts"]} <= {f"{fact} ." for fact in FACTS}
