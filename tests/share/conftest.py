"""The fixtures of sharing: a database with an index of several levels, its export, and a database to import into."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.servers import DatabaseServer, database
from support.share.forged_files import Contents, contents
from support.share.transfers import export_small
from support.shared_index import build, opened

from refactx.postgres.database import Database


@pytest.fixture(scope="session")
def source_url(database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database with the index `small`; tests only read it."""
    with database(database_server, f"refactx_share_{os.getpid()}") as url:
        build(url, tmp_path_factory.mktemp("share"))
        yield url


@pytest.fixture(scope="session")
def export_file(source_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of that index."""
    path = tmp_path_factory.mktemp("share") / "small.refactx"
    export_small(source_url, path)
    return path


@pytest.fixture(scope="session")
def made(export_file: Path) -> Contents:
    """What is in that export."""
    return contents(export_file)


@pytest.fixture(scope="session")
def target(database_server: DatabaseServer) -> Iterator[Database]:
    """A database in which no import succeeds."""
    with database(database_server, f"refactx_hostile_share_{os.getpid()}") as url, opened(url) as made:
        yield made
