"""A piece: a run of neighbouring entries of one level of the tree, front-coded, and its row.

Level 0 holds the facts, sorted by token ids. An entry of level k + 1 is a prefix: either a subtree of level k that is
small enough for one piece, or a fact that ends above such a subtree. The top level is a single piece, the root. The
key of a piece's row is its level and the prefix of its first entry (empty for the root), so keys are unique, and a walk
reads one row of each level.

Front coding (Witten, Moffat and Bell, Managing Gigabytes, 2nd ed., section 4.1): an entry is the number of tokens that
it shares with the one before (`lcp`), and the rest (its suffix). A node is a range of entries, and its children begin
where `lcp` equals its depth, so that a walk needs no entry written out.

A row has a header, then the members of a piece, each at a multiple of four bytes:

```
header = "RA", version (1), level (1), CRC-32 of the key and of what follows it (4), number of entries n (4),
         bytes of an item of ends, lcp, heads, leaves and items (1 each; 0 of items: they are the leaves), zeros (3),
         size of carried_key (4), carried_items (8), size of the codes (4)
arrays = ends [n + 1], lcp [n], heads [n], leaves [n], items [n], kinds [n], carried_key, codes
```

Numbers are little-endian. Rows of facts are packed (`refactx.tree.codes`): a walk reads one of them, which takes
17 µs to unpack, and 2.5 times its size in the file if it were not.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError
from refactx.tree.codes import MAX_TOKEN, Member, Offsets, RowCodec, TokenCodes
from refactx.tree.tree import Counts, Tokens

TERMINAL, SAME_PIECE, NEW_PIECE = 0, 1, 2
"""Kinds of entries above level 0: the end of a fact; a subtree in the lower piece of the one before; a subtree with
which a lower piece begins."""

Unsigned = NDArray[np.unsignedinteger]

Buffer = bytes | memoryview

NEVER = 1 << 30
"""A depth that no sequence has."""

_NO_KINDS = np.empty(0, np.uint8)
_NO_COUNTS: Unsigned = np.empty(0, np.uint8)
_TOKEN_BYTES = 3
MAX_KEY = 2401  # one byte and 800 tokens

FEW = 32
"""The children of so few entries are found without numpy, which takes longer to start: of most nodes of a walk."""

WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}
"""The types of numbers by their bytes."""

_IMPOSSIBLE = 1 << 50  # more facts or entries than an index can have
VERSION = 1
_HEADER = struct.Struct("<2sBBII5B3xIQI")
_MAGIC = b"RA"
_CHECKED = 8  # what the checksum covers begins here


def row_key(level: int, prefix: list[int]) -> bytes:
    """Return the key of a piece: one byte for the level, then three bytes a token, big-endian: byte order is token
    order.

    A key too long for PostgreSQL's B-tree (2,704 bytes: some 900 tokens, shared by over 256 facts) is cut, and ends
    with the SHA-256 of the whole key: it is still unique, and can still be made from the prefix.

    >>> row_key(1, [258, 7]).hex(" ")
    '01 00 01 02 00 00 07'
    """
    key = bytes([level]) + b"".join(token.to_bytes(_TOKEN_BYTES, "big") for token in prefix)
    if len(key) <= MAX_KEY:
        return key
    return key[: MAX_KEY - 32] + hashlib.sha256(key).digest()


def prefix_of(key: bytes) -> list[int]:
    """Return the prefix in a row's key, for error messages: if the key was cut, only its beginning is right."""
    return [int.from_bytes(key[at : at + _TOKEN_BYTES], "big") for at in range(1, len(key), _TOKEN_BYTES)]


