"""Forged members of a file, with right checksums, are one clear error, and leave nothing in the database."""

import json
import pickle
import struct
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
import zstandard
from support.complaints import complains
from support.share.forged_files import (
    Contents,
    Header,
    changed_header,
    compress_json,
    forge,
    import_error,
    pack_pickle,
    row_codec_of,
    rows_of,
    value_of,
)
from support.tiny_model import tiny_fact_tokenizer

from refactx.index.file import KeyedRow
from refactx.index.header import Member
from refactx.postgres.database import Database
from refactx.tokenizer import MAX_TOKENIZER_BYTES
from refactx.tree.codes import RowCodec
from refactx.tree.piece import pack_arrays, read_in_place


class Refused(Protocol):
    def __call__(self, member: Member, value: bytes | list[KeyedRow], base: Contents = ...) -> str: ...


@pytest.fixture
def refused(target: Database, made: Contents, tmp_path: Path) -> Refused:
    """What an import says of the export with one other member."""

    def refuse(member: Member, value: bytes | list[KeyedRow], base: Contents = made) -> str:
        return import_error(target, forge(tmp_path / "file", {**base, member: value}))

    return refuse


def test_another_tokenizer_or_none_is_refused(refused: Refused, made: Contents) -> None:
    form = json.loads(tiny_fact_tokenizer().serialized)
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(MAX_TOKENIZER_BYTES + 1))
    hole = {**form, "added_tokens": [{**form["added_tokens"][0], "id": 1 << 31}]}
    for other in (b"", b"\0", compress_json({}), compress_json(form), bomb, compress_json(hole)):
        base = made
        if other == compress_json(form):
            base = changed_header(made, lambda header: header.update(vocabulary_size=281))
        assert "its tokenizer" in refused(("tokens", 0), other, base)


def test_codes_that_are_not_token_ids_are_refused(refused: Refused, made: Contents) -> None:
    whole = value_of(made, "codes")
    for other in (whole[:-1], struct.pack("<i", 1 << 20) + whole[4:], struct.pack("<i", -1), whole[:4] * 2):
        assert "its table of token codes" in refused(("codes", 0), other)
    assert "checksum is wrong" in refused(("codes", 0), whole[4:8] + whole[:4] + whole[8:])


def test_another_dictionary_is_refused(refused: Refused) -> None:
    for other in (b"nonsense", b"\x37\xa4\x30\xec" + bytes(100), bytes((4 << 20) + 1)):
        assert "FILE is damaged" in refused(("dict", 0), other)


def test_a_row_that_a_reader_would_refuse_is_refused(refused: Refused, made: Contents) -> None:
    (key, value), *others = rows_of(made, "tree")
    codec = row_codec_of(made)
    pieces = {
        "empty": b"",
        "bomb that states its size": pack_pickle(made, key, bytes(1 << 27)),
        "bomb that states a smaller size": pack_pickle(made, key, bytes(1 << 27), 100),
        "call": pack_pickle(made, key, pickle.dumps(print, 5)),
        "endless pickle": pack_pickle(made, key, b"\x80\x05\x95" + b"\xff" * 8 + b"."),
        "not a piece": codec.pack(key, (0, 1, b"")),
        "another row": others[0][1],
        "row of another key": codec.pack(b"\0", codec.unpack(key, value, "test")),
        "row of names": rows_of(made, "names")[0][1],
    }
    for what, other in pieces.items():
        assert "tree 0: " in refused(("tree", 0), [(key, other), *others]), what


def test_rows_that_claim_another_level_are_refused(refused: Refused, made: Contents) -> None:
    *others, (key, value) = rows_of(made, "tree")
    codec = row_codec_of(made)
    piece = read_in_place(codec, key, value, "test")
    assert piece.total() > 0
    for other in (b"", b"\xff", bytes([key[0] + 1]), key + b"\0\0\1", key + bytes(3000)):
        row = other, pack_arrays(other, replace(piece, level=other[0] if other else 0), codec.seed)
        assert "FILE is damaged" in refused(("tree", 0), sorted([*others, row]))


def test_missing_facts_are_found_even_if_the_header_has_the_smaller_counts(refused: Refused, made: Contents) -> None:
    rows = rows_of(made, "tree")[3:]

    def fewer(header: Header) -> None:
        header["segments"][0]["rows"] = len(rows)

    assert "but its header says" in refused(("tree", 0), rows)
    assert "tree 0 has" in refused(("tree", 0), rows, changed_header(made, fewer))


def test_keys_that_do_not_ascend_are_refused(refused: Refused, made: Contents) -> None:
    for kind in ("tree", "names"):
        rows = rows_of(made, kind)
        for wrong in (rows[::-1], []):
            assert "FILE is damaged" in refused((kind, 0), wrong)


def test_damaged_blocks_of_names_and_of_ids_are_refused(refused: Refused, made: Contents) -> None:
    rows = rows_of(made, "names")
    for at in (0, -1):
        key, value = rows[at]
        count, joined, *columns = RowCodec().unpack(key, value, "test")
        assert isinstance(joined, bytes)
        if at:
            ids, kinds = columns
            backwards = b"\n".join(joined.split(b"\n")[::-1])
            wrong = [(count, backwards, ids, kinds), (count, joined, ids[:-8], kinds), (count, b"\xff", ids, kinds)]
        else:
            (steps,) = columns
            wrong = [(count, joined, steps[:-1]), (count, joined, bytes(len(steps))), (count, b"\xff", steps)]
        for members in (*wrong, (1,)):
            others = list(rows)
            others[at] = key, RowCodec().pack(key, members)
            assert "names 0: " in refused(("names", 0), others)


def test_a_member_that_is_missing_or_too_much_is_refused(
    target: Database, refused: Refused, made: Contents, tmp_path: Path
) -> None:
    for missing in (("codes", 0), ("dict", 0), ("tree", 0), ("names", 0)):
        fewer = {member: value for member, value in made.items() if member != missing}
        assert "FILE is damaged" in import_error(target, forge(tmp_path / "file", fewer))
    assert "its tables are not those" in refused(("tree", 1), rows_of(made, "tree"))


@pytest.mark.long
def test_a_decompression_bomb_is_one_line_on_stderr_in_bounded_memory(
    db_url: str, made: Contents, tmp_path: Path
) -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(4 << 30))
    path = forge(tmp_path / "bomb", {**made, ("tokens", 0): bomb})
    assert "its tokenizer cannot be read" in complains(db_url, "index", "import", path)
