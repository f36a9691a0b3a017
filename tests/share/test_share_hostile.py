"""A file that is damaged or was made to do harm is one clear error, and leaves nothing in the database."""

import json
import os
import pickle
import struct
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
import zstandard
from conftest import DatabaseServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hostile_rows import HEADER
from support.shared_index import BLOCK_BYTES, answers, blocks, build, changed, forged, opened
from support.tiny_model import tiny_fact_tokenizer
from test_hostile_index import complains
from test_labels import database

from refactx.errors import InputError
from refactx.index.index import MAX_TOKENIZER_BYTES
from refactx.postgres.building import drop
from refactx.postgres.database import Database, list_indexes
from refactx.share.blocks import FILE_VERSION, MAGIC, MAX_PAYLOAD, TruncatedFileError, pack_rows, unpack_rows
from refactx.share.export import export_stream
from refactx.share.importing import import_stream
from refactx.tree.codec import FORMAT_VERSION, RowCodec, shared_seed
from refactx.tree.piece import from_members

Header = dict[str, Any]
START = len(MAGIC) + 4


@pytest.fixture(scope="module")
def target(database_server: DatabaseServer) -> Iterator[Database]:
    """A database into which nothing is ever imported to the end."""
    with database(database_server, f"refactx_hostile_share_{os.getpid()}") as url, opened(url) as made:
        yield made


