"""The names that a knowledge base has already, for new facts to use and to keep clear of.

An entity that has a name keeps it; a new one is not called by a name that is taken (`ingest.names`). Of a knowledge base's
names, which may be more than fit into memory, only those that bear on the sources come into the work database: of entities
by one pass over the ids in all blocks of names, of names from the blocks that could hold them, which their keys tell.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.index.names import block_key, kind_of, unpack_columns, unpack_joined
from refactx.postgres.locks import Connection
from refactx.tree.codec import RowCodec

from ..work_database import Work, number

Row = tuple[bytes, bytes]
"""Key and block."""

_BLOCKS = 1024  # at a time: a quarter of a million names
_NAMES = 4096  # looked for at a time, in as many blocks at most: some 20 MB
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
_PROPERTIES_WANTED = """
INSERT INTO mentioned SELECT unnest([property, -property]) AS entity FROM (SELECT unnest(CAST(? AS BIGINT[])) AS property)
EXCEPT FROM mentioned
"""
_INVERSES_OF_MENTIONED = """
INSERT INTO mentioned SELECT DISTINCT unnest([predicate, -predicate]) FROM pairs
WHERE property IN (SELECT entity FROM mentioned) AND predicate NOT IN (SELECT entity FROM mentioned)
"""
_PAIRS = pa.schema({"property": pa.int64(), "predicate": pa.int64()})
_BLOCKS_OF = """
SELECT key, block FROM refactx.names_{table} WHERE key IN (
    SELECT (SELECT key FROM refactx.names_{table} WHERE key <= wanted.key ORDER BY key DESC LIMIT 1)
    FROM unnest(%b::bytea[]) AS wanted (key)
)
"""
_KIND_NAMES = [kind_of(number) for number in range(256)]
_IS_INVERSE = np.array([kind == "inverse" for kind in _KIND_NAMES])
_CODEC = RowCodec()


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names in some name tables, of which a later one (`tables` ascends) counts more. `inverses`: of the properties whose
    inverse facts are another property's, that one."""

    connection: Connection
    tables: tuple[int, ...]
    inverses: Mapping[int, int] = field(default_factory=dict)

    def load_entities(self, database: Work, wanted: Collection[str] = ()) -> None:
        """The table `known`: `entity, name, object_kind` of each entity that claims or terms mention, of the properties
        that some `wanted` names are of, and of the inverses of all properties among them."""
        database.execute(_MENTIONED)
        if wanted:
            database.execute(_PROPERTIES_WANTED, [self._properties(wanted)])
        if self.inverses:
            pairs = {"property": list(self.inverses), "predicate": list(self.inverses.values())}
            database.register("pairs", pa.table(pairs, schema=_PAIRS))
            database.execute(_INVERSES_OF_MENTIONED)
            database.unregister("pairs")
        database.execute("CREATE TABLE listed (entity BIGINT, name VARCHAR, object_kind VARCHAR, age BIGINT)")
        for age, table in enumerate(self.tables) if number(database, "SELECT count(*) FROM mentioned") else ():
            for blocks in self._all_blocks(table):
                database.register("incoming", _mentioned(database, blocks))
                database.execute(f"INSERT INTO listed SELECT *, {age} FROM incoming")
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
        asked = database.cursor().execute("SELECT name FROM candidates WHERE name IS NOT NULL ORDER BY name")
        while rows := asked.fetchmany(_NAMES):  # ascending, so that a block is read once
            names = {name for (name,) in rows}
            taken = {
                name
                for table in self.tables
                for near, _, _ in self._near(table, names)
                for name in near
                if name in names
            }
            database.register("incoming", pa.table({"name": pa.array(sorted(taken), pa.string())}))
            database.execute("INSERT INTO taken FROM incoming")
            database.unregister("incoming")
        database.execute("DROP TABLE candidates")

    def _all_blocks(self, table: int) -> Iterator[list[Row]]:
        with self.connection.transaction(), self.connection.cursor(f"refactx_names_{table}", binary=True) as cursor:
            cursor.execute(f"SELECT key, block FROM refactx.names_{table} ORDER BY key".encode())
            while blocks := cursor.fetchmany(_BLOCKS):
                yield blocks

    def _properties(self, wanted: Collection[str]) -> list[int]:
        return [
            number
            for table in self.tables
            for names, numbers, kinds in self._near(table, wanted)
            for name, number, kind in zip(names, numbers.tolist(), kinds, strict=True)
            if name in wanted and number & 1 and not _IS_INVERSE[kind]
        ]

    def _near(self, table: int, wanted: Iterable[str]) -> Iterator[tuple[list[str], NDArray[np.int64], bytes]]:
        """The blocks that could hold some names (`unpack_columns`)."""
        keys = [block_key(name) for name in wanted]
        for key, block in self.connection.execute(_BLOCKS_OF.format(table=table).encode(), [keys], binary=True):
            yield unpack_columns(key, block, _CODEC, _where(key))


def no_known_names(database: Work) -> None:
    """The tables `known` and `taken`, empty, as for a knowledge base that has no name yet."""
    database.execute(_EMPTY)


def _mentioned(database: Work, blocks: list[Row]) -> pa.Table:
    """Those of the names in some blocks whose entities are in the table `mentioned`: `entity, name, object_kind`."""
    columns = [unpack_joined(key, block, _CODEC, _where(key)) for key, block in blocks]
    kinds = np.frombuffer(b"".join(kind for _, _, kind in columns), np.uint8)
    numbers = np.concatenate([numbers for _, numbers, _ in columns])
    # A number in a block is an entity's number here too; the inverse of a property has it with a minus sign.
    entities = np.where(_IS_INVERSE[kinds], -numbers, numbers)
    database.register("ids", pa.table({"entity": entities, "place": np.arange(len(entities))}))
    at = database.execute("SELECT place FROM ids SEMI JOIN mentioned USING (entity) ORDER BY place").fetchnumpy()[
        "place"
    ]
    database.unregister("ids")
    names = _lines(b"\n".join(joined for joined, _, _ in columns), at)
    try:
        texts = pa.array(names, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        first, last = blocks[0][0], blocks[-1][0]
        raise CorruptIndexError(f"blocks of names {first!r} to {last!r} are damaged: {error}") from error
    return pa.table(
        {
            "entity": entities[at],
            "name": texts,
            "object_kind": pa.array([_KIND_NAMES[kind] for kind in kinds[at].tolist()], pa.string()),
        }
    )


def _lines(joined: bytes, numbers: NDArray[np.int64]) -> list[bytes]:
    """Some lines of a text, by their numbers. (To split it at every newline takes three times as long.)"""
    ends = np.append(np.flatnonzero(np.frombuffer(joined, np.uint8) == ord("\n")), len(joined))
    begins = np.append(0, ends[:-1] + 1)
    return [joined[begin:end] for begin, end in zip(begins[numbers].tolist(), ends[numbers].tolist(), strict=True)]


def _where(key: bytes) -> str:
    return f"block of names {key!r}"
