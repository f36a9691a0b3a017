"""Token ids as bytes: frequent tokens in one byte, the next 16,256 in two, the rest in three.

Each id becomes a number, small if the token is frequent in the segment, and the number is written as LEB128 (DWARF 5,
section 7.6: seven bits a byte, low bits first, high bit set on all but the last byte). Against ids in their own
order this saves a seventh of an index even behind zstd, since zstd models bytes (docs/benchmarks.md).
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from refactx.tree.children import Tokens

FREQUENT = 1 << 14
"""Ids with a number of one or two bytes: all that two LEB128 bytes can count."""

MAX_TOKEN = 1 << 24
"""Ids are below this: a row's key has three bytes for each. No vocabulary has a tenth as many."""

_FEW = 12
"""So many ids are decoded one by one in less time than numpy takes to start (a cold walk has a dozen such nodes)."""

Bytes = NDArray[np.uint8]


def frequent_tokens(codes: bytes, vocabulary_size: int) -> Tokens:
    """The token ids that a segment has short codes for, from the bytes that the catalogue keeps (int32 little-endian).

    Raises ValueError where they are no distinct ids of the vocabulary.
    """
    if len(codes) % 4:
        raise ValueError("its table of token codes has half an id")
    frequent = np.frombuffer(codes, "<i4").astype(np.int32)
    known = ((frequent >= 0) & (frequent < vocabulary_size)).all()
    # (`np.unique` of nothing but values imports `numpy.ma`: 11 ms of opening an index.)
    if not known or np.bincount(frequent).max(initial=0) > 1:
        raise ValueError("its table of token codes holds what is no id, or one twice")
    return frequent


class TokenCodes:
    """The numbering of token ids in one segment.

    `frequent`: int32[at most FREQUENT], token ids by falling frequency; token `frequent[n]` has number n, any other token t
    has number `len(frequent) + t`.

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
        # The number of each id up to the highest that is frequent.
        self._numbers = np.arange(int(frequent.max(initial=-1)) + 1) + len(frequent)
        self._numbers[frequent] = np.arange(len(frequent))
        self._tokens: list[int] = frequent.tolist()

    @classmethod
    def from_sample(cls, tokens: Tokens) -> "TokenCodes":
        """The numbering that is shortest for a sample of the tokens that will be written."""
        counts = np.bincount(tokens)
        present = np.flatnonzero(counts)
        return cls(present[np.argsort(-counts[present], kind="stable")][:FREQUENT].astype(np.int32))

    def encode(self, tokens: Tokens) -> tuple[Bytes, Bytes]:
        """The bytes of int32[n] tokens one after another, and uint8[n] how many bytes each took (1 to 5)."""
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
        """How many bytes `encode` makes of each of some tokens: uint8[n]."""
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

    def decode(self, data: bytes) -> list[int]:
        """The token ids in a short run of bytes. Raises ValueError if it ends within an id."""
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

    def decode_all(self, data: bytes) -> tuple[Tokens, NDArray[np.int64]]:
        """The ids in a long run of bytes: int32[n], and int64[n] where the code of each begins.

        Raises ValueError where `decode` does.
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

    def decode_at(self, data: bytes, starts: NDArray[np.signedinteger]) -> Tokens:
        """The ids whose codes begin at `starts`: int32[len(starts)]. Raises ValueError or IndexError where `decode` would."""
        if len(starts) > _FEW:
            return self.tokens_at(np.frombuffer(data, np.uint8), starts)
        frequent, known = self._tokens, len(self._tokens)
        tokens = []
        for start in starts.tolist():
            at, byte = start, data[start]
            number, shift = byte & 0x7F, 7
            while byte & 0x80 and shift <= 28:
                at += 1
                byte = data[at]
                number |= (byte & 0x7F) << shift
                shift += 7
            if byte & 0x80 or number - known >= MAX_TOKEN:
                raise ValueError(f"a token code has more than five bytes, or an id that is not below {MAX_TOKEN:,}")
            tokens.append(frequent[number] if number < known else number - known)
        return np.array(tokens, np.int32)

    def tokens_at(self, data: Bytes, starts: NDArray[np.integer]) -> Tokens:
        """The ids whose codes begin at `starts`, of any number: int32[len(starts)]; no code may have more than five bytes."""
        numbers = data[starts].astype(np.int64)
        more = (numbers >= 0x80).nonzero()[0]
        for position in range(1, 5):
            if not len(more):
                break
            byte = data[starts[more] + position].astype(np.int64)
            # The bit that announced this byte goes, and its own comes one place higher.
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
    """How many bytes of seven bits each number takes."""
    sizes = np.ones(len(numbers), np.uint8)
    for bits in (7, 14, 21, 28):
        sizes += numbers >= 1 << bits
    return sizes
