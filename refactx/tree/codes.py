"""The codes of the tree's rows: token ids as bytes, ragged arrays, and rows as `header | zstd(pickle)`.

Each id becomes a number, small if the token is frequent in the segment, and the number is written as LEB128 (DWARF 5,
section 7.6: seven bits a byte, low bits first, high bit set on all but the last byte). Against ids in their own
order this saves a seventh of an index even after zstd, since zstd models bytes (docs/results/benchmarks.md).

A row holds a pickle (protocol 5) of one tuple of ints and bytes. A checksum is no proof of origin, and a nine-byte
pickle can ask for gigabytes, so a row from a database is read in steps, each of which bounds the next:

1. check the header: magic, format version, CRC-32 over key and payload, size of the pickle (at most
   `MAX_PICKLE_BYTES`);
2. decompress the payload into exactly that size;
3. compare the opcodes of the pickle with an allow-list: ints, bytes, one tuple; no globals, no memo, no lengths beyond
   the end;
4. unpickle it with a `find_class` that always raises;
5. check the shape: a tuple.

A hostile row raises CorruptIndexError and does nothing else. The caller checks the meaning of the tuple's members.
"""

import io
import pickle
import struct
import threading
import zlib
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np
import zstandard
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError, RefactxError
from refactx.tree.tree import Tokens

FREQUENT = 1 << 14
"""The most ids with a code of one or two bytes: two LEB128 bytes have 14 bits."""

MAX_TOKEN = 1 << 24
"""Ids must be below this: a row's key has three bytes for each. No vocabulary is a tenth as large."""

_DECODED_ONE_BY_ONE = 12
"""At most this many ids are decoded without numpy, which takes longer to start: a cold walk has a dozen such nodes.
With numpy, a token of a cold walk takes 1.2 µs longer (of some 95, with PostgreSQL), and 2.3 µs in four segments."""

Bytes = NDArray[np.uint8]

FORMAT_VERSION = 1
"""The version of the format of rows. For rows of a newer version, the error advises to upgrade."""

MAX_PICKLE_BYTES = 1 << 26
"""64 MiB, far above any piece that the builder writes (a root of a million children has some 10 MB)."""

MAX_OPCODES = 64
"""A piece needs fewer than 20. Very many small values would take several times the announced size in memory."""

_MEMBERS = {int, bytes}
_HEADER = struct.Struct(">2sBxII")  # magic, version, pad, CRC-32, pickle size
_MAGIC = b"RX"

# Opcodes whose argument has a fixed size, and those that carry a length before their bytes.
# Source: CPython, Lib/pickletools.py.
_FIXED = {
    pickle.PROTO[0]: 1,
    pickle.FRAME[0]: 8,
    pickle.MARK[0]: 0,
    pickle.TUPLE[0]: 0,
    pickle.TUPLE1[0]: 0,
    pickle.TUPLE2[0]: 0,
    pickle.TUPLE3[0]: 0,
    pickle.BININT[0]: 4,
    pickle.BININT1[0]: 1,
    pickle.BININT2[0]: 2,
}
_SIZED = {pickle.SHORT_BINBYTES[0]: 1, pickle.BINBYTES[0]: 4, pickle.LONG1[0]: 1}
_EMPTY_FRAME = zstandard.ZstdCompressor(write_content_size=False).compress(b"")

_DAMAGE = (
    *(ValueError, IndexError, OverflowError, EOFError, MemoryError),
    *(struct.error, zstandard.ZstdError, pickle.UnpicklingError),
)


def frequent_tokens(codes: bytes, vocabulary_size: int) -> Tokens:
    """Return the token ids with short codes in a segment, from the bytes in the catalogue (little-endian int32).

    Raises ValueError if they are not distinct ids of the vocabulary.
    """
    if len(codes) % 4:
        raise ValueError("its table of token codes ends within an id")
    frequent = np.frombuffer(codes, "<i4").astype(np.int32)
    known = ((frequent >= 0) & (frequent < vocabulary_size)).all()
    # (`np.unique` of nothing but values imports `numpy.ma`: 11 ms of opening an index.)
    if not known or np.bincount(frequent).max(initial=0) > 1:
        raise ValueError("its table of token codes has an id twice, or one that is not in the vocabulary")
    return frequent


