"""Every `refactx` command of the documentation, and every option of it, exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.command import subcommands
from support.doc_pages import PAGES, blocks, name_of

from refactx.cli.main import cli


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each `refactx` command in the shell blocks of a page."""
    for block in blocks(page, ""):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                for part in re.split(r"\s[|]\s|\s&&\s", line[2:]):
                    words = shlex.split(part, comments=True)
                    if "refactx" in words[:3]:
                        yield words[words.index("refactx") + 1 :]


def inner(page: Path) -> Iterator[list[str]]:
    """The words of each inline `refactx ...` of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for code in re.findall(r"`refactx ([^`]*)`", text):
        yield code.split()


def check(words: list[str]) -> None:
    command: click.Command = cli
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        assert words[0] in subcommands(command), f"refactx has no command {words[0]}"
        command, words = subcommands(command)[words[0]], words[1:]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known | {"--help"}, f"{command.name} has no option {word}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_options_exist(page: Path) -> None:
    for words in (*commands(page), *inner(page)):
        check(words)


def test_the_documentation_shows_every_command() -> None:
    shown = {" ".join(words[:2]) for page in PAGES for words in (*commands(page), *inner(page))}
    for name, command in subcommands(cli).items():
        names = [f"{name} {sub}" for sub in subcommands(command)] or [name]
        for full in names:
            assert any(text.startswith(full) for text in shown), full
