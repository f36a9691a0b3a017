"""`refactx check`, as a user types it. The tiny model has random weights, but only one property fits."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.command import complains

from refactx.ask import claims
from refactx.cli.check import said_in
from refactx.cli.main import cli
from refactx.errors import InputError, RefactxError

HOLDS, ELSEWHERE = "The p of Ann is b.", "The p of Zed is b."
TEXT = f"{HOLDS} Is it so?\n\n* {ELSEWHERE}\n"


def check(*arguments: object, **options: Any) -> Result:
    """A command without a terminal, in this process."""
    return CliRunner().invoke(cli, ["check", *map(str, arguments)], **options)


@pytest.fixture(autouse=True)
def _any_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LEAST_OF_NAMED", -1e9)


class TestCheck:
    @pytest.fixture
    def given(self, url: str, tiny_folder: Path) -> tuple[object, ...]:
        return "--model", tiny_folder, "--db", url

    def test_a_text_is_shown_with_verdicts_facts_and_a_summary(self, given: tuple[object, ...]) -> None:
        done = check(TEXT, *given, catch_exceptions=False)
        assert done.exit_code == 0
        assert done.stdout.splitlines() == [
            f"holds: {HOLDS}",
            "  <Ann> <p> <b> .",
            f"not in the index: * {ELSEWHERE}",
            "(2 claims: 1 holds, 0 differs, 1 not in the index; 1 of 3 sentences without a claim)",
        ]

    def test_a_file_standard_input_and_a_chat_are_read(self, given: tuple[object, ...], tmp_path: Path) -> None:
        file = tmp_path / "a text.md"
        file.write_text(f"\ufeff{TEXT}", encoding="utf-8")
        chat = {"messages": [{"role": "user", "content": HOLDS}, {"role": "assistant", "content": TEXT}]}
        shown = [check(file, *given), check(*given, input=TEXT), check("-", *given, input=json.dumps(chat))]
        assert [one.exit_code for one in shown] == [0, 0, 0]
        assert len({one.stdout for one in shown}) == 1

    def test_json_and_footnotes(self, given: tuple[object, ...]) -> None:
        found = json.loads(check(TEXT, *given, "--json").stdout)
        assert found.keys() == {"claims", "sentences", "without_claim"}
        first, second = found["claims"]
        assert (TEXT[first["start"] : first["end"]], first["verdict"], first["instead"]) == (HOLDS, "holds", None)
        assert first["fact"]["text"] == "<Ann> <p> <b> ."
        assert isinstance(first["confidence"], float)
        assert (second["verdict"], second["fact"], second["instead"]) == ("not in the index", None, None)
        cited = check(TEXT, *given, "--cite").stdout
        assert cited == f"{HOLDS}[^1] Is it so?\n\n* {ELSEWHERE}\n\n[^1]: `<Ann> <p> <b> .`\n"

    def test_the_exit_code_says_whether_a_claim_differs(
        self, given: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(claims, "LEAST_OF_OTHERS", -1e9)
        monkeypatch.setattr(claims._Sentence, "_other_values", lambda *_: iter([(100, 101)]))
        done = check("The p of Ann is x.", *given)
        assert done.exit_code == 1
        assert done.stdout.splitlines()[:2] == ["differs: The p of Ann is x.", "  instead: <Ann> <p> <b> ."]


def test_control_characters_do_not_reach_a_terminal(url: str, tiny_folder: Path) -> None:
    text = f"\x1b[31m{HOLDS}\x07"
    for more in ((), ("--cite",)):
        done = check(text, "--model", tiny_folder, "--db", url, *more, catch_exceptions=False)
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("none.md", "--model", "demo"), "none.md is no sentence, and no file that can be read"),
        ((" ", "--model", "demo"), "the text is empty"),
        (("a " * 40_000, "--model", "demo"), "the text has 80,000 characters: check at most 50,000 at once"),
        (('{"messages": []}', "--model", "demo"), "the JSON has no message of an assistant"),
        (("Ann is b.", "--model", "demo", "--cite", "--json"), "--cite was given with --json"),
        (("Ann is b.", "--model", "demo", "--prompt", "none.toml"), "there is no prompt none.toml"),
    ],
)
def test_wrong_arguments_are_reported_before_anything_is_opened(arguments: tuple[str, ...], expected: str) -> None:
    done = check(*arguments, "--db", "postgresql://nobody@127.0.0.1:1/none")
    assert isinstance(done.exception, RefactxError)
    assert expected in str(done.exception)


def test_a_file_that_is_no_text_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(b"\xff\xfe\x00")
    assert "is not text in UTF-8" in complains("check", file, "--model", "demo")


MESSAGE = {"role": "assistant", "content": [{"type": "text", "text": "A."}, {"type": "image"}, 5, "B."]}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([{"role": "user", "content": "Q"}, MESSAGE], "A.\n\nB."),
        ({"choices": [{"message": {"role": "assistant", "content": "A."}}]}, "A."),
        ({"output": [{"type": "message", "role": "assistant", "content": [{"text": "A."}]}]}, "A."),
        ([1, None, {"role": "assistant"}, {"role": "assistant", "content": "A."}], "A."),
    ],
)
def test_the_messages_of_an_assistant_are_what_is_checked(document: Any, expected: str) -> None:
    assert said_in(json.dumps(document)) == expected


@pytest.mark.parametrize("text", ["[1] is a note.", "{ not JSON", "[" * 100_000, "[Ann](b) is c."])
def test_what_is_no_json_is_a_text(text: str) -> None:
    assert said_in(text) == text


@pytest.mark.parametrize("document", [{}, [], {"messages": 5}, {"choices": [5]}, {"messages": [[]]}])
def test_json_without_an_assistant_is_refused(document: Any) -> None:
    with pytest.raises(InputError, match="no message of an assistant"):
        said_in(json.dumps(document))