class TokenCodes:
    """The numbering of token ids in one segment, and their codes.

    `frequent`: int32[at most FREQUENT], token ids in descending order of frequency; token `frequent[n]` has number n,
    any other token t has number `len(frequent) + t`.

    >>> codes = TokenCodes(np.array([700, 3], np.int32))
    >>> data, sizes = codes.encode(np.array([3, 700, 1000], np.int32))
    >>> data.tolist(), sizes.tolist()
    ([1, 0, 234, 7], [1, 1, 2])
    >>> codes.decode(data.tobytes())
    [3, 700, 1000]
    """

    def __init__(self, frequent: Tokens) -> None:
        if len(frequent) and not 0 <= int(frequent.min()) <= int(frequent.max()) < MAX_TOKEN:
            raise ValueError(f"a token id is not below {MAX_TOKEN:,}")
        self.frequent = frequent
        # The number of each id up to the highest frequent one.
        self._numbers = np.arange(int(frequent.max(initial=-1)) + 1) + len(frequent)
        self._numbers[frequent] = np.arange(len(frequent))
        self._tokens: list[int] = frequent.tolist()

    @classmethod
    def from_sample(cls, tokens: Tokens) -> "TokenCodes":
        """Return the numbering with the shortest codes for a sample of the tokens to encode."""
        counts = np.bincount(tokens)
        present = np.flatnonzero(counts)
        return cls(present[np.argsort(-counts[present], kind="stable")][:FREQUENT].astype(np.int32))

    def encode(self, tokens: Tokens) -> tuple[Bytes, Bytes]:
        """Return the codes of int32[n] tokens one after another, and uint8[n], how many bytes each has (1 to 5)."""
        numbers = self._numbered(tokens)
        sizes = _sizes(numbers)
        starts = np.cumsum(sizes, dtype=np.int64) - sizes
        out = np.empty(int(sizes.sum()), np.uint8)
        for position in range(int(sizes.max(initial=0))):
            has = sizes > position
            more = (sizes[has] > position + 1).astype(np.uint8) << 7
            out[starts[has] + position] = (numbers[has] >> 7 * position & 0x7F).astype(np.uint8) | more
        return out, sizes

    def sizes(self, tokens: Tokens) -> Bytes:
        """Return how many bytes the code of each token has: uint8[n]."""
        if int(tokens.max(initial=-1)) < len(self._numbers):
            return self._known_sizes[tokens]
        return _sizes(self._numbered(tokens))

    @cached_property
    def _known_sizes(self) -> Bytes:
        return _sizes(self._numbers)

    def _numbered(self, tokens: Tokens) -> NDArray[np.int64]:
        if int(tokens.max(initial=-1)) < len(self._numbers):
            return self._numbers[tokens]
        numbers = tokens.astype(np.int64) + len(self._tokens)
        known = np.flatnonzero(tokens < len(self._numbers))
        numbers[known] = self._numbers[tokens[known]]
        return numbers

    def decode(self, data: bytes | memoryview) -> list[int]:
        """Return the token ids of the codes in `data`, which is short: a loop in Python.

        Raises ValueError if `data` ends within a code, or if a code has more than five bytes or too high an id.
        """
        frequent, known = self._tokens, len(self._tokens)
        tokens, number, shift = [], 0, 0
        for byte in data:
            number |= (byte & 0x7F) << shift
            if byte & 0x80:
                shift += 7
                if shift > 28:
                    raise ValueError("a token code has more than five bytes")
            else:
                tokens.append(frequent[number] if number < known else number - known)
                number = shift = 0
        if shift:
            raise ValueError("token codes end within an id")
        if tokens and max(tokens) >= MAX_TOKEN:
            raise ValueError(f"a token id is not below {MAX_TOKEN:,}")
        return tokens

    def decode_all(self, data: bytes | memoryview) -> tuple[Tokens, NDArray[np.int64]]:
        """Return the ids of the codes in `data`, which may be long: int32[n], and int64[n] where each code begins.

        Raises ValueError as `decode` does.
        """
        array = np.frombuffer(data, np.uint8)
        ends = (array < 0x80).nonzero()[0]
        if len(array) and (not len(ends) or ends[-1] != len(array) - 1):
            raise ValueError("token codes end within an id")
        starts = np.zeros(len(ends), np.int64)
        starts[1:] = ends[:-1] + 1
        if len(ends) and int((ends - starts).max()) > 4:
            raise ValueError("a token code has more than five bytes")
        return self.tokens_at(array, starts), starts

    def decode_at(self, data: bytes | memoryview, starts: NDArray[np.integer]) -> Tokens:
        """Return the ids whose codes begin at `starts`: int32[len(starts)].

        Raises ValueError or IndexError if `decode` would raise ValueError.
        """
        if len(starts) > _DECODED_ONE_BY_ONE:
            return self.tokens_at(np.frombuffer(data, np.uint8), starts)
        return np.array([self.decode_one(data, start) for start in starts.tolist()], np.int32)

    def decode_one(self, data: bytes | memoryview, start: int) -> int:
        """Return the id whose code begins at `start`. Raises as `decode_at` does."""
        at, byte, known = start, data[start], len(self._tokens)
        number, shift = byte & 0x7F, 7
        while byte & 0x80 and shift <= 28:
            at += 1
            byte = data[at]
            number |= (byte & 0x7F) << shift
            shift += 7
        if byte & 0x80 or number - known >= MAX_TOKEN:
            raise ValueError(f"a token code has more than five bytes, or an id that is not below {MAX_TOKEN:,}")
        return self._tokens[number] if number < known else number - known

    def tokens_at(self, data: Bytes, starts: NDArray[np.integer]) -> Tokens:
        """Return the ids whose codes begin at `starts`, with numpy: int32[len(starts)].

        No code may have more than five bytes: that is not checked here. Raises ValueError if an id is too high.
        """
        numbers = data[starts].astype(np.int64)
        more = (numbers >= 0x80).nonzero()[0]
        for position in range(1, 5):
            if not len(more):
                break
            byte = data[starts[more] + position].astype(np.int64)
            # Subtract the high bit, which announced this byte, and add this byte's bits at its place.
            numbers[more] += (byte << 7 * position) - (1 << 7 * position)
            more = more[byte >= 0x80]
        known = len(self._tokens)
        if len(numbers) and int(numbers.max()) >= known + MAX_TOKEN:
            raise ValueError(f"a token id is not below {MAX_TOKEN:,}")
        if known == 0:
            few: Tokens = numbers.astype(np.int32)
            return few
        tokens: Tokens = self.frequent[np.minimum(numbers, known - 1)]
        rare = (numbers >= known).nonzero()[0]
        tokens[rare] = numbers[rare] - known
        return tokens


