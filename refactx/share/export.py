"""The export of a ready index, read in one snapshot of its database, to one file (`refactx.index.file`).

Rows stream from the server into blocks of a megabyte. A file is written as FILE.part and renamed when it is complete
and on disk. An export that was stopped leaves FILE.part. The next export checks its blocks and continues after the
last good one, if both have the same header, which is the same for the same index.
"""

import fcntl
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import psycopg
from psycopg import sql

from refactx.errors import CorruptIndexError, InputError, RefactxError
from refactx.index.file.blocks import FILE_VERSION, MAGIC, BlockWriter, TruncatedFileError, size_of_block
from refactx.index.file.contents import BlockEntry, pack_contents, pack_position
from refactx.index.file.header import ROWS, Member, ShareHeader
from refactx.index.file.row_blocks import KeyedRow, pack_rows, packed_size
from refactx.index.names import check_block
from refactx.postgres.database import Database
from refactx.share.export_source import ExportSource, open_source
from refactx.share.hub_rows import unpack_hub
from refactx.share.reader import ByteProgress, MemberBlock, counted_size, entry_of, open_shared
from refactx.share.tree_rows import to_file
from refactx.tree.codec import RowCodec

BLOCK_BYTES = 1 << 20
"""The size of a block: little to read again when an export continues, and much beside its 52 bytes of checksums."""

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """A finished export.

    `size`: bytes of the file. `resumed`: bytes of it that an earlier run had written. `checksum`: of the last block, in
    hex. `note`: why part or all of an earlier run's file was discarded; None if none was.
    """

    index: str
    facts: int
    size: int
    resumed: int
    checksum: str
    note: str | None = None


def export_index(
    database: Database,
    name: str,
    path: Path,
    *,
    force: bool = False,
    block_bytes: int = BLOCK_BYTES,
    progress: ByteProgress = lambda done, total: None,
) -> ExportResult:
    """Write a ready index to a file, which appears when it is complete. The database's user only needs SELECT.

    Raises InputError if the path cannot be written, or exists without `force`; IndexNotFoundError; DatabaseError;
    CorruptIndexError if a row is damaged; RefactxError if the disk is full: what is written stays, and the same call
    continues it.
    """
    _check_path(path, force)
    part = path.with_name(path.name + ".part")
    try:
        with open_source(database, name) as (connection, source), _open_part(part) as file:
            found, note = _resume(file, part, source.header, progress)
            last = found.last
            written = _write(connection, source, file, found, block_bytes, progress)
            file.flush()
            os.fsync(file.fileno())
            _check_path(path, force)  # another process may have made it meanwhile
            part.replace(path)
    except OSError as error:
        raise RefactxError(
            f"cannot write {part} ({error.strerror or error}): free disk space there, or give another file; "
            "the same command continues it"
        ) from error
    return ExportResult(
        index=name,
        facts=source.header.facts,
        size=written.written,
        resumed=last.block.end if last else 0,
        checksum=written.checksum.hex(),
        note=note,
    )


def export_stream(
    database: Database,
    name: str,
    stream: BinaryIO,
    *,
    block_bytes: int = BLOCK_BYTES,
    progress: ByteProgress = lambda done, total: None,
) -> ExportResult:
    """Write a ready index to a stream, such as a pipe. Raises as `export_index` does."""
    try:
        with open_source(database, name) as (connection, source):
            written = _write(connection, source, stream, _Written(None, []), block_bytes, progress)
            stream.flush()
    except OSError as error:
        raise RefactxError(f"cannot write the index to standard output ({error.strerror or error})") from error
    return ExportResult(
        index=name,
        facts=source.header.facts,
        size=written.written,
        resumed=0,
        checksum=written.checksum.hex(),
    )


def _check_path(path: Path, force: bool) -> None:
    """Raise InputError unless a file can be put there."""
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: its folder does not exist")
    if path.exists() and not path.is_file():  # a device or pipe would be replaced by the file
        raise InputError(f"cannot write {path}: it is not a regular file; `-` writes to standard output")
    if path.exists() and not force:
        raise InputError(f"{path} exists: give --force to replace it, or another file")


@contextmanager
def _open_part(part: Path) -> Iterator[BinaryIO]:
    """Open the unfinished file for this process alone. Make it if it is missing."""
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise InputError(f"cannot write {part}: {error.strerror}") from None
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when this process ends, however it does
        except BlockingIOError:
            raise InputError(f"another process is writing {part}: wait for it, or give another file") from None
        if not MAGIC.startswith(file.read(len(MAGIC))):  # (after a power cut the file may end within it)
            raise InputError(f"{part} exists and is not an unfinished export: move it, or give another file")
        file.seek(0)
        yield file


@dataclass(frozen=True, slots=True)
class _Written:
    """What an earlier run has written: its last good part (None: nothing), and the entries of all its blocks."""

    last: MemberBlock | None
    entries: list[BlockEntry]


