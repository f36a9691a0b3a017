"""The catalogue of a database: its version, and the entries of its indexes."""

from typing import Any

import psycopg
from psycopg.rows import dict_row

from refactx.errors import (
    IndexNotFoundError,
    RefactxError,
)
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.postgres.database import Database
from refactx.postgres.locks import Connection
from refactx.sql import query
from refactx.tree.codec import FORMAT_VERSION

CATALOGUE_VERSION = 3
"""The version of the tables of `sql/schema.sql`, which table `refactx.catalogue` holds."""

OLDEST_READABLE = 2
"""The oldest version that can be read: it lacks only the table `refactx.hubs`."""


def catalogue_version(connection: psycopg.Connection[Any]) -> int | None:
    """Return the version of the catalogue in a database; None if it has no catalogue."""
    found = connection.execute("SELECT to_regclass('refactx.segments'), to_regclass('refactx.catalogue')").fetchone()
    if found is None or found[0] is None:
        return None
    row = connection.execute("SELECT version FROM refactx.catalogue").fetchone() if found[1] else None
    return int(row[0]) if row else 1


def check_catalogue(connection: psycopg.Connection[Any], oldest: int = CATALOGUE_VERSION) -> bool:
    """Return whether there is a catalogue. Raises RefactxError, which says what to do, if its version is less than
    `oldest` or newer than this."""
    version = catalogue_version(connection)
    if version is not None and version < oldest:
        raise RefactxError(
            f"this database was written by an older refactx (catalogue {version}, expected {CATALOGUE_VERSION}): "
            "run `refactx index migrate`, with the same --db"
        )
    if version is not None and version > CATALOGUE_VERSION:
        raise RefactxError(
            f"this database was written by a newer refactx (catalogue {version}, expected {CATALOGUE_VERSION}): "
            "upgrade refactx"
        )
    return version is not None


def list_indexes(
    connection: psycopg.Connection[Any], name: str | None = None, every: bool = False
) -> list[CatalogueEntry]:
    """Return the entries of the ready indexes, with `every` also of the unfinished ones, ordered by name.

    Raises RefactxError if the catalogue cannot be read (`check_catalogue`).
    """
    if not check_catalogue(connection, OLDEST_READABLE):
        return []
    with connection.cursor(row_factory=dict_row) as cursor:
        # Binary: the text of a time depends on the DateStyle of the role, the database or PGDATESTYLE.
        rows = cursor.execute(query("list_indexes").encode(), {"name": name, "all": every}, binary=True).fetchall()
    return [CatalogueEntry.from_row(row) for row in rows]


def find_index(database: Database, name: str) -> CatalogueEntry:
    """Return the entry of a ready index. Raises IndexNotFoundError, and RefactxError if its format is too new."""
    entries = database.retry_unlimited(lambda connection: list_indexes(connection, name, every=True))
    for entry in entries:
        if entry.state == "ready":
            if entry.format > FORMAT_VERSION:
                raise RefactxError(
                    f"index {name!r} has format {entry.format}, newer than {FORMAT_VERSION}: upgrade refactx"
                )
            return entry
    if entries:
        raise IndexNotFoundError(
            f"index {name!r} is not complete: its ingest is running or was killed. If it was killed, run it again"
        )
    ready = [entry.name for entry in database.retry_unlimited(list_indexes)]
    known = f"there are: {', '.join(ready)}" if ready else "there is none yet"
    raise IndexNotFoundError(
        f"there is no index {name!r} in {database.shown} ({known}): build it with "
        f"`refactx ingest --index {name}`, or give another database with --db or REFACTX_DB"
    )


def stored_tokenizer(database: Database, entry: CatalogueEntry) -> bytes:
    """Return the tokenizer of an index as it is stored. Raises IndexNotFoundError if the index is gone."""
    row = database.retry(
        lambda connection: connection.execute(
            "SELECT serialized FROM refactx.tokenizers WHERE fingerprint = %s", [entry.fingerprint]
        ).fetchone(),
        entry.name,
    )
    if row is None:
        raise IndexNotFoundError(f"index {entry.name!r} was dropped or replaced: open it again")
    packed: bytes = row[0]
    return packed


def numbers(connection: Connection, statement: str, values: list[Any]) -> list[int]:
    """Return the first column of a query's result."""
    return [int(row[0]) for row in connection.execute(statement.encode(), values).fetchall()]


def number(connection: Connection, statement: str, values: list[Any]) -> int:
    """Return the number that a statement returns in its single row."""
    (found,) = numbers(connection, statement, values)
    return found
