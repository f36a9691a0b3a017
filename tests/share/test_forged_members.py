"""Forged members of a file, with right checksums, are one clear error, and leave nothing in the database."""

import json
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import zstandard
from support.complaints import complains
from support.share.forged_files import (
    Header,
    block_number,
    change_header,
    compress_json,
    import_error,
    pack_pickle,
    payload,
    row_codec,
)
from support.shared_index import blocks, changed, forged
from support.tiny_model import tiny_fact_tokenizer

from refactx.index.file.format import FILE_VERSION
from refactx.index.file.rows import pack_rows, unpack_rows
from refactx.postgres.database import Database
from refactx.tokenizer import MAX_TOKENIZER_BYTES
from refactx.tree.codes import RowCodec
from refactx.tree.piece import pack_arrays, read_in_place


def test_another_tokenizer_or_none_is_refused(target: Database, export_bytes: bytes) -> None:
    form = json.loads(tiny_fact_tokenizer().serialized)
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(MAX_TOKENIZER_BYTES + 1))
    hole = {**form, "added_tokens": [{**form["added_tokens"][0], "id": 1 << 31}]}
    for other in (b"", b"\0", compress_json({}), compress_json(form), bomb, compress_json(hole)):
        text = changed(export_bytes, {1: [("tokens", 0, other)]})
        if other == compress_json(form):
            text = change_header(text, lambda header: header.update(vocabulary_size=281))
        assert "its tokenizer" in import_error(target, text)


def test_codes_that_are_not_token_ids_are_refused(target: Database, export_bytes: bytes) -> None:
    number = block_number(export_bytes, "codes")
    whole = payload(export_bytes, number)
    for other in (whole[:-1], struct.pack("<i", 1 << 20) + whole[4:], struct.pack("<i", -1), whole[:4] * 2):
        assert "codes 0: its table of token codes" in import_error(
            target, changed(export_bytes, {number: [("codes", 0, other)]})
        )
    swapped = whole[4:8] + whole[:4] + whole[8:]
    assert "checksum is wrong" in import_error(target, changed(export_bytes, {number: [("codes", 0, swapped)]}))


def test_another_dictionary_is_refused(target: Database, export_bytes: bytes) -> None:
    for other in (b"nonsense", b"\x37\xa4\x30\xec" + bytes(100), bytes((4 << 20) + 1)):
        assert "FILE is damaged" in import_error(
            target, changed(export_bytes, {block_number(export_bytes, "dict"): [("dict", 0, other)]})
        )


def test_a_row_that_a_reader_would_refuse_is_refused(target: Database, export_bytes: bytes) -> None:
    number = block_number(export_bytes, "tree")
    (key, value), *others = unpack_rows(payload(export_bytes, number), FILE_VERSION)
    codec = row_codec(export_bytes)
    pieces = {
        "empty": b"",
        "bomb that states its size": pack_pickle(export_bytes, key, bytes(1 << 27)),
        "bomb that states a smaller size": pack_pickle(export_bytes, key, bytes(1 << 27), 100),
        "call": pack_pickle(export_bytes, key, pickle.dumps(print, 5)),
        "endless pickle": pack_pickle(export_bytes, key, b"\x80\x05\x95" + b"\xff" * 8 + b"."),
        "not a piece": codec.pack(key, (0, 1, b"")),
        "another row": others[0][1] if others else value[::-1],
        "row of another key": codec.pack(b"\0", codec.unpack(key, value, "test")),
        "row of names": payload(export_bytes, block_number(export_bytes, "names"))[6:],
    }
    for what, other in pieces.items():
        text = changed(export_bytes, {number: [("tree", 0, pack_rows([(key, other), *others]))]})
        assert "tree 0: " in import_error(target, text), what


