"""The tutorial about an endpoint of one's own, followed to the letter with a server on this machine."""

import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command import run_refactx
from support.doc_pages import DOCS, blocks

PAGE = DOCS / "tutorials" / "your-own-endpoint.md"
SERVER = Path(sys.executable).with_name("oxigraph")
ADDRESS = "127.0.0.1:7878"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run the page's server on a free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    for words in (shlex.split(line[2:]) for line in blocks(PAGE, "")[0].splitlines() if line.startswith("$ oxigraph")):
        command = [str(SERVER), *[address if word == ADDRESS else word for word in words[1:]]]
        if "serve" not in command[1]:
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        assert any("Listening" in line for line in server.stderr)
        yield address
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "company.ttl").write_text(blocks(PAGE, "turtle")[0], encoding="utf-8")
    return tmp_path


def steps() -> tuple[str, str, str, str]:
    """Return the page's blocks: a pack of the endpoint, or of the file; the check of one's example; a question."""
    making, from_file, checking, asking = [block for block in blocks(PAGE, "") if "$ refactx" in block]
    return making, from_file, checking, asking


def add_example(folder: Path) -> None:
    with (folder / "company" / "examples.jsonl").open("a", encoding="utf-8") as file:
        file.write(blocks(PAGE, "json")[0])


@pytest.mark.skipif(not SERVER.exists(), reason="oxigraph is not installed")
def test_the_tutorial_with_a_server_does_what_it_says(folder: Path, smollm2_folder: Path) -> None:
    making, _, checking, asking = steps()
    with served(folder) as address:
        follow(making.replace(ADDRESS, address), folder)
        add_example(folder)
        shown = follow(checking, folder)
        follow(asking.replace("--model demo", f"--model {smollm2_folder}"), folder)
    assert re.search(r"^0\.\d+ .* boss: Who is Bo Lind's boss\?$", shown.splitlines()[2])


def test_the_tutorial_without_a_server_does_what_it_says(folder: Path, smollm2_folder: Path) -> None:
    _, making, checking, asking = steps()
    follow(making, folder)
    add_example(folder)
    page = PAGE.read_text(encoding="utf-8")
    for option in ("--file company.ttl", "--run-on company.ttl"):
        assert f"`{option}`" in page
    follow(checking.replace("--endpoint pack", "--file company.ttl"), folder)
    follow(asking.replace("--model demo", f"--model {smollm2_folder} --run-on company.ttl"), folder)


def follow(block: str, folder: Path) -> str:
    """Run the commands of a block; each prints what the block shows after it. Returns what the last one printed."""
    printed = ""
    for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, expected = command.partition("\n")
        done = run_refactx(*shlex.split(line)[1:], cwd=folder)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
        kept = [one for one in printed.splitlines() if not one.startswith("note: ")]
        if expected.strip():
            assert kept == expected.strip().splitlines()
    return printed
