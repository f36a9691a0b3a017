"""A shared index, read from its file block by block: in the order it must have, with the rows it must have.

What is checked here holds for every file: magic, version, checksums, the header's values, which members come in which order,
that keys ascend, that rows and bytes are as many as announced, and that nothing follows the end. What rows mean is for
whoever reads them (`refactx.share.importing`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from refactx.errors import InputError
from refactx.share.blocks import Block, Row, TruncatedFileError, damaged, read_blocks, unpack_rows
from refactx.share.header import ROWS, Member, ShareHeader


@dataclass(frozen=True, slots=True)
class Part:
    """One block behind the header: its rows (of a member with rows), or its payload. `index` counts blocks from 1."""

    index: int
    member: Member
    block: Block
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """A file that has been opened: its header, the header's block, and the parts behind it, which can be read once."""

    header: ShareHeader
    head: Block
    parts: Iterator[Part]


def open_shared(file: BinaryIO, name: str) -> SharedIndex:
    """Read the header of a file; the rest as `parts` are taken.

    Both raise InputError, which begins with `name`, where the file is not one of ours, too new or damaged, and
    TruncatedFileError where it ends early.
    """
    blocks = read_blocks(file, name)
    first = next(blocks, None)
    if first is None:
        raise TruncatedFileError(f"{name} is truncated: it has no header")
    try:
        if (first.kind, first.number) != ("header", 0):
            raise ValueError(f"it begins with {first.kind!r} instead of a header")
        header = ShareHeader.from_bytes(first.payload)
    except ValueError as error:
        raise damaged(name, str(error)) from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return SharedIndex(header, first, _parts(header, blocks, name))


def _parts(header: ShareHeader, blocks: Iterator[Block], name: str) -> Iterator[Part]:
    members = header.members()
    member = next(members)
    count = _Count()
    for index, block in enumerate(blocks, 1):
        try:
            while (block.kind, block.number) != member and member[0] in ROWS:
                count.check_complete(header, member)
                member, count = next(members), _Count()
            if (block.kind, block.number) != member:
                raise ValueError(f"{block.kind} {block.number} stands where {member[0]} {member[1]} belongs")
            rows = count.add(block.payload) if member[0] in ROWS else ()
        except ValueError as error:
            raise damaged(name, str(error)) from None
        yield Part(index, member, block, rows)
        if member[0] == "end":
            break
        if member[0] not in ROWS:
            member, count = next(members), _Count()
    else:
        raise TruncatedFileError(f"{name} is truncated: it ends before {member[0]} {member[1]} is complete")
    try:
        more = next(blocks, None) is not None
    except InputError:
        more = True
    if more:
        raise damaged(name, "it goes on behind its end")


class _Count:
    """What has been read of a member with rows."""

    def __init__(self) -> None:
        self._rows = self._bytes = 0
        self._last: bytes | None = None

    def add(self, payload: bytes) -> tuple[Row, ...]:
        rows = tuple(unpack_rows(payload))
        if not rows:
            raise ValueError("a block of it has no rows")
        for key, value in rows:
            if self._last is not None and key <= self._last:
                raise ValueError(f"its keys do not ascend: {key[:40].hex()} follows {self._last[:40].hex()}")
            self._last = key
            self._bytes += len(key) + len(value)
        self._rows += len(rows)
        return rows

    def check_complete(self, header: ShareHeader, member: Member) -> None:
        expected = header.rows_of(member)
        if (self._rows, self._bytes) != (expected.rows, expected.size):
            raise ValueError(
                f"{member[0]} {member[1]} has {self._rows:,} rows of {self._bytes:,} bytes where its header says "
                f"{expected.rows:,} of {expected.size:,}"
            )
