"""The names that a knowledge base has already, for new facts to use and to keep clear of.

An entity that has a name keeps it; a new one is not called by a name that is taken (`ingest.names`). Of a knowledge base's
names, which may be more than fit into memory, only those that bear on the sources come into the work database: two passes
over the blocks of names, one by entities, one by names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from refactx.codec import RowCodec
from refactx.name_blocks import kind_of, unpack_columns

from .locks import Connection
from .work_database import Work, number

_BLOCKS = 1024  # at a time: a quarter of a million names
_EMPTY = """
CREATE TABLE known (entity BIGINT, name VARCHAR, object_kind VARCHAR);
CREATE TABLE taken (name VARCHAR);
"""
# All entities of the sources, and the inverses of those that are properties.
_MENTIONED = """
CREATE TABLE mentioned AS
WITH entities AS (
    SELECT subject AS entity FROM claims UNION ALL SELECT property FROM claims
    UNION ALL SELECT object FROM claims WHERE object IS NOT NULL
    UNION ALL SELECT entity FROM terms UNION ALL SELECT target FROM redirects
)
SELECT DISTINCT entity FROM (FROM entities UNION ALL SELECT -entity FROM entities WHERE entity & 1 = 1)
"""
_KINDS: pa.Array = pa.array([kind_of(number) for number in range(5)])


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names in some name tables, of which a later one (`tables` ascends) counts more."""

    connection: Connection
    tables: tuple[int, ...]

    def load_entities(self, database: Work) -> None:
        """The table `known`: `entity, name, object_kind` of each entity that claims or terms mention."""
        database.execute(_MENTIONED)
        database.execute("CREATE TABLE listed (entity BIGINT, name VARCHAR, object_kind VARCHAR, age BIGINT)")
        for age, rows in self._rows() if number(database, "SELECT count(*) FROM mentioned") else ():
            database.register("incoming", rows)
            database.execute(f"INSERT INTO listed SELECT *, {age} FROM incoming SEMI JOIN mentioned USING (entity)")
            database.unregister("incoming")
        database.execute(
            "INSERT INTO known SELECT entity, arg_max(name, age), arg_max(object_kind, age) FROM"
            " (SELECT entity, name, coalesce(object_kind, '') AS object_kind, age FROM listed) GROUP BY entity"
        )
        database.execute("UPDATE known SET object_kind = NULL WHERE object_kind = ''")
        database.execute("DROP TABLE listed; DROP TABLE mentioned")

    def load_taken(self, database: Work, candidates: str) -> None:
        """The table `taken`: those of the names that a query gives (`name`) that some entity has already."""
        database.execute(f"CREATE TABLE candidates AS SELECT DISTINCT name FROM ({candidates})")
        for _, rows in self._rows() if number(database, "SELECT count(*) FROM candidates") else ():
            database.register("incoming", rows)
            database.execute("INSERT INTO taken SELECT name FROM incoming SEMI JOIN candidates USING (name)")
            database.unregister("incoming")
        database.execute("DROP TABLE candidates")

    def _rows(self) -> Iterator[tuple[int, pa.Table]]:
        """All names, some at a time, each with the place of its table."""
        codec = RowCodec()
        for age, table in enumerate(self.tables):
            with (
                self.connection.transaction(),
                self.connection.cursor(f"refactx_names_{table}", binary=True) as cursor,
            ):
                cursor.execute(f"SELECT key, block FROM refactx.names_{table} ORDER BY key".encode())
                while blocks := cursor.fetchmany(_BLOCKS):
                    yield (
                        age,
                        _as_table(
                            [unpack_columns(key, block, codec, f"block of names {key!r}") for key, block in blocks]
                        ),
                    )


def no_known_names(database: Work) -> None:
    """The tables `known` and `taken`, empty, as for a knowledge base that has no name yet."""
    database.execute(_EMPTY)


def _as_table(columns: list[tuple[list[str], Any, bytes]]) -> pa.Table:
    kinds = np.frombuffer(b"".join(kinds for _, _, kinds in columns), np.uint8)
    kinds = np.where(kinds < len(_KINDS), kinds, 0)
    object_kinds = _KINDS.take(pa.array(kinds))
    # A number in a block is an entity's number here too; the inverse of a property has it with a minus sign.
    numbers = np.concatenate([numbers for _, numbers, _ in columns])
    is_inverse = np.array([kind_of(kind) == "inverse" for kind in range(len(_KINDS))])[kinds]
    return pa.table(
        {
            "entity": np.where(is_inverse, -numbers, numbers),
            "name": pa.array(chain.from_iterable(names for names, _, _ in columns), pa.string()),
            "object_kind": object_kinds,
        }
    )
