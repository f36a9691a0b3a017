"""The export of a ready index, read in one snapshot of its database, to one file (`refactx.index.file`).

Rows stream from the server into blocks of a megabyte. A file is written as FILE.part and renamed when it is complete
and on disk. An export that was stopped leaves FILE.part. The next export checks its blocks and continues after the
last good one, if both have the same header, which is the same for the same index.

These checks hold for every file: magic, version, checksums, the header's values, the order of members, ascending keys,
as many rows and bytes as the header says, and nothing after the end. `refactx.share.importing` checks the contents of
rows.

The key has object, predicate and inverse predicate, joined by newlines; the value is the number of subjects, eight
bytes, big-endian.
"""

import fcntl
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, BinaryIO

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from refactx.errors import CorruptIndexError, DatabaseError, IndexNotFoundError, InputError, RefactxError
from refactx.index.file.format import (
    FILE_VERSION,
    IN_PLACE,
    MAGIC,
    ROWS,
    BlockEntry,
    BlockWriter,
    FileBlock,
    Member,
    SharedRows,
    SharedSegment,
    ShareHeader,
    TruncatedFileError,
    damage_error,
    pack_contents,
    pack_position,
    read_blocks,
    size_of_block,
)
from refactx.index.file.rows import KeyedRow, pack_rows, packed_size, unpack_rows, unpack_subjects
from refactx.index.names import check_block
from refactx.postgres.catalogue import Hub, find_index, knows_hubs, list_indexes
from refactx.postgres.connections import read_error
from refactx.postgres.database import Database
from refactx.tree.codes import MAX_PICKLE_BYTES, RowCodec, shared_seed
from refactx.tree.piece import pack_arrays, read_in_place, read_packed, to_members

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


_ROWS = """(
    SELECT convert_to(object || E'\\n' || predicate || E'\\n' || inverse, 'UTF8') AS key, int8send(subjects) AS subjects
    FROM refactx.hubs WHERE index_id = {index}
) AS hubs"""


def select_hubs(index: int) -> tuple[sql.Composable, sql.Composable]:
    """Return a subquery with the rows of an index, given its id, and its column of values; that of keys is `key`."""
    return sql.SQL(_ROWS).format(index=sql.Literal(index)), sql.Identifier("subjects")


def unpack_hub(row: KeyedRow) -> Hub:
    """Return the hub in a row. Raise ValueError if it is none that an ingest writes.

    >>> unpack_hub((b"human\\ninstance of\\nhas instance", (52073).to_bytes(8, "big"))).subjects
    52073
    """
    return Hub(*unpack_subjects(*row))


Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSource:
    """The members of an index: the small ones, and the tables that hold the others."""

    header: ShareHeader
    tokenizer: bytes
    shared: dict[Member, bytes]  # codes and dictionaries
    tables: dict[Member, tuple[sql.Composable, sql.Composable]]  # table, and its column of values


@contextmanager
def open_source(database: Database, name: str) -> Iterator[tuple[Connection, ExportSource]]:
    """Open a session with one snapshot of the database, in which an index is read.

    Raises IndexNotFoundError if the index is not there or its tables are dropped meanwhile, RefactxError if no import
    would accept it, DatabaseError if PostgreSQL refuses.
    """
    find_index(database, name)  # its errors say which indexes there are
    try:
        with database.session() as connection:
            connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
            with connection.transaction():
                connection.execute("SET LOCAL statement_timeout = 0")  # for a pooler's session, which has its limits
                yield connection, _describe(connection, name)
    except psycopg.errors.UndefinedTable:
        raise IndexNotFoundError(
            f"index {name!r} was dropped, replaced or compacted meanwhile: export it again"
        ) from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise read_error(error, name, 0.0) from error
    except psycopg.Error as error:
        raise DatabaseError(
            f"PostgreSQL could not read index {name!r}: {database.reason(error)}. Run the same command again"
        ) from error


