"""A browser, and servers that its pages come from."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.command import run_refactx
from support.ingest.tiny import ingest_tiny
from support.server.running import Running, running
from support.servers import DatabaseServer, database

import refactx

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from support.server.pages import Pages

if not (find_spec("playwright") and find_spec("axe_playwright_python")):  # `make test-page` installs them
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    from support.server.pages import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def pages(browser: "Browser") -> "Iterator[Pages]":
    from support.server.pages import Pages

    opened = Pages(browser)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def sample_server(
    database_server: DatabaseServer, smollm2_folder: Path, sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of `refactx serve` with the demo model and the sample, in both directions, as typed."""
    with database(database_server, "page") as url:
        ingested = run_refactx("ingest", sample, "--inverse", "--tokenizer", smollm2_folder, "--db", url)
        assert ingested.returncode == 0, ingested.stderr
        command = [str(Path(sys.executable).with_name("refactx")), "serve", "--model", str(smollm2_folder)]
        command += ["--db", url, "--port", "0", "--name", "demo", "--max-tokens", "80"]
        log = tmp_path_factory.mktemp("server") / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ)
        try:
            assert process.stdout
            line = process.stdout.readline()
            assert " is served at " in line, log.read_text()
            yield line.split(" at ")[1].split(" ")[0]
        finally:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def tiny_index(database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[refactx.Index]:
    """An index of `FACTS` without ids."""
    from support.server.pages import FACTS

    yield from opened(database_server, tmp_path_factory.mktemp("facts"), "default", FACTS)


@pytest.fixture(scope="session")
def second_index(database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[refactx.Index]:
    """Another index, with one fact."""
    yield from opened(database_server, tmp_path_factory.mktemp("facts"), "second", ["<Zoe> <p> <b>"])


def opened(server: DatabaseServer, folder: Path, name: str, facts: list[str]) -> Iterator[refactx.Index]:
    file = folder / "facts.txt"
    file.write_text("".join(f"{fact} .\n" for fact in facts), encoding="utf-8")
    with database(server, f"{name}_page") as url:
        ingest_tiny(url, file, index=name)
        with refactx.open_index(name, db=url) as index:
            yield index


@pytest.fixture(scope="session")
def tiny_server(tiny_index: refactx.Index) -> Iterator[Running]:
    """A server of the tiny model over the index of `FACTS`."""
    with running(index=tiny_index, max_tokens=60) as server:
        yield server
