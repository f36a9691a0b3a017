"""The file of a shared index: a magic number, then blocks, each with a checksum over itself and all before it.

```
file  = magic (12 bytes), version (4), block, block, ...
block = head (20 bytes), payload, padding, checksum (32)
head  = kind (8 bytes, padded with NUL), number (4), size of the payload (4), CRC-32 of these sixteen bytes (4)
```

The padding is of zeros, up to the next multiple of four bytes: every payload begins at one, and so do the arrays in it,
which are read where they are. (Versions 1 and 2 have none.) Numbers are big-endian. A checksum is the SHA-256 of the
checksum before it (of magic and version for the first block), head, payload and padding. So a block that is lost, moved,
repeated or changed is found before anything in it is used, and the last checksum is that of the whole file. Checksums do
not prove who made a file: the reader of a payload also checks its contents.

`refactx.index.file.header`, `row_blocks` and `contents`, and docs/reference/file-formats.md, describe their contents.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from refactx.errors import InputError
from refactx.tree.piece import Buffer

MAGIC = b"\x89RefactX\r\n\x1a\n"
"""As in PNG (RFC 2083, section 12.12): a copy in text mode or with seven bits per byte breaks it."""

FILE_VERSION = 3
"""The version of this layout. A file of a newer version is refused with the advice to upgrade."""

IN_PLACE = 3
"""The first version with padding, a list of its blocks, and rows that can be read in place."""

MAX_PAYLOAD = 96 << 20
"""More than the largest row takes: its limit is 64 MiB before compression."""

_START = struct.Struct(">12sI")
_HEAD = struct.Struct(">8sII")
_CRC = struct.Struct(">I")
CHECKSUM_BYTES = 32
START_BYTES = _START.size
"""The position of the first block."""
HEAD_BYTES = _HEAD.size + _CRC.size


class TruncatedFileError(InputError):
    """The file ends before its last block."""


def damage_error(name: str, what: str) -> InputError:
    """Return the error for a file with wrong contents."""
    return InputError(f"{name} is damaged or was made by hand: {what}. Copy or export it again")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBlock:
    """One block. `end`: the position of its end in the file. `checksum`: over it and all before it. `version`: of the
    file."""

    kind: str
    number: int
    payload: bytes
    end: int
    checksum: bytes
    version: int = FILE_VERSION


class BlockWriter:
    """Appends blocks to a file: from its beginning, or after the block `after`, at whose end `file` must be.

    `version`: that of a new file.
    """

    def __init__(self, file: BinaryIO, after: FileBlock | None = None, version: int = FILE_VERSION) -> None:
        self._file, self._version = file, version if after is None else after.version
        if after is None:
            start = _START.pack(MAGIC, version)
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
        padding = bytes(padding_of(len(payload), self._version))
        self.checksum = chain(self.checksum, head, payload, padding)
        for part in (head, payload, padding, self.checksum):
            self._file.write(part)
        self.written += size_of_block(len(payload), self._version)


def read_start(start: bytes, name: str) -> int:
    """Return the version of a file, given its first `START_BYTES` bytes. Raises InputError as `read_blocks` does."""
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise InputError(f"{name} is not a file of `refactx index export`: it begins with {start[:8]!r}")
    if len(start) < START_BYTES:
        raise truncated_error(name, len(start))
    version: int = _START.unpack(start)[1]
    if version > FILE_VERSION:
        raise InputError(f"{name} has version {version} of the file format (this is {FILE_VERSION}): upgrade refactx")
    if version < 1:
        raise damage_error(name, f"it claims version {version} of the file format")
    return version


def read_head(head: Buffer, name: str, at: int) -> tuple[str, int, int]:
    """Return kind, number and payload size of the block with a head (`HEAD_BYTES`), which is at byte `at`.

    Raises InputError if it is not a head.
    """
    kind, number, size = _HEAD.unpack_from(head)
    if zlib.crc32(head[: _HEAD.size]) != _CRC.unpack_from(head, _HEAD.size)[0] or size > MAX_PAYLOAD:
        raise damage_error(name, f"at byte {at:,} there is no block")
    return kind.rstrip(b"\0").decode("latin-1"), number, size


def read_blocks(file: BinaryIO, name: str) -> Iterator[FileBlock]:
    """Check and yield the blocks of a file from its beginning, until the file ends between two blocks.

    Memory is bounded by `MAX_PAYLOAD`. Raises InputError if the file is damaged, too new, or not an export, and
    TruncatedFileError if it ends within a block. Both messages begin with `name`.
    """
    start = file.read(START_BYTES)
    version = read_start(start, name)
    end, checksum = len(start), hashlib.sha256(start).digest()
    while head := file.read(HEAD_BYTES):
        if len(head) < HEAD_BYTES:
            raise truncated_error(name, end + len(head))
        kind, number, size = read_head(head, name, end)
        payload = file.read(size)
        wanted = padding_of(size, version) + CHECKSUM_BYTES
        rest = file.read(wanted)
        if len(payload) < size or len(rest) < wanted:
            raise truncated_error(name, end + len(head) + len(payload) + len(rest))
        padding, stored = rest[:-CHECKSUM_BYTES], rest[-CHECKSUM_BYTES:]
        checksum = chain(checksum, head, payload, padding)
        if stored != checksum:
            raise damage_error(name, f"the checksum of the block at byte {end:,} is wrong")
        end += size_of_block(size, version)
        yield FileBlock(kind=kind, number=number, payload=payload, end=end, checksum=checksum, version=version)


def padding_of(size: int, version: int) -> int:
    """Return the bytes of padding after a payload of some size.

    >>> padding_of(5, 3), padding_of(5, 2)
    (3, 0)
    """
    return -size % 4 if version >= IN_PLACE else 0


def size_of_block(size: int, version: int = FILE_VERSION) -> int:
    """Return the bytes of a block with a payload of some size."""
    return HEAD_BYTES + size + padding_of(size, version) + CHECKSUM_BYTES


def chain(before: Buffer, *parts: Buffer) -> bytes:
    """Return the checksum of a block, given the checksum before it and the parts of the block."""
    digest = hashlib.sha256(before)
    for part in parts:
        digest.update(part)
    return digest.digest()


def truncated_error(name: str, size: int) -> TruncatedFileError:
    """Return the error for a file that ends within a block."""
    return TruncatedFileError(f"{name} is truncated: it ends at byte {size:,}, in the middle of a block")
