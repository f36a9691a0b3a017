"""Rows changed by hand are errors that name index and row: never executed, never a wrong mask, never much memory."""

import os
import pickle
import resource
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import psycopg
import pytest
import zstandard
from conftest import DatabaseServer, run_refactx
from numpy.typing import NDArray
from test_stored_tree import DictRows, Sequences, build, random_sequences

from refactx.codec import FORMAT_VERSION, MAX_PICKLE_BYTES, RowCodec, dump
from refactx.connect import open_index
from refactx.errors import CorruptIndexError, RefactxError
from refactx.index import Index
from refactx.ingest.build import Shape
from refactx.ingest.run import Options, ingest
from refactx.piece import SAME_PIECE, TERMINAL, Piece, from_members, to_members
from refactx.postgres import Database
from refactx.stored_tree import StoredTree
from refactx.token_codes import TokenCodes
from refactx.tokenizer import FactTokenizer
from refactx.tree import Children, FactTree
from refactx.verify import verify

HEADER = struct.Struct(">2sBxII")  # as docs/design.md gives it: magic, version, pad, CRC-32 over key and payload, size
MEGABYTE = 1 << 20
Prefix = tuple[int, ...]
Answer = tuple[list[int], list[int], int]
Answers = dict[Prefix, Answer]


def answer(children: Children) -> Answer:
    return children.tokens.tolist(), children.leaves.tolist(), children.terminal


def prefixes_of(sequences: Sequences) -> list[Prefix]:
    return sorted({sequence[:depth] for sequence in sequences for depth in range(len(sequence) + 1)})


def errors_of(tree: FactTree, truth: Answers, named: str) -> int:
    """Ask for all prefixes: each answer is the true one, or an error that names index and row. How many errors."""
    errors = 0
    for prefix, true in truth.items():
        try:
            assert answer(tree.children(prefix)) == true, prefix
        except CorruptIndexError as error:
            assert str(error).startswith("index '"), error
            assert named in str(error), error
            errors += 1
    return errors


@dataclass
class Stored:
    """A tree in rows that can be changed, and what it answered before."""

    rows: DictRows
    codec: RowCodec
    codes: TokenCodes
    levels: int
    facts: int
    truth: Answers

    def tree(self, changed: dict[bytes, bytes]) -> StoredTree:
        """The tree with some rows changed, nothing cached yet."""
        return StoredTree(DictRows(self.rows | changed), self.codec, self.codes, self.levels, self.facts, "test")

    def keys(self, level: int) -> list[bytes]:
        return [key for key in self.rows if key[0] == level]

    def piece(self, key: bytes) -> Piece:
        return from_members(self.codec.unpack(key, self.rows[key], "test"), key[0])

    def errors(self, key: bytes, piece: Piece, named: str | None = None) -> int:
        """How many prefixes raise once the row under `key` holds another piece, packed as by its own builder."""
        tree = self.tree({key: self.codec.pack(key, to_members(piece))})
        return errors_of(tree, self.truth, named or key.hex())


def stored_of(sequences: Sequences) -> Stored:
    tree, rows = build(sequences, Shape(facts=4, inner=6, root=8))
    truth = {prefix: answer(tree.children(prefix)) for prefix in prefixes_of(sequences)}
    return Stored(rows, tree.codec, tree.codes, tree.root_key[0] + 1, len(set(sequences)), truth)


@pytest.fixture(scope="module")
def stored() -> Stored:
    """Three levels or more, with facts that are token-prefixes of others, some of which end above level 0."""
    facts = random_sequences(120, 11)
    made = stored_of(facts + [fact[:3] for fact in facts[:20]] + [facts[0][:1], facts[1][:2]])
    assert made.levels >= 3
    return made


