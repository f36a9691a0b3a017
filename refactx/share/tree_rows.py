"""The rows of a tree above the facts: packed in a database, arrays in a file (`refactx.tree.array_rows`)."""

from collections.abc import Iterator

from refactx.errors import CorruptIndexError
from refactx.index.file.row_blocks import KeyedRow
from refactx.tree.array_rows import pack_arrays, read_in_place
from refactx.tree.codec import MAX_PICKLE_BYTES, RowCodec, shared_seed
from refactx.tree.piece_members import read_packed, to_members


def to_file(rows: Iterator[KeyedRow], codes: bytes, dictionary: bytes, index: str) -> Iterator[KeyedRow]:
    """Yield the rows of a segment as a file has them, given those of a database, its token codes and dictionary.

    Raises CorruptIndexError, which names the index, if a row is damaged.
    """
    codec = RowCodec(dictionary, seed=shared_seed(codes, dictionary))
    for key, row in rows:
        piece = read_packed(codec, key, row, f"index {index!r}: row {key[:40].hex()}")
        yield key, row if piece.level == 0 else pack_arrays(key, piece, codec.seed)


def to_database(row: KeyedRow, codec: RowCodec, where: str) -> KeyedRow:
    """Return a row above the facts as a database has it, given that of a file. Raises CorruptIndexError if it is
    damaged; the message begins with `where`."""
    key, packed = row
    if len(packed) > MAX_PICKLE_BYTES:
        raise CorruptIndexError(f"{where} is damaged: it has {len(packed):,} bytes, more than {MAX_PICKLE_BYTES:,}")
    return key, codec.pack(key, to_members(read_in_place(codec, key, packed, where)))