class PieceChildren(NamedTuple):
    """The children of a node in a piece: how many tokens all its entries share (`NEVER`: there is one), the entries at
    which its children begin and after the last one, the tokens of the children, and how many facts are under each."""

    forks: int
    bounds: Sequence[int] | NDArray[np.int64]
    tokens: Tokens
    leaves: Counts


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Piece:
    """One piece in memory, about as large as its pickle.

    For its n entries: `lcp` uint[n], see above; `codes`, the token codes of all suffixes; `ends` int[n + 1], a 0 and
    the positions in `codes` where the suffixes end. Above level 0 also: `heads` uint[n], the first token of each suffix,
    which is then not in `codes`, since a node there may have thousands of children; `kinds` uint8[n]; `leaves` uint[n]
    and `items` uint[n], how many facts and how many entries of the level below are under each entry; and the lower
    piece that the first subtree continues: `carried_key`, and `carried_items`, how many of its entries are before.
    """

    level: int
    lcp: Unsigned
    ends: NDArray[np.integer]
    codes: Buffer
    heads: Unsigned
    kinds: NDArray[np.uint8]
    leaves: Unsigned
    items: Unsigned
    carried_key: bytes
    carried_items: int

    @classmethod
    def of_facts(cls, *, lcp: Unsigned, ends: NDArray[np.integer], codes: Buffer) -> "Piece":
        """Return a piece of level 0."""
        return cls(
            level=0,
            lcp=lcp,
            ends=ends,
            codes=codes,
            heads=_NO_COUNTS,
            kinds=_NO_KINDS,
            leaves=_NO_COUNTS,
            items=_NO_COUNTS,
            carried_key=b"",
            carried_items=0,
        )

    def __len__(self) -> int:
        return len(self.lcp)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the piece takes, for the cache."""
        arrays = (self.lcp, self.ends, self.heads, self.kinds, self.leaves, self.items)
        return sum(array.nbytes for array in arrays) + len(self.codes) + 600

    def suffix(self, entry: int, codes: TokenCodes) -> list[int]:
        """Return the token ids of an entry after its first `lcp[entry]`."""
        tokens = codes.decode(self.codes[self.ends[entry] : self.ends[entry + 1]])
        return tokens if self.level == 0 else [int(self.heads[entry]), *tokens]

    def sequence(self, entry: int, codes: TokenCodes, later: int, known: Sequence[int]) -> list[int]:
        """Return all token ids of `entry`, given the ids `known` of the entry `later`, the same or a later one."""
        if later == entry:
            return list(known)
        shared = int(self.lcp[entry + 1 : later + 1].min())
        need = int(self.lcp[entry])
        tokens = self.suffix(entry, codes)
        while need > shared:
            # The token at depth need - 1 is in the suffix of the last entry that shares fewer than `need` tokens.
            entry = int(np.flatnonzero(self.lcp[:entry] < need)[-1])
            start = int(self.lcp[entry])
            tokens = self.suffix(entry, codes)[: need - start] + tokens
            need = start
        return list(known[:need]) + tokens

    def lower_piece(self, entry: int) -> tuple[int | None, int]:
        """Return where a subtree is on the level below: the entry with which its piece begins (None: `carried_key` is
        its piece), and the number of its first entry in that piece."""
        first = self.kinds[: entry + 1].tobytes().rfind(bytes([NEW_PIECE]))  # a third of the time of numpy
        if first >= 0:
            return first, int(self.items[first:entry].sum())
        return None, self.carried_items + int(self.items[:entry].sum())

    def total(self) -> int:
        """Return how many facts are under all entries."""
        return int(self.leaves.sum(dtype=np.int64)) if self.level else len(self)

    def children_of(self, low: int, high: int, depth: int, first: Tokens, codes: TokenCodes) -> "PieceChildren":
        """Return the children of node [low, high), none of whose entries ends at `depth`, the number of its tokens.

        `first`: int32[1], the token of its first entry at that depth. Raises ValueError if the children do not ascend.
        """
        if high - low <= FEW:
            return self._few_children(low, high, depth, first, codes)
        forks = self.branch_depth(low, high)
        bounds, tokens = np.array([low, high]), first
        if forks <= depth:
            bounds = self.children_bounds(low, high, depth)
            tokens = np.concatenate([first, self.first_tokens(bounds[1:-1], codes)])
            if not (tokens[:-1] < tokens[1:]).all():
                raise ValueError("its children are not in order")
        return PieceChildren(forks, bounds, tokens, self.leaves_between(bounds))

    def _few_children(self, low: int, high: int, depth: int, first: Tokens, codes: TokenCodes) -> "PieceChildren":
        shared = self.lcp[low + 1 : high].tolist()
        forks = min(shared, default=NEVER)
        bounds, tokens = [low, high], first
        if forks <= depth:
            starts = [entry for entry, same in enumerate(shared, low + 1) if same == depth]
            bounds = [low, *starts, high]
            if self.level:
                heads = [int(self.heads[start]) for start in starts]
            else:
                heads = [codes.decode_one(self.codes, int(self.ends[start])) for start in starts]
            heads = [int(first[0]), *heads]
            if any(one >= other for one, other in pairwise(heads)):
                raise ValueError("its children are not in order")
            tokens = np.array(heads, np.int32)
        if self.level:
            under = self.leaves[low:high].tolist()
            leaves = [sum(under[begin - low : end - low]) for begin, end in pairwise(bounds)]
        else:
            leaves = [end - begin for begin, end in pairwise(bounds)]
        return PieceChildren(forks, bounds, tokens, np.array(leaves, np.int64))

    def branch_depth(self, low: int, high: int) -> int:
        """Return how many tokens all entries [low, high) share; `NEVER` if there is only one entry."""
        inside = self.lcp[low + 1 : high]
        return int(inside.min()) if len(inside) else NEVER

    def children_bounds(self, low: int, high: int, depth: int) -> NDArray[np.int64]:
        """Return the entries at which the children of node [low, high) begin (the first is `low`), and `high`."""
        starts = (self.lcp[low + 1 : high] == depth).nonzero()[0]
        bounds = np.empty(len(starts) + 2, np.int64)
        bounds[0], bounds[-1] = low, high
        np.add(starts, low + 1, out=bounds[1:-1])
        return bounds

    def first_tokens(self, starts: NDArray[np.int64], codes: TokenCodes) -> NDArray[np.int32]:
        """Return the first token of the suffix of each of the entries `starts`."""
        if self.level:
            return self.heads[starts].astype(np.int32)
        return codes.decode_at(self.codes, self.ends[starts])

    def leaves_between(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many facts are between consecutive entries of `bounds` (ascending): int64[len(bounds) - 1]."""
        if self.level == 0:
            return bounds[1:] - bounds[:-1]
        low, high = int(bounds[0]), int(bounds[-1])
        if high - low == len(bounds) - 1:  # one entry between each two
            return self.leaves[low:high].astype(np.int64)
        return np.add.reduceat(self.leaves[low:high], bounds[:-1] - low, dtype=np.int64)


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
    count, codes = _shape(members, level)
    lcp, lengths = _unpacked(members[2], count), _unpacked(members[3], count)
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