def _sizes(numbers: NDArray[np.int64]) -> Bytes:
    """Return how many bytes of seven bits each number needs: uint8[n]."""
    sizes = np.ones(len(numbers), np.uint8)
    for bits in (7, 14, 21, 28):
        sizes += numbers >= 1 << bits
    return sizes


Offsets = NDArray[np.int64]


def ragged(starts: Offsets, lengths: Offsets) -> Offsets:
    """Return the positions `starts[i], ..., starts[i] + lengths[i] - 1` for every i, one after another.

    >>> ragged(np.array([10, 50]), np.array([2, 3])).tolist()
    [10, 11, 50, 51, 52]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def offsets_of(lengths: Offsets) -> Offsets:
    """Return where each sequence begins in the flat array, and where the last one ends: int64[n + 1].

    >>> offsets_of(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


Integer = TypeVar("Integer", bound=np.integer)


def select(tokens: Tokens, offsets: Offsets, chosen: Offsets) -> tuple[Tokens, Offsets]:
    """Return the sequences `chosen` (their numbers) of a ragged array, as a ragged array.

    >>> select(np.array([1, 2, 3], np.int32), np.array([0, 2, 3]), np.array([1]))
    (array([3], dtype=int32), array([0, 1]))
    """
    lengths = np.diff(offsets)[chosen]
    return tokens[ragged(offsets[:-1][chosen], lengths)], offsets_of(lengths)


def shared_lengths(tokens: Tokens, offsets: Offsets) -> NDArray[np.int32]:
    """Return how many leading tokens each sequence shares with the one before: int32[n]; 0 for the first.

    >>> shared_lengths(np.array([1, 2, 1, 2, 3, 1, 4], np.int32), np.array([0, 2, 5, 7])).tolist()
    [0, 2, 1]
    """
    count = len(offsets) - 1
    shared = np.zeros(count, np.int32)
    if count < 2:
        return shared
    lengths = np.diff(offsets)
    shorter = np.minimum(lengths[1:], lengths[:-1])
    still_equal = np.arange(1, count)
    depth = 0
    while len(still_equal):  # one step for each depth, over the pairs that are equal so far
        still_equal = still_equal[shorter[still_equal - 1] > depth]
        same = tokens[offsets[still_equal] + depth] == tokens[offsets[still_equal - 1] + depth]
        still_equal = still_equal[same]
        depth += 1
        shared[still_equal] = depth
    return shared


Member = int | bytes


class _BuiltinsOnly(pickle.Unpickler):  # noqa: S301
    """An unpickler that refuses every class and function."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"asks for {module}.{name}")


def dump(members: tuple[Member, ...]) -> bytes:
    """Return the pickle of a tuple of ints and bytes, without memo opcodes."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, protocol=5)
    pickler.fast = True  # no memo: the reader's allow-list has no opcode for it
    pickler.dump(members)
    return out.getvalue()


def check_opcodes(pickled: bytes) -> None:
    """Raise ValueError unless the pickle has allowed opcodes only and ends with the first STOP.

    >>> check_opcodes(dump((1, b"two", 3, b"")))
    >>> check_opcodes(pickle.dumps([1], 5))
    Traceback (most recent call last):
    ValueError: opcode 0x5d at byte 11 is not allowed
    """
    position, end = 0, len(pickled)
    for _ in range(MAX_OPCODES):
        if position >= end:
            break
        opcode = pickled[position]
        if opcode in _FIXED:
            position += 1 + _FIXED[opcode]
        elif opcode in _SIZED:
            width = _SIZED[opcode]
            length = int.from_bytes(pickled[position + 1 : position + 1 + width], "little")
            position += 1 + width + length
        elif opcode == pickle.STOP[0] and position == end - 1:
            return
        else:
            raise ValueError(f"opcode 0x{opcode:02x} at byte {position} is not allowed")
    raise ValueError("it ends too early, or holds too much")


class RowCodec:
    """A codec of tuples as rows, with a zstd dictionary that all rows of a segment share (empty for none).

    `seed`: the initial value of every checksum, made from what rows depend on besides their own bytes
    (`shared_seed`). Safe to share between threads.

    >>> codec = RowCodec()
    >>> codec.unpack(b"key", codec.pack(b"key", (7, b"tokens")), where="row of a test")
    (7, b'tokens')
    """

    def __init__(self, dictionary: bytes = b"", level: int = 9, seed: int = 0) -> None:
        self._dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        self._level, self.seed = level, seed
        self._local = threading.local()  # zstandard's (de)compressors are not thread-safe

    def __reduce__(self) -> tuple[type["RowCodec"], tuple[bytes, int, int]]:
        """Pickle what it was made of."""
        return RowCodec, (self._dictionary.as_bytes() if self._dictionary else b"", self._level, self.seed)

    def prepare(self) -> None:
        """Load the dictionary for this thread now instead of with the first row: it takes as long as a lookup."""
        self._decompressor().decompress(_EMPTY_FRAME, max_output_size=1)

    def _compressor(self) -> zstandard.ZstdCompressor:
        if not hasattr(self._local, "compressor"):
            options: dict[str, Any] = {"dict_data": self._dictionary} if self._dictionary else {}
            # Size and checksum are in our own header, and a segment has one dictionary.
            self._local.compressor = zstandard.ZstdCompressor(
                level=self._level, write_content_size=False, write_checksum=False, write_dict_id=False, **options
            )
        compressor: zstandard.ZstdCompressor = self._local.compressor
        return compressor

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        if not hasattr(self._local, "decompressor"):
            options: dict[str, Any] = {"dict_data": self._dictionary} if self._dictionary else {}
            self._local.decompressor = zstandard.ZstdDecompressor(**options)
        decompressor: zstandard.ZstdDecompressor = self._local.decompressor
        return decompressor

    def pack(self, key: bytes, members: tuple[Member, ...]) -> bytes:
        """Return the row that holds a tuple under a key. The checksum covers the key, so that a moved row is found.

        Raises RefactxError if the pickle has more than `MAX_PICKLE_BYTES`.
        """
        pickled = dump(members)
        if len(pickled) > MAX_PICKLE_BYTES:
            raise RefactxError(f"a piece of the tree has {len(pickled):,} bytes, more than {MAX_PICKLE_BYTES:,}")
        payload = self._compressor().compress(pickled)
        return _HEADER.pack(_MAGIC, FORMAT_VERSION, self._checksum(key, payload), len(pickled)) + payload

    def unpack(self, key: bytes, row: bytes | memoryview, where: object) -> tuple[Any, ...]:
        """Return the tuple in a row.

        Raises CorruptIndexError if `pack` did not make the row for this key; the message begins with `str(where)`.
        """
        try:
            magic, version, checksum, size = _HEADER.unpack_from(row)
            if magic != _MAGIC:
                raise ValueError("it does not begin with RX")
            if version > FORMAT_VERSION:
                raise CorruptIndexError(
                    f"{where} has format version {version}, this refactx reads up to {FORMAT_VERSION}: upgrade refactx"
                )
            payload = row[_HEADER.size :]
            if checksum != self._checksum(key, payload):
                raise ValueError("its checksum is wrong")
            if size > MAX_PICKLE_BYTES:
                raise ValueError(f"it claims {size:,} bytes, more than {MAX_PICKLE_BYTES:,}")
            # For a frame that states its size, zstandard allocates that much memory, whatever our limit is.
            if zstandard.get_frame_parameters(payload).content_size not in (0, zstandard.CONTENTSIZE_UNKNOWN):
                raise ValueError("its zstd frame states a size")
            pickled = self._decompressor().decompress(payload, max_output_size=size)
            if len(pickled) != size:
                raise ValueError(f"it has {len(pickled):,} bytes, and its header states {size:,}")
            check_opcodes(pickled)
            members = _BuiltinsOnly(io.BytesIO(pickled)).load()
            if not (isinstance(members, tuple) and _MEMBERS.issuperset(map(type, members))):
                raise ValueError("it holds something other than one tuple of ints and bytes")
        except _DAMAGE as error:
            raise CorruptIndexError(
                f"{where} is damaged: {error}. Run `refactx index verify`, then ingest the index again"
            ) from error
        return members

    def _checksum(self, key: bytes, payload: bytes | memoryview) -> int:
        return zlib.crc32(payload, zlib.crc32(key, self.seed))


def shared_seed(codes: bytes, dictionary: bytes) -> int:
    """Return the seed of a segment's checksums: if its token codes or dictionary change, no checksum is right."""
    return zlib.crc32(dictionary, zlib.crc32(codes))
