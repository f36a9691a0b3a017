"""The tuple of ints and bytes that the row of a piece holds (`refactx.tree.codec`): from a piece, and back with checks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.arrays import Offsets
from refactx.tree.codec import Member, RowCodec
from refactx.tree.piece import NEW_PIECE, TERMINAL, Buffer, Piece, Unsigned
from refactx.tree.token_codes import MAX_TOKEN

WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}
"""The types of numbers by their bytes."""
_IMPOSSIBLE = 1 << 50  # more facts or entries than an index can have


def to_members(piece: Piece) -> tuple[Member, ...]:
    """Return the tuple that is pickled for a piece."""
    shape = (piece.level, len(piece), _packed(piece.lcp), _packed(np.diff(piece.ends)), bytes(piece.codes))
    if piece.level == 0:
        return shape
    items = b"" if np.array_equal(piece.leaves, piece.items) else _packed(piece.items)
    counts = (piece.kinds.tobytes(), _packed(piece.leaves), items)
    return (*shape, _packed(piece.heads), *counts, piece.carried_key, piece.carried_items)


def from_members(members: tuple[Member, ...], level: int) -> Piece:
    """Return the piece in an unpickled tuple. Raise ValueError if its members contradict each other."""
    lcp, lengths, codes = _suffixes(members, level)
    count = len(lcp)
    _check_lengths(lengths, len(codes))
    sums = np.zeros(count + 1, np.int64)
    lengths.cumsum(dtype=np.int64, out=sums[1:])
    if lcp[0] != 0 or int(sums[-1]) != len(codes):
        raise ValueError("its suffixes do not add up")
    ends = sums.astype(np.int32)
    if level == 0:
        return Piece.of_facts(lcp=lcp, ends=ends, codes=codes)
    leaves = _unpacked(members[7], count)
    piece = Piece(
        level=level,
        lcp=lcp,
        ends=ends,
        codes=codes,
        heads=_unpacked(members[5], count),
        kinds=np.frombuffer(_bytes(members[6]), np.uint8),
        leaves=leaves,
        items=_unpacked(members[8], count) if members[8] else leaves,
        carried_key=_bytes(members[9]),
        carried_items=_integer(members[10]),
    )
    check_entries(piece)
    return piece


def check_entries(piece: Piece) -> None:
    """Raise ValueError if members of a piece above level 0 contradict each other or have impossible values."""
    if piece.lcp[0] != 0 or bytes(piece.codes[-1:]) >= b"\x80":
        raise ValueError("its suffixes do not add up")
    if len(piece.kinds) != len(piece) or piece.kinds.max() > NEW_PIECE or not piece.leaves.all():
        raise ValueError("its entries have an unknown kind, or no facts")
    if not ((piece.kinds == TERMINAL) == (piece.items == 0)).all():
        raise ValueError("its kinds and counts contradict each other")
    if int(piece.heads.max()) >= MAX_TOKEN:
        raise ValueError(f"a token id is not below {MAX_TOKEN:,}")


def check_counts(leaves: Unsigned, items: Unsigned, carried_items: int) -> None:
    """Raise ValueError if a number of facts or of entries is larger than an index can have."""
    for counts in (leaves, items):
        if counts.itemsize == 8 and int(counts.max()) >= _IMPOSSIBLE:
            raise ValueError("one of its counts is impossibly large")
    _integer(carried_items)


def read_packed(codec: RowCodec, key: bytes, row: Buffer, where: object) -> Piece:
    """Return the piece in a packed row. Raises CorruptIndexError if the codec did not pack it for this key; the message
    begins with `str(where)`."""
    members = codec.unpack(key, row, where)
    try:
        return from_members(members, key[0])
    except (ValueError, OverflowError) as error:
        raise CorruptIndexError(f"{where} is damaged: {error}. Ingest the index again") from error


def fact_members(rows: Sequence[tuple[Member, ...]]) -> tuple[Offsets, Unsigned, Unsigned, list[bytes]]:
    """Return the contents of many pieces of facts at once: the number of entries of each; the `lcp` of all, one piece
    after the other; so too the lengths of the codes of all suffixes; and the codes of each piece.

    Raises ValueError as `from_members` does, except for lengths that do not add up and for a first `lcp` other than 0.
    """
    shapes = [_shape(row, 0) for row in rows]
    counts = [count for count, _ in shapes]
    lcp, lengths = (_side_by_side([row[at] for row in rows], counts) for at in (2, 3))
    _check_lengths(lengths, max(len(codes) for _, codes in shapes))
    return np.array(counts, np.int64), lcp, lengths, [codes for _, codes in shapes]


def _suffixes(members: tuple[Member, ...], level: int) -> tuple[Unsigned, Unsigned, bytes]:
    count, codes = _shape(members, level)
    return _unpacked(members[2], count), _unpacked(members[3], count), codes


def _check_lengths(lengths: Unsigned, most: int) -> None:
    """Raise ValueError if a suffix has more codes than all suffixes: a row has at most 64 MiB, so that sums of lengths
    that pass cannot overflow."""
    if int(lengths.max()) > most:
        raise ValueError("its suffixes do not add up")


def _shape(members: tuple[Member, ...], level: int) -> tuple[int, bytes]:
    """Return the number of entries and the codes of their suffixes. Raise ValueError if there are none."""
    if len(members) != (5 if level == 0 else 11) or members[0] != level:
        raise ValueError(f"it is not a piece of level {level}")
    count, codes = _integer(members[1]), _bytes(members[4])
    if count < 1 or codes[-1:] >= b"\x80":
        raise ValueError("its suffixes do not add up")
    return count, codes


def width_of(values: NDArray[np.integer]) -> int:
    """Return the bytes of the narrowest type that holds all values."""
    largest = int(values.max(initial=0))
    return next(w for w in WIDTHS if w == 8 or largest < 1 << 8 * w)


def _packed(values: NDArray[np.integer]) -> bytes:
    """Return values in the narrowest width that holds them, after one byte with that width."""
    width = width_of(values)
    return bytes([width]) + values.astype(WIDTHS[width]).tobytes()


def _unpacked(packed: Member, count: int) -> Unsigned:
    """Return the `count` values that `_packed` packed. Raise ValueError if they are not that many, or too large."""
    data = _bytes(packed)
    if not data or data[0] not in WIDTHS or len(data) != 1 + data[0] * count:
        raise ValueError(f"one of its arrays does not have {count} values")
    values: Unsigned = np.frombuffer(data, WIDTHS[data[0]], offset=1)
    if data[0] == 8 and int(values.max()) >= _IMPOSSIBLE:
        raise ValueError("one of its counts is impossibly large")
    return values


def _side_by_side(arrays: Sequence[Member], counts: Sequence[int]) -> Unsigned:
    """Return the values of several packed arrays, one array after the other."""
    if all(
        type(one) is bytes and one[:1] == b"\1" and len(one) == 1 + n for one, n in zip(arrays, counts, strict=True)
    ):
        return np.frombuffer(b"".join([one[1:] for one in arrays]), np.uint8)  # type: ignore[index]  # bytes, as just checked
    return np.concatenate([_unpacked(one, n) for one, n in zip(arrays, counts, strict=True)])


def _bytes(member: Member) -> bytes:
    if not isinstance(member, bytes):
        raise ValueError("it has a number in place of bytes")
    return member


def _integer(member: Member) -> int:
    if not isinstance(member, int) or not 0 <= member < _IMPOSSIBLE:
        raise ValueError("one of its numbers is impossible")
    return member
