"""The fixtures of embedded servers: homes with a server of their own, which tests stop and kill."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.postgres.embedded_server import FACTS, ingest_facts
from support.servers import new_home, remove_home

from refactx.postgres.embedded.server import start, wait_until_stopped


@pytest.fixture(scope="session")
def prepared_home() -> Iterator[Path]:
    """A home with a database that does not run, to be copied."""
    home = new_home()
    start(home).close()
    wait_until_stopped(home)
    yield home
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def homes() -> Iterator[list[Path]]:
    """The homes of a module, removed together at its end: by then most of their servers have stopped."""
    made: list[Path] = []
    yield made
    for home in made:
        remove_home(home)


@pytest.fixture
def home(prepared_home: Path, homes: list[Path]) -> Path:
    """A home with a database of its own that does not run."""
    folder = new_home()
    subprocess.run(["cp", "-a", *prepared_home.iterdir(), folder], check=True)
    homes.append(folder)
    return folder


@pytest.fixture(scope="session")
def indexed_home() -> Iterator[Path]:
    """A home with an index of `FACTS`, whose server tests may kill."""
    folder = new_home()
    with start(folder) as server:
        ingest_facts(server.url, folder, FACTS)
        yield folder
        with start(folder):  # a killed server is started, so that its watchdog stops it
            pass
    remove_home(folder)


@pytest.fixture
def indexed_url(indexed_home: Path) -> Iterator[str]:
    """The URL of that server, which runs when the test begins."""
    with start(indexed_home) as server:
        yield server.url
