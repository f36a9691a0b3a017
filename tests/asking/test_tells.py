"""The confidence in an answer, and the threshold that an answer needs, from the prompt or as an option."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.channel_runs import EXAMPLES, GRAPH, llama
from support.tiny_asker import LinkedIndex, chat_tokenizer
from support.tiny_model import (
    one_thread,  # noqa: F401
    tiny_fact_tokenizer,
)

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import GREEDY, Generation, Prompt, load_prompt
from refactx.errors import InputError

PROMPT = Prompt(system="Be true.", channel=EXAMPLES, unknown="hello")


def ask(prompt: Prompt = PROMPT, options: Generation = GREEDY) -> Answer:
    asker = Asker(llama(), chat_tokenizer(), LinkedIndex(tiny_fact_tokenizer(), GRAPH), prompt)
    return asker.ask("who is Ann? Fact:", options, max_new_tokens=60)


def test_an_answer_is_given_if_its_confidence_reaches_the_threshold() -> None:
    told = ask().told
    assert told is not None
    assert ask().to_json()["told"] == round(told, 3)
    for shift, is_unknown in ((-0.01, False), (0.01, True)):
        by_option = ask(options=Generation(tells=told + shift))
        by_prompt = ask(replace(PROMPT, tells=told + shift))
        assert by_option.text == by_prompt.text
        assert ("Answer: hello" in by_option.text) == is_unknown
    assert (
        ask(replace(PROMPT, tells=math.inf), Generation(tells=-math.inf)).text
        == ask(options=Generation(tells=-math.inf)).text
    ), "the option comes first"


def test_without_a_channel_there_is_no_confidence() -> None:
    assert ask(options=Generation(channel=False)).told is None
    assert ask(replace(PROMPT, unknown="")).told is None, "nothing was compared with no fact"


def test_a_threshold_needs_a_channel_and_is_a_number(tmp_path: Path) -> None:
    for options in ({"num_beams": 2}, {"fact_beams": 2}, {"channel": False}):
        with pytest.raises(InputError, match="`tells` was given with beams or without the channel"):
            Generation(tells=4.0, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tells is nan: give a number"):
        Generation(tells=math.nan)
    for value, is_right in (("5", True), ("-inf", True), ("'5'", False), ("true", False), ("nan", False)):
        (tmp_path / "p.toml").write_text(f"system = 'a'\ntells = {value}\n")
        if is_right:
            assert load_prompt(str(tmp_path / "p.toml")).tells == float(value)
        else:
            with pytest.raises(InputError, match="`tells` is not a number"):
                load_prompt(str(tmp_path / "p.toml"))
    assert load_prompt().tells == 4.0