def test_a_flipped_bit_anywhere_in_a_row_changes_no_answer(stored: Stored) -> None:
    for level in range(stored.levels):
        key = stored.keys(level)[0]
        row, before = stored.rows[key], to_members(stored.piece(key))
        for bit in range(8 * len(row)):
            flipped = bytearray(row)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                got = to_members(stored.tree({key: bytes(flipped)}).piece(key))
            except CorruptIndexError as error:
                assert str(error).startswith(f"index 'test': row {key.hex()}")
            else:
                assert got == before
                assert bit // 8 in (2, 3), "only the padding, and a version older than ours"


def test_a_row_cut_at_any_length_or_grown_is_an_error(stored: Stored) -> None:
    for level in range(stored.levels):
        key = stored.keys(level)[-1]
        row = stored.rows[key]
        for changed in [row[:length] for length in range(len(row))] + [row + b"\0", row + row]:
            with pytest.raises(CorruptIndexError, match=f"^index 'test': row {key.hex()} .*damaged"):
                stored.tree({key: changed}).piece(key)


def test_exchanged_rows_are_errors(stored: Stored) -> None:
    root, (first, second, *_) = stored.keys(stored.levels - 1)[0], stored.keys(0)
    for one, other in [(first, second), (first, root)]:
        tree = stored.tree({one: stored.rows[other], other: stored.rows[one]})
        assert errors_of(tree, stored.truth, "checksum") > 0
    # With a checksum made anew for the wrong place as well.
    assert stored.errors(first, stored.piece(second)) > 0


def test_a_newer_format_is_told_to_upgrade(stored: Stored) -> None:
    key = stored.keys(0)[0]
    row = bytearray(stored.rows[key])
    row[2] = FORMAT_VERSION + 1
    with pytest.raises(CorruptIndexError, match=f"row {key.hex()} .*version {FORMAT_VERSION + 1} .*upgrade refactx"):
        stored.tree({key: bytes(row)}).piece(key)


# --- Hostile pickles, in rows whose checksum is right


def row_with(key: bytes, pickled: bytes, size: int | None = None, payload: bytes | None = None) -> bytes:
    if payload is None:
        payload = zstandard.ZstdCompressor(write_content_size=False).compress(pickled)
    announced = len(pickled) if size is None else size
    return HEADER.pack(b"RX", FORMAT_VERSION, zlib.crc32(payload, zlib.crc32(key)), announced) + payload


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak:,} bytes"


def refused(stored: Stored, row: Callable[[bytes], bytes], limit: int) -> str:
    """What a row says that stands where a piece belongs, given that it is refused within `limit` bytes of memory."""
    key = stored.keys(0)[0]
    hostile = row(key)
    tree = stored.tree({key: hostile})
    with memory_below(limit), pytest.raises(CorruptIndexError) as caught:
        tree.piece(key)
    said = str(caught.value)
    assert said.startswith(f"index 'test': row {key.hex()} ")
    return said


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def code_pickles(canary: Path) -> dict[str, bytes]:
    path = str(canary)
    line = path.encode() + b"\n"
    mkdir = b"\x80\x05" + short("os") + short("mkdir") + b"\x93"
    return {
        "GLOBAL": b"cos\nmkdir\n(V" + line + b"tR.",
        "STACK_GLOBAL": mkdir + short(path) + b"\x85R.",
        "INST": b"(V" + line + b"ios\nmkdir\n.",
        "OBJ": b"(cos\nmkdir\nV" + line + b"o.",
        "MEMO": mkdir + b"\x94" + short(path) + b"\x85R0h\x00.",
        "BUILD": b"(" + b"cos\nmkdir\n(V" + line + b"tR}bt.",
        "eval": b"cbuiltins\neval\n(V__import__('os').mkdir('" + path.encode() + b"')\ntR.",
    }


