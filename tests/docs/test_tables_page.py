"""Every example of docs/how-to/tables.md: its files and its command make the facts that it shows."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.doc_pages import DOCS
from support.tiny_asker import save_tiny

from refactx.cli.main import cli

PAGE = (DOCS / "how-to" / "tables.md").read_text(encoding="utf-8")


def examples() -> Iterator[tuple[dict[str, str], str, set[str]]]:
    """The files, the command and the facts of each example."""
    files: dict[str, str] = {}
    command = ""
    for language, name, content in re.findall(r"^```(\w*) ?([^\n]*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        if name:
            files[name] = content
        elif not language:
            command = content
        elif language == "facts":
            yield files, command, set(content.splitlines())
            files = {}


EXAMPLES = list(examples())


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.long
@pytest.mark.parametrize(("files", "command", "facts"), EXAMPLES, ids=[next(iter(files)) for files, *_ in EXAMPLES])
def test_an_example_makes_its_facts(
    module_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    command: str,
    facts: set[str],
) -> None:
    monkeypatch.setenv("REFACTX_DB", module_url)
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    words = shlex.split(command.replace("\\\n", " ").removeprefix("$ refactx "))
    words[words.index("demo")] = str(save_tiny(tmp_path / "tiny"))
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(cli, ["facts", "--all", "--index", words[words.index("--index") + 1]])
    assert set(shown.output.splitlines()) == facts
