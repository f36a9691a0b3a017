"""Rows of pieces above the facts as arrays of fixed width, which are read where they are, such as in a mapped file.

A row has a header, then the members of a piece (`refactx.tree.piece`), each at a multiple of four bytes:

```
header = "RA", version (1), level (1), CRC-32 of the key and of what follows it (4), number of entries n (4),
         bytes of an item of ends, lcp, heads, leaves and items (1 each; 0 of items: they are the leaves), zeros (3),
         size of carried_key (4), carried_items (8), size of the codes (4)
arrays = ends [n + 1], lcp [n], heads [n], leaves [n], items [n], kinds [n], carried_key, codes
```

Numbers are little-endian. Rows of facts are packed (`refactx.tree.codec`): a walk reads one of them, which takes
17 µs to unpack, and 2.5 times its size in the file if it were not.
"""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.codec import RowCodec
from refactx.tree.piece import Buffer, Piece
from refactx.tree.piece_members import WIDTHS, check_counts, check_entries, read_packed, width_of

VERSION = 1
_HEADER = struct.Struct("<2sBBII5B3xIQI")
_MAGIC = b"RA"
_CHECKED = 8  # what the checksum covers begins here


def pack_arrays(key: bytes, piece: Piece, seed: int) -> bytes:
    """Return the row of a piece above level 0 under a key. `seed`: that of the segment's checksums (`shared_seed`)."""
    numbers: list[NDArray[np.integer]] = [piece.ends, piece.lcp, piece.heads, piece.leaves]
    has_items = not np.array_equal(piece.leaves, piece.items)
    numbers += [piece.items] if has_items else []
    widths = [width_of(array) for array in numbers]
    arrays = [array.astype(WIDTHS[width]).tobytes() for array, width in zip(numbers, widths, strict=True)]
    members = [*arrays, piece.kinds.tobytes(), piece.carried_key, bytes(piece.codes)]
    body = b"".join(member + bytes(-len(member) % 4) for member in members)
    shape = (*widths, *(() if has_items else (0,)), len(piece.carried_key), piece.carried_items, len(piece.codes))
    header = _HEADER.pack(_MAGIC, VERSION, piece.level, 0, len(piece), *shape)
    checksum = zlib.crc32(body, zlib.crc32(header[_CHECKED:], zlib.crc32(key, seed)))
    return header[:4] + struct.pack("<I", checksum) + header[_CHECKED:] + body


def read_in_place(codec: RowCodec, key: bytes, row: Buffer, where: object) -> Piece:
    """Return the piece in a row, whose arrays are views of the row if it is above level 0.

    `codec`: the segment's. Raises CorruptIndexError if the row was not made for this key; the message begins with
    `str(where)`.
    """
    if key[0] == 0:
        return read_packed(codec, key, row, where)
    try:
        return _read(key, memoryview(row), codec.seed)
    except (ValueError, OverflowError, struct.error) as error:
        raise CorruptIndexError(f"{where} is damaged: {error}. Copy or export the file again") from error


def _read(key: bytes, row: memoryview, seed: int) -> Piece:
    magic, version, level, checksum, count, *shape = _HEADER.unpack_from(row)
    if magic != _MAGIC or level != key[0]:
        raise ValueError(f"it is not a piece of level {key[0]} in arrays")
    if version != VERSION:
        raise ValueError(f"it has version {version}, this refactx reads {VERSION}: upgrade refactx")
    if checksum != zlib.crc32(row[_CHECKED:], zlib.crc32(key, seed)):
        raise ValueError("its checksum is wrong")
    *widths, key_size, carried_items, code_size = shape
    if count < 1 or not WIDTHS.keys() >= set(widths[:4]) or widths[4] not in (0, *WIDTHS):
        raise ValueError("its sizes are impossible")
    sizes = [widths[0] * (count + 1), *(width * count for width in widths[1:]), count, key_size, code_size]
    *arrays, items_, kinds_, carried_key, codes = _parts(row, sizes)
    ends, lcp, heads, leaves = (_array(part, width) for part, width in zip(arrays, widths, strict=False))
    items = _array(items_, widths[4]) if widths[4] else leaves
    if ends[0] != 0 or ends[-1] != len(codes) or (ends[1:] < ends[:-1]).any():
        raise ValueError("its suffixes do not add up")
    check_counts(leaves, items, carried_items)
    piece = Piece(
        level=level,
        lcp=lcp,
        ends=ends,
        codes=codes,
        heads=heads,
        kinds=np.frombuffer(kinds_, np.uint8),
        leaves=leaves,
        items=items,
        carried_key=bytes(carried_key),
        carried_items=carried_items,
    )
    check_entries(piece)
    return piece


def _parts(row: memoryview, sizes: list[int]) -> Iterator[memoryview]:
    """Yield the members of a row, given their sizes. Raise ValueError if they are not as long as the row."""
    if _HEADER.size + sum(size + -size % 4 for size in sizes) != len(row):
        raise ValueError("its sizes do not add up")
    at = _HEADER.size
    for size in sizes:
        yield row[at : at + size]
        at += size + -size % 4


def _array(part: memoryview, width: int) -> NDArray[np.unsignedinteger]:
    return np.frombuffer(part, WIDTHS[width])
