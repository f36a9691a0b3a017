"""A forged header, with right checksums, is one clear error, and leaves nothing in the database."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from support.share.forged_files import Contents, Header, changed_header, edited, forge, import_error, value_of
from support.shared_index import answers, opened

from refactx.index.file import FILE_VERSION, MAX_VALUE_BYTES
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.share.importing import import_index


def test_a_file_that_was_assembled_again_is_accepted(db_url: str, made: Contents, tmp_path: Path) -> None:
    """So the files of the tests below have no other error than the one that their test makes."""
    with opened(db_url) as database:
        import_index(database, forge(tmp_path / "file", changed_header(made, lambda header: None)))
    assert answers(db_url, "small")


def test_a_newer_format_is_an_error_with_the_advice_to_upgrade(
    target: Database, made: Contents, tmp_path: Path
) -> None:
    path = edited(forge(tmp_path / "file", made), f"PRAGMA user_version = {FILE_VERSION + 1}")
    assert "upgrade refactx" in import_error(target, path)
    newer = changed_header(made, lambda header: header.update(format=header["format"] + 1))
    assert import_error(target, forge(path, newer)).startswith("FILE: its rows have format version")


def test_a_giant_value_is_refused_before_it_is_read(target: Database, made: Contents, tmp_path: Path) -> None:
    path = forge(tmp_path / "file", made)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE tree_0 SET value = zeroblob(?) WHERE number = 1", [MAX_VALUE_BYTES + 1])
    assert "too big" in import_error(target, path)


DEEP = json.loads("[" * 200 + "]" * 200)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 7}, "'name'"),
        ({"name": ""}, "'name'"),
        ({"name": "a\nb"}, "is not a valid name"),
        ({"name": "x" * 100_000}, "'name'"),
        ({"format": "1"}, "'format'"),
        ({"format": True}, "'format'"),
        ({"fingerprint": "0" * 64}, "its tokenizer is not the one"),
        ({"fingerprint": "'; DROP TABLE refactx.indexes; --"}, "fingerprint"),
        ({"vocabulary_size": 300}, "its tokenizer is not the one"),
        ({"vocabulary_size": 1 << 40}, "'vocabulary_size'"),
        ({"trigger": "\x1b[2J"}, "control characters"),
        ({"source": ["a\0b"]}, "'source'"),
        ({"source": "facts.txt"}, "'source'"),
        ({"report": {"a": "\0"}}, "cannot be stored"),
        ({"report": {"a": "\ud800"}}, "cannot be stored"),
        ({"report": {"a": DEEP}}, "nested too deeply"),
        ({"report": []}, "'report'"),
        ({"created": "yesterday"}, "yesterday"),
        ({"segments": []}, "its tables are not those"),
        ({"segments": [[]]}, "not an object"),
        ({"names": [-1]}, "'names'"),
        ({"names": []}, "its tables are not those"),
    ],
    ids=str,
)
def test_a_header_with_a_wrong_value_is_refused(
    target: Database, made: Contents, tmp_path: Path, change: Header, message: str
) -> None:
    forged = changed_header(made, lambda header: header.update(change))
    assert message in import_error(target, forge(tmp_path / "file", forged))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sign": 0}, "sign"),
        ({"sign": -1}, "facts"),
        ({"sign": 1.0}, "'sign'"),
        ({"levels": 1}, "is not a root"),
        ({"levels": 9}, "has"),
        ({"facts": 1}, "not a root of 1 facts"),
        ({"facts": 1 << 60}, "'facts'"),
        ({"rows": 10**9}, "but its header says 1,000,000,000"),
        ({"rows": None}, "'rows'"),
    ],
    ids=str,
)
def test_a_segment_with_a_wrong_value_is_refused(
    target: Database, made: Contents, tmp_path: Path, change: Header, message: str
) -> None:
    forged = changed_header(made, lambda header: header["segments"][0].update(change))
    assert message in import_error(target, forge(tmp_path / "file", forged))


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"format": NaN}', b'{"format": 1e999}'])
def test_a_header_that_is_not_an_object_is_refused(
    target: Database, made: Contents, tmp_path: Path, text: bytes
) -> None:
    assert "FILE is damaged or was made by hand" in import_error(
        target, forge(tmp_path / "file", {**made, ("header", 0): text})
    )


def test_numbers_of_many_digits_in_a_header_are_refused(target: Database, made: Contents, tmp_path: Path) -> None:
    text = value_of(made, "header").replace(b'"tokens": ', b'"tokens": ' + b"9" * 10_000)
    assert "damaged" in import_error(target, forge(tmp_path / "file", {**made, ("header", 0): text}))


def test_sql_in_a_name_is_text(db_url: str, made: Contents, tmp_path: Path) -> None:
    name = """x"; DROP SCHEMA refactx CASCADE; -- ' %s {} \\"""
    forged = changed_header(made, lambda header: header.update(name=name, tokenizer=name, source=[name, "\x1b[31m"]))
    with opened(db_url) as database:
        assert import_index(database, forge(tmp_path / "file", forged)).index == name
    with psycopg.connect(db_url) as connection:
        (entry,) = list_indexes(connection)
    assert (entry.name, entry.tokenizer, entry.source) == (name, name, (name, "\ufffd[31m"))
