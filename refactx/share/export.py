"""The export of a ready index, read in one snapshot of its database, to one file (`refactx.index.file`).

Rows stream from the server into FILE.part, which is renamed when it is complete and on disk. An export that failed
removes it; what a killed one left is replaced by the next. Each row is checked as a reader would.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from refactx.errors import CorruptIndexError, DatabaseError, IndexNotFoundError, InputError, RefactxError
from refactx.index.file import IndexFileWriter, KeyedRow, is_export, unpack_subjects
from refactx.index.header import OF_INDEX, FileHeader, FileSegment, Member
from refactx.index.names import check_block
from refactx.locking import lock_file
from refactx.postgres.catalogue import Hub, find_index, knows_hubs, list_indexes
from refactx.postgres.connections import read_error
from refactx.postgres.database import Database
from refactx.tree.codes import MAX_PICKLE_BYTES, RowCodec, shared_seed
from refactx.tree.piece import pack_arrays, read_in_place, read_packed, to_members

RowProgress = Callable[[int, int], object]
"""Called with the rows since its last call, and the rows of the whole index."""

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

    header: FileHeader
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
            "SELECT id FROM refactx.name_tables WHERE knowledge_base = %s AND ready ORDER BY id", [entry.knowledge_base]
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
    counted = sql.SQL("SELECT count(*), coalesce(sum(length(key) + length({value})), 0)::bigint FROM {table}")
    sizes = {  # of each table, the number of rows, and the bytes of their keys and values
        member: connection.execute(counted.format(value=value, table=table)).fetchone() or (0, 0)
        for member, (table, value) in tables.items()
    }
    header = FileHeader(
        **{name: getattr(entry, name) for name in ("name", *OF_INDEX)},
        created=entry.created.astimezone(UTC).isoformat(),
        origin=(entry.id, *(row["id"] for row in (*segments, *names))),
        segments=tuple(
            FileSegment(
                **{key: segment[key] for key in ("sign", "levels", "cut", "facts", "tokens")},
                rows=sizes["tree", number][0],
            )
            for number, segment in enumerate(segments)
        ),
        names=tuple(sizes["names", number][0] for number in range(len(names))),
        names_bytes=sum(size for (kind, _), (_, size) in sizes.items() if kind == "names"),
        hubs=sizes["hubs", 0][0] if knows_hubs(entry) else None,
    )
    try:
        FileHeader.from_bytes(header.to_bytes())
    except ValueError as error:
        raise RefactxError(f"index {name!r} cannot be exported, since no import would accept it: {error}") from error
    return ExportSource(header=header, tokenizer=tokenizer["serialized"], shared=shared, tables=tables)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """A finished export. `size`: bytes of the file. `checksum`: of the whole index, in hex."""

    index: str
    facts: int
    size: int
    checksum: str


def export_index(
    database: Database, name: str, path: Path, *, force: bool = False, progress: RowProgress = lambda done, total: None
) -> ExportResult:
    """Write a ready index to a file, which appears when it is complete. The database's user only needs SELECT.

    Raises InputError if the path cannot be written, or exists without `force`; IndexNotFoundError; DatabaseError;
    CorruptIndexError if a row is damaged; RefactxError if the disk is full. Nothing is left then.
    """
    _check_path(path, force)
    part = path.with_name(path.name + ".part")
    try:
        with open_source(database, name) as (connection, source), _new_part(part) as descriptor:
            checksum = _write(connection, source, part, progress)
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
            _check_path(path, force)  # another process may have made it meanwhile
            part.replace(path)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise RefactxError(
            f"cannot write {part} ({reason or error}): free disk space there, or give another file"
        ) from error
    return ExportResult(index=name, facts=source.header.facts, size=size, checksum=checksum)


def export_stream(
    database: Database, name: str, stream: BinaryIO, *, progress: RowProgress = lambda done, total: None
) -> ExportResult:
    """Write a ready index to a stream, such as a pipe, by way of a temporary file. Raises as `export_index` does."""
    with TemporaryDirectory(prefix="refactx-export-") as folder:
        file = Path(folder, "index.refactx")
        done = export_index(database, name, file, progress=progress)
        try:
            with file.open("rb") as written:
                shutil.copyfileobj(written, stream, 1 << 20)
            stream.flush()
        except OSError as error:
            raise RefactxError(f"cannot write the index to standard output ({error.strerror or error})") from error
    return done


def _check_path(path: Path, force: bool) -> None:
    """Raise InputError unless a file can be put there."""
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: its folder does not exist")
    if path.exists() and not path.is_file():  # a device or pipe would be replaced by the file
        raise InputError(f"cannot write {path}: it is not a regular file; `-` writes to standard output")
    if path.exists() and not force:
        raise InputError(f"{path} exists: give --force to replace it, or another file")


@contextmanager
def _new_part(part: Path) -> Iterator[int]:
    """Make the unfinished file, empty and for this process alone; yield a descriptor of it. Remove it after an error."""
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"cannot write {part}: {error.strerror}") from None
    try:
        try:
            lock_file(descriptor)  # released when this process ends, however it does
            is_here = part.exists() and os.path.samestat(part.stat(), os.fstat(descriptor))
        except BlockingIOError:
            is_here = False
        if not is_here:  # or it was renamed, or removed, since it was opened
            raise InputError(f"another process is writing {part}: wait for it, or give another file")
        if (start := os.read(descriptor, 100)) and not is_export(start):
            raise InputError(f"{part} exists and is not an unfinished export: move it, or give another file")
        try:
            os.truncate(descriptor, 0)
            yield descriptor
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    finally:
        os.close(descriptor)


def _write(connection: Connection, source: ExportSource, part: Path, progress: RowProgress) -> str:
    """Write all parts and tables. Return the checksum."""
    header, shared = source.header, source.shared
    total = header.rows
    with closing(IndexFileWriter(part)) as writer:
        writer.add(("tokens", 0), source.tokenizer)
        for member, value in shared.items():
            writer.add(member, value)
        for member, (table, column) in source.tables.items():
            kind, number = member
            # Closed at once, also by Ctrl-C: a copy that is not over holds the connection, which then waits for itself.
            with closing(_rows(connection, table, column)) as stored:
                if kind == "tree":
                    rows = to_file(stored, shared["codes", number], shared["dict", number], header.name)
                else:
                    rows = _checked(kind, stored, header.name)
                writer.add_table(member, _counted(rows, progress, total))
        return writer.finish(header)


def _counted(rows: Iterator[KeyedRow], progress: RowProgress, total: int) -> Iterator[KeyedRow]:
    for row in rows:
        yield row
        progress(1, total)


def _rows(connection: Connection, table: sql.Composable, value: sql.Composable) -> Generator[KeyedRow, None, None]:
    """Yield the rows of a table in the order of their keys."""
    statement = sql.SQL("COPY (SELECT key, {value} FROM {table} ORDER BY key) TO STDOUT (FORMAT binary)")
    with connection.cursor() as cursor, cursor.copy(statement.format(value=value, table=table)) as copy:
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