def test_rows_that_claim_another_level_are_refused(target: Database, export_bytes: bytes) -> None:
    number = block_number(export_bytes, "tree", last=True)
    (key, value), *_ = list(unpack_rows(payload(export_bytes, number), FILE_VERSION))[-1:]
    codec = row_codec(export_bytes)
    piece = read_in_place(codec, key, value, "test")
    assert piece.total() > 0
    for other in (b"", b"\xff", bytes([key[0] + 1]), key + b"\0\0\1", key + bytes(3000)):
        row = other, pack_arrays(other, replace(piece, level=other[0] if other else 0), codec.seed)
        text = changed(export_bytes, {number: [("tree", 0, pack_rows([row]))]})
        assert "FILE is damaged" in import_error(target, text)


def test_missing_facts_are_found_even_if_the_header_has_the_smaller_counts(
    target: Database, export_bytes: bytes
) -> None:
    number = block_number(export_bytes, "tree")
    rows = list(unpack_rows(payload(export_bytes, number), FILE_VERSION))

    def fewer(header: Header) -> None:
        counts = header["segments"][0]["rows"]
        counts["rows"] -= len(rows)
        counts["size"] -= sum(len(key) + len(value) for key, value in rows)

    text = changed(change_header(export_bytes, fewer), {number: []})
    assert "but its header says" in import_error(target, text)
    assert "tree 0 has" in import_error(target, text)


def test_keys_that_do_not_ascend_are_refused(target: Database, export_bytes: bytes) -> None:
    for kind in ("tree", "names"):
        number = block_number(export_bytes, kind)
        rows = list(unpack_rows(payload(export_bytes, number), FILE_VERSION))
        for wrong in ([*rows, rows[-1]], [*rows[::-1], rows[0]], []):
            text = changed(export_bytes, {number: [(kind, 0, pack_rows(wrong))]})
            assert "FILE is damaged" in import_error(target, text)


def test_damaged_blocks_of_names_and_of_ids_are_refused(target: Database, export_bytes: bytes) -> None:
    for last in (False, True):
        number = block_number(export_bytes, "names", last=last)
        ((key, value),) = unpack_rows(payload(export_bytes, number), FILE_VERSION)
        count, joined, *columns = RowCodec().unpack(key, value, "test")
        assert isinstance(joined, bytes)
        if last:
            ids, kinds = columns
            backwards = b"\n".join(joined.split(b"\n")[::-1])
            wrong = [(count, backwards, ids, kinds), (count, joined, ids[:-8], kinds), (count, b"\xff", ids, kinds)]
        else:
            (steps,) = columns
            wrong = [(count, joined, steps[:-1]), (count, joined, bytes(len(steps))), (count, b"\xff", steps)]
        for members in (*wrong, (1,)):
            row = key, RowCodec().pack(key, members)
            text = changed(export_bytes, {number: [("names", 0, pack_rows([row]))]})
            assert "names 0: " in import_error(target, text)


def test_members_in_another_order_are_refused(target: Database, export_bytes: bytes) -> None:
    parts = [(block.kind, block.number, block.payload) for block in blocks(export_bytes)]
    codes, names = block_number(export_bytes, "codes"), block_number(export_bytes, "names")
    for order in (
        [*parts[:codes], parts[codes + 1], parts[codes], *parts[codes + 2 :]],
        [parts[0], parts[names], *parts[1:]],
        [*parts[:names], ("tree", 1, parts[names][2]), *parts[names:]],
        [*parts[:-1], parts[2], parts[-1]],
        [parts[0], parts[0], *parts[1:]],
        [("no\x1bkind", 0, b""), *parts],
        parts[1:],
    ):
        assert "FILE is damaged" in import_error(target, forged(order))


def test_a_decompression_bomb_is_one_line_on_stderr_in_bounded_memory(
    db_url: str, export_bytes: bytes, tmp_path: Path
) -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(4 << 30))
    (tmp_path / "bomb").write_bytes(changed(export_bytes, {1: [("tokens", 0, bomb)]}))
    assert "its tokenizer cannot be read" in complains(db_url, "index", "import", tmp_path / "bomb")
