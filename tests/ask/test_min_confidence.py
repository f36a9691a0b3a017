"""The confidence in an answer, and the threshold that an answer needs, from the prompt or as an option."""

import math
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.channel_runs import EXAMPLES, GRAPH, llama
from support.tiny_asker import LinkedIndex, chat_tokenizer
from support.tiny_model import (
    one_thread,  # noqa: F401
    tiny_fact_tokenizer,
)

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import GREEDY, Generation, Prompt, load_prompt
from refactx.cli.options import generation_options
from refactx.documents import answer_document
from refactx.errors import InputError
from refactx.selection.weights import Weights
from refactx.server.chat import RefactxOptions

PROMPT = Prompt(system="Be true.", channel=EXAMPLES, unknown="hello")


def ask(prompt: Prompt = PROMPT, options: Generation = GREEDY) -> Answer:
    asker = Asker(llama(), chat_tokenizer(), LinkedIndex(tiny_fact_tokenizer(), GRAPH), prompt)
    return asker.ask("who is Ann? Fact:", options, max_new_tokens=60)


def test_an_answer_is_given_if_its_confidence_reaches_the_threshold() -> None:
    confidence = ask().confidence
    assert confidence is not None
    assert answer_document(ask()).confidence == round(confidence, 3)
    for shift, is_unknown in ((-0.01, False), (0.01, True)):
        by_option = ask(options=Generation(min_confidence=confidence + shift))
        by_prompt = ask(replace(PROMPT, min_confidence=confidence + shift))
        assert by_option.text == by_prompt.text
        assert ("Answer: hello" in by_option.text) == is_unknown
    assert (
        ask(replace(PROMPT, min_confidence=math.inf), Generation(min_confidence=-math.inf)).text
        == ask(options=Generation(min_confidence=-math.inf)).text
    ), "the option comes first"


def test_weights_of_a_file_choose_the_fact(tmp_path: Path) -> None:
    path, texts = tmp_path / "w.toml", set[str]()
    for value in (-9, 9):
        path.write_text(f"property_weight = {value}\n")
        of_file = ask(PROMPT.weighted(path))
        assert of_file.text == ask(replace(PROMPT, weights=Weights(property_weight=value))).text
        texts.add(of_file.text)
    assert len(texts) == 2
    for value in (-math.inf, math.inf):
        path.write_text(f"min_confidence = {value}\n")
        assert ask(PROMPT.weighted(path)).text == ask(replace(PROMPT, min_confidence=value)).text


def test_without_a_channel_there_is_no_confidence() -> None:
    assert ask(options=Generation(channel=False)).confidence is None
    assert ask(replace(PROMPT, unknown="")).confidence is None, "nothing was compared with no fact"


def test_a_threshold_needs_a_channel_and_is_a_number(tmp_path: Path) -> None:
    for options in ({"num_beams": 2}, {"fact_beams": 2}, {"channel": False}):
        with pytest.raises(InputError, match="`min_confidence` was given with beams or without the channel"):
            Generation(min_confidence=4.0, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="min_confidence is nan: give a number"):
        Generation(min_confidence=math.nan)
    for value, is_right in (("5", True), ("-inf", True), ("'5'", False), ("true", False), ("nan", False)):
        (tmp_path / "p.toml").write_text(f"system = 'a'\nmin_confidence = {value}\n")
        if is_right:
            assert load_prompt(str(tmp_path / "p.toml")).min_confidence == float(value)
        else:
            with pytest.raises(InputError, match="`min_confidence` is not a number"):
                load_prompt(str(tmp_path / "p.toml"))
    assert load_prompt().min_confidence == 4.0


def test_words_are_like_those_of_wikidata_alone(tmp_path: Path) -> None:
    for wrong in ('"nothing"', '"../wikidata"', "5"):
        (tmp_path / "p.toml").write_text(f"system = 'a'\n[words]\nlike = {wrong}\n")
        with pytest.raises(InputError, match="only those of wikidata can be taken"):
            load_prompt(tmp_path / "p.toml")
    assert load_prompt("domain").words is not None


def test_the_threshold_is_taken_under_its_former_name(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("system = 'a'\ntells = 5\n")
    assert load_prompt(str(tmp_path / "p.toml")).min_confidence == 5
    assert RefactxOptions.model_validate({"tells": 5}).min_confidence == 5
    found: list[float | None] = []
    command = click.command()(generation_options(lambda min_confidence, **_: found.append(min_confidence)))
    command.main(["--tells", "5"], standalone_mode=False)
    command.main(["--min-confidence", "6"], standalone_mode=False)
    assert found == [5.0, 6.0]
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "--min-confidence" in shown and "--tells" not in shown
