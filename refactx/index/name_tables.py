"""Queries on the name tables of a knowledge base."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from refactx.index.names import Named, block_key, find_all
from refactx.tree.codec import RowCodec

# A name is in the last block whose key is not greater than its own. A block that several names share is sent once.
_BLOCKS_OF_NAMES = """SELECT DISTINCT ON (found.key) found.key, found.block FROM unnest(%b::bytea[]) AS wanted (key)
CROSS JOIN LATERAL (SELECT key, block FROM refactx.names_{} AS n WHERE n.key <= wanted.key ORDER BY n.key DESC LIMIT 1)
AS found"""


class Connection(Protocol):
    """The part of a psycopg connection that the queries need."""

    def execute(self, query: bytes, params: Sequence[object] | None = None, *, binary: bool) -> Any:
        """Run a query and return its cursor."""


def find_names(
    connection: Connection, tables: Sequence[int], names: set[str], codec: RowCodec, where: str
) -> dict[str, Named]:
    """Return the entities of names, without the names that no table has. Each table takes at most one query.

    `tables`: the numbers of the name tables, the latest first: it decides if several have a name. Raises
    CorruptIndexError, whose message begins with `where`, if a block is damaged.
    """
    found: dict[str, Named] = {}
    for table in tables:
        missing = names - found.keys()
        if not missing:
            break
        keys = sorted({block_key(name) for name in missing})
        rows = connection.execute(_BLOCKS_OF_NAMES.format(table).encode(), [keys], binary=True).fetchall()
        found |= _find_in_blocks(missing, dict(rows), codec, where)
    return found


def _find_in_blocks(names: set[str], blocks: Mapping[bytes, bytes], codec: RowCodec, where: str) -> dict[str, Named]:
    keys = sorted(blocks)
    names_of: defaultdict[bytes, list[str]] = defaultdict(list)
    for name in names:
        at = bisect_right(keys, block_key(name))
        if at:
            names_of[keys[at - 1]].append(name)
    found: dict[str, Named] = {}
    for key, some in names_of.items():
        found |= find_all(some, key, blocks[key], codec, f"{where}: block of names {key!r}")
    return found


def rows_of_table(connection: Connection, table: int) -> list[tuple[bytes, bytes]]:
    """Return the keys and blocks of a name table, in the order of the keys."""
    statement = f"SELECT key, block FROM refactx.names_{table} ORDER BY key".encode()
    rows: list[tuple[bytes, bytes]] = connection.execute(statement, binary=True).fetchall()
    return rows
