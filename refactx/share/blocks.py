"""The file of a shared index: a magic, then blocks, each with a checksum over itself and all before it.

```
file  = magic (12 bytes), version (4), block, block, ...
block = head (20 bytes), payload, checksum (32)
head  = kind (8 bytes, filled up with NUL), number (4), size of the payload (4), CRC-32 of these sixteen bytes (4)
```

Numbers are big-endian. A checksum is the SHA-256 of the checksum before it (of magic and version for the first), head and
payload. So a block that is lost, moved, doubled or changed is found before anything in it is used, and the last checksum
is that of the whole file. Checksums are no proof of origin: whoever reads a payload checks what it says, too.

What the blocks hold: `refactx.share.header` and docs/share.md.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from refactx.errors import InputError

MAGIC = b"\x89RefactX\r\n\x1a\n"
"""As PNG's (RFC 2083, section 12.12): a copy in text mode, or one with seven bits a byte, breaks it."""

FILE_VERSION = 1
"""Of this layout; a file of a newer one is refused with the advice to upgrade."""

MAX_PAYLOAD = 96 << 20
"""More than the largest row, which holds at most 64 MiB before it is compressed."""

_START = struct.Struct(">12sI")
_HEAD = struct.Struct(">8sII")
_CRC = struct.Struct(">I")
_ROW = struct.Struct(">HI")
_CHECKSUM_BYTES = 32

Row = tuple[bytes, bytes]


class TruncatedFileError(InputError):
    """The file ends before its last block."""


def damaged(name: str, what: str) -> InputError:
    """The error for a file that does not hold what it should."""
    return InputError(f"{name} is damaged or was made by hand: {what}. Copy or export it again")


@dataclass(frozen=True, slots=True)
class Block:
    """One block. `end`: the position in the file behind it; `checksum`: over it and all before it."""

    kind: str
    number: int
    payload: bytes
    end: int
    checksum: bytes


class BlockWriter:
    """Appends blocks to a file: from its beginning, or behind the block `after`, where `file` must stand then."""

    def __init__(self, file: BinaryIO, after: Block | None = None) -> None:
        self._file = file
        if after is None:
            start = _START.pack(MAGIC, FILE_VERSION)
            file.write(start)
            self.written, self.checksum = len(start), hashlib.sha256(start).digest()
        else:
            self.written, self.checksum = after.end, after.checksum

    def write(self, kind: str, number: int, payload: bytes) -> None:
        """Append one block. `kind`: up to eight ASCII letters."""
        if len(payload) > MAX_PAYLOAD:
            raise InputError(f"a block of {len(payload):,} bytes cannot be shared: the most is {MAX_PAYLOAD:,}")
        head = _HEAD.pack(kind.encode(), number, len(payload))
        head += _CRC.pack(zlib.crc32(head))
        self.checksum = _chained(self.checksum, head, payload)
        for part in (head, payload, self.checksum):
            self._file.write(part)
        self.written += len(head) + len(payload) + _CHECKSUM_BYTES


def read_blocks(file: BinaryIO, name: str) -> Iterator[Block]:
    """The blocks of a file from its beginning, each checked, until the file ends between two of them.

    Memory is bounded by `MAX_PAYLOAD`. Raises InputError, which begins with `name`, where the file is none of ours, too new or
    damaged; TruncatedFileError where it ends within a block.
    """
    start = file.read(_START.size)
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise InputError(f"{name} is no file of `refactx index export`: it begins with {start[:8]!r}")
    if len(start) < _START.size:
        raise _truncated(name, len(start))
    version = _START.unpack(start)[1]
    if version > FILE_VERSION:
        raise InputError(f"{name} has version {version} of the file format (this is {FILE_VERSION}): upgrade refactx")
    if version < 1:
        raise damaged(name, f"it claims version {version} of the file format")
    end, checksum = len(start), hashlib.sha256(start).digest()
    while head := file.read(_HEAD.size + _CRC.size):
        if len(head) < _HEAD.size + _CRC.size:
            raise _truncated(name, end + len(head))
        kind, number, size = _HEAD.unpack_from(head)
        if zlib.crc32(head[: _HEAD.size]) != _CRC.unpack_from(head, _HEAD.size)[0] or size > MAX_PAYLOAD:
            raise damaged(name, f"at byte {end:,} there is no block")
        payload = file.read(size)
        stored = file.read(_CHECKSUM_BYTES)
        if len(payload) < size or len(stored) < _CHECKSUM_BYTES:
            raise _truncated(name, end + len(head) + len(payload) + len(stored))
        checksum = _chained(checksum, head, payload)
        if stored != checksum:
            raise damaged(name, f"the checksum of the block at byte {end:,} is wrong")
        end += len(head) + size + _CHECKSUM_BYTES
        yield Block(kind.rstrip(b"\0").decode("latin-1"), number, payload, end, checksum)


def pack_rows(rows: Iterable[Row]) -> bytes:
    """Keys (up to 65,535 bytes) and values as one payload.

    >>> list(unpack_rows(pack_rows([(b"k", b"value"), (b"l", b"")])))
    [(b'k', b'value'), (b'l', b'')]
    """
    return b"".join(part for key, value in rows for part in (_ROW.pack(len(key), len(value)), key, value))


def unpack_rows(payload: bytes) -> Iterator[Row]:
    """The keys and values of a payload. Raises ValueError where it is none."""
    at, end = 0, len(payload)
    while at < end:
        if end - at < _ROW.size:
            raise ValueError("its rows do not add up")
        key_size, size = _ROW.unpack_from(payload, at)
        at += _ROW.size
        if key_size + size > end - at:
            raise ValueError("its rows do not add up")
        yield payload[at : at + key_size], payload[at + key_size : at + key_size + size]
        at += key_size + size


def packed_size(row: Row) -> int:
    """Bytes of a row in a payload."""
    return _ROW.size + len(row[0]) + len(row[1])


def _chained(before: bytes, head: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(before)
    digest.update(head)
    digest.update(payload)
    return digest.digest()


def _truncated(name: str, size: int) -> TruncatedFileError:
    return TruncatedFileError(f"{name} is truncated: it ends at byte {size:,}, in the middle of a block")
