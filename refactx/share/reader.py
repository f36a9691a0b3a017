"""The reader of a shared index: its header, then its parts block by block, each checked for order and size.

These checks hold for every file: magic, version, checksums, the header's values, the order of members, ascending keys,
as many rows and bytes as the header says, and nothing after the end. `refactx.share.checks` checks the contents of
rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from refactx.errors import InputError
from refactx.share.blocks import FileBlock, KeyedRow, TruncatedFileError, damage_error, read_blocks, unpack_rows
from refactx.share.header import ROWS, Member, ShareHeader

ByteProgress = Callable[[int, int], object]
"""Called with the bytes of rows since its last call, and the bytes of rows of the whole index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBlock:
    """One block after the header. `index`: its number, from 1. `rows`: empty if its member is one without rows."""

    index: int
    member: Member
    block: FileBlock
    rows: tuple[KeyedRow, ...]


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """An open file: its header, the header's block, and the parts after it, which can be read once."""

    header: ShareHeader
    head: FileBlock
    parts: Iterator[MemberBlock]


def open_shared(file: BinaryIO, name: str) -> SharedIndex:
    """Read the header of a file. The rest is read as `parts` is iterated.

    Both raise InputError if the file is damaged, too new, or not an export, and TruncatedFileError if it ends early.
    The messages begin with `name`.
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
        raise damage_error(name, str(error)) from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return SharedIndex(header, first, _parts(header, blocks, name))


def _parts(header: ShareHeader, blocks: Iterator[FileBlock], name: str) -> Iterator[MemberBlock]:
    members = header.members()
    member = next(members)
    count = _Count()
    for index, block in enumerate(blocks, 1):
        try:
            while (block.kind, block.number) != member and member[0] in ROWS:
                count.check_complete(header, member)
                member, count = next(members), _Count()
            if (block.kind, block.number) != member:
                raise ValueError(f"expected {member[0]} {member[1]}, found {block.kind} {block.number}")
            rows = count.add(block.payload) if member[0] in ROWS else ()
        except ValueError as error:
            raise damage_error(name, str(error)) from None
        yield MemberBlock(index=index, member=member, block=block, rows=rows)
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
        raise damage_error(name, "it continues after its end")


class _Count:
    """The rows and bytes of a member that have been read."""

    def __init__(self) -> None:
        self._rows = self._bytes = 0
        self._last: bytes | None = None

    def add(self, payload: bytes) -> tuple[KeyedRow, ...]:
        rows = tuple(unpack_rows(payload))
        if not rows:
            raise ValueError("one of its blocks has no rows")
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
                f"{member[0]} {member[1]} has {self._rows:,} rows of {self._bytes:,} bytes, but its header says "
                f"{expected.rows:,} of {expected.size:,}"
            )
