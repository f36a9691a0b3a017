"""A real index in PostgreSQL, changed by hand: errors of one line, and faults that verify finds."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest
import zstandard
from support.command import run_refactx
from support.complaints import complains
from support.hostile_rows import (
    Answers,
    Prefix,
    answer,
    changed,
    errors_of,
    frame_that_states,
    row_with,
    with_counts,
)
from support.ingest.quiet import QUIET
from support.servers import DatabaseServer

from refactx.errors import CorruptIndexError, RefactxError
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.ingest import ingest
from refactx.ingest.segment.cutting import Shape
from refactx.postgres.database import Database
from refactx.tokenizer import FactTokenizer
from refactx.tree.codes import FORMAT_VERSION
from refactx.tree.piece import Piece, to_members


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
    ingest(
        [source],
        made,
        index="hostile",
        tokenizer=tokenizer,
        tokenizer_name="smollm2",
        work=work,
        shape=shape,
        resources=QUIET,
    )
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
    """Change one value of the database during a block."""
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


def test_verify_finds_an_entry_that_shares_more_tokens_than_there_are(index: Index, url: str) -> None:
    key = next(key for key in upper_keys(url) if key[0] == 1)
    tree = index.segments[0][1]
    for entry in (1, 2):
        lcp = changed(tree.piece(key).lcp, entry, 999)
        where, row = with_piece(index, url, key, partial(replace, lcp=lcp))
        with altered(url, "pieces_1", "piece", where, row):
            assert not verify(index).sound


@pytest.mark.long
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


def test_a_numbering_that_asks_for_gigabytes_is_an_error_of_one_line(index: Index, url: str) -> None:
    codes = (2**31 - 1).to_bytes(4, "little") + value_of(url, "segments", "codes")[4:]
    with altered(url, "segments", "codes", "true", codes):
        assert "index 'hostile'" in complains(url, "facts", "<S", "--index", "hostile")


def test_a_stored_tokenizer_that_states_a_huge_size_is_an_error_of_one_line(index: Index, url: str) -> None:
    with altered(url, "tokenizers", "serialized", "true", frame_that_states(1 << 40, True)):
        assert "index 'hostile'" in complains(url, "facts", "<S", "--index", "hostile")


@pytest.mark.long
def test_a_stored_tokenizer_that_is_another_is_an_error(index: Index, url: str) -> None:
    text = index.tokenizer.serialized.replace('"ByteLevel"', '"Metaspace"')
    for other in (b"{}", text.encode(), b"\xff"):
        serialized = zstandard.ZstdCompressor().compress(other)
        with altered(url, "tokenizers", "serialized", "true", serialized):
            assert "index 'hostile'" in complains(url, "facts", "<S", "--index", "hostile")


@pytest.mark.long
def test_a_hostile_row_is_one_line_on_the_command_line_and_a_fault_for_verify(index: Index, url: str) -> None:
    key = index.segments[0][1].root_key
    where, row = f"key = '\\x{key.hex()}'::bytea", row_with(key, b"\x80\x05\x95" + b"\xff" * 8 + b".")
    with altered(url, "pieces_1", "piece", where, row):
        assert f"index 'hostile': row {key.hex()}" in complains(url, "facts", "<S", "--index", "hostile")
        done = run_refactx("index", "verify", "hostile", "--db", url)
    assert done.returncode == 1, done.stderr
    assert f"row {key.hex()}" in done.stdout


def test_the_error_for_an_index_of_a_newer_format_advises_to_upgrade(index: Index, url: str) -> None:
    with altered(url, "indexes", "format", "true", FORMAT_VERSION + 1):
        with pytest.raises(RefactxError, match=r"index 'hostile' .*upgrade refactx"):
            open_index("hostile", url)
        assert "upgrade refactx" in complains(url, "index", "verify", "hostile")
