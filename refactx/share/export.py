"""`refactx index export`: a ready index from one snapshot of its database into one file (`refactx.share.blocks`).

Rows stream from the server into blocks of a megabyte. A file is written as FILE.part and renamed when it is complete and on the
disk. An export that was stopped leaves FILE.part, and the next one checks it block by block and goes on behind the last
good one, if it is of the same index: the header, which comes out the same for the same index, tells.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, BinaryIO

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from refactx.errors import DatabaseError, IndexNotFoundError, InputError, RefactxError, without_password
from refactx.index.index import find_index
from refactx.postgres.database import Database, list_indexes, open_session
from refactx.postgres.errors import explained
from refactx.share.blocks import MAGIC, BlockWriter, Row, TruncatedFileError, pack_rows, packed_size
from refactx.share.header import ROWS, Member, SharedRows, SharedSegment, ShareHeader
from refactx.share.reader import Part, open_shared

BLOCK_BYTES = 1 << 20
"""Of rows in a block: little beside what must be read again when an export goes on, much beside a block's 52 bytes."""

Connection = psycopg.Connection[Any]
Progress = Callable[[int, int], object]
"""Is told bytes of rows that were done since it was called last, and those of the whole index."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A finished export. `size`: bytes of the file; `resumed`: bytes of it that an earlier run had written; `checksum`: the
    last block's, in hex; `note`: why an earlier run's file was not gone on with, if so."""

    index: str
    facts: int
    size: int
    resumed: int
    checksum: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the members of an index are in the database."""

    header: ShareHeader
    tokenizer: bytes
    shared: dict[Member, bytes]  # codes and dictionaries
    tables: dict[Member, tuple[sql.Identifier, sql.Identifier]]  # table, and its column of values


def export_index(
    database: Database,
    name: str,
    path: Path,
    *,
    force: bool = False,
    block_bytes: int = BLOCK_BYTES,
    progress: Progress = lambda done, total: None,
) -> Exported:
    """Write a ready index to a file, which appears when it is complete. The database's user needs SELECT and no more.

    Raises InputError (the path can't be written, or exists and not `force`), IndexNotFoundError, DatabaseError, RefactxError
    (disk full; what is written stays, and the same call goes on with it).
    """
    _check_path(path, force)
    part = path.with_name(path.name + ".part")
    try:
        with _source(database, name) as (connection, source), _open_part(part) as file:
            last, note = _resume(file, part, source.header, progress)
            written = _write(connection, source, file, last, block_bytes, progress)
            file.flush()
            os.fsync(file.fileno())
            _check_path(path, force)  # it may have come up meanwhile
            part.replace(path)
    except OSError as error:
        raise RefactxError(
            f"cannot write {part} ({error.strerror or error}): free disk space there, or give another file; "
            "the same command goes on with what is written"
        ) from error
    return Exported(
        name, source.header.facts, written.written, last.block.end if last else 0, written.checksum.hex(), note
    )


def export_stream(
    database: Database,
    name: str,
    stream: BinaryIO,
    *,
    block_bytes: int = BLOCK_BYTES,
    progress: Progress = lambda done, total: None,
) -> Exported:
    """Write a ready index to a stream, such as a pipe. Raises as `export_index` does."""
    try:
        with _source(database, name) as (connection, source):
            written = _write(connection, source, stream, None, block_bytes, progress)
            stream.flush()
    except OSError as error:
        raise RefactxError(f"cannot write the index to standard output ({error.strerror or error})") from error
    return Exported(name, source.header.facts, written.written, 0, written.checksum.hex())


def _check_path(path: Path, force: bool) -> None:
    """Raise InputError unless a file can be put there."""
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: its folder is not there")
    if path.exists() and not path.is_file():  # a device or pipe would be replaced by the file
        raise InputError(f"cannot write {path}: it is no regular file; `-` writes to standard output")
    if path.exists() and not force:
        raise InputError(f"{path} exists: give --force to replace it, or another file")


@contextmanager
def _source(database: Database, name: str) -> Iterator[tuple[Connection, _Source]]:
    """One snapshot for the length of a block, in a session of its own."""
    find_index(database, name)  # its errors say which indexes there are
    try:
        with open_session(database.url) as connection:
            connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
            with connection.transaction():
                yield connection, _described(connection, name)
    except psycopg.errors.UndefinedTable:
        raise IndexNotFoundError(
            f"index {name!r} was dropped, replaced or compacted meanwhile: export it again"
        ) from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise explained(error, name, 0.0) from error
    except psycopg.Error as error:
        reason = without_password(" ".join(str(error).split()))
        raise DatabaseError(
            f"PostgreSQL could not give out index {name!r}: {reason}. Run the same command again"
        ) from error


def _described(connection: Connection, name: str) -> _Source:
    entries = list_indexes(connection, name)
    if not entries:
        raise IndexNotFoundError(f"index {name!r} was dropped or replaced meanwhile: export it again")
    entry = entries[0]
    with connection.cursor(row_factory=dict_row) as cursor:
        segments = cursor.execute(
            "SELECT id, sign, levels, cut, facts, tokens, codes, dictionary FROM refactx.segments"
            " WHERE index_id = %s AND ready ORDER BY id",
            [entry["id"]],
        ).fetchall()
        names = cursor.execute(
            "SELECT id FROM refactx.name_tables WHERE knowledge_base = %s AND ready ORDER BY id",
            [entry["knowledge_base"]],
        ).fetchall()
        tokenizer = cursor.execute(
            "SELECT serialized FROM refactx.tokenizers WHERE fingerprint = %s", [entry["fingerprint"]]
        ).fetchone()
    if tokenizer is None:
        raise IndexNotFoundError(f"index {name!r} has lost its tokenizer: ingest it again")
    shared: dict[Member, bytes] = {}
    tables: dict[Member, tuple[sql.Identifier, sql.Identifier]] = {}
    for number, segment in enumerate(segments):
        shared["codes", number], shared["dict", number] = segment["codes"], segment["dictionary"]
        tables["tree", number] = sql.Identifier("refactx", f"pieces_{segment['id']}"), sql.Identifier("piece")
    for number, names_table in enumerate(names):
        tables["names", number] = sql.Identifier("refactx", f"names_{names_table['id']}"), sql.Identifier("block")
    sizes = {member: _size(connection, *table) for member, table in tables.items()}
    header = ShareHeader(
        **{key: entry[key] for key in ("format", "name", "tokenizer", "fingerprint", "vocabulary_size")},
        **{key: entry[key] for key in ("trigger", "terminator", "report")},
        source=tuple(entry["source"]),
        created=entry["created"].astimezone(UTC).isoformat(),
        origin=(entry["id"], *(row["id"] for row in (*segments, *names))),
        segments=tuple(
            SharedSegment(
                **{key: segment[key] for key in ("sign", "levels", "cut", "facts", "tokens")},
                rows=sizes["tree", number],
            )
            for number, segment in enumerate(segments)
        ),
        names=tuple(sizes["names", number] for number in range(len(names))),
    )
    try:
        ShareHeader.from_bytes(header.to_bytes())
    except ValueError as error:
        raise RefactxError(f"index {name!r} cannot be shared, since no import would take it: {error}") from error
    return _Source(header, tokenizer["serialized"], shared, tables)


def _size(connection: Connection, table: sql.Identifier, value: sql.Identifier) -> SharedRows:
    counted = connection.execute(
        sql.SQL("SELECT count(*), coalesce(sum(length(key)::bigint + length({value})), 0)::bigint FROM {table}").format(
            value=value, table=table
        )
    ).fetchone()
    return SharedRows(*counted) if counted else SharedRows(0, 0)


@contextmanager
def _open_part(part: Path) -> Iterator[BinaryIO]:
    """The unfinished file, made if need be, for this process alone."""
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise InputError(f"cannot write {part}: {error.strerror}") from None
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # gone with this process, however it ends
        except BlockingIOError:
            raise InputError(f"another process is writing {part}: wait for it, or give another file") from None
        if not MAGIC.startswith(file.read(len(MAGIC))):  # (what a power cut left may end within it)
            raise InputError(f"{part} is in the way and no file of ours: move it, or give another file")
        file.seek(0)
        yield file


def _resume(file: BinaryIO, part: Path, header: ShareHeader, progress: Progress) -> tuple[Part | None, str | None]:
    """The last good part of an unfinished file, behind which the file now ends and stands; None to begin anew, with a note
    why if there was something."""
    last: Part | None = None
    note = None
    try:
        shared = open_shared(file, str(part))
        if shared.head.payload == header.to_bytes():
            for last in shared.parts:
                progress(sum(len(key) + len(value) for key, value in last.rows), header.size)
        else:
            note = f"{part} is of another index, or of this one before it changed: it is begun anew"
    except InputError as error:
        note = None if isinstance(error, TruncatedFileError) else f"{error}; it is gone on with before that"
    file.seek(last.block.end if last else 0)
    file.truncate()
    return last, note


def _write(
    connection: Connection, source: _Source, file: BinaryIO, last: Part | None, block_bytes: int, progress: Progress
) -> BlockWriter:
    """Everything behind the part `last`, or from the beginning."""
    writer = BlockWriter(file, last.block if last else None)
    if last is None:
        writer.write("header", 0, source.header.to_bytes())
    members = list(source.header.members())
    for kind, number in members[members.index(last.member) if last else 0 :]:
        is_begun = last is not None and (kind, number) == last.member
        if kind in ROWS:
            after = last.rows[-1][0] if is_begun and last else None
            for rows in _blocks(_rows(connection, *source.tables[kind, number], after), block_bytes):
                writer.write(kind, number, pack_rows(rows))
                file.flush()  # what a killed export has told of is in the file
                progress(sum(len(key) + len(value) for key, value in rows), source.header.size)
        elif not is_begun:
            writer.write(kind, number, source.tokenizer if kind == "tokens" else source.shared.get((kind, number), b""))
    return writer


def _rows(connection: Connection, table: sql.Identifier, value: sql.Identifier, after: bytes | None) -> Iterator[Row]:
    """The rows of a table behind a key, in the order of the keys."""
    behind = sql.SQL("") if after is None else sql.SQL("WHERE key > {}").format(sql.Literal(after))
    statement = sql.SQL("COPY (SELECT key, {value} FROM {table} {behind} ORDER BY key) TO STDOUT (FORMAT binary)")
    with (
        connection.cursor() as cursor,
        cursor.copy(statement.format(value=value, table=table, behind=behind)) as copy,
    ):
        copy.set_types(["bytea", "bytea"])
        yield from copy.rows()


def _blocks(rows: Iterator[Row], block_bytes: int) -> Iterator[list[Row]]:
    """Rows in lists of some `block_bytes`; a larger row is alone."""
    block: list[Row] = []
    size = 0
    for row in rows:
        if block and size + packed_size(row) > block_bytes:
            yield block
            block, size = [], 0
        block.append(row)
        size += packed_size(row)
    if block:
        yield block
