"""Rows with channels in one call: each has the text that it has alone, and each needs a channel of its own."""

from typing import Any

import pytest
import torch
from support.channel_runs import ALWAYS, GRAPH, QUESTIONS, channel, llama
from support.loop_runs import Streamer
from support.tiny_model import (
    check_text,
    eager,
    ids,
    one_thread,  # noqa: F401
    prompts,
    read_as,  # noqa: F401
    tiny_index,
    tiny_tokenizer,
)

from refactx.ask.grounded import GroundedModel, ground
from refactx.errors import InputError

INDEX = tiny_index(GRAPH)
TEXTS = ("a Fact:", "so Fact: <B", "hello", "Fact: <Ann> <p> <b> .\nin")
OPTIONS: dict[str, Any] = {"max_new_tokens": 60, "do_sample": False}


def grounded(seed: int = 0) -> GroundedModel:
    return ground(llama(seed), tiny_tokenizer(), INDEX)


@pytest.mark.usefixtures("read_as")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("limits", [{}, {"max_facts": 2, "after_facts": "Answer:"}])
def test_each_row_has_the_text_that_it_has_alone(seed: int, limits: dict[str, Any]) -> None:
    model, inputs = grounded(seed), prompts(*TEXTS)
    length = inputs["input_ids"].shape[1]

    def write(inputs: Any, *numbers: int) -> Any:
        channels = [channel(INDEX, QUESTIONS[n], again=ALWAYS, values=2) for n in numbers]
        return model.generate(**inputs, channel=channels, logits_processor=eager(), **OPTIONS, **limits)

    together = write(inputs, 0, 1, 2, 3)
    found = model.facts(together)
    for n, text in enumerate(TEXTS):
        alone, end = write(own := prompts(text), n), together.grounding.lengths[n]
        assert together[n, length:end].tolist() == alone[0, own["input_ids"].shape[1] :].tolist()
        assert [fact.text for fact in found[n]] == [fact.text for fact in model.facts(alone)[0]]
        if not limits:
            check_text(INDEX, together[n].tolist(), length, found[n])
    assert sum(map(len, found)) > len(TEXTS)


def test_rows_that_end_early_are_padded() -> None:
    model = grounded()
    end = ids("</s>")[0]
    ends = [lambda rows, _: torch.tensor([int((row == ids(" .")[0]).sum()) > 1 for row in rows])]
    ends[0].row_wise = True  # type: ignore[attr-defined]
    channels = [channel(INDEX, question) for question in QUESTIONS]
    out = model.generate(**prompts(*TEXTS), channel=channels, stopping_criteria=ends, eos_token_id=end, **OPTIONS)
    lengths = out.grounding.lengths
    assert len(set(lengths)) > 1
    for row, length in zip(out.tolist(), lengths, strict=True):
        assert set(row[length:]) <= set(ids("<pad>"))


def refused() -> list[tuple[str, dict[str, Any]]]:
    one, two = channel(INDEX), channel(INDEX)
    return [
        ("1 channels were given for 2 rows", {"channel": one}),
        ("1 channels were given for 2 rows", {"channel": [one]}),
        ("2 channels were given for 2 rows: give each row a channel of its own", {"channel": [one, one]}),
        ("2 channels were given for 4 rows", {"channel": [one, two], "do_sample": True, "num_return_sequences": 2}),
        ("channels and fact beams", {"channel": [one, two], "fact_beams": 2}),
        ("give one row at a time", {"channel": [one, two], "streamer": Streamer()}),
        ("give one row at a time", {"channel": [one, two], "return_dict_in_generate": True}),
        ("need greedy or sampled text", {"channel": [one, two], "num_beams": 2}),
    ]


@pytest.mark.parametrize("number", range(8))
def test_other_calls_are_refused(number: int) -> None:
    match, options = refused()[number]
    with pytest.raises(InputError, match=match):
        grounded().generate(**prompts("a Fact:", "so"), **{**OPTIONS, **options})
