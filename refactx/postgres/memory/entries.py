"""The entries of a memory: made those of an index as it is now."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from psycopg import sql

from refactx.postgres.locks import Connection
from refactx.postgres.memory.records import MemoryRecord
from refactx.sql import query

Role = Literal["u", "d", "s", "a"]


class NameRow(NamedTuple):
    """A name of the index, and what it consists of. `number`: of `refactx.entity_ids`; `folded`: a hash of the label
    without regard to case, int64; `place`: of several with a name, the one of the lowest place counts."""

    name: str
    number: int
    label: str
    description: str
    folded: int
    place: int


class PartRow(NamedTuple):
    """A part of a fact that matters: that a `name` is used (`u`); that `other` is its description (`d`) or short
    description (`s`); or that `name` is an alias (`a`) of the name `other`. `folded`: that of an alias."""

    role: Role
    name: str
    other: str | None = None
    folded: int | None = None


def update_entries(
    connection: Connection, memory: MemoryRecord, names: Iterable[NameRow], parts: Iterable[PartRow]
) -> tuple[int, int]:
    """Make the entries of a memory those of the names of an index that its facts use, with descriptions and aliases.

    Return how many were removed and added. Entries that stay keep their embeddings. Readers see all of it or nothing.
    """
    with connection.transaction():
        connection.execute(query("stage_memory").encode())
        for table, rows in (("memory_names", names), ("memory_parts", parts)):
            with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)
            connection.execute(f"ANALYZE {table}".encode())
        statement = sql.SQL(query("update_memory")).format(table=sql.Identifier(f"memory_{memory.id}"))
        ((removed, added),) = connection.execute(statement).fetchall()
        if removed or added:
            connection.execute(sql.SQL("ANALYZE {}").format(memory.table))
        return int(removed), int(added)
