"""A file that was damaged by accident is one clear error and leaves nothing in the database, or it was not harmed."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.share.forged_files import Contents, contents, edited, import_error, states
from support.shared_index import opened

from refactx.errors import InputError
from refactx.index.file import IndexFile
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.postgres.writing import drop
from refactx.share.importing import import_index


@pytest.mark.long
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_anywhere_is_found_by_import_and_verify_or_does_no_harm(
    target: Database, export_file: Path, made: Contents, tmp_path: Path, data: st.DataObject
) -> None:
    whole = export_file.read_bytes()
    position = data.draw(st.integers(0, len(whole) - 1))
    mask = data.draw(st.integers(1, 255))
    path = tmp_path / "changed"
    path.write_bytes(whole[:position] + bytes([whole[position] ^ mask]) + whole[position + 1 :])
    try:
        import_index(target, path, source="FILE", step_bytes=1000)
    except InputError as error:
        assert "FILE" in str(error)
        assert "\n" not in str(error)
        assert states(target) == []
    else:
        with target.connection() as connection:
            drop(connection, "small")
    try:
        file = IndexFile(path)
    except InputError:
        return
    sound = not list(file.faults())
    file.close()
    if sound:
        assert contents(path) == made


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_missing_end_is_an_error_and_shows_no_index(
    target: Database, export_file: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = export_file.read_bytes()
    size = data.draw(st.integers(1, len(whole) - 1))
    (tmp_path / "cut").write_bytes(whole[:size])
    assert "FILE is truncated" in import_error(target, tmp_path / "cut")


@pytest.mark.parametrize(
    "junk", [b"", bytes(10_000), b"\x89PNG\r\n\x1a\n" + bytes(100), b"<a> <b> <c> .\n", b"x"], ids=len
)
def test_a_file_that_is_not_an_export_is_an_error(target: Database, tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "junk").write_bytes(junk)
    assert "is not a file of `refactx index export`" in import_error(target, tmp_path / "junk")


def test_another_database_of_sqlite_is_an_error(target: Database, tmp_path: Path) -> None:
    path = edited(tmp_path / "other.db", "CREATE TABLE parts (kind, number, checksum, value)")
    assert "another database of SQLite" in import_error(target, path)


def test_bytes_after_the_end_are_found(target: Database, export_file: Path, tmp_path: Path) -> None:
    whole = export_file.read_bytes()
    for rest in (b"\0", bytes(1000), whole):
        (tmp_path / "long").write_bytes(whole + rest)
        assert "it continues after its end" in import_error(target, tmp_path / "long")


def test_an_import_does_not_need_the_b_trees_of_keys(db_url: str, export_file: Path, tmp_path: Path) -> None:
    """It reads rows by their numbers; so what it stores is what was exported, or it is refused."""
    path = tmp_path / "file"
    path.write_bytes(export_file.read_bytes())
    edited(path, "PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET rootpage = 2 WHERE type = 'index'")
    with opened(db_url) as database:
        import_index(database, path)
        with database.connection() as connection:
            assert [entry.name for entry in list_indexes(connection)] == ["small"]
    file = IndexFile(path)
    assert any("B-trees" in fault or "damaged" in fault for fault in file.faults())
    file.close()
