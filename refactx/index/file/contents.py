"""The contents of a file: a list of all blocks before it, so that a reader finds each without reading the others.

```
contents = entry...
entry    = kind (8 bytes, padded with NUL), number (4), size of the payload (4), size of the first key (2), first key
```

Numbers are big-endian. Blocks without rows have an empty first key. The position of a block is where the one before it
ends. The payload of the last block, `end`, is the position of the block `contents` (8 bytes).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_ENTRY = struct.Struct(">8sIIH")
_POSITION = struct.Struct(">Q")
END_PAYLOAD = _POSITION.size


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """One block: its kind and number, the size of its payload, and its first key if it has rows."""

    kind: str
    number: int
    size: int
    first_key: bytes = b""


def pack_contents(entries: Sequence[BlockEntry]) -> bytes:
    """Return the payload of the block `contents`.

    >>> entries = [BlockEntry("header", 0, 900), BlockEntry("tree", 1, 100, b"key")]
    >>> unpack_contents(pack_contents(entries)) == entries
    True
    """
    return b"".join(
        _ENTRY.pack(one.kind.encode(), one.number, one.size, len(one.first_key)) + one.first_key for one in entries
    )


def unpack_contents(payload: bytes) -> list[BlockEntry]:
    """Return the entries in a payload. Raises ValueError if their sizes do not fit it."""
    entries, at = [], 0
    while at < len(payload):
        if len(payload) - at < _ENTRY.size:
            raise ValueError("the sizes of its entries do not add up")
        kind, number, size, key_size = _ENTRY.unpack_from(payload, at)
        at += _ENTRY.size
        key = payload[at : at + key_size]
        if len(key) < key_size:
            raise ValueError("the sizes of its entries do not add up")
        entries.append(BlockEntry(kind.rstrip(b"\0").decode("latin-1"), number, size, key))
        at += key_size
    return entries


def pack_position(position: int) -> bytes:
    """Return the payload of the block `end`, given the position of the block `contents`."""
    return _POSITION.pack(position)


def unpack_position(payload: bytes) -> int:
    """Return the position in the payload of the block `end`, which has 8 bytes."""
    position: int = _POSITION.unpack(payload)[0]
    return position
