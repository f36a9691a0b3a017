"""Files of an export with right checksums and wrong contents, and what an import says of them."""

import json
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
import zstandard

from refactx.errors import InputError
from refactx.index.file.format import MAGIC, TruncatedFileError
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.database import Database
from refactx.share.importing import import_stream
from refactx.tree.codes import FORMAT_VERSION, RowCodec, shared_seed
from support.hostile_rows import HEADER
from support.share.transfers import count_tables
from support.shared_index import blocks, changed

Header = dict[str, Any]
START = len(MAGIC) + 4
"""The position of the first block."""


def import_error(target: Database, file: bytes) -> str:
    """The error of an import that fails and leaves nothing in the database."""
    with pytest.raises(InputError) as caught:
        import_stream(target, BytesIO(file), "FILE", step_bytes=1000)
    assert not isinstance(caught.value, TruncatedFileError), caught.value
    assert states(target) == []
    return str(caught.value)


def states(target: Database) -> list[str]:
    """The state of every index in a database; there are tables if and only if there is an index."""
    with target.connection() as connection:
        found = [entry.state for entry in list_indexes(connection, every=True)]
    assert bool(found) == bool(count_tables(target.url))
    return found


def block_number(file: bytes, kind: str, last: bool = False) -> int:
    """The number of the first (last) block of a kind."""
    found = [number for number, block in enumerate(blocks(file)) if block.kind == kind]
    return found[-1 if last else 0]


def payload(file: bytes, number: int) -> bytes:
    """The payload of a block by its number."""
    return blocks(file)[number].payload


def change_header(file: bytes, change: Callable[[Header], object]) -> bytes:
    """The file with a header that `change` has altered in place."""
    header = json.loads(payload(file, 0))
    change(header)
    return changed(file, {0: [("header", 0, json.dumps(header).encode())]})


def compress_json(form: object) -> bytes:
    """A value as compressed JSON, as a tokenizer is stored."""
    return zstandard.ZstdCompressor().compress(json.dumps(form).encode())


def row_codec(file: bytes) -> RowCodec:
    """The codec of the rows of the first segment."""
    return RowCodec(payload(file, block_number(file, "dict")), seed=checksum_seed(file))


def checksum_seed(file: bytes) -> int:
    """The seed of the checksums of rows of the first segment."""
    return shared_seed(payload(file, block_number(file, "codes")), payload(file, block_number(file, "dict")))


def pack_pickle(file: bytes, key: bytes, pickled: bytes, size: int | None = None) -> bytes:
    """A row with a right checksum that holds any pickle and announces any size."""
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(pickled)
    checksum = zlib.crc32(packed, zlib.crc32(key, checksum_seed(file)))
    return HEADER.pack(b"RX", FORMAT_VERSION, checksum, len(pickled) if size is None else size) + packed
