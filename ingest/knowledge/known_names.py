"""The names that a knowledge base has already: new facts use them, and new entities get other names.

An entity that has a name keeps it; a new entity does not get a name that is taken (`refactx.ingest.knowledge.naming`).
All names may not fit into memory, so only those that matter for the sources are loaded into the work database: names of
given entities by one pass over the numbers in all blocks of names, given names from the blocks whose keys say that they
could hold them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refactx.entity_ids import is_property
from refactx.errors import CorruptIndexError
from refactx.index.names import FIRST_KEY, block_key, kind_of, unpack_columns, unpack_joined
from refactx.ingest.knowledge.tables import Tables
from refactx.ingest.work_database import WorkDatabase
from refactx.postgres.hubs import Hub
from refactx.postgres.locks import Connection
from refactx.tree.codec import RowCodec

NameBlock = tuple[bytes, bytes]
"""The key of a block of names, and the block as it is stored."""

_BLOCKS = 1024  # read at a time: a quarter of a million names
_NAMES = 4096  # looked up at a time, in at most as many blocks: some 20 MB
_EMPTY = {
    "known": pa.schema({"entity": pa.int64(), "name": pa.string(), "object_kind": pa.string()}),
    "taken": pa.schema({"name": pa.string()}),
    "known_hubs": pa.schema({name: pa.string() for name in ("object", "predicate", "inverse")}),
}
# All entities of the sources, and the inverses of those that are properties.
_MENTIONED = """
CREATE TABLE mentioned AS
WITH entities AS (
    SELECT subject AS entity FROM claims UNION ALL SELECT property FROM claims
    UNION ALL SELECT object FROM claims WHERE object IS NOT NULL
    UNION ALL SELECT entity FROM terms UNION ALL SELECT target FROM redirects
)
SELECT DISTINCT entity FROM (FROM entities UNION ALL SELECT -entity FROM entities WHERE is_property(entity))
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
    SELECT (SELECT key FROM refactx.names_{table} WHERE key <= wanted.key AND key >= %b ORDER BY key DESC LIMIT 1)
    FROM unnest(%b::bytea[]) AS wanted (key)
)
"""
_KIND_NAMES = [kind_of(number) for number in range(256)]
_IS_INVERSE = np.array([kind == "inverse" for kind in _KIND_NAMES])
_CODEC = RowCodec()


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names in name tables, of which a later one wins (`tables` ascends).

    `inverses`: maps a property to the property that its inverse facts belong to, as numbers. `hubs`: objects that get
    no inverse facts of a predicate.
    """

    connection: Connection
    tables: tuple[int, ...]
    inverses: Mapping[int, int] = field(default_factory=dict)
    hubs: Sequence[Hub] = ()

    def load_entities(self, database: WorkDatabase, wanted: Collection[str] = ()) -> None:
        """Fill the table `known` (`entity, name, object_kind`), and `known_hubs` (`object, predicate, inverse`).

        It gets each entity that claims or terms mention, the properties that have one of the `wanted` names, and the
        inverses of all properties among them.
        """
        if self.hubs:
            columns = {name: [getattr(hub, name) for hub in self.hubs] for name in ("object", "predicate", "inverse")}
            database.insert("known_hubs", pa.table(columns))
        database.execute(_MENTIONED)
        if wanted:
            database.execute(_PROPERTIES_WANTED, [self._properties_named(wanted)])
        if self.inverses:
            pairs = {"property": list(self.inverses), "predicate": list(self.inverses.values())}
            with database.lend("pairs", pa.table(pairs, schema=_PAIRS)):
                database.execute(_INVERSES_OF_MENTIONED)
        database.execute("CREATE TABLE entries (entity BIGINT, name VARCHAR, object_kind VARCHAR, age BIGINT)")
        for age, table in enumerate(self.tables) if database.number("SELECT count(*) FROM mentioned") else ():
            for blocks in self._all_blocks(table):
                database.insert("entries", _select_mentioned(database, blocks), f"*, {age}")
        database.execute(
            "INSERT INTO known SELECT entity, arg_max(name, age), arg_max(object_kind, age) FROM"
            " (SELECT entity, name, coalesce(object_kind, '') AS object_kind, age FROM entries) GROUP BY entity"
        )
        database.execute("UPDATE known SET object_kind = NULL WHERE object_kind = ''")
        database.execute("DROP TABLE entries; DROP TABLE mentioned")

    def load_taken(self, database: WorkDatabase, candidates: str) -> None:
        """Fill the table `taken`: those of the names that a query gives (`name`) that an entity has already."""
        database.execute(f"CREATE TABLE candidates AS SELECT DISTINCT name FROM ({candidates})")
        # In ascending order, so that each block is read once.
        for batch in database.batches("SELECT name FROM candidates WHERE name IS NOT NULL ORDER BY name", _NAMES):
            names = set(batch["name"].to_pylist())
            taken = {
                name
                for table in self.tables
                for near, _, _ in self._blocks_near(table, names)
                for name in near
                if name in names
            }
            database.insert("taken", pa.table({"name": pa.array(sorted(taken), pa.string())}))
        database.execute("DROP TABLE candidates")

    def _all_blocks(self, table: int) -> Iterator[list[NameBlock]]:
        with self.connection.transaction(), self.connection.cursor(f"refactx_names_{table}", binary=True) as cursor:
            statement = f"SELECT key, block FROM refactx.names_{table} WHERE key >= %b ORDER BY key"
            cursor.execute(statement.encode(), [FIRST_KEY])
            while blocks := cursor.fetchmany(_BLOCKS):
                yield blocks

    def _properties_named(self, wanted: Collection[str]) -> list[int]:
        return [
            number
            for table in self.tables
            for names, numbers, kinds in self._blocks_near(table, wanted)
            for name, number, kind in zip(names, numbers.tolist(), kinds, strict=True)
            if name in wanted and is_property(number) and not _IS_INVERSE[kind]
        ]

    def _blocks_near(self, table: int, wanted: Iterable[str]) -> Iterator[tuple[list[str], NDArray[np.int64], bytes]]:
        """Yield the blocks that could have the `wanted` names, as `unpack_columns` returns them."""
        keys = [block_key(name) for name in wanted]
        for key, block in self.connection.execute(
            _BLOCKS_OF.format(table=table).encode(), [FIRST_KEY, keys], binary=True
        ):
            yield unpack_columns(key, block, _CODEC, _describe(key))


