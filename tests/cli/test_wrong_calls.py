"""Kinds of wrong calls, each of which ends in one clear error: numbers, long texts, half characters, names and types."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from support.command import complains, run_refactx, subcommands

import refactx
from refactx.cli.main import cli
from refactx.errors import InputError, brief, text_for_clients
from refactx.sparql.engines.engine import within


def options(command: click.Command) -> Iterator[click.Option]:
    """The options of a command and of those below it."""
    yield from (one for one in command.params if isinstance(one, click.Option))
    for inner in subcommands(command).values():
        yield from options(inner)


def test_every_option_that_is_a_number_refuses_what_is_not_finite() -> None:
    numbers = [one for one in options(cli) if isinstance(one.type, click.types.FloatParamType)]
    assert len(numbers) > 20
    for option in numbers:
        for text in ("nan", "inf", "-inf", "1e999"):
            with pytest.raises(click.BadParameter):
                option.type.convert(text, option, None)


@pytest.mark.parametrize("command", [("ask", "Who?"), ("eval", "q"), ("train", "q"), ("serve",), ("calibrate", "q")])
def test_without_a_model_the_error_says_what_one_is(command: tuple[str, ...]) -> None:
    assert "a folder, a .gguf file, a Hugging Face id or demo" in complains(*command)


def test_a_time_limit_may_be_longer_than_any_clock() -> None:
    assert [within(seconds, lambda: 1) for seconds in (1e300, float("inf"))] == [1, 1]


def test_an_error_that_quotes_a_long_text_keeps_its_beginning_and_what_to_do() -> None:
    message = complains("x" * 50_000)
    assert len(message) < 1100
    assert message.startswith("refactx: No such command 'xxx")
    assert message.endswith("(see `refactx --help`)")
    assert len(text_for_clients(InputError("y\n" * 50_000 + "ask again"))) < 1100
    assert brief("a\n b") == "a b"


def test_half_a_character_of_a_document_is_printed_as_json_writes_it(url: str, tmp_path: Path) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_text('{"question": "\\ud800 \\udfff é"}\n')
    done = run_refactx("sparql", "to-pgmr", file, "--db", url)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert json.loads(done.stdout)["question"] == "\ud800 \udfff é"


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        *(((wrong), {}, "names no index") for wrong in (None, 3, b"x", "", " ", "\0", Path("\0"), [])),
        *(("x", {"db": wrong}, "the database's address is") for wrong in ("", " ", 3, b"x", Path("x"))),
        *(("x", {"limits": wrong}, "give a refactx.Limits") for wrong in (3, "", {})),
        *(("x", {"cache_bytes": wrong}, "give a number of bytes") for wrong in (None, "1GB", 1.5)),
    ],
)
def test_an_index_is_opened_by_what_names_it(name: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        refactx.open_index(name, **given)


def test_a_prompt_is_named_by_a_text_or_a_path(tmp_path: Path) -> None:
    for wrong in (None, 3, b"wikidata", refactx.load_prompt()):
        with pytest.raises(InputError, match="names no prompt: give the name"):
            refactx.load_prompt(wrong)  # type: ignore[arg-type]
    (tmp_path / "own.prompt").write_text('system = "Be true."\n')
    assert refactx.load_prompt(tmp_path / "own.prompt").system == "Be true."


def test_an_empty_address_is_not_the_default_database() -> None:
    assert "the database's address is ''" in complains("index", "list", "--db", "")


def test_a_name_that_no_index_has_is_reported_as_such(db_url: str) -> None:
    for name in ("", "\n"):
        assert "names no index" in complains("index", "show", name, "--db", db_url)


@pytest.mark.long
def test_a_thought_is_a_word_or_a_number_of_tokens() -> None:
    (think,) = (one for one in options(subcommands(cli)["ask"]) if one.name == "think")
    assert [think.type.convert(text, think, None) for text in ("off", "on", "0", "300")] == [0, 1000, 0, 300]
    for wrong in ("maybe", "-1", "1.5", ""):
        message = complains("ask", "Who?", "--model", "x", "--think", wrong)
        assert f"{wrong!r} is none of off, on, and no number from 0 on" in message
    assert "leave one out" in complains("ask", "Who?", "--model", "x", "--think", "on", "--num-beams", "2")