def _resume(file: BinaryIO, part: Path, header: ShareHeader, progress: ByteProgress) -> tuple[_Written, str | None]:
    """Return what an unfinished file has, and a note on what was discarded.

    The file is truncated after that, and positioned at its end. Without a good part the export starts again.
    """
    last: MemberBlock | None = None
    entries: list[BlockEntry] = []
    note = None
    try:
        shared = open_shared(file, str(part))
        if (shared.head.payload, shared.head.version) == (header.to_bytes(), FILE_VERSION):
            entries.append(entry_of(shared.head))
            for last in shared.parts:
                entries.append(entry_of(last.block, last.rows))
                progress(_size(last.member, last.rows), header.size)
        else:
            note = f"{part} is of another index, or of an earlier state of this one: the export starts again"
    except InputError as error:
        note = None if isinstance(error, TruncatedFileError) else f"{error}; the export continues before the damage"
    file.seek(last.block.end if last else 0)
    file.truncate()
    return _Written(last, entries if last else []), note


def _write(
    connection: Connection,
    source: ExportSource,
    file: BinaryIO,
    before: _Written,
    block_bytes: int,
    progress: ByteProgress,
) -> BlockWriter:
    """Write everything after what an earlier run has written."""
    last, entries = before.last, before.entries
    writer = BlockWriter(file, last.block if last else None)

    def write(kind: str, number: int, payload: bytes, first_key: bytes = b"") -> None:
        writer.write(kind, number, payload)
        entries.append(BlockEntry(kind, number, len(payload), first_key))

    if last is None:
        write("header", 0, source.header.to_bytes())
    members = list(source.header.members())
    for member in members[members.index(last.member) if last else 0 :]:
        kind, number = member
        is_begun = last is not None and member == last.member
        if kind in ROWS:
            after = last.rows[-1][0] if is_begun and last else None
            table, value = source.tables[member]
            # Closed at once, also by Ctrl-C: a copy that is not over holds the connection, which then waits for itself.
            with closing(_rows(connection, table, value, after)) as stored:
                rows: Iterator[KeyedRow] = stored
                if kind == "tree":
                    shared = source.shared
                    rows = to_file(stored, shared["codes", number], shared["dict", number], source.header.name)
                else:
                    rows = _checked(kind, stored, source.header.name)
                for block in _blocks(rows, block_bytes):
                    write(kind, number, pack_rows(block), block[0][0])
                    file.flush()  # the progress that a killed export has reported is in the file
                    progress(_size(member, block), source.header.size)
        elif kind == "contents" and not is_begun:
            write(kind, number, pack_contents(entries))
        elif kind == "end" and not is_begun:  # the contents are the block before
            write(kind, number, pack_position(writer.written - size_of_block(entries[-1].size)))
        elif not is_begun:
            write(kind, number, source.tokenizer if kind == "tokens" else source.shared[member])
    return writer


def _size(member: Member, rows: Sequence[KeyedRow]) -> int:
    return sum(counted_size(member, row, FILE_VERSION) for row in rows)


def _rows(
    connection: Connection, table: sql.Composable, value: sql.Composable, after: bytes | None
) -> Generator[KeyedRow, None, None]:
    """Yield the rows of a table in the order of their keys; only those after the key `after`, if it is given."""
    condition = sql.SQL("") if after is None else sql.SQL("WHERE key > {}").format(sql.Literal(after))
    statement = sql.SQL("COPY (SELECT key, {value} FROM {table} {condition} ORDER BY key) TO STDOUT (FORMAT binary)")
    with (
        connection.cursor() as cursor,
        cursor.copy(statement.format(value=value, table=table, condition=condition)) as copy,
    ):
        copy.set_types(["bytea", "bytea"])
        yield from copy.rows()


def _checked(kind: str, rows: Iterator[KeyedRow], index: str) -> Iterator[KeyedRow]:
    """Yield rows of names or hubs. Raises CorruptIndexError, which names the index, if one is damaged."""
    codec = RowCodec()
    for row in rows:
        if kind == "names":
            check_block(*row, codec, f"index {index!r}: block of names {row[0][:40]!r}")
        else:
            try:
                unpack_hub(row)
            except ValueError as error:
                raise CorruptIndexError(f"index {index!r}: {error}. Ingest the index again") from error
        yield row


def _blocks(rows: Iterator[KeyedRow], block_bytes: int) -> Iterator[list[KeyedRow]]:
    """Yield rows in lists of at most `block_bytes`; a larger row is alone in its list."""
    block: list[KeyedRow] = []
    size = 0
    for row in rows:
        if block and size + packed_size(row) > block_bytes:
            yield block
            block, size = [], 0
        block.append(row)
        size += packed_size(row)
    if block:
        yield block
