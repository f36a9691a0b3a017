"""A forged header, with right checksums, is one clear error, and leaves nothing in the database."""

import json
import struct
import zlib
from io import BytesIO

import psycopg
import pytest
from support.share.forged_files import (
    START,
    Header,
    change_header,
    import_error,
    payload,
)
from support.shared_index import answers, changed, opened

from refactx.index.file.format import FILE_VERSION, MAGIC, MAX_PAYLOAD
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.share.importing import import_stream


def test_a_file_that_was_assembled_again_is_accepted(db_url: str, export_bytes: bytes) -> None:
    """So the files of the tests below have no other error than the one that their test makes."""
    assert changed(export_bytes, {}) == export_bytes
    with opened(db_url) as database:
        import_stream(database, BytesIO(change_header(export_bytes, lambda header: None)), "FILE")
    assert answers(db_url, "small")


def test_a_newer_format_is_an_error_with_the_advice_to_upgrade(target: Database, export_bytes: bytes) -> None:
    assert "upgrade refactx" in import_error(target, MAGIC + struct.pack(">I", FILE_VERSION + 1) + export_bytes[START:])
    newer = change_header(export_bytes, lambda header: header.update(format=header["format"] + 1))
    assert "upgrade refactx" in import_error(target, newer)


def test_a_giant_size_is_refused_before_anything_is_read(target: Database, export_bytes: bytes) -> None:
    for size in (MAX_PAYLOAD + 1, 2**32 - 1):
        head = struct.pack(">8sII", b"header", 0, size)
        assert "there is no block" in import_error(
            target, export_bytes[:START] + head + struct.pack(">I", zlib.crc32(head))
        )


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
        ({"segments": []}, "names 0 has 0 rows"),
        ({"segments": [[]]}, "not an object"),
        ({"names": [{"rows": -1, "size": 0}]}, "'rows'"),
        ({"names": []}, "expected contents 0, found names 0"),
    ],
    ids=str,
)
def test_a_header_with_a_wrong_value_is_refused(
    target: Database, export_bytes: bytes, change: Header, message: str
) -> None:
    assert message in import_error(target, change_header(export_bytes, lambda header: header.update(change)))


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
        ({"rows": {"rows": 10**9, "size": 10**9}}, "but its header says 1,000,000,000"),
        ({"rows": None}, "not an object"),
    ],
    ids=str,
)
def test_a_segment_with_a_wrong_value_is_refused(
    target: Database, export_bytes: bytes, change: Header, message: str
) -> None:
    assert message in import_error(
        target, change_header(export_bytes, lambda header: header["segments"][0].update(change))
    )


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"format": NaN}', b'{"format": 1e999}'])
def test_a_header_that_is_not_an_object_is_refused(target: Database, export_bytes: bytes, text: bytes) -> None:
    assert "FILE is damaged or was made by hand" in import_error(
        target, changed(export_bytes, {0: [("header", 0, text)]})
    )


def test_numbers_of_many_digits_in_a_header_are_refused(target: Database, export_bytes: bytes) -> None:
    text = payload(export_bytes, 0).replace(b'"tokens": ', b'"tokens": ' + b"9" * 10_000)
    assert "damaged" in import_error(target, changed(export_bytes, {0: [("header", 0, text)]}))


def test_sql_in_a_name_is_text(db_url: str, export_bytes: bytes) -> None:
    name = """x"; DROP SCHEMA refactx CASCADE; -- ' %s {} \\"""
    text = change_header(
        export_bytes, lambda header: header.update(name=name, tokenizer=name, source=[name, "\x1b[31m"])
    )
    with opened(db_url) as database:
        assert import_stream(database, BytesIO(text), "FILE").index == name
    with psycopg.connect(db_url) as connection:
        (entry,) = list_indexes(connection)
    assert (entry.name, entry.tokenizer, entry.source) == (name, name, (name, "\ufffd[31m"))
