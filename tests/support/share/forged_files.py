"""Files of an export with right checksums and wrong contents, and what an import says of them."""

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from refactx.errors import InputError
from refactx.index.file import IndexFileWriter, KeyedRow
from refactx.index.header import Member
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.share.importing import import_index
from refactx.tree.codes import FORMAT_VERSION, RowCodec, shared_seed
from support.hostile_rows import HEADER
from support.share.transfers import count_tables

Header = dict[str, Any]
Contents = dict[Member, bytes | list[KeyedRow]]
"""The values and tables of a file, in their order."""

TABLES = ("tree", "names", "hubs")


def contents(path: Path) -> Contents:
    """What is in a file."""
    found: Contents = {}
    with closing(sqlite3.connect(path)) as connection:
        for kind, number, value in connection.execute("SELECT kind, number, value FROM parts WHERE kind <> 'end'"):
            if kind in TABLES:
                found[kind, number] = connection.execute(
                    f"SELECT key, value FROM {kind}_{number} ORDER BY number"
                ).fetchall()
            else:
                found[kind, number] = value
    return found


class _Forged:
    """A header that may be wrong, and the members that it is written with."""

    def __init__(self, made: Mapping[Member, bytes | list[KeyedRow]]) -> None:
        self._made = made

    def parts(self) -> Iterator[Member]:
        yield "header", 0
        yield "tokens", 0
        yield from sorted(
            (member for member in self._made if member[0] in ("codes", "dict")), key=lambda one: (one[1], one)
        )

    def tables(self) -> list[Member]:
        return sorted((one for one in self._made if one[0] in TABLES), key=lambda one: (TABLES.index(one[0]), one[1]))

    def to_bytes(self) -> bytes:
        header = self._made["header", 0]
        assert isinstance(header, bytes)
        return header


def forge(path: Path, made: Mapping[Member, bytes | list[KeyedRow]]) -> Path:
    """Write a file with some contents and right checksums."""
    path.unlink(missing_ok=True)
    with closing(IndexFileWriter(path)) as writer:
        for member, value in made.items():
            if isinstance(value, list):
                writer.add_table(member, value)
            elif member != ("header", 0):
                writer.add(member, value)
        writer.finish(_Forged(made))  # type: ignore[arg-type]  # a header that may be wrong
    return path


def edited(path: Path, *statements: str) -> Path:
    """Run statements of SQL in a file, whatever they do to it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def import_error(target: Database, path: Path) -> str:
    """The error of an import that fails and leaves nothing in the database."""
    with pytest.raises(InputError) as caught:
        import_index(target, path, source="FILE", step_bytes=1000)
    assert states(target) == []
    return str(caught.value)


def states(target: Database) -> list[str]:
    """The state of every index in a database; there are tables if and only if there is an index."""
    with target.connection() as connection:
        found = [entry.state for entry in list_indexes(connection, every=True)]
    assert bool(found) == bool(count_tables(target.url))
    return found


def changed_header(made: Contents, change: Callable[[Header], object]) -> Contents:
    """The contents with a header that `change` has altered in place."""
    header = json.loads(value_of(made, "header"))
    change(header)
    return {**made, ("header", 0): json.dumps(header).encode()}


def value_of(made: Contents, kind: str) -> bytes:
    """A single value, that of the first segment."""
    value = made[kind, 0]
    assert isinstance(value, bytes)
    return value


def rows_of(made: Contents, kind: str) -> list[KeyedRow]:
    """The rows of the first table of a kind."""
    rows = made[kind, 0]
    assert isinstance(rows, list)
    return list(rows)


def compress_json(form: object) -> bytes:
    """A value as compressed JSON, as a tokenizer is stored."""
    return zstandard.ZstdCompressor().compress(json.dumps(form).encode())


def row_codec_of(made: Contents, segment: int = 0) -> RowCodec:
    """The codec of the rows of a segment."""
    codes, dictionary = made["codes", segment], made["dict", segment]
    assert isinstance(codes, bytes)
    assert isinstance(dictionary, bytes)
    return RowCodec(dictionary, seed=shared_seed(codes, dictionary))


def pack_pickle(made: Contents, key: bytes, pickled: bytes, size: int | None = None) -> bytes:
    """A row with a right checksum that holds any pickle and announces any size."""
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(pickled)
    checksum = zlib.crc32(packed, zlib.crc32(key, row_codec_of(made).seed))
    return HEADER.pack(b"RX", FORMAT_VERSION, checksum, len(pickled) if size is None else size) + packed
