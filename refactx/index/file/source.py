"""An index in a file, as what an `Index` reads: no database, no code from the file, and rows where they are.

What a row says is checked when it is read: rows of the tree and blocks of names by their checksums, as in a database.
Hubs have none, so the checksums of their blocks are checked on opening.

On opening, the start, the last block, the contents, the header and the order of all blocks are checked. The checksums of
blocks with rows are checked then too, if the file has at most `CHECKED_BYTES`; in a larger one each row is checked by
its own checksum when it is read, and `MappedFile.faults` checks all blocks.
"""

import mmap
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import zstandard

from refactx.errors import CorruptIndexError, InputError
from refactx.index.file.format import (
    CHECKSUM_BYTES,
    END_PAYLOAD,
    HEAD_BYTES,
    IN_PLACE,
    ROWS,
    START_BYTES,
    BlockEntry,
    Member,
    SharedSegment,
    ShareHeader,
    chain,
    damage_error,
    read_head,
    read_start,
    read_tokenizer,
    size_of_block,
    truncated_error,
    unpack_contents,
    unpack_position,
)
from refactx.index.file.rows import RowBlock, hub_keys, segment_codec, unpack_subjects
from refactx.index.names import ReadBlocks
from refactx.index.source import Segment, Snapshot, tree_of
from refactx.paths import needs_database
from refactx.postgres.entry import CatalogueEntry, IndexVersion
from refactx.tokenizer import FactTokenizer
from refactx.tree.codes import TokenCodes, frequent_tokens
from refactx.tree.piece import read_in_place
from refactx.tree.stored import StoredTree

if TYPE_CHECKING:
    from refactx.postgres.database import Database


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


Value = TypeVar("Value")


class FileRows:
    """The rows of one segment in a file: a `SegmentSource`, which has no round trips."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.round_trips, self.seconds = 0, 0.0

    def fetch(self, key: bytes) -> memoryview | None:
        """Return the row with a key, where it is; None if there is none."""
        return self._table.get(key)

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, memoryview]:
        """Return the rows with some keys; without the keys that have no row."""
        return {key: row for key in keys if (row := self._table.get(key)) is not None}

    def count(self) -> int:
        """Return the number of rows."""
        return self._table.count()


class FileSource:
    """An index in a file of `refactx index export`. Its name is the path.

    Raises InputError if the file cannot be read, is damaged, of another version or not an export.
    """

    def __init__(self, path: Path, checked_bytes: int = CHECKED_BYTES) -> None:
        self._file = file = MappedFile(path, checked_bytes)
        self.entry = _entry(file)
        try:
            self._segments = tuple(
                _segment(file, number, segment) for number, segment in enumerate(file.header.segments)
            )
            self._names = [Table(file, ("names", number)) for number in range(len(file.header.names))]
            file.check(("hubs", 0))
            self._hubs = Table(file, ("hubs", 0))
        except (CorruptIndexError, ValueError, zstandard.ZstdError) as error:
            raise damage_error(file.name, str(error)) from error

    @property
    def database(self) -> "Database":
        """Raise InputError: there is none."""
        raise needs_database(self._file.name)

    def snapshot(self, cache_bytes: int, before: Sequence[Segment] = ()) -> Snapshot:
        """Return the index. It does not change, also if another file gets the path."""
        mark = IndexVersion((0, self._file.checksum), (), ())
        return Snapshot(
            self._segments, tree_of(self._segments, cache_bytes), tuple(range(len(self._names)))[::-1], mark
        )

    def standby_wait(self) -> None:
        """Return None: a file does not change."""

    def prepare_tokenizer(self) -> Callable[[], FactTokenizer]:
        """Return what reads the tokenizer, which raises InputError if it is not the one that the header describes."""
        return lambda: read_tokenizer(self._file.block(("tokens", 0)), self._file.header, self._file.name)

    def read_names(self, find: Callable[[ReadBlocks], Value], *, unlimited: bool = False) -> Value:
        """Return what `find` finds in blocks of the name tables."""
        return find(self._read_blocks)

    def name_rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of a name table from the key `first` on."""
        return [(key, bytes(block)) for key, block in self._names[table].rows(first)]

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of some objects that are hubs, by object and inverse predicate."""
        found: dict[str, dict[str, int]] = {}
        for name in set(objects):
            beginning = hub_keys(name)
            for key, value in self._hubs.rows(beginning):
                if not key.startswith(beginning):
                    break
                try:
                    _, _, inverse, subjects = unpack_subjects(key, value)
                except ValueError as error:
                    raise CorruptIndexError(
                        f"{self._file.name} is damaged: {error}. Copy or export it again"
                    ) from error
                counts = found.setdefault(name, {})
                counts[inverse] = counts.get(inverse, 0) + subjects
        return found

    def faults(self) -> Iterable[str]:
        """Check the checksums of all blocks, and yield what is wrong."""
        return self._file.faults()

    def close(self) -> None:
        """Let go of the file. It stays mapped while there are results that refer to it."""
        self._file.close()

    def _read_blocks(self, table: int, keys: list[bytes], first: bytes) -> Mapping[bytes, bytes]:
        found = (self._names[table].last(key, first) for key in keys)
        return {row[0]: bytes(row[1]) for row in found if row is not None}


def _segment(file: MappedFile, number: int, segment: SharedSegment) -> Segment:
    codes, dictionary = (bytes(file.block((kind, number))) for kind in ("codes", "dict"))
    rows = FileRows(Table(file, ("tree", number)))
    tree = StoredTree(
        rows,
        segment_codec(codes, dictionary),
        TokenCodes(frequent_tokens(codes, file.header.vocabulary_size)),
        levels=segment.levels,
        facts=segment.facts,
        name=file.name,
        read=read_in_place,
    )
    return Segment(number=number, sign=segment.sign, tokens=segment.tokens, tree=tree, rows=rows)


def _entry(file: MappedFile) -> CatalogueEntry:
    """Return what the catalogue of a database would say of the index."""
    header = file.header
    sizes = {kind: sum(one.size for one in file.blocks if one.kind == kind) for kind in ("tree", "names")}
    return CatalogueEntry(
        id=0,
        name=file.name,
        state="ready",
        format=header.format,
        tokenizer=header.tokenizer,
        fingerprint=header.fingerprint,
        vocabulary_size=header.vocabulary_size,
        trigger=header.trigger,
        terminator=header.terminator,
        source=header.source,
        report=header.report,
        created=datetime.fromisoformat(header.created),
        knowledge_base=0,
        segments=len(header.segments),
        unfinished=0,
        facts=header.facts,
        tokens=sum(segment.sign * segment.tokens for segment in header.segments),
        levels=max((segment.levels for segment in header.segments), default=0),
        cut=max((segment.cut for segment in header.segments), default=0),
        table_bytes=sizes["tree"],
        index_bytes=0,
        toast_bytes=0,
        names_bytes=sizes["names"],
    )
