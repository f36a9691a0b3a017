"""The reader of a shared index: its header, then its parts block by block, each checked for order and size.

These checks hold for every file: magic, version, checksums, the header's values, the order of members, ascending keys,
as many rows and bytes as the header says, and nothing after the end. `refactx.share.checks` checks the contents of
rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from refactx.errors import InputError
from refactx.index.file.blocks import IN_PLACE, FileBlock, TruncatedFileError, damage_error, read_blocks, size_of_block
from refactx.index.file.contents import BlockEntry, pack_contents, pack_position
from refactx.index.file.header import ROWS, Member, ShareHeader
from refactx.index.file.row_blocks import KeyedRow, unpack_rows

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
    return SharedIndex(header, first, _parts(header, first, blocks, name))


def entry_of(block: FileBlock, rows: Sequence[KeyedRow] = ()) -> BlockEntry:
    """Return the entry of a block in the contents of a file, given its rows."""
    return BlockEntry(block.kind, block.number, len(block.payload), rows[0][0] if rows else b"")


def _parts(header: ShareHeader, head: FileBlock, blocks: Iterator[FileBlock], name: str) -> Iterator[MemberBlock]:
    version = head.version
    members = header.members(version)
    member = next(members)
    count = _Count(member, version)
    entries, before = [entry_of(head)], head
    for index, block in enumerate(blocks, 1):
        try:
            while (block.kind, block.number) != member and member[0] in ROWS:
                count.check_complete(header)
                member = next(members)
                count = _Count(member, version)
            if (block.kind, block.number) != member:
                raise ValueError(f"expected {member[0]} {member[1]}, found {block.kind} {block.number}")
            rows = count.add(block.payload) if member[0] in ROWS else ()
            _check_contents(block, entries, before)
        except ValueError as error:
            raise damage_error(name, str(error)) from None
        entries.append(entry_of(block, rows))
        yield MemberBlock(index=index, member=member, block=block, rows=rows)
        if member[0] == "end":
            break
        if member[0] not in ROWS:
            member = next(members)
            count = _Count(member, version)
        before = block
    else:
        raise TruncatedFileError(f"{name} is truncated: it ends before {member[0]} {member[1]} is complete")
    try:
        more = next(blocks, None) is not None
    except InputError:
        more = True
    if more:
        raise damage_error(name, "it continues after its end")


def _check_contents(block: FileBlock, entries: Sequence[BlockEntry], before: FileBlock) -> None:
    """Raise ValueError if a block that tells where others are is wrong, given all blocks before it."""
    if block.kind == "contents" and block.payload != pack_contents(entries):
        raise ValueError("its contents are not those that it lists")
    if block.kind == "end" and block.payload != (
        pack_position(before.end - size_of_block(len(before.payload), before.version))
        if block.version >= IN_PLACE
        else b""
    ):
        raise ValueError("its last block does not say where its contents are listed")


class _Count:
    """The rows and bytes of a member that have been read. `version`: of the file."""

    def __init__(self, member: Member, version: int) -> None:
        self._member, self._version = member, version
        self._rows = self._bytes = 0
        self._last: bytes | None = None

    def add(self, payload: bytes) -> tuple[KeyedRow, ...]:
        rows = tuple(unpack_rows(payload, self._version))
        if not rows:
            raise ValueError("one of its blocks has no rows")
        for row in rows:
            if self._last is not None and row[0] <= self._last:
                raise ValueError(f"its keys do not ascend: {row[0][:40].hex()} follows {self._last[:40].hex()}")
            self._last = row[0]
            self._bytes += counted_size(self._member, row, self._version)
        self._rows += len(rows)
        return rows

    def check_complete(self, header: ShareHeader) -> None:
        expected = header.rows_of(self._member)
        if (self._rows, self._bytes) != (expected.rows, expected.size):
            raise ValueError(
                f"{self._member[0]} {self._member[1]} has {self._rows:,} rows of {self._bytes:,} bytes, but its header "
                f"says {expected.rows:,} of {expected.size:,}"
            )


def counted_size(member: Member, row: KeyedRow, version: int) -> int:
    """Return what a row adds to the size of its member in the header (`SharedRows`)."""
    key, value = row
    return 0 if version >= IN_PLACE and member[0] == "tree" and key[:1] != b"\0" else len(key) + len(value)