@pytest.fixture(scope="module")
def file(database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An export in many blocks."""
    stream = BytesIO()
    with database(database_server, f"refactx_share_source_{os.getpid()}") as url:
        build(url, tmp_path_factory.mktemp("share"))
        with opened(url) as source:
            export_stream(source, "small", stream, block_bytes=BLOCK_BYTES)
    return stream.getvalue()


def refused(target: Database, file: bytes) -> str:
    """What an import says of a file; nothing of it is left."""
    with pytest.raises(InputError) as caught:
        import_stream(target, BytesIO(file), "FILE", step_bytes=1000)
    assert not isinstance(caught.value, TruncatedFileError), caught.value
    assert left(target) == []
    return str(caught.value)


def left(target: Database) -> list[str]:
    with target.connection() as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$' AND relkind = 'r'"
        ).fetchone()
        found = [entry["state"] for entry in list_indexes(connection, every=True)]
    assert row is not None
    assert bool(found) == bool(row[0])
    return found


def at(file: bytes, kind: str, last: bool = False) -> int:
    """The number of the first (last) block of a kind."""
    found = [number for number, block in enumerate(blocks(file)) if block.kind == kind]
    return found[-1 if last else 0]


def payload(file: bytes, number: int) -> bytes:
    return blocks(file)[number].payload


def with_header(file: bytes, change: Callable[[Header], object]) -> bytes:
    header = json.loads(payload(file, 0))
    change(header)
    return changed(file, {0: [("header", 0, json.dumps(header).encode())]})


# --- By accident


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_anywhere_is_found(target: Database, file: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(file) - 1))
    mask = data.draw(st.integers(1, 255))
    refused(target, file[:position] + bytes([file[position] ^ mask]) + file[position + 1 :])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_missing_end_is_told_and_shows_nothing(target: Database, file: bytes, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(file) - 1))
    with pytest.raises(TruncatedFileError, match=r"FILE is truncated"):
        import_stream(target, BytesIO(file[:size]), "FILE", step_bytes=1000)
    assert left(target) in ([], ["building"])
    with target.connection() as connection:
        assert list_indexes(connection) == []
        if left(target):
            drop(connection, "small")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_missing_doubled_or_moved_block_is_found(target: Database, file: bytes, data: st.DataObject) -> None:
    ends = [START, *(block.end for block in blocks(file))]
    pieces = [file[start:end] for start, end in pairwise(ends)]
    one, other = sorted(data.draw(st.sets(st.integers(0, len(pieces) - 2), min_size=2, max_size=2)))
    what = data.draw(st.sampled_from(["missing", "doubled", "moved"]))
    if what == "missing":
        del pieces[one]
    elif what == "doubled":
        pieces.insert(other, pieces[one])
    else:
        pieces[one], pieces[other] = pieces[other], pieces[one]
    refused(target, file[:START] + b"".join(pieces))


@pytest.mark.parametrize("junk", [bytes(10_000), b"\x89PNG\r\n\x1a\n" + bytes(100), b"<a> <b> <c> .\n", b"x"])
def test_what_is_no_export_is_told(target: Database, junk: bytes) -> None:
    assert "is no file of `refactx index export`" in refused(target, junk)


def test_zeros_in_the_middle_are_found(target: Database, file: bytes) -> None:
    middle = blocks(file)[5].end
    assert "there is no block" in refused(target, file[:middle] + bytes(len(file) - middle))


def test_what_follows_the_end_is_found(target: Database, file: bytes) -> None:
    for more in (b"\0", bytes(1000), file):
        assert "goes on behind its end" in refused(target, file + more)


# --- On purpose: the checksums are right


def test_a_file_that_was_put_together_again_is_taken(db_url: str, file: bytes) -> None:
    """What the tests below change is all that is wrong with their files."""
    assert changed(file, {}) == file
    with opened(db_url) as database:
        import_stream(database, BytesIO(with_header(file, lambda header: None)), "FILE")
    assert answers(db_url, "small")


def test_a_newer_format_is_told_to_upgrade(target: Database, file: bytes) -> None:
    assert "upgrade refactx" in refused(target, MAGIC + struct.pack(">I", FILE_VERSION + 1) + file[START:])
    newer = with_header(file, lambda header: header.update(format=header["format"] + 1))
    assert "upgrade refactx" in refused(target, newer)


def test_a_giant_size_is_refused_before_anything_is_read(target: Database, file: bytes) -> None:
    for size in (MAX_PAYLOAD + 1, 2**32 - 1):
        head = struct.pack(">8sII", b"header", 0, size)
        assert "there is no block" in refused(target, file[:START] + head + struct.pack(">I", zlib.crc32(head)))


DEEP = json.loads("[" * 200 + "]" * 200)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 7}, "'name'"),
        ({"name": ""}, "'name'"),
        ({"name": "a\nb"}, "is no name"),
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
        ({"report": {"a": DEEP}}, "nested too deep"),
        ({"report": []}, "'report'"),
        ({"created": "yesterday"}, "yesterday"),
        ({"segments": []}, "names 0 has 0 rows"),
        ({"segments": [[]]}, "no object"),
        ({"names": [{"rows": -1, "size": 0}]}, "'rows'"),
        ({"names": []}, "names 0 stands where end 0 belongs"),
    ],
    ids=str,
)
def test_a_header_of_lies_is_refused(target: Database, file: bytes, change: Header, message: str) -> None:
    assert message in refused(target, with_header(file, lambda header: header.update(change)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sign": 0}, "sign"),
        ({"sign": -1}, "facts"),
        ({"sign": 1.0}, "'sign'"),
        ({"levels": 1}, "is no root"),
        ({"levels": 9}, "has"),
        ({"facts": 1}, "no root of 1 facts"),
        ({"facts": 1 << 60}, "'facts'"),
        ({"rows": {"rows": 10**9, "size": 10**9}}, "where its header says 1,000,000,000"),
        ({"rows": None}, "no object"),
    ],
    ids=str,
)
def test_a_segment_of_lies_is_refused(target: Database, file: bytes, change: Header, message: str) -> None:
    assert message in refused(target, with_header(file, lambda header: header["segments"][0].update(change)))


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"format": NaN}', b'{"format": 1e999}'])
def test_a_header_that_is_no_header_is_refused(target: Database, file: bytes, text: bytes) -> None:
    assert "FILE is damaged or was made by hand" in refused(target, changed(file, {0: [("header", 0, text)]}))


def test_numbers_of_many_digits_in_a_header_are_refused(target: Database, file: bytes) -> None:
    text = payload(file, 0).replace(b'"tokens": ', b'"tokens": ' + b"9" * 10_000)
    assert "damaged" in refused(target, changed(file, {0: [("header", 0, text)]}))


def compressed(form: object) -> bytes:
    return zstandard.ZstdCompressor().compress(json.dumps(form).encode())


def test_another_tokenizer_or_none_is_refused(target: Database, file: bytes) -> None:
    form = json.loads(tiny_fact_tokenizer().serialized)
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(MAX_TOKENIZER_BYTES + 1))
    hole = {**form, "added_tokens": [{**form["added_tokens"][0], "id": 1 << 31}]}
    for other in (b"", b"\0", compressed({}), compressed(form), bomb, compressed(hole)):
        text = changed(file, {1: [("tokens", 0, other)]})
        if other == compressed(form):
            text = with_header(text, lambda header: header.update(vocabulary_size=281))
        assert "its tokenizer" in refused(target, text)


def test_codes_that_are_no_tokens_are_refused(target: Database, file: bytes) -> None:
    number = at(file, "codes")
    whole = payload(file, number)
    for other in (whole[:-1], struct.pack("<i", 1 << 20) + whole[4:], struct.pack("<i", -1), whole[:4] * 2):
        assert "codes 0: its table of token codes" in refused(target, changed(file, {number: [("codes", 0, other)]}))
    swapped = whole[4:8] + whole[:4] + whole[8:]
    assert "checksum is wrong" in refused(target, changed(file, {number: [("codes", 0, swapped)]}))


def test_another_dictionary_is_refused(target: Database, file: bytes) -> None:
    for other in (b"nonsense", b"\x37\xa4\x30\xec" + bytes(100), bytes((4 << 20) + 1)):
        assert "FILE is damaged" in refused(target, changed(file, {at(file, "dict"): [("dict", 0, other)]}))


def codec_of(file: bytes) -> RowCodec:
    return RowCodec(payload(file, at(file, "dict")), seed=seed_of(file))


def seed_of(file: bytes) -> int:
    return shared_seed(payload(file, at(file, "codes")), payload(file, at(file, "dict")))


def row_of(file: bytes, key: bytes, pickled: bytes, size: int | None = None) -> bytes:
    """A row whose checksum is right, of any pickle, with any size announced."""
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(pickled)
    checksum = zlib.crc32(packed, zlib.crc32(key, seed_of(file)))
    return HEADER.pack(b"RX", FORMAT_VERSION, checksum, len(pickled) if size is None else size) + packed


def test_a_row_that_a_reader_would_refuse_is_refused(target: Database, file: bytes) -> None:
    number = at(file, "tree")
    (key, value), *others = unpack_rows(payload(file, number))
    codec = codec_of(file)
    pieces = {
        "Row of nothing": b"",
        "bomb that tells": row_of(file, key, bytes(1 << 27)),
        "bomb that lies": row_of(file, key, bytes(1 << 27), 100),
        "call": row_of(file, key, pickle.dumps(print, 5)),
        "boundless pickle": row_of(file, key, b"\x80\x05\x95" + b"\xff" * 8 + b"."),
        "no piece": codec.pack(key, (0, 1, b"")),
        "another row": others[0][1] if others else value[::-1],
        "of another key": codec.pack(b"\0", codec.unpack(key, value, "test")),
        "of names": payload(file, at(file, "names"))[6:],
    }
    for what, other in pieces.items():
        text = changed(file, {number: [("tree", 0, pack_rows([(key, other), *others]))]})
        assert "tree 0: " in refused(target, text), what


def test_rows_that_claim_another_level_are_refused(target: Database, file: bytes) -> None:
    number = at(file, "tree", last=True)
    (key, value), *_ = list(unpack_rows(payload(file, number)))[-1:]
    members = codec_of(file).unpack(key, value, "test")
    assert from_members(members, key[0]).total() > 0
    for other in (b"", b"\xff", bytes([key[0] + 1]), key + b"\0\0\1", key + bytes(3000)):
        row = other, codec_of(file).pack(other, members)
        text = changed(file, {number: [("tree", 0, pack_rows([row]))]})
        assert "FILE is damaged" in refused(target, text)


def test_facts_that_are_missing_are_noticed_though_the_header_knows(target: Database, file: bytes) -> None:
    number = at(file, "tree")
    rows = list(unpack_rows(payload(file, number)))

    def fewer(header: Header) -> None:
        counts = header["segments"][0]["rows"]
        counts["rows"] -= len(rows)
        counts["size"] -= sum(len(key) + len(value) for key, value in rows)

    text = changed(with_header(file, fewer), {number: []})
    assert "where its header says" in refused(target, text)
    assert "tree 0 has" in refused(target, text)


def test_keys_that_do_not_ascend_are_refused(target: Database, file: bytes) -> None:
    for kind in ("tree", "names"):
        number = at(file, kind)
        rows = list(unpack_rows(payload(file, number)))
        for wrong in ([*rows, rows[-1]], [*rows[::-1], rows[0]], []):
            text = changed(file, {number: [(kind, 0, pack_rows(wrong))]})
            assert "FILE is damaged" in refused(target, text)


def test_names_that_are_not_where_they_belong_are_refused(target: Database, file: bytes) -> None:
    number = at(file, "names")
    (key, value), *others = unpack_rows(payload(file, number))
    count, joined, ids, kinds = RowCodec().unpack(key, value, "test")
    backwards = b"\n".join(joined.split(b"\n")[::-1])
    for members in (
        (count, backwards, ids, kinds),
        (count, joined, ids[:-8], kinds),
        (count, b"\xff", ids, kinds),
        (1,),
    ):
        row = key, RowCodec().pack(key, members)
        text = changed(file, {number: [("names", 0, pack_rows([row, *others]))]})
        assert "names 0: " in refused(target, text)


def test_members_in_another_order_are_refused(target: Database, file: bytes) -> None:
    parts = [(block.kind, block.number, block.payload) for block in blocks(file)]
    codes, names = at(file, "codes"), at(file, "names")
    for order in (
        [*parts[:codes], parts[codes + 1], parts[codes], *parts[codes + 2 :]],
        [parts[0], parts[names], *parts[1:]],
        [*parts[:names], ("tree", 1, parts[names][2]), *parts[names:]],
        [*parts[:-1], parts[2], parts[-1]],
        [parts[0], parts[0], *parts[1:]],
        [("no\x1bkind", 0, b""), *parts],
        parts[1:],
    ):
        assert "FILE is damaged" in refused(target, forged(order))


def test_names_of_sql_are_names(db_url: str, file: bytes) -> None:
    name = """x"; DROP SCHEMA refactx CASCADE; -- ' %s {} \\"""
    text = with_header(file, lambda header: header.update(name=name, tokenizer=name, source=[name, "\x1b[31m"]))
    with opened(db_url) as database:
        assert import_stream(database, BytesIO(text), "FILE").index == name
    with psycopg.connect(db_url) as connection:
        (entry,) = list_indexes(connection)
    assert (entry["name"], entry["tokenizer"], entry["source"]) == (name, name, [name, "\ufffd[31m"])


def test_a_bomb_is_one_line_of_the_command_line_in_bounded_memory(db_url: str, file: bytes, tmp_path: Path) -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(4 << 30))
    (tmp_path / "bomb").write_bytes(changed(file, {1: [("tokens", 0, bomb)]}))
    assert "its tokenizer cannot be read" in complains(db_url, "index", "import", tmp_path / "bomb")
