"""Names and their ids, in compressed blocks of neighbouring names: one row for some 256 names.

The key of a block is the beginning of its first name in UTF-8, so a name is in the last block whose key is not greater.
A block is packed like a piece of the tree (`refactx.tree.codec`): `(count, names joined by newlines, ids, kinds)`.
Before these rows a name table has those of `refactx.index.id_blocks`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from refactx.entity_ids import entity_id, entity_number
from refactx.errors import CorruptIndexError
from refactx.fact import is_written_part
from refactx.index.id_blocks import is_id_key, unpack_ids
from refactx.tree.codec import RowCodec

NAMES_PER_BLOCK = 256
_KEY_BYTES = 2000  # PostgreSQL's B-tree takes keys of up to 2,704
FIRST_KEY = b"\x01"
"""The least key of a block of names: names have no control characters."""
LITERAL_KINDS = ("literal", "time", "quantity", "coordinates", "text")
"""The kinds of a property whose objects are literals. `literal`: of several kinds, or of one that is not known."""
_KINDS = (None, "entity", "literal", "mixed", "inverse", *LITERAL_KINDS[1:])


@dataclass(frozen=True, slots=True)
class Named:
    """The entity of a name: its id (`Q42`, `P569`), and the kind of a property's objects (None for items).

    Kinds: `entity`; `time`, `quantity`, `coordinates` or `text`, if all objects are such literals, `literal` for others
    (`LITERAL_KINDS`); `mixed` (both); and `inverse`: the name is that of the property read backwards, whose objects are
    entities.
    """

    id: str
    object_kind: str | None


def block_key(name: str) -> bytes:
    """Return the key of a block that begins with `name`.

    >>> block_key("Danny Boyle")
    b'Danny Boyle'
    """
    return name.encode()[:_KEY_BYTES]


def pack_blocks(rows: Iterable[tuple[str, Named]], codec: RowCodec) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and blocks of names, which are given in the order of their UTF-8 bytes."""
    block: list[tuple[str, Named]] = []
    for name, named in rows:
        # Names with the same key stay in one block.
        if len(block) >= NAMES_PER_BLOCK and block_key(name) != block_key(block[-1][0]):
            yield _packed(block, codec)
            block = []
        block.append((name, named))
    if block:
        yield _packed(block, codec)


def find_all(names: Iterable[str], key: bytes, block: bytes, codec: RowCodec, where: str) -> dict[str, Named]:
    """Return the entities of names, given the block in which they would be, without the names that it does not have.

    Raises CorruptIndexError, whose message begins with `where`, if the block is damaged.
    """
    present, numbers, kinds = unpack_columns(key, block, codec, where)
    place = {name: at for at, name in enumerate(present)}
    return {name: _named(int(numbers[at]), kinds[at]) for name in names if (at := place.get(name)) is not None}


def unpack_block(key: bytes, block: bytes, codec: RowCodec, where: str) -> dict[str, Named]:
    """Return all names of a block. Raise CorruptIndexError, whose message begins with `where`, if it is damaged."""
    names, numbers, kinds = unpack_columns(key, block, codec, where)
    return {name: _named(number, kind) for name, number, kind in zip(names, numbers.tolist(), kinds, strict=True)}


def unpack_columns(key: bytes, block: bytes, codec: RowCodec, where: str) -> tuple[list[str], NDArray[np.int64], bytes]:
    """Return the n names of a block; int64[n], the numbers of their entities (`entity_number`); and n bytes, the
    numbers of their kinds (`kind_of`).

    Raises CorruptIndexError, whose message begins with `where`, if the block is damaged.
    """
    joined, numbers, kinds = _members(key, block, codec, where)
    try:
        return joined.decode().split("\n"), numbers, kinds
    except UnicodeDecodeError as error:
        raise _damaged(where, error) from error


def unpack_joined(key: bytes, block: bytes, codec: RowCodec, where: str) -> tuple[bytes, NDArray[np.int64], bytes]:
    """Do as `unpack_columns` in half the time: the names are returned as bytes joined by newlines, maybe not UTF-8."""
    return _members(key, block, codec, where)


def check_block(key: bytes, block: bytes, codec: RowCodec, where: str) -> None:
    """Raise CorruptIndexError, whose message begins with `where`, unless a block of names or of ids can be read, its
    entries ascend, the first has its key, and all are names as an ingest writes them."""
    if is_id_key(key):
        _, names = unpack_ids(key, block, codec, where)
    else:
        names, _, _ = unpack_columns(key, block, codec, where)
    if not all(map(is_written_part, names)):
        raise CorruptIndexError(f"{where} is damaged: it has a name that no ingest writes. Ingest the index again")
    if is_id_key(key):
        return
    if block_key(names[0]) != key or any(one >= other for one, other in pairwise(names)):
        raise CorruptIndexError(f"{where} is damaged: its names are not in order. Ingest the index again")


def kind_of(number: int) -> str | None:
    """Return the kind of objects with a number; None for an item, and for a property that is no predicate."""
    return _KINDS[number] if number < len(_KINDS) else None


def _named(number: int, kind: int) -> Named:
    return Named(entity_id(number), kind_of(kind))


def _members(key: bytes, block: bytes, codec: RowCodec, where: str) -> tuple[bytes, NDArray[np.int64], bytes]:
    try:
        count, joined, ids, kinds = codec.unpack(key, block, where)
        numbers = np.frombuffer(ids, "<i8")
        if not joined.count(b"\n") + 1 == len(numbers) == len(kinds) == count:
            raise ValueError("its names and ids differ in number")
        if (numbers < 0).any():
            raise ValueError("one of its ids is negative")
    except (ValueError, TypeError, AttributeError) as error:  # members of other types than `pack_blocks` writes
        raise _damaged(where, error) from error
    return joined, numbers.astype(np.int64), kinds


def _damaged(where: str, error: Exception) -> CorruptIndexError:
    return CorruptIndexError(f"{where} is damaged: {error}. Ingest the index again")


def _packed(block: list[tuple[str, Named]], codec: RowCodec) -> tuple[bytes, bytes]:
    key = block_key(block[0][0])
    numbers = [entity_number(named.id) for _, named in block]
    kinds = bytes(_KINDS.index(named.object_kind) for _, named in block)
    joined = "\n".join(name for name, _ in block).encode()
    return key, codec.pack(key, (len(block), joined, np.array(numbers, "<i8").tobytes(), kinds))
