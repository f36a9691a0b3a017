"""A file of an index in memory, as the operating system maps it: opened, checked, and read block by block.

On opening, the start, the last block, the contents, the header and the order of all blocks are checked. The checksums of
blocks with rows are checked then too, if the file has at most `CHECKED_BYTES`; in a larger one each row is checked by
its own checksum when it is read, and `MappedFile.faults` checks all blocks.
"""

import mmap
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from refactx.errors import InputError
from refactx.index.file.blocks import (
    CHECKSUM_BYTES,
    HEAD_BYTES,
    IN_PLACE,
    START_BYTES,
    chain,
    damage_error,
    read_head,
    read_start,
    size_of_block,
    truncated_error,
)
from refactx.index.file.contents import END_PAYLOAD, BlockEntry, unpack_contents, unpack_position
from refactx.index.file.header import ROWS, Member, ShareHeader

CHECKED_BYTES = 64 << 20
"""A file of this size takes 80 ms to check (SHA-256 at 830 MB/s)."""

_CONTENTS = BlockEntry("contents", 0, 0)


class MappedFile:
    """A file of `refactx index export`, open for reading. Safe to share between threads, and with forked children.

    `header`: what is in it; `size`: its bytes; `checksum`: of the last block, in hex. Raises InputError if the file
    cannot be read, is damaged, of another version or not an export.
    """

    def __init__(self, path: Path, checked_bytes: int = CHECKED_BYTES) -> None:
        self.name = str(path)
        self._view = _mapped(path)
        self.size = len(self._view)
        version = read_start(bytes(self._view[:START_BYTES]), self.name)
        if version < IN_PLACE:
            raise InputError(
                f"{self.name} has version {version} of the file format, which can only be imported: run `refactx index "
                f"import`, or export the index again for version {IN_PLACE}, which is read in place"
            )
        try:
            self.blocks = self._read_contents()
            self.header = ShareHeader.from_bytes(bytes(self._payload(0)))
            self._members = self._group()
        except ValueError as error:
            raise damage_error(self.name, str(error)) from None
        self.checksum = self._view[-CHECKSUM_BYTES:].hex()
        if self.size <= checked_bytes and (fault := next(self.faults(), None)):
            raise damage_error(self.name, fault)

    def block(self, member: Member) -> memoryview:
        """Return the payload of a member without rows, after checking it. Raises InputError if it is damaged."""
        try:
            (number,) = self._members[member]
            return self._payload(number)
        except ValueError as error:
            raise damage_error(self.name, str(error)) from None

    def row_blocks(self, member: Member) -> list[tuple[bytes, memoryview]]:
        """Return the blocks of a member with rows in their order: first key and payload, which is not checked here."""
        numbers = self._members.get(member, [])
        begins = [self._places[number] + HEAD_BYTES for number in numbers]
        return [
            (self.blocks[number].first_key, self._view[begin : begin + self.blocks[number].size])
            for number, begin in zip(numbers, begins, strict=True)
        ]

    def check(self, member: Member) -> None:
        """Raise InputError if a block of a member is damaged."""
        try:
            for number in self._members.get(member, []):
                self._payload(number)
        except ValueError as error:
            raise damage_error(self.name, str(error)) from None

    def faults(self) -> Iterator[str]:
        """Check the checksums of all blocks, and yield what is wrong."""
        for number in range(len(self.blocks)):
            try:
                self._payload(number)
            except (ValueError, InputError) as error:
                yield str(error)

    def close(self) -> None:
        """Let go of the file. It stays mapped while pieces of the tree refer to it."""
        self._view = memoryview(b"")

    def _read_contents(self) -> list[BlockEntry]:
        """Return the entries of all blocks up to the contents, and store where they begin."""
        end = self.size - size_of_block(END_PAYLOAD)
        if end < START_BYTES:
            raise truncated_error(self.name, self.size)
        try:
            place = unpack_position(bytes(self._check(end, "end", 0, END_PAYLOAD)))
            if not START_BYTES <= place <= end - size_of_block(0):
                raise ValueError("its last block names a place outside the file")
        except (ValueError, InputError):
            raise InputError(
                f"{self.name} does not end as an export does: it is truncated, damaged or still being copied. Copy or "
                "export it again"
            ) from None
        _, _, size = read_head(self._view[place : place + HEAD_BYTES], self.name, place)
        if place + size_of_block(size) != end:
            raise ValueError("its contents do not fit it")
        entries = unpack_contents(bytes(self._check(place, "contents", 0, size)))
        self._places = list(accumulate((size_of_block(one.size) for one in entries), initial=START_BYTES))
        if self._places[-1] != place or not entries or (entries[0].kind, entries[0].number) != ("header", 0):
            raise ValueError("its contents do not fit it")
        return entries

    def _group(self) -> dict[Member, list[int]]:
        """Return the numbers of each member's blocks. Raise ValueError unless they are in the header's order."""
        found: dict[Member, list[int]] = {}
        for number, entry in enumerate(self.blocks[1:], 1):
            found.setdefault((entry.kind, entry.number), []).append(number)
        expected = [member for member in self.header.members() if member[0] not in ("contents", "end")]
        order = [number for member in expected for number in found.get(member, [])]
        lost = [member for member in expected if member[0] not in ROWS and len(found.get(member, [])) != 1]
        if lost or order != list(range(1, len(self.blocks))):
            raise ValueError("its blocks are not those that its header describes")
        return found

    def _payload(self, number: int) -> memoryview:
        entry = self.blocks[number]
        return self._check(self._places[number], entry.kind, entry.number, entry.size)

    def _check(self, at: int, kind: str, number: int, size: int) -> memoryview:
        """Return the payload of the block at a place. Raise ValueError if it is another one or has changed."""
        head = self._view[at : at + HEAD_BYTES]
        if read_head(head, self.name, at) != (kind, number, size):
            raise ValueError(f"at byte {at:,} there is another block than {kind} {number}")
        end = at + size_of_block(size)
        body, stored = self._view[at : end - CHECKSUM_BYTES], self._view[end - CHECKSUM_BYTES : end]
        before = self._view[at - CHECKSUM_BYTES : at]
        if at == START_BYTES:
            before = memoryview(chain(self._view[:START_BYTES]))
        if stored != chain(before, body):
            raise ValueError(f"the checksum of the block at byte {at:,} is wrong")
        return self._view[at + HEAD_BYTES : at + HEAD_BYTES + size]


def _mapped(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            if not path.is_file():
                raise InputError(f"cannot read {path} in place: it is not a regular file")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:  # an empty file
        raise InputError(f"{path} is not a file of `refactx index export`: it is empty") from None
    except OSError as error:
        raise InputError(
            f"cannot read the index file {path} ({error.strerror or error}): `refactx index export NAME FILE` makes one"
        ) from None