def _describe(connection: Connection, name: str) -> ExportSource:
    entries = list_indexes(connection, name)
    if not entries:
        raise IndexNotFoundError(f"index {name!r} was dropped or replaced meanwhile: export it again")
    entry = entries[0]
    with connection.cursor(row_factory=dict_row) as cursor:
        segments = cursor.execute(
            "SELECT id, sign, levels, cut, facts, tokens, codes, dictionary FROM refactx.segments"
            " WHERE index_id = %s AND ready ORDER BY id",
            [entry.id],
        ).fetchall()
        names = cursor.execute(
            "SELECT id FROM refactx.name_tables WHERE knowledge_base = %s AND ready ORDER BY id",
            [entry.knowledge_base],
        ).fetchall()
        tokenizer = cursor.execute(
            "SELECT serialized FROM refactx.tokenizers WHERE fingerprint = %s", [entry.fingerprint]
        ).fetchone()
    if tokenizer is None:
        raise IndexNotFoundError(f"index {name!r} has lost its tokenizer: ingest it again")
    shared: dict[Member, bytes] = {}
    tables: dict[Member, tuple[sql.Composable, sql.Composable]] = {}
    for number, segment in enumerate(segments):
        shared["codes", number], shared["dict", number] = segment["codes"], segment["dictionary"]
        tables["tree", number] = sql.Identifier("refactx", f"pieces_{segment['id']}"), sql.Identifier("piece")
    for number, names_table in enumerate(names):
        tables["names", number] = sql.Identifier("refactx", f"names_{names_table['id']}"), sql.Identifier("block")
    if knows_hubs(entry):
        tables["hubs", 0] = select_hubs(entry.id)
    sizes = {member: _size_of(connection, member, table, value) for member, (table, value) in tables.items()}
    header = ShareHeader(
        format=entry.format,
        name=entry.name,
        tokenizer=entry.tokenizer,
        fingerprint=entry.fingerprint,
        vocabulary_size=entry.vocabulary_size,
        trigger=entry.trigger,
        terminator=entry.terminator,
        report=entry.report,
        source=entry.source,
        created=entry.created.astimezone(UTC).isoformat(),
        origin=(entry.id, *(row["id"] for row in (*segments, *names))),
        segments=tuple(
            SharedSegment(
                **{key: segment[key] for key in ("sign", "levels", "cut", "facts", "tokens")},
                rows=sizes["tree", number],
            )
            for number, segment in enumerate(segments)
        ),
        names=tuple(sizes["names", number] for number in range(len(names))),
        hubs=sizes.get(("hubs", 0)),
    )
    try:
        ShareHeader.from_bytes(header.to_bytes())
    except ValueError as error:
        raise RefactxError(f"index {name!r} cannot be exported, since no import would accept it: {error}") from error
    return ExportSource(header=header, tokenizer=tokenizer["serialized"], shared=shared, tables=tables)


def _size_of(connection: Connection, member: Member, table: sql.Composable, value: sql.Composable) -> SharedRows:
    of = sql.SQL("get_byte(key, 0) = 0") if member[0] == "tree" else sql.SQL("true")  # `SharedRows` says why
    statement = sql.SQL(
        "SELECT count(*), coalesce(sum(length(key)::bigint + length({value})) FILTER (WHERE {of}), 0)::bigint FROM {table}"
    )
    counted = connection.execute(statement.format(value=value, table=table, of=of)).fetchone()
    return SharedRows(*counted) if counted else SharedRows(0, 0)


def to_file(rows: Iterator[KeyedRow], codes: bytes, dictionary: bytes, index: str) -> Iterator[KeyedRow]:
    """Yield the rows of a segment as a file has them, given those of a database, its token codes and dictionary.

    Raises CorruptIndexError, which names the index, if a row is damaged.
    """
    codec = RowCodec(dictionary, seed=shared_seed(codes, dictionary))
    for key, row in rows:
        piece = read_packed(codec, key, row, f"index {index!r}: row {key[:40].hex()}")
        yield key, row if piece.level == 0 else pack_arrays(key, piece, codec.seed)


def to_database(row: KeyedRow, codec: RowCodec, where: str) -> KeyedRow:
    """Return a row above the facts as a database has it, given that of a file. Raises CorruptIndexError if it is
    damaged; the message begins with `where`."""
    key, packed = row
    if len(packed) > MAX_PICKLE_BYTES:
        raise CorruptIndexError(f"{where} is damaged: it has {len(packed):,} bytes, more than {MAX_PICKLE_BYTES:,}")
    return key, codec.pack(key, to_members(read_in_place(codec, key, packed, where)))


BLOCK_BYTES = 1 << 20
"""The size of a block: little to read again when an export continues, and much beside its 52 bytes of checksums."""


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