@dataclass(frozen=True, slots=True)
class NamesBefore:
    """Known names, with the work database that they are loaded into."""

    names: KnownNames
    database: WorkDatabase

    @property
    def inverses(self) -> Mapping[int, int]:
        """As in `KnownNames`."""
        return self.names.inverses

    def load_entities(self, wanted: Collection[str] = ()) -> None:
        """Do what `KnownNames.load_entities` does."""
        self.names.load_entities(self.database, wanted)

    def load_taken(self, candidates: str) -> None:
        """Do what `KnownNames.load_taken` does."""
        self.names.load_taken(self.database, candidates)


def no_known_names(database: Tables) -> None:
    """Make the tables `known`, `taken` and `known_hubs`, empty, as for a knowledge base without names."""
    for name, schema in _EMPTY.items():
        database.table_of(name, schema.empty_table())


def _select_mentioned(database: WorkDatabase, blocks: list[NameBlock]) -> pa.Table:
    """Return the rows (`entity, name, object_kind`) of some blocks whose entities are in the table `mentioned`."""
    columns = [unpack_joined(key, block, _CODEC, _describe(key)) for key, block in blocks]
    kinds = np.frombuffer(b"".join(kind for _, _, kind in columns), np.uint8)
    numbers = np.concatenate([numbers for _, numbers, _ in columns])
    # Blocks have the number of the property for its inverse; only work databases have the negative number.
    entities = np.where(_IS_INVERSE[kinds], -numbers, numbers)
    with database.lend("ids", pa.table({"entity": entities, "place": np.arange(len(entities))})):
        at = database.arrays("SELECT place FROM ids SEMI JOIN mentioned USING (entity) ORDER BY place")["place"]
    names = _lines(b"\n".join(joined for joined, _, _ in columns), at)
    try:
        texts = pa.array(names, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        first, last = blocks[0][0], blocks[-1][0]
        raise CorruptIndexError(
            f"blocks of names {first!r} to {last!r} are damaged: {error}. Ingest the index again"
        ) from error
    return pa.table(
        {
            "entity": entities[at],
            "name": texts,
            "object_kind": pa.array([_KIND_NAMES[kind] for kind in kinds[at].tolist()], pa.string()),
        }
    )


def _lines(joined: bytes, numbers: NDArray[np.int64]) -> list[bytes]:
    """Return some lines of a text, given their numbers. (Splitting the text takes three times as long.)"""
    ends = np.append(np.flatnonzero(np.frombuffer(joined, np.uint8) == ord("\n")), len(joined))
    begins = np.append(0, ends[:-1] + 1)
    return [joined[begin:end] for begin, end in zip(begins[numbers].tolist(), ends[numbers].tolist(), strict=True)]


def _describe(key: bytes) -> str:
    return f"block of names {key!r}"
