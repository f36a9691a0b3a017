"""The catalogue of a database: its version, and the entries of its indexes.

They are rows of the table `refactx.hubs`, by the names that facts use. `subjects` is the number of facts
`<...> <predicate> <object>` in the index, which each change keeps exact in its own transaction.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from refactx.errors import IndexNotFoundError, RefactxError
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.locks import Connection
from refactx.sql import query
from refactx.tree.codes import FORMAT_VERSION

CATALOGUE_VERSION = 3
"""The version of the tables of `sql/schema.sql`, which table `refactx.catalogue` holds."""

OLDEST_READABLE = 2
"""The oldest version that can be read: it lacks only the table `refactx.hubs`."""

_FIND = """
SELECT h.object, h.inverse, sum(h.subjects)::bigint FROM refactx.indexes AS i LEFT JOIN LATERAL (
    SELECT object, inverse, subjects FROM unnest(%s::text[]) AS wanted (name) JOIN refactx.hubs
    ON index_id = i.id AND hashtextextended(object, 0) = hashtextextended(name, 0) AND object = name
) AS h ON true WHERE i.id = %s AND i.state = 'ready' GROUP BY h.object, h.inverse
"""

_CHANGE = """
UPDATE refactx.hubs AS h SET subjects = h.subjects + c.more
FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS c (object, predicate, more)
WHERE h.index_id = %s AND hashtextextended(h.object, 0) = hashtextextended(c.object, 0) AND h.object = c.object
    AND h.predicate = c.predicate
"""

_RENAME = """
UPDATE refactx.hubs AS h SET object = r.name FROM unnest(%s::text[], %s::text[]) AS r (before, name)
WHERE h.index_id = %s AND hashtextextended(h.object, 0) = hashtextextended(r.before, 0) AND h.object = r.before
"""


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
    if not name.strip() or not name.isprintable():
        raise IndexNotFoundError(f"{name!r} names no index: `refactx index list` shows the names")
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
    near = get_close_matches(name, ready, 1)
    like = f". Did you mean {near[0]!r}? Else" if near else ":"
    known = f"there are: {', '.join(ready)}" if ready else "there is none yet"
    raise IndexNotFoundError(
        f"there is no index {name!r} in this database ({known}){like} build it with "
        f"`refactx ingest SOURCE --index {shlex.quote(name)}`, or give another database with --db or REFACTX_DB"
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


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub: its `object`, the `predicate` of its facts, the predicate of the `inverse` facts that the index does not
    have, and the number of its `subjects`."""

    object: str
    predicate: str
    inverse: str
    subjects: int


def knows_hubs(entry: CatalogueEntry) -> bool:
    """Return whether the hubs of an index are stored: not if it was ingested before there was a table of them."""
    return isinstance(entry.report.get("hubs"), int)


def read_hubs(connection: Connection, index: int) -> list[Hub]:
    """Return all hubs of an index, given its id."""
    statement = "SELECT object, predicate, inverse, subjects FROM refactx.hubs WHERE index_id = %s"
    return [Hub(*row) for row in connection.execute(statement, [index]).fetchall()]


def find_hubs(connection: Connection, entry: CatalogueEntry, objects: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the subjects of some objects that are hubs, by object and inverse predicate. Takes one query.

    Raises IndexNotFoundError if the index was dropped or replaced.
    """
    names = sorted({name for name in objects if "\0" not in name})
    rows = connection.execute(_FIND.encode(), [names, entry.id]).fetchall()
    if not rows:
        raise IndexNotFoundError(f"index {entry.name!r} was dropped or replaced: open it again")
    found: dict[str, dict[str, int]] = {}
    for object_, inverse, subjects in rows:
        if object_ is not None:
            found.setdefault(object_, {})[inverse] = subjects
    return found


def add_hubs(connection: Connection, index: int, hubs: Iterable[Hub]) -> None:
    """Add hubs to an index, in the caller's transaction."""
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY refactx.hubs (index_id, object, predicate, inverse, subjects) FROM STDIN") as copy,
    ):
        for hub in hubs:
            copy.write_row((index, hub.object, hub.predicate, hub.inverse, hub.subjects))


def change_hubs(
    connection: Connection, index: int, more: Mapping[tuple[str, str], int], renamed: Mapping[str, str] | None = None
) -> None:
    """Rename hubs and add to their subjects, in the caller's transaction; a hub without any is none any more.

    `more`: by object (its new name) and predicate, how many facts an append has added, or, negative, how many were forgotten;
    `renamed`: new names of objects.
    """
    if renamed:
        connection.execute(_RENAME.encode(), [list(renamed), list(renamed.values()), index])
    columns = [[object_ for object_, _ in more], [predicate for _, predicate in more], list(more.values())]
    connection.execute(_CHANGE.encode(), [*columns, index])
    connection.execute("DELETE FROM refactx.hubs WHERE index_id = %s AND subjects = 0", [index])
