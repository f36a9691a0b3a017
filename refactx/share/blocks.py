"""The file of a shared index: a magic number, then blocks, each with a checksum over itself and all before it.

```
file  = magic (12 bytes), version (4), block, block, ...
block = head (20 bytes), payload, checksum (32)
head  = kind (8 bytes, padded with NUL), number (4), size of the payload (4), CRC-32 of these sixteen bytes (4)
```

Numbers are big-endian. A checksum is the SHA-256 of the checksum before it (of magic and version for the first block),
head and payload. So a block that is lost, moved, repeated or changed is found before anything in it is used, and the
last checksum is that of the whole file. Checksums do not prove who made a file: the reader of a payload also checks
its contents.

`refactx.share.header` and docs/reference/file-formats.md describe the contents of the blocks.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from refactx.errors import InputError

MAGIC = b"\x89RefactX\r\n\x1a\n"
"""As in PNG (RFC 2083, section 12.12): a copy in text mode or with seven bits per byte breaks it."""

FILE_VERSION = 2
"""The version of this layout. A file of a newer version is refused with the advice to upgrade."""

MAX_PAYLOAD = 96 << 20
"""More than the largest row takes: its limit is 64 MiB before compression."""

_START = struct.Struct(">12sI")
_HEAD = struct.Struct(">8sII")
_CRC = struct.Struct(">I")
_ROW = struct.Struct(">HI")
_CHECKSUM_BYTES = 32

KeyedRow = tuple[bytes, bytes]


class TruncatedFileError(InputError):
    """The file ends before its last block."""


def damage_error(name: str, what: str) -> InputError:
    """Return the error for a file with wrong contents."""
    return InputError(f"{name} is damaged or was made by hand: {what}. Copy or export it again")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBlock:
    """One block. `end`: the position of its end in the file. `checksum`: over it and all before it."""

    kind: str
    number: int
    payload: bytes
    end: int
    checksum: bytes


class BlockWriter:
    """Appends blocks to a file: from its beginning, or after the block `after`, at whose end `file` must be."""

    def __init__(self, file: BinaryIO, after: FileBlock | None = None) -> None:
        self._file = file
        if after is None:
            start = _START.pack(MAGIC, FILE_VERSION)
            file.write(start)
            self.written, self.checksum = len(start), hashlib.sha256(start).digest()
        else:
            self.written, self.checksum = after.end, after.checksum

    def write(self, kind: str, number: int, payload: bytes) -> None:
        """Append one block. `kind`: at most eight ASCII letters. Raises InputError if the payload is too large."""
        if len(payload) > MAX_PAYLOAD:
            raise InputError(f"a block of {len(payload):,} bytes cannot be exported: the maximum is {MAX_PAYLOAD:,}")
        head = _HEAD.pack(kind.encode(), number, len(payload))
        head += _CRC.pack(zlib.crc32(head))
        self.checksum = _chain(self.checksum, head, payload)
        for part in (head, payload, self.checksum):
            self._file.write(part)
        self.written += len(head) + len(payload) + _CHECKSUM_BYTES


def read_blocks(file: BinaryIO, name: str) -> Iterator[FileBlock]:
    """Check and yield the blocks of a file from its beginning, until the file ends between two blocks.

    Memory is bounded by `MAX_PAYLOAD`. Raises InputError if the file is damaged, too new, or not an export, and
    TruncatedFileError if it ends within a block. Both messages begin with `name`.
    """
    start = file.read(_START.size)
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise InputError(f"{name} is not a file of `refactx index export`: it begins with {start[:8]!r}")
    if len(start) < _START.size:
        raise _truncated(name, len(start))
    version = _START.unpack(start)[1]
    if version > FILE_VERSION:
        raise InputError(f"{name} has version {version} of the file format (this is {FILE_VERSION}): upgrade refactx")
    if version < 1:
        raise damage_error(name, f"it claims version {version} of the file format")
    end, checksum = len(start), hashlib.sha256(start).digest()
    while head := file.read(_HEAD.size + _CRC.size):
        if len(head) < _HEAD.size + _CRC.size:
            raise _truncated(name, end + len(head))
        kind, number, size = _HEAD.unpack_from(head)
        if zlib.crc32(head[: _HEAD.size]) != _CRC.unpack_from(head, _HEAD.size)[0] or size > MAX_PAYLOAD:
            raise damage_error(name, f"at byte {end:,} there is no block")
        payload = file.read(size)
        stored = file.read(_CHECKSUM_BYTES)
        if len(payload) < size or len(stored) < _CHECKSUM_BYTES:
            raise _truncated(name, end + len(head) + len(payload) + len(stored))
        checksum = _chain(checksum, head, payload)
        if stored != checksum:
            raise damage_error(name, f"the checksum of the block at byte {end:,} is wrong")
        end += len(head) + size + _CHECKSUM_BYTES
        yield FileBlock(
            kind=kind.rstrip(b"\0").decode("latin-1"), number=number, payload=payload, end=end, checksum=checksum
        )


def pack_rows(rows: Iterable[KeyedRow]) -> bytes:
    """Return one payload of keys (at most 65,535 bytes each) and values.

    >>> list(unpack_rows(pack_rows([(b"k", b"value"), (b"l", b"")])))
    [(b'k', b'value'), (b'l', b'')]
    """
    return b"".join(part for key, value in rows for part in (_ROW.pack(len(key), len(value)), key, value))


def unpack_rows(payload: bytes) -> Iterator[KeyedRow]:
    """Yield the keys and values of a payload. Raises ValueError if their sizes do not fit it."""
    at, end = 0, len(payload)
    while at < end:
        if end - at < _ROW.size:
            raise ValueError("the sizes of its rows do not add up")
        key_size, size = _ROW.unpack_from(payload, at)
        at += _ROW.size
        if key_size + size > end - at:
            raise ValueError("the sizes of its rows do not add up")
        yield payload[at : at + key_size], payload[at + key_size : at + key_size + size]
        at += key_size + size


def packed_size(row: KeyedRow) -> int:
    """Return the bytes that a row takes in a payload."""
    return _ROW.size + len(row[0]) + len(row[1])


def _chain(before: bytes, head: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(before)
    digest.update(head)
    digest.update(payload)
    return digest.digest()


def _truncated(name: str, size: int) -> TruncatedFileError:
    return TruncatedFileError(f"{name} is truncated: it ends at byte {size:,}, in the middle of a block")
