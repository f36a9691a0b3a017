"""The payload of blocks with rows: keys, which ascend, and values.

Since version 3 a row can be found in it by its key, and its value read in place:

```
payload = CRC-32 of what follows up to the values (4), number of rows n (4), end of each key (4 n),
          end of each value (4 n), key..., padding, value...
```

A value has a checksum of its own, except those of hubs. Ends are positions in the payload, little-endian. A value
begins at the first multiple of four after the end of the one before, the first one after that of the keys; in between
are zeros. In versions 1 and 2, whose numbers are big-endian:

```
payload = row...
row     = size of the key (2), size of the value (4), key, value
```

The key has object, predicate and inverse predicate, joined by newlines; the value is the number of subjects, eight
bytes, big-endian.
"""

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from refactx.fact import written_part
from refactx.index.file.format import IN_PLACE
from refactx.tree.codes import RowCodec, shared_seed
from refactx.tree.piece import Buffer

KeyedRow = tuple[bytes, bytes]

_OLD_ROW = struct.Struct(">HI")
_SHAPE = struct.Struct("<II")
_CRC_BYTES = 4


class RowBlock:
    """A payload of version 3, read where it is. Raises ValueError if its keys and ends are damaged.

    >>> block = RowBlock(memoryview(pack_rows([(b"k", b"value"), (b"m", b"")])))
    >>> len(block), block.key(1), bytes(block.value(0)), block.last(b"l")
    (2, b'm', b'value', 0)
    """

    def __init__(self, payload: memoryview) -> None:
        if len(payload) < _SHAPE.size:
            raise ValueError("it has no rows")
        checksum, count = _SHAPE.unpack_from(payload)
        self._count: int = count
        self._first_key = _SHAPE.size + 8 * count
        if not 0 < count <= len(payload) // 8 or self._first_key > len(payload):
            raise ValueError("the sizes of its rows do not add up")
        self._payload = payload
        # As lists: one number of an array takes longer than one of a list.
        self._keys: list[int] = np.frombuffer(payload, "<u4", count, _SHAPE.size).tolist()
        self._values: list[int] = np.frombuffer(payload, "<u4", count, _SHAPE.size + 4 * count).tolist()
        if zlib.crc32(payload[_CRC_BYTES : self._keys[-1]]) != checksum:
            raise ValueError("the checksum of its keys is wrong")

    def __len__(self) -> int:
        return self._count

    def key(self, number: int) -> bytes:
        """Return the key of a row."""
        start = self._keys[number - 1] if number else self._first_key
        end = self._keys[number]
        if not self._first_key <= start <= end <= len(self._payload):
            raise ValueError("the sizes of its rows do not add up")
        return bytes(self._payload[start:end])

    def value(self, number: int) -> memoryview:
        """Return the value of a row, where it is."""
        start = self._values[number - 1] if number else self._keys[-1]
        start += -start % 4
        end = self._values[number]
        if not self._first_key <= start <= end <= len(self._payload):
            raise ValueError("the sizes of its rows do not add up")
        return self._payload[start:end]

    def last(self, key: bytes) -> int | None:
        """Return the number of the last row whose key is not greater; None if there is none."""
        at = bisect_right(range(self._count), key, key=self.key)
        return at - 1 if at else None

    def check(self) -> None:
        """Raise ValueError unless keys and values follow each other from the beginning of the payload to its end."""
        keys = np.array([self._first_key, *self._keys], np.int64)
        values = np.array([self._keys[-1], *self._values], np.int64)
        starts = values[:-1] + -values[:-1] % 4
        if (keys[1:] < keys[:-1]).any() or (values[1:] < starts).any() or values[-1] != len(self._payload):
            raise ValueError("the sizes of its rows do not add up")


def pack_rows(rows: Sequence[KeyedRow]) -> bytes:
    """Return the payload of some rows, at least one."""
    at = _SHAPE.size + 8 * len(rows)
    keys, values, parts = [], [], list[bytes]()
    for key, _ in rows:
        at += len(key)
        keys.append(at)
    for _, value in rows:
        padding = -at % 4
        at += padding + len(value)
        values.append(at)
        parts += [bytes(padding), value]
    ends = np.array([keys, values], "<u4").tobytes()
    shape = _SHAPE.pack(0, len(rows))[_CRC_BYTES:] + ends + b"".join(key for key, _ in rows)
    return b"".join([zlib.crc32(shape).to_bytes(_CRC_BYTES, "little"), shape, *parts])


def unpack_rows(payload: bytes, version: int) -> Iterator[KeyedRow]:
    """Yield the keys and values of a payload of a file with some version. Raises ValueError if their sizes do not fit."""
    if version >= IN_PLACE:
        block = RowBlock(memoryview(payload))
        block.check()
        for number in range(len(block)):
            yield block.key(number), bytes(block.value(number))
        return
    at, end = 0, len(payload)
    while at < end:
        if end - at < _OLD_ROW.size:
            raise ValueError("the sizes of its rows do not add up")
        key_size, size = _OLD_ROW.unpack_from(payload, at)
        at += _OLD_ROW.size
        if key_size + size > end - at:
            raise ValueError("the sizes of its rows do not add up")
        yield payload[at : at + key_size], payload[at + key_size : at + key_size + size]
        at += key_size + size


def packed_size(row: KeyedRow) -> int:
    """Return the bytes that a row takes in a payload, at most."""
    return 8 + len(row[0]) + len(row[1]) + 3


_MOST_SUBJECTS = 1 << 50


def hub_keys(object_: str) -> bytes:
    """Return the beginning of the keys of an object's hubs.

    >>> hub_keys("human")
    b'human\\n'
    """
    return object_.encode() + b"\n"


def unpack_subjects(key: bytes, value: Buffer) -> tuple[str, str, str, int]:
    """Return object, predicate, inverse predicate and subjects in a row. Raise ValueError if it is none that an ingest
    writes.

    >>> unpack_subjects(b"human\\ninstance of\\nhas instance", (52073).to_bytes(8, "big"))
    ('human', 'instance of', 'has instance', 52073)
    """
    names, subjects = key.decode().split("\n"), int.from_bytes(value, "big")
    if len(names) != 3 or any(written_part(name) != name or not name for name in names):
        raise ValueError("a hub does not have three names")
    if len(value) != 8 or not 0 < subjects <= _MOST_SUBJECTS:
        raise ValueError("a hub has an impossible number of subjects")
    object_, predicate, inverse = names
    return object_, predicate, inverse, subjects


MAX_DICTIONARY_BYTES = 1 << 22
"""40 times the size of the dictionaries that an ingest trains."""


def segment_codec(codes: bytes, dictionary: bytes) -> RowCodec:
    """Return the codec of a segment, given its token codes and its dictionary, which is loaded.

    Raises ValueError if the dictionary is too large, ZstdError if it is none.
    """
    if len(dictionary) > MAX_DICTIONARY_BYTES:
        raise ValueError(f"it has {len(dictionary):,} bytes, more than {MAX_DICTIONARY_BYTES:,}")
    codec = RowCodec(dictionary, seed=shared_seed(codes, dictionary))
    codec.prepare()
    return codec
