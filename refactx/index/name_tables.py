"""Queries on the name tables of a knowledge base: ids by name, and names by id."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from refactx.index.id_blocks import id_key, names_by_number
from refactx.index.names import FIRST_KEY, Named, block_key, find_all
from refactx.tree.codec import RowCodec

# An entry is in the last block whose key is not greater than its own. A block that several share is sent once. The
# second parameter keeps blocks of ids, which come first, from a name that is before all blocks of names.
_BLOCKS = """SELECT DISTINCT ON (found.key) found.key, found.block FROM unnest(%b::bytea[]) AS wanted (key)
CROSS JOIN LATERAL (
    SELECT key, block FROM refactx.names_{} AS n WHERE n.key <= wanted.key AND n.key >= %b ORDER BY n.key DESC LIMIT 1
) AS found"""
_FIRST_ID = b""

Entry = TypeVar("Entry")

ReadBlocks = Callable[[int, list[bytes], bytes], Mapping[bytes, bytes]]
"""Read the blocks in which the entries of some keys would be, by key: the number of a name table, the keys, ascending,
and the least key of a block."""


class Connection(Protocol):
    """The part of a psycopg connection that the queries need."""

    def execute(self, query: bytes, params: Sequence[object] | None = None, *, binary: bool) -> Any:
        """Run a query and return its cursor."""


def find_names(
    read: ReadBlocks, tables: Sequence[int], names: set[str], codec: RowCodec, where: str
) -> dict[str, Named]:
    """Return the entities of names, without the names that no table has. Each table is read at most once.

    `tables`: the numbers of the name tables, the latest first: it decides if several have a name. Raises
    CorruptIndexError, whose message begins with `where`, if a block is damaged.
    """
    found: dict[str, Named] = {}
    for table in tables:
        missing = names - found.keys()
        if not missing:
            break
        keys = sorted({block_key(name) for name in missing})
        blocks = read(table, keys, FIRST_KEY)
        for key, some in _by_block(((block_key(name), name) for name in missing), blocks).items():
            found |= find_all(some, key, blocks[key], codec, f"{where}: block of names {key!r}")
    return found


def find_numbers(
    read: ReadBlocks, tables: Sequence[int], numbers: set[int], codec: RowCodec, where: str
) -> dict[int, str]:
    """Return the names of entities by their numbers (`refactx.entity_ids`; negative for the inverse of a property),
    without the entities that no table has. Each table is read at most once.

    The arguments and errors are those of `find_names`.
    """
    found: dict[int, str] = {}
    for table in tables:
        missing = numbers - found.keys()
        if not missing:
            break
        blocks = read(table, sorted(map(id_key, missing)), _FIRST_ID)
        for key, some in _by_block(((id_key(number), number) for number in missing), blocks).items():
            wanted = np.array(some, np.int64)
            found |= names_by_number(wanted, key, blocks[key], codec, f"{where}: block of ids {key.hex()}")
    return found


def read_blocks(connection: Connection, table: int, keys: list[bytes], first: bytes) -> dict[bytes, bytes]:
    """Return the blocks in which the entries of keys would be; only rows from the key `first` on."""
    rows: list[tuple[bytes, bytes]] = connection.execute(
        _BLOCKS.format(table).encode(), [keys, first], binary=True
    ).fetchall()
    return dict(rows)


def _by_block(wanted: Iterable[tuple[bytes, Entry]], blocks: Mapping[bytes, bytes]) -> dict[bytes, list[Entry]]:
    """Return the entries that each block could have, by its key, given the key of each entry."""
    keys = sorted(blocks)
    entries: defaultdict[bytes, list[Entry]] = defaultdict(list)
    for own, entry in wanted:
        at = bisect_right(keys, own)
        if at:
            entries[keys[at - 1]].append(entry)
    return entries


def rows_of_table(connection: Connection, table: int, first: bytes = FIRST_KEY) -> list[tuple[bytes, bytes]]:
    """Return the keys and blocks of the names in a name table, in the order of the keys.

    With `first` b"" the rows of names by id are before them.
    """
    statement = f"SELECT key, block FROM refactx.names_{table} WHERE key >= %b ORDER BY key".encode()
    rows: list[tuple[bytes, bytes]] = connection.execute(statement, [first], binary=True).fetchall()
    return rows
