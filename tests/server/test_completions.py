"""Continuations of prompts: the model's own text, and facts of the index after a trigger, also within a fact."""

from typing import Any

import openai
import pytest
from support.server.running import Running
from support.tiny_asker import FACTS, LinkedIndex, chat_tokenizer
from support.tiny_model import tiny_fact_tokenizer, tiny_model

from refactx import ground

PROMPTS = ("hello Fact:", "Fact: <Ann> <p> <", "a b Fact: <B", "so it is")


def by_ground(prompt: str, tokens: int) -> tuple[str, list[str]]:
    """The continuation and its facts, by Transformers' own loop."""
    import torch

    tokenizer, model = chat_tokenizer(), tiny_model()
    grounded = ground(model, tokenizer, LinkedIndex(tiny_fact_tokenizer(), FACTS))
    ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
    out = grounded.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
    text = tokenizer.decode(out[0][ids.shape[1] :], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text, [fact.text for fact in grounded.facts(out)[0]]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_continuation_is_that_of_a_grounded_model(tiny: Running, prompt: str) -> None:
    text, facts = by_ground(prompt, 40)
    done = tiny.openai().completions.create(model="tiny", prompt=prompt, max_tokens=40)
    choice: Any = done.choices[0]
    assert choice.text == text
    assert [fact["text"] for fact in choice.refactx["facts"]] == facts
    assert done.usage is not None
    assert done.usage.completion_tokens == 40
    ids = chat_tokenizer().encode(prompt, add_special_tokens=False)
    assert tiny.openai().completions.create(model="tiny", prompt=ids, max_tokens=40).choices[0].text == text


@pytest.mark.parametrize("model", ["tiny", "tiny:free"])
def test_a_streamed_continuation_is_the_whole_one_in_pieces(tiny: Running, model: str) -> None:
    asked: dict[str, Any] = {"model": model, "prompt": "Fact: <Ann> <", "max_tokens": 40}
    whole: Any = tiny.openai().completions.create(**asked)
    chunks: list[Any] = list(
        tiny.openai().completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == whole.choices[0].text
    extra = [(chunk.choices[0].model_extra or {}).get("refactx", {}) for chunk in chunks[:-1]]
    placed = sorted(whole.choices[0].refactx["facts"], key=lambda fact: fact["span"])
    pieces = {one["fact"]["text"]: one["fact"] for one in reversed(extra) if "fact" in one}.values()
    assert [{**one, "proves": fact["proves"]} for one, fact in zip(reversed(pieces), placed, strict=True)] == placed
    assert bool(whole.choices[0].refactx["facts"]) == (model == "tiny")
    assert chunks[-1].usage == whole.usage
    assert chunks[-2].choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"echo": True},
        {"suffix": "x"},
        {"logprobs": 21},
        {"prompt": ["a", "b"]},
        {"prompt": []},
        {"prompt": ""},
        {"prompt": [1, 100_000]},
        {"prompt": [-1]},
        {"prompt": "a b " * 300},
        {"model": "tiny:answer"},
    ],
)
def test_what_cannot_be_continued_is_refused(tiny: Running, fields: dict[str, Any]) -> None:
    reply = tiny.post("/v1/completions", {"model": "tiny", "prompt": "a", **fields})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error"), reply.text


def test_prompts_of_one_and_sixteen_tokens_are_the_defaults(tiny: Running) -> None:
    one, other = (
        tiny.post("/v1/completions", {"model": "tiny", "prompt": prompt}).json() for prompt in ("hello", ["hello"])
    )
    assert one["choices"] == other["choices"]
    assert one["usage"]["completion_tokens"] == 16
    with pytest.raises(openai.NotFoundError):
        tiny.openai().completions.create(model="other", prompt="a")
