"""The tables of keys and values: `refactx.pieces_7` for segment 7, `refactx.names_3` for name table 3."""

from collections.abc import Iterable, Sequence
from typing import Literal

from psycopg import sql

from refactx.postgres.locks import Connection
from refactx.sql import query

Kind = Literal["pieces", "names"]


def create_table(connection: Connection, kind: Kind, number: int) -> None:
    """Create an empty table without a B-tree."""
    statement = sql.SQL(query(f"create_{kind}"))
    connection.execute(statement.format(table=sql.Identifier(f"{kind}_{number}")))


def drop_tables(connection: Connection, kind: Kind, numbers: Sequence[int]) -> None:
    """Drop some tables, if they exist, in the order of their numbers."""
    for number in sorted(numbers):
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(_identifier(kind, number)))


def copy_rows(connection: Connection, kind: Kind, number: int, rows: Iterable[tuple[bytes, bytes]]) -> int:
    """Fill a table with keys and values in the order of the keys, then make its B-tree. Return the number of rows.

    It runs in the caller's transaction.
    """
    # Truncated in the same transaction: so the rows are frozen, and not in the write-ahead log if wal_level is minimal.
    connection.execute(sql.SQL("TRUNCATE {}").format(_identifier(kind, number)))
    count = _copy(connection, kind, number, rows, sql.SQL(", FREEZE"))
    add_key(connection, kind, number)
    return count


def add_rows(connection: Connection, kind: Kind, number: int, rows: Iterable[tuple[bytes, bytes]]) -> int:
    """Append rows to a table without a B-tree. Return the number of rows."""
    return _copy(connection, kind, number, rows, sql.SQL(""))


def add_key(connection: Connection, kind: Kind, number: int) -> None:
    """Make the B-tree of a table that has all its rows."""
    connection.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (key)").format(_identifier(kind, number)))


def _copy(connection: Connection, kind: Kind, number: int, rows: Iterable[tuple[bytes, bytes]], option: sql.SQL) -> int:
    statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary{})").format(_identifier(kind, number), option)
    count = 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(["bytea", "bytea"])
        for row in rows:
            copy.write_row(row)
            count += 1
    return count


def _identifier(kind: Kind, number: int) -> sql.Identifier:
    return sql.Identifier("refactx", f"{kind}_{number}")
