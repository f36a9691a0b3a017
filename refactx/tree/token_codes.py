"""Token codes: token ids as bytes, the 128 most frequent in one byte, the next 16,256 in two, the rest in three.

Each id becomes a number, small if the token is frequent in the segment, and the number is written as LEB128 (DWARF 5,
section 7.6: seven bits a byte, low bits first, high bit set on all but the last byte). Against ids in their own
order this saves a seventh of an index even after zstd, since zstd models bytes (docs/results/benchmarks.md).
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from refactx.tree.children import Tokens

FREQUENT = 1 << 14
"""The most ids with a code of one or two bytes: two LEB128 bytes have 14 bits."""

MAX_TOKEN = 1 << 24
"""Ids must be below this: a row's key has three bytes for each. No vocabulary is a tenth as large."""

_DECODED_ONE_BY_ONE = 12
"""At most this many ids are decoded without numpy, which takes longer to start: a cold walk has a dozen such nodes.
With numpy, a token of a cold walk takes 1.2 µs longer (of some 95, with PostgreSQL), and 2.3 µs in four segments."""

Bytes = NDArray[np.uint8]


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
