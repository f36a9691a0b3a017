"""A table of rows in a file: the tree of a segment, the names of a name table, or hubs."""

from bisect import bisect_right
from collections.abc import Iterator

from refactx.errors import CorruptIndexError
from refactx.index.file.header import Member
from refactx.index.file.mapped import MappedFile
from refactx.index.file.row_blocks import RowBlock

FileRow = tuple[bytes, memoryview]

_MOST_OPEN = 1024
"""The blocks of a table whose ends are kept: some 15 kB each, of a megabyte of the file."""


class Table:
    """The rows of one member of a file, found by key in place.

    Methods raise CorruptIndexError if the blocks do not hold what they should; the values of rows are not checked here.
    """

    def __init__(self, file: MappedFile, member: Member) -> None:
        self._name, self._where = file.name, f"{member[0]} {member[1]}"
        blocks = file.row_blocks(member)
        self._first_keys = [key for key, _ in blocks]
        self._payloads = [payload for _, payload in blocks]
        self._open: dict[int, RowBlock] = {}
        if any(one >= other for one, other in zip(self._first_keys, self._first_keys[1:], strict=False)):
            raise _damage(self._name, self._where, "its blocks are not in order")

    def get(self, key: bytes) -> memoryview | None:
        """Return the value under a key; None if there is none."""
        found = self._last(key)
        return found[1] if found is not None and found[0] == key else None

    def last(self, key: bytes, first: bytes = b"") -> FileRow | None:
        """Return the last row whose key is not greater than `key`, nor less than `first`; None if there is none."""
        found = self._last(key)
        return found if found is not None and found[0] >= first else None

    def rows(self, first: bytes = b"") -> Iterator[FileRow]:
        """Yield the rows from the first key that is not less than `first` on."""
        begin = max(0, bisect_right(self._first_keys, first) - 1)
        for number in range(begin, len(self._payloads)):
            block = self._block(number)
            try:
                for row in range(len(block)):
                    if block.key(row) >= first:
                        yield block.key(row), block.value(row)
            except ValueError as error:
                raise _damage(self._name, self._where, error) from None

    def count(self) -> int:
        """Return the number of rows."""
        return sum(len(self._block(number)) for number in range(len(self._payloads)))

    def _last(self, key: bytes) -> FileRow | None:
        at = bisect_right(self._first_keys, key) - 1
        if at < 0:
            return None
        block = self._block(at)
        try:
            number = block.last(key)
            return None if number is None else (block.key(number), block.value(number))
        except ValueError as error:
            raise _damage(self._name, self._where, error) from None

    def _block(self, number: int) -> RowBlock:
        block = self._open.get(number)
        if block is None:
            if len(self._open) >= _MOST_OPEN:
                self._open = {}
            try:
                block = RowBlock(self._payloads[number])
            except ValueError as error:
                raise _damage(self._name, self._where, error) from None
            self._open[number] = block
        return block


def _damage(file: str, where: str, what: object) -> CorruptIndexError:
    return CorruptIndexError(f"{file} is damaged: {where}: {what}. Copy or export it again")
