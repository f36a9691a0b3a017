"""Ids and their names, in compressed blocks of neighbouring ids: the other direction of `refactx.index.names`.

The blocks are rows of the same name tables. A key is a zero byte, with which no name begins, and the number of the
block's first entity (`refactx.entity_ids`, negative for the inverse of a property), so all these rows come before those
of names. A block is packed as one of names is: `(count, names joined by newlines, steps)`. The steps are the differences
of neighbouring numbers, unsigned and little-endian, in as few bytes each as the largest needs: 1, 2, 4 or 8.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.codec import RowCodec

IDS_PER_BLOCK = 1024
"""On the development data a block takes 17 kB. Names in the order of ids have little in common: blocks of 256 take 13%
more in total, blocks of 4,096 take 11% less and are slower to read for one id."""

_MARK = b"\0"
_BIAS = 1 << 63
_KEY_BYTES = 9
_STEPS = {width: f"<u{width}" for width in (1, 2, 4, 8)}


def id_key(number: int) -> bytes:
    """Return the key of a block that begins with the entity of a number.

    >>> id_key(-1139) < id_key(84) < b"A"
    True
    """
    return _MARK + (number + _BIAS).to_bytes(8, "big")


def is_id_key(key: bytes) -> bool:
    """Return whether the row under a key has names by ids.

    >>> is_id_key(id_key(84)), is_id_key("Danny Boyle".encode())
    (True, False)
    """
    return key.startswith(_MARK)


def pack_id_blocks(rows: Iterable[tuple[int, str]], codec: RowCodec) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and blocks of entities, given as number and name in the order of their numbers."""
    block: list[tuple[int, str]] = []
    for row in rows:
        if len(block) == IDS_PER_BLOCK:
            yield _packed(block, codec)
            block = []
        block.append(row)
    if block:
        yield _packed(block, codec)


def names_by_number(
    numbers: NDArray[np.int64], key: bytes, block: bytes, codec: RowCodec, where: str
) -> dict[int, str]:
    """Return the names of entities, given their numbers (int64[n]) and the block in which they would be.

    Raises CorruptIndexError, whose message begins with `where`, if the block is damaged.
    """
    present, names = unpack_ids(key, block, codec, where)
    places = np.searchsorted(present, numbers)
    places[places == len(present)] = 0
    held = present[places] == numbers
    return {int(number): names[at] for number, at in zip(numbers[held], places[held], strict=True)}


def unpack_ids(key: bytes, block: bytes, codec: RowCodec, where: str) -> tuple[NDArray[np.int64], list[str]]:
    """Return the numbers of a block's n entities, int64[n], ascending, and their names.

    Raises CorruptIndexError, whose message begins with `where`, if the block is damaged.
    """
    try:
        count, joined, steps = codec.unpack(key, block, where)
        names = joined.decode().split("\n")
        if not len(names) == count or len(key) != _KEY_BYTES or not all(names):
            raise ValueError("its ids and names differ in number, or its key is too short")
        numbers = [int.from_bytes(key[1:], "big") - _BIAS, *_steps(steps, count - 1)]
        if sum(numbers) >= _BIAS or 0 in numbers[1:]:
            raise ValueError("its ids do not ascend")
        return np.cumsum(np.array(numbers, np.int64)), names
    except (ValueError, TypeError, AttributeError) as error:  # members of other types than `_packed` writes
        raise CorruptIndexError(f"{where} is damaged: {error}. Ingest the index again") from error


def _steps(packed: bytes, count: int) -> list[int]:
    if not count:
        if packed:
            raise ValueError("it has steps for one id")
        return []
    width, rest = divmod(len(packed), count)
    if rest or width not in _STEPS:
        raise ValueError("the size of its steps is impossible")
    steps: list[int] = np.frombuffer(packed, _STEPS[width]).tolist()
    return steps


def _packed(block: list[tuple[int, str]], codec: RowCodec) -> tuple[bytes, bytes]:
    key = id_key(block[0][0])
    steps = np.diff(np.array([number for number, _ in block], np.int64))
    width = next(width for width in _STEPS if int(steps.max(initial=0)) >> 8 * width == 0)
    joined = "\n".join(name for _, name in block).encode()
    return key, codec.pack(key, (len(block), joined, steps.astype(_STEPS[width]).tobytes()))
