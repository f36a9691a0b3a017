"""The codec of the rows of an index, `header | zstd(pickle)`, which reads hostile rows safely.

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
from typing import Any, NoReturn

import zstandard

from refactx.errors import CorruptIndexError, RefactxError

FORMAT_VERSION = 1
"""The version of the format of rows. For rows of a newer version, the error advises to upgrade."""

MAX_PICKLE_BYTES = 1 << 26
"""64 MiB, far above any piece that the builder writes (a root of a million children has some 10 MB)."""

MAX_OPCODES = 64
"""A piece needs fewer than 20. Very many small values would take several times the announced size in memory."""

Member = int | bytes
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


class _BuiltinsOnly(pickle.Unpickler):
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
