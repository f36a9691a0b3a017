"""The source of an export: the members of a ready index in one snapshot of its database."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from refactx.errors import DatabaseError, IndexNotFoundError, RefactxError
from refactx.index.file.header import Member, SharedRows, SharedSegment, ShareHeader
from refactx.postgres.catalogue import find_index, list_indexes
from refactx.postgres.database import Database
from refactx.postgres.errors import read_error
from refactx.postgres.hubs import knows_hubs
from refactx.share.hub_rows import select_hubs

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
    sizes = {member: _size(connection, member, table, value) for member, (table, value) in tables.items()}
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


def _size(connection: Connection, member: Member, table: sql.Composable, value: sql.Composable) -> SharedRows:
    of = sql.SQL("get_byte(key, 0) = 0") if member[0] == "tree" else sql.SQL("true")  # `SharedRows` says why
    statement = sql.SQL(
        "SELECT count(*), coalesce(sum(length(key)::bigint + length({value})) FILTER (WHERE {of}), 0)::bigint FROM {table}"
    )
    counted = connection.execute(statement.format(value=value, table=table, of=of)).fetchone()
    return SharedRows(*counted) if counted else SharedRows(0, 0)
