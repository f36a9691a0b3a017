"""The token numbering and the zstd dictionary that all rows of a segment share, learnt from a sample of its facts.

The sample is spread evenly over the sorted facts, since the first ones would all begin alike.
"""

import numpy as np
import zstandard
from numpy.typing import NDArray

from refactx.ingest.encoding.encoded import SortedFacts
from refactx.tree.arrays import offsets_of, ragged, shared_lengths
from refactx.tree.children import Tokens
from refactx.tree.codec import dump
from refactx.tree.piece import Piece
from refactx.tree.piece_members import to_members
from refactx.tree.token_codes import TokenCodes

_SPOTS = 500
_FACTS_PER_SPOT = 256
_DICTIONARY_BYTES = 112 * 1024  # zstd's own default (`zstd --train`)
_BYTES_PER_FACT = 0.15  # of a dictionary: it must cost less than it saves in a small index
_LEAST_BYTES = 2048  # a smaller one saves 1%, and training it takes as long as packing the rows of so few facts


def learn(facts: SortedFacts, level: int) -> tuple[TokenCodes, bytes]:
    """Return the token numbering, and the dictionary for compression at `level` (empty if the facts are too few)."""
    size = _dictionary_bytes(len(facts))
    spots = [_front_code(facts, low, high) for low, high in sample_ranges(len(facts))]
    if not size:
        return TokenCodes.from_sample(spots[0][0]), b""
    codes = TokenCodes.from_sample(np.concatenate([tokens for tokens, _, _ in spots]))
    samples: list[bytes | bytearray | memoryview] = [dump(to_members(_piece(codes, *spot))) for spot in spots]
    try:
        return codes, zstandard.train_dictionary(size, samples, level=level).as_bytes()
    except zstandard.ZstdError:  # too few samples
        return codes, b""


def sample_ranges(count: int) -> list[tuple[int, int]]:
    """Return the ranges of `count` facts that `learn` reads, in order."""
    if not _dictionary_bytes(count):  # the spots would lie side by side
        return [(0, count)]
    spots = max(1, min(_SPOTS, count // _FACTS_PER_SPOT))
    starts = [count * spot // spots for spot in range(spots)]
    return [(start, min(start + _FACTS_PER_SPOT, count)) for start in starts]


def _dictionary_bytes(count: int) -> int:
    size = min(_DICTIONARY_BYTES, int(count * _BYTES_PER_FACT))
    return size if size >= _LEAST_BYTES else 0


def _front_code(facts: SortedFacts, low: int, high: int) -> tuple[Tokens, NDArray[np.int64], NDArray[np.int64]]:
    """Return suffix tokens, `lcp` and suffix lengths of a piece of facts low to high - 1."""
    tokens, offsets = facts.read_tokens(low, high)
    lcp = shared_lengths(tokens, offsets).astype(np.int64)
    lengths = np.diff(offsets) - lcp
    return tokens[ragged(offsets[:-1] + lcp, lengths)], lcp, lengths


def _piece(codes: TokenCodes, tokens: Tokens, lcp: NDArray[np.int64], lengths: NDArray[np.int64]) -> Piece:
    data, sizes = codes.encode(tokens)
    ends = offsets_of(sizes.astype(np.int64))[offsets_of(lengths)]
    return Piece.of_facts(lcp=lcp.astype(np.uint32), ends=ends.astype(np.int32), codes=data.tobytes())