@pytest.mark.parametrize("kind", ["GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "MEMO", "BUILD", "eval"])
def test_code_in_a_pickle_is_never_run(stored: Stored, tmp_path: Path, kind: str) -> None:
    canary = tmp_path / "canary"
    pickled = code_pickles(canary)[kind]
    with suppress(pickle.UnpicklingError, AttributeError):  # BUILD on None, once the folder is made
        pickle.loads(pickled)
    assert canary.exists(), "it is hostile indeed"
    canary.rmdir()
    assert "is not allowed" in refused(stored, lambda key: row_with(key, pickled), MEGABYTE)
    assert not canary.exists()


HUGE = (1 << 62).to_bytes(8, "little")
HOSTILE = {
    "persistent id": b"Pwho\n.",
    "binary persistent id": b"K\x01Q.",
    "extension registry": b"\x82\x01.",
    "list that holds itself": b"]\x94h\x00a.",
    "tuple that holds itself": b"(]\x94h\x00at\x94.",
    "memo at a huge place": b"K\x01r\xff\xff\xff\x7f.",
    "memo in text": b"K\x01p2000000000\n.",
    "nothing in the memo": b"h\x00.",
    "get in text": b"g0\n.",
    "DUP": b"K\x01" + b"2" * 50 + b"t.",
    "bytearray of exabytes": b"\x96" + HUGE,
    "nine bytes that ask for gigabytes": b"\x8e" + (1 << 33).to_bytes(8, "little"),
    "bytes of 4 GB": b"B\xff\xff\xff\xff.",
    "bytes of 2 GB in a tuple": b"\x80\x05B\xff\xff\xff\x7f\x85.",
    "text of exabytes": b"\x8d" + HUGE,
    "LONG4 of 2 GB": b"\x8b\xff\xff\xff\x7f.",
    "LONG4 of a negative length": b"\x8b\xff\xff\xff\xff.",
    "number in text": b"L" + b"9" * 5000 + b"L\n.",
    "buffer from outside": b"\x97.",
    "frame of exabytes": b"\x80\x05\x95" + HUGE + b"K\x01\x85.",
    "frame beyond any size": b"\x80\x05\x95" + b"\xff" * 8 + b"K\x01\x85.",
    "protocol of the future": b"\x80\xffK\x01\x85.",
    "nothing": b"",
    "only its end": b".",
    "only a tuple's end": b"\x80\x05t.",
    "tuple of what is not there": b"\x80\x05\x87.",
    "marks without end": b"\x80\x05" + b"(" * 100 + b".",
    "two ends": b"\x80\x05K\x01\x85..",
    "a bare number": b"\x80\x05K\x01.",
    "nested tuples": b"\x80\x05K\x01\x85\x85.",
    "list": pickle.dumps([1], 5),
    "text": pickle.dumps(("a",), 5),
    "None": b"N\x85.",
    "true": b"\x88\x85.",
    "float": pickle.dumps((1.0,), 5),
    "empty tuple": dump(()),
    "too few members": dump((0, 1)),
    "negative count": dump((0, -1, b"\x01", b"\x01", b"\x01")),
    "huge count": dump((0, 1 << 60, b"\x01", b"\x01", b"\x01")),
    "count beyond any": dump((0, 1 << 1000, b"\x01", b"\x01", b"\x01")),
    "bytes for a count": dump((0, b"1", b"\x01", b"\x01", b"\x01")),
    "numbers for bytes": dump((0, 1, 1, 1, 1)),
    "no entries": dump((0, 0, b"\x01", b"\x01", b"\x01")),
    "level of another": dump((1, 1, b"\x01\x00", b"\x01\x01", b"\x01")),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_pickle_is_an_error_that_costs_nothing(stored: Stored, kind: str) -> None:
    assert "damaged" in refused(stored, lambda key: row_with(key, HOSTILE[kind]), MEGABYTE)


@pytest.mark.parametrize(
    "repeated",
    [b"\x85", b"(", b"K\x00", b"C\x00", b"(t", b"\x8a\x00"],
    ids=["nest", "marks", "ints", "bytes", "tuples", "longs"],
)
def test_many_small_values_take_no_more_memory_than_they_announce(stored: Stored, repeated: bytes) -> None:
    # A few hundred bytes once compressed; of the 64 MiB that a row may announce, these would take gigabytes.
    pickled = b"\x80\x05K\x00(K\x00" + repeated * (MEGABYTE // 8 // len(repeated)) + b"t\x86."
    refused(stored, lambda key: row_with(key, pickled), MEGABYTE // 2)


def frame_that_states(size: int, single: bool) -> bytes:
    """A zstd frame (RFC 8878, section 3.1.1) with its size in the header and one empty block."""
    descriptor = b"\xe0" if single else b"\xc0\x00"
    return b"\x28\xb5\x2f\xfd" + descriptor + size.to_bytes(8, "little") + b"\x01\x00\x00"


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("size", [1 << 30, 1 << 40, (1 << 64) - 3])
def test_a_frame_that_states_a_huge_size_is_refused(stored: Stored, size: int, single: bool) -> None:
    payload = frame_that_states(size, single)
    refused(stored, lambda key: row_with(key, b"", 100, payload), MEGABYTE)


@pytest.mark.parametrize("announced", [0, 1, 1000, MAX_PICKLE_BYTES])
def test_a_zstd_bomb_is_stopped_at_the_size_it_announces(stored: Stored, announced: int) -> None:
    compressor = zstandard.ZstdCompressor(level=1, write_content_size=False).compressobj()
    zeros = bytes(16 * MEGABYTE)
    payload = b"".join(compressor.compress(zeros) for _ in range(16)) + compressor.flush()
    refused(stored, lambda key: row_with(key, b"", announced, payload), MAX_PICKLE_BYTES + 2 * MEGABYTE)


@pytest.mark.parametrize("announced", [MAX_PICKLE_BYTES + 1, (1 << 32) - 1])
def test_more_than_a_row_may_hold_is_refused_before_it_is_allocated(stored: Stored, announced: int) -> None:
    refused(stored, lambda key: row_with(key, b"\x80\x05K\x01\x85.", announced), MEGABYTE)


# --- Wrong values in rows that are packed as the builder would


def changed(values: NDArray[np.unsignedinteger], at: int, value: int) -> NDArray[np.uint64]:
    copy = values.astype(np.uint64)
    copy[at] = value
    return copy


def with_counts(piece: Piece, field: str, values: NDArray[np.uint64]) -> Piece:
    return replace(piece, leaves=values) if field == "leaves" else replace(piece, items=values)


def upper_entries(stored: Stored, level: int) -> Iterator[tuple[bytes, Piece, int]]:
    for key in stored.keys(level)[:3]:
        piece = stored.piece(key)
        for entry in {0, len(piece) // 2, len(piece) - 1}:
            yield key, piece, entry


def other_counts(count: int) -> list[int]:
    return sorted({0, max(count - 1, 0), count + 1, count + 1000, 1 << 33} - {count})


@pytest.mark.parametrize("field", ["leaves", "items"])
def test_a_wrong_count_below_the_root_is_never_a_wrong_answer(stored: Stored, field: str) -> None:
    for level in range(1, stored.levels - 1):
        for key, piece, entry in upper_entries(stored, level):
            values = getattr(piece, field)
            for count in other_counts(int(values[entry])):
                wrong = with_counts(piece, field, changed(values, entry, count))
                # A fact that ends here has no items: what it says of them is not read.
                assert stored.errors(key, wrong) > 0 or piece.kinds[entry] == TERMINAL, (level, entry, count)


def test_a_wrong_number_of_items_in_the_root_is_never_a_wrong_answer(stored: Stored) -> None:
    for key, piece, entry in upper_entries(stored, stored.levels - 1):
        for count in other_counts(int(piece.items[entry])):
            wrong = replace(piece, items=changed(piece.items, entry, count))
            assert stored.errors(key, wrong) > 0 or piece.kinds[entry] == TERMINAL


def test_a_wrong_kind_is_never_a_wrong_answer(stored: Stored) -> None:
    for level in range(1, stored.levels):
        for key, piece, entry in upper_entries(stored, level):
            for kind in {TERMINAL, SAME_PIECE, 2, 3, 255} - {int(piece.kinds[entry])}:
                kinds = piece.kinds.copy()
                kinds[entry] = kind
                assert stored.errors(key, replace(piece, kinds=kinds), "row ") > 0, (level, entry, kind)


def test_a_wrong_carried_key_is_never_a_wrong_answer(stored: Stored) -> None:
    seen = 0
    for level in range(1, stored.levels):
        for key in stored.keys(level):
            piece = stored.piece(key)
            if piece.carried_key:
                seen += 1
                others = [b"", key, piece.carried_key[:-1], *stored.keys(level - 1)[:1]]
                for other in others:
                    if other != piece.carried_key:
                        assert stored.errors(key, replace(piece, carried_key=other), "row ") > 0
                assert stored.errors(key, replace(piece, carried_items=piece.carried_items + 1), "row ") > 0
    assert seen


def sequences_in(piece: Piece, codes: TokenCodes) -> Sequences:
    found: Sequences = []
    for entry in range(len(piece)):
        before = found[-1] if found else ()
        found.append(before[: int(piece.lcp[entry])] + tuple(piece.suffix(entry, codes)))
    return found


def with_sequences(piece: Piece, sequences: Sequences, codes: TokenCodes) -> Piece:
    """The piece with its entries spelled otherwise, front-coded again."""
    lcp, rest = [0], [sequences[0]]
    for before, sequence in pairwise(sequences):
        shared = next(
            (n for n, (a, b) in enumerate(zip(before, sequence, strict=False)) if a != b),
            min(len(before), len(sequence)),
        )
        lcp.append(shared)
        rest.append(sequence[shared:])
    heads = np.array([(suffix or (0,))[0] for suffix in rest], np.uint32) if piece.level else piece.heads
    in_codes = [suffix[1:] if piece.level else suffix for suffix in rest]
    suffixes = [codes.encode(np.array(suffix, np.int32))[0].tobytes() for suffix in in_codes]
    ends = np.cumsum([0, *map(len, suffixes)]).astype(np.int32)
    return replace(piece, lcp=np.array(lcp, np.uint32), ends=ends, codes=b"".join(suffixes), heads=heads)


def test_entries_out_of_order_are_never_a_wrong_answer(stored: Stored) -> None:
    for level in range(stored.levels):
        for key in stored.keys(level)[:4]:
            piece = stored.piece(key)
            found = sequences_in(piece, stored.codes)
            assert with_sequences(piece, found, stored.codes).codes == piece.codes
            for first, second in [(0, 1), (0, len(found) - 1), (len(found) // 2, len(found) - 1)]:
                if first < second < len(found):
                    swapped = found.copy()
                    swapped[first], swapped[second] = found[second], found[first]
                    spelled = with_sequences(piece, swapped, stored.codes)
                    # A key made of the wrong spelling is missing: the error names that one.
                    assert stored.errors(key, spelled, "row ") > 0, (level, first, second)


def test_a_fact_twice_is_never_a_wrong_answer(stored: Stored) -> None:
    for key in stored.keys(0)[:4]:
        piece = stored.piece(key)
        found = sequences_in(piece, stored.codes)
        for at in range(len(found) - 1):
            twice = found.copy()
            twice[at + 1] = found[at]
            # The fact that is gone cannot be missed; but nothing may count double.
            tree = stored.tree({key: stored.codec.pack(key, to_members(with_sequences(piece, twice, stored.codes)))})
            try:
                for depth in range(len(found[at]) + 1):
                    assert tree.children(found[at][:depth]).total in (0, *range(len(stored.truth)))
                assert tree.children(found[at]).terminal == 1
                pytest.fail("a fact that stands twice went unnoticed")
            except CorruptIndexError as error:
                assert key.hex() in str(error)


def test_token_codes_that_stand_for_no_token_are_an_error(stored: Stored) -> None:
    beyond = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    for level in range(stored.levels):
        for number in (beyond, b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f"):
            key = stored.keys(level)[0]
            piece = stored.piece(key)
            for entry in (0, len(piece) - 1):
                start, end = int(piece.ends[entry]), int(piece.ends[entry + 1])
                codes = piece.codes[:start] + number + piece.codes[end:]
                ends = piece.ends.copy()
                ends[entry + 1 :] += len(number) - (end - start)
                assert stored.errors(key, replace(piece, codes=codes, ends=ends)) > 0, (level, number, entry)


# --- A real index, in PostgreSQL


def database_url(server: DatabaseServer, name: str) -> str:
    parts = {"host": server.host, "port": str(server.port), "user": server.user}
    if server.password:
        parts["password"] = server.password
    return f"postgresql:///{name}?{urlencode(parts)}"


@pytest.fixture(scope="module")
def url(
    database_server: DatabaseServer, smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A database with 14,000 facts as index `hostile`, of several levels and with a zstd dictionary."""
    name = f"refactx_hostile_{os.getpid()}"
    server, work = database_url(database_server, database_server.maintenance_dbname), tmp_path_factory.mktemp("hostile")
    source = work / "facts.txt"
    source.write_text("".join(f"<S{n % 1400}> <p{n % 7}> <o{n // 7}> .\n" for n in range(14_000)))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    made = Database(database_url(database_server, name))
    tokenizer = FactTokenizer.from_file(smollm2_folder / "tokenizer.json")
    shape = Shape(facts=64, inner=64, root=64)
    ingest([source], made, work, Options("hostile", tokenizer, "smollm2", shape=shape, quiet=True))
    made.close()
    yield database_url(database_server, name)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture(scope="module")
def index(url: str) -> Iterator[Index]:
    with open_index("hostile", url, cache_bytes=0) as opened:
        assert verify(opened).sound
        yield opened


@contextmanager
def altered(url: str, table: str, column: str, where: str, value: object) -> Iterator[None]:
    """One value of the database changed for the length of a block."""
    with psycopg.connect(url, autocommit=True) as connection:

        def write(new: object) -> None:
            connection.execute(f"UPDATE refactx.{table} SET {column} = %s WHERE {where}".encode(), [new])

        row = connection.execute(f"SELECT {column} FROM refactx.{table} WHERE {where}".encode()).fetchone()
        assert row is not None
        write(value)
        try:
            yield
        finally:
            write(row[0])


def value_of(url: str, table: str, column: str, where: str = "true") -> bytes:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"SELECT {column} FROM refactx.{table} WHERE {where} LIMIT 1".encode()).fetchone()
    assert row is not None
    return bytes(row[0])


def probes(index: Index) -> Answers:
    """Every tenth subject's facts, prefix by prefix."""
    prefixes: set[Prefix] = {()}
    for number in range(0, 700, 70):
        tokens = tuple(index.tokenizer.encode_after(index.trigger, f" <S{number}> <p{number % 7}> <o{number // 7}>"))
        prefixes |= {tokens[:depth] for depth in range(len(tokens) + 1)}
    return {prefix: answer(index.children(prefix)) for prefix in sorted(prefixes)}


def with_piece(index: Index, url: str, key: bytes, change: Callable[[Piece], Piece]) -> tuple[str, bytes]:
    tree = index.segments[0][1]
    where = f"key = '\\x{key.hex()}'::bytea"
    return where, tree.codec.pack(key, to_members(change(tree.piece(key))))


def upper_keys(url: str) -> list[bytes]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT key FROM refactx.pieces_1 WHERE get_byte(key, 0) > 0 ORDER BY key DESC")
        return [bytes(key) for (key,) in rows]


@pytest.mark.parametrize("field", ["leaves", "items"])
@pytest.mark.parametrize("more", [-1, 1])
def test_verify_finds_every_wrong_count_and_names_its_row(index: Index, url: str, field: str, more: int) -> None:
    for key in upper_keys(url)[:3]:

        def wrong(piece: Piece) -> Piece:
            values = getattr(piece, field)
            return with_counts(piece, field, changed(values, 0, int(values[0]) + more))

        where, row = with_piece(index, url, key, wrong)
        with altered(url, "pieces_1", "piece", where, row):
            verdict = verify(index)
        assert not verdict.sound
        assert any("row" in fault for fault in verdict.faults)
    assert verify(index).sound


def test_a_wrong_count_in_the_root_is_never_a_wrong_answer(index: Index, url: str) -> None:
    truth, key = probes(index), index.segments[0][1].root_key
    where, row = with_piece(index, url, key, lambda piece: replace(piece, leaves=changed(piece.leaves, 0, 1 << 20)))
    with altered(url, "pieces_1", "piece", where, row), open_index("hostile", url, cache_bytes=0) as reopened:
        assert errors_of(reopened, truth, key.hex()) > 0


def test_verify_finds_an_entry_that_shares_more_than_there_is(index: Index, url: str) -> None:
    key = next(key for key in upper_keys(url) if key[0] == 1)
    tree = index.segments[0][1]
    for entry in (1, 2):
        lcp = changed(tree.piece(key).lcp, entry, 999)
        where, row = with_piece(index, url, key, partial(replace, lcp=lcp))
        with altered(url, "pieces_1", "piece", where, row):
            assert not verify(index).sound


@pytest.mark.parametrize("column", ["codes", "dictionary"])
def test_a_changed_numbering_or_dictionary_is_never_a_wrong_answer(index: Index, url: str, column: str) -> None:
    truth, stored = probes(index), value_of(url, "segments", column)
    assert stored
    for at in range(0, len(stored), max(1, len(stored) // 40)):
        flipped = bytearray(stored)
        flipped[at] ^= 1
        with altered(url, "segments", column, "true", bytes(flipped)):
            try:
                with open_index("hostile", url, cache_bytes=0) as reopened:
                    errors_of(reopened, truth, "index 'hostile'")
            except CorruptIndexError as error:
                assert "index 'hostile'" in str(error)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


def complains(url: str, *command: object) -> str:
    done = run_refactx(*command, "--db", url, preexec_fn=limited)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_a_numbering_that_asks_for_gigabytes_is_an_error_of_one_line(index: Index, url: str) -> None:
    codes = (2**31 - 1).to_bytes(4, "little") + value_of(url, "segments", "codes")[4:]
    with altered(url, "segments", "codes", "true", codes):
        assert "index 'hostile'" in complains(url, "facts", "<S", "--index", "hostile")


def test_a_stored_tokenizer_that_states_a_huge_size_is_an_error_of_one_line(index: Index, url: str) -> None:
    with altered(url, "tokenizers", "serialized", "true", frame_that_states(1 << 40, True)):
        assert "index 'hostile'" in complains(url, "facts", "<S", "--index", "hostile")


def test_a_stored_tokenizer_that_is_another_is_an_error(index: Index, url: str) -> None:
    text = index.tokenizer.serialized.replace('"ByteLevel"', '"Metaspace"')
    for other in (b"{}", text.encode(), b"\xff"):
        serialized = zstandard.ZstdCompressor().compress(other)
        with altered(url, "tokenizers", "serialized", "true", serialized):
            assert "index 'hostile'" in complains(url, "facts", "<S", "--index", "hostile")


def test_a_hostile_row_is_one_line_of_the_command_line_and_a_fault_of_verify(index: Index, url: str) -> None:
    key = index.segments[0][1].root_key
    where, row = f"key = '\\x{key.hex()}'::bytea", row_with(key, b"\x80\x05\x95" + b"\xff" * 8 + b".")
    with altered(url, "pieces_1", "piece", where, row):
        assert f"index 'hostile': row {key.hex()}" in complains(url, "facts", "<S", "--index", "hostile")
        done = run_refactx("index", "verify", "hostile", "--db", url)
    assert done.returncode == 1, done.stderr
    assert f"row {key.hex()}" in done.stdout


def test_an_index_of_a_newer_format_is_told_to_upgrade(index: Index, url: str) -> None:
    with altered(url, "indexes", "format", "true", FORMAT_VERSION + 1):
        with pytest.raises(RefactxError, match=r"index 'hostile' .*upgrade refactx"):
            open_index("hostile", url)
        assert "upgrade refactx" in complains(url, "index", "verify", "hostile")
