"""Names and the ids behind them, in compressed blocks of neighbouring names: one row for some 256 names.

The key of a block is the beginning of its first name in UTF-8, so the block of a name is the last one whose key is not
greater. A block is packed like a piece of the tree (`refactx.tree.codec`): `(count, names joined by newlines, ids, kinds)`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.codec import RowCodec

NAMES_PER_BLOCK = 256
_KEY_BYTES = 2000  # PostgreSQL's B-tree takes keys of up to 2,704
_KINDS = (None, "entity", "literal", "mixed", "inverse")


@dataclass(frozen=True, slots=True)
class Named:
    """What a name stands for: an id (`Q42`, `P569`), and for a property whether its objects are entities (`entity`), literals
    (`literal`) or both (`mixed`). `inverse`: the name of the property read backwards, whose objects are entities."""

    id: str
    object_kind: str | None


def block_key(name: str) -> bytes:
    """The key under which the block of a name is found.

    >>> block_key("Danny Boyle")
    b'Danny Boyle'
    """
    return name.encode()[:_KEY_BYTES]


def pack_blocks(rows: Iterable[tuple[str, Named]], codec: RowCodec) -> Iterator[tuple[bytes, bytes]]:
    """Keys and blocks of names that come in the order of their UTF-8 bytes."""
    block: list[tuple[str, Named]] = []
    for name, named in rows:
        # A block never begins with a key that the one before could hold too.
        if len(block) >= NAMES_PER_BLOCK and block_key(name) != block_key(block[-1][0]):
            yield _packed(block, codec)
            block = []
        block.append((name, named))
    if block:
        yield _packed(block, codec)


def find(name: str, key: bytes, block: bytes, codec: RowCodec, where: str) -> Named | None:
    """What a name stands for, given the block that would hold it; None if it is not there.

    Raises CorruptIndexError, which begins with `where`, if the block is damaged.
    """
    try:
        return unpack_block(key, block, codec, where)[name]
    except KeyError:
        return None


def unpack_block(key: bytes, block: bytes, codec: RowCodec, where: str) -> dict[str, Named]:
    """All names of a block."""
    names, numbers, kinds = unpack_columns(key, block, codec, where)
    return {
        name: Named(f"{'P' if number & 1 else 'Q'}{number >> 1}", kind_of(kind))
        for name, number, kind in zip(names, numbers.tolist(), kinds, strict=True)
    }


def unpack_columns(key: bytes, block: bytes, codec: RowCodec, where: str) -> tuple[list[str], NDArray[np.int64], bytes]:
    """The n names of a block; int64[n], twice the number of each one's id, plus one for a property; and what `kind_of` takes.

    Raises CorruptIndexError, which begins with `where`, if the block is damaged.
    """
    joined, numbers, kinds = _members(key, block, codec, where)
    try:
        return joined.decode().split("\n"), numbers, kinds
    except UnicodeDecodeError as error:
        raise _damaged(where, error) from error


def unpack_joined(key: bytes, block: bytes, codec: RowCodec, where: str) -> tuple[bytes, NDArray[np.int64], bytes]:
    """`unpack_columns` in half the time: the names are as they are kept, joined by n - 1 newlines, maybe no UTF-8."""
    return _members(key, block, codec, where)


def check_block(key: bytes, block: bytes, codec: RowCodec, where: str) -> None:
    """Raise CorruptIndexError, which begins with `where`, unless a block can be read and its names ascend from its key on."""
    names, _, _ = unpack_columns(key, block, codec, where)
    if block_key(names[0]) != key or any(one >= other for one, other in pairwise(names)):
        raise CorruptIndexError(f"{where} is damaged: its names are not in order. Ingest the index again")


def kind_of(number: int) -> str | None:
    """The kind of objects that a number in a block stands for; None for an item, or a property that is no predicate."""
    return _KINDS[number] if number < len(_KINDS) else None


def _members(key: bytes, block: bytes, codec: RowCodec, where: str) -> tuple[bytes, NDArray[np.int64], bytes]:
    try:
        count, joined, ids, kinds = codec.unpack(key, block, where)
        numbers = np.frombuffer(ids, "<i8")
        if not joined.count(b"\n") + 1 == len(numbers) == len(kinds) == count:
            raise ValueError("its names and ids differ in number")
        if (numbers < 0).any():
            raise ValueError("an id of it is negative")
    except (ValueError, TypeError, AttributeError) as error:  # members of another kind than `pack_blocks` writes
        raise _damaged(where, error) from error
    return joined, numbers.astype(np.int64), kinds


def _damaged(where: str, error: Exception) -> CorruptIndexError:
    return CorruptIndexError(f"{where} is damaged: {error}. Ingest the index again")


def _packed(block: list[tuple[str, Named]], codec: RowCodec) -> tuple[bytes, bytes]:
    key = block_key(block[0][0])
    numbers = [2 * int(named.id[1:]) + (named.id[0] == "P") for _, named in block]
    kinds = bytes(_KINDS.index(named.object_kind) for _, named in block)
    joined = "\n".join(name for name, _ in block).encode()
    return key, codec.pack(key, (len(block), joined, np.array(numbers, "<i8").tobytes(), kinds))
