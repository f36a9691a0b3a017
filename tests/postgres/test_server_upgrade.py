"""Data of another PostgreSQL than the one that is installed is refused with what to do, and stays as it is."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.servers import new_home

from refactx.errors import DatabaseError
from refactx.postgres.embedded.programs import account_for, carried_versions
from refactx.postgres.embedded.server import start


@pytest.fixture
def home() -> Iterator[Path]:
    folder = new_home()
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("16", "made by PostgreSQL 16"),
        ("99", "made by PostgreSQL 99"),
        ("9.6", "made by PostgreSQL 9"),
        ("x", "not a data folder of PostgreSQL"),
    ],
)
def test_data_of_another_release_is_refused_and_unchanged(home: Path, version: str, message: str) -> None:
    data = home / "embedded" / "data"
    data.parent.mkdir(mode=0o711)
    account_for(data).make_folder(data)
    (data / "PG_VERSION").write_text(f"{version}\n")
    with pytest.raises(DatabaseError, match=message) as caught:
        start(home)
    assert "\n" not in str(caught.value)
    assert (data / "PG_VERSION").read_text().strip() == version
    assert [path.name for path in data.parent.glob("data*")] == ["data"]
    if version != "x":
        ways = (f"runs PostgreSQL {max(carried_versions())}", "refactx index export", "refactx index import")
        assert all(way in str(caught.value) for way in ways)
