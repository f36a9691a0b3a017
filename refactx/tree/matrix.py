"""Matrices of entries: many front-coded entries written out at a time, where walking them token by token is too slow.

An *entry matrix* holds n entries, uint32[n, width]: token ids plus one, with zeros after the end of an entry. So rows
compare as the sequences do, and a sequence comes before those that begin with it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.tree.arrays import Offsets, offsets_of
from refactx.tree.children import Tokens
from refactx.tree.piece import MAX_KEY, Piece, row_key
from refactx.tree.stored import LONGEST_FACT
from refactx.tree.token_codes import TokenCodes

EntryMatrix = NDArray[np.uint32]

CELLS = 1 << 20
"""The most cells of a matrix: all entries of a root in one could take gigabytes."""


def matrices(piece: Piece, codes: TokenCodes, cells: int = CELLS) -> Iterator[tuple[int, EntryMatrix]]:
    """Yield all entries of a piece in order, as matrices of at most `cells` cells, or one row if that has more.

    Each matrix comes after the number of its first entry. Raises ValueError or IndexError if the piece is damaged.
    """
    # The most tokens that an entry can have: one for each byte of its codes.
    longest = int((piece.lcp.astype(np.int64) + np.diff(piece.ends)).max()) + 1
    step = max(1, cells // longest)
    before: EntryMatrix = np.zeros((1, 0), np.uint32)
    for low in range(0, len(piece), step):
        high = min(low + step, len(piece))
        matrix = _matrix(piece, codes, low, high, before)
        before = matrix[-1:]
        yield low, matrix


def _matrix(piece: Piece, codes: TokenCodes, low: int, high: int, before: EntryMatrix) -> EntryMatrix:
    """Return entries [low, high) as a matrix, given the one before them as a row."""
    first, last = int(piece.ends[low]), int(piece.ends[high])
    suffixes, starts = codes.decode_all(piece.codes[first:last])
    # The code with which each entry begins: codes are whole, so each entry ends where a code begins.
    begins = np.searchsorted(starts, piece.ends[low : high + 1] - first)
    lengths = np.diff(begins)
    lcp = piece.lcp[low:high].astype(np.int64)
    heads = int(piece.level > 0)
    ends = lcp + heads + lengths
    known = before.shape[1]
    width = int(ends.max(initial=0))
    if int(lcp[0]) > known or (lcp[1:] > ends[:-1]).any():
        raise ValueError("an entry shares more tokens than the one before it has")
    if width > LONGEST_FACT:
        raise ValueError(f"an entry has {width:,} tokens, more than {LONGEST_FACT:,}")
    width = max(width, known)
    out = np.zeros((high - low + 1, width), np.uint32)
    out[0, :known] = before[0]
    flat = out.reshape(-1)  # with one index for a cell, numpy takes half as long as with two
    at = np.repeat(np.arange(1, high - low + 1) * width + lcp + heads - begins[:-1], lengths)
    at += np.arange(len(suffixes))
    flat[at] = suffixes + np.uint32(1)
    rows = np.arange(width, (high - low + 1) * width, width)
    if heads:
        flat[rows + lcp] = piece.heads[low:high] + np.uint32(1)
    # A token before an entry's own suffix is that of the last row above whose suffix begins at its depth or before.
    source = np.zeros(out.shape, np.int32)
    np.multiply(np.arange(width, dtype=np.int32) >= lcp[:, None], rows[:, None], out=source[1:], casting="unsafe")
    np.maximum.accumulate(source, axis=0, out=source)
    source += np.arange(width, dtype=np.int32)
    whole: EntryMatrix = flat[source[1:]]
    return whole


def keys(matrix: EntryMatrix) -> NDArray[np.bytes_]:
    """Return the rows as bytes of fixed width that compare as the sequences do: bytes[n]."""
    wide = matrix if matrix.shape[1] else np.zeros((len(matrix), 1), np.uint32)
    return np.ascontiguousarray(wide, ">u4").view(f"S{4 * wide.shape[1]}")[:, 0]


def row_keys(level: int, matrix: EntryMatrix) -> list[bytes]:
    """Return the keys of the pieces of a level that begin with the rows of a matrix (`refactx.tree.piece.row_key`).

    >>> [key.hex() for key in row_keys(1, np.array([[259, 8], [1, 0]], np.uint32))]
    ['01000102000007', '01000000']
    """
    size = 3 * matrix.shape[1]  # bytes a token: the last three of four
    data = np.ascontiguousarray(
        (matrix - np.uint32(1)).astype(">u4").view(np.uint8).reshape(*matrix.shape, 4)[:, :, 1:]
    )
    ends = 3 * (matrix > 0).sum(1)
    if len(matrix) and 1 + int(ends.max()) > MAX_KEY:
        return [row_key(level, (row[row > 0].astype(np.int64) - 1).tolist()) for row in matrix]
    head, flat = bytes([level]), data.tobytes()
    return [head + flat[at * size : at * size + end] for at, end in enumerate(ends.tolist())]


def to_matrix(tokens: Tokens, offsets: Offsets) -> EntryMatrix:
    """Return the matrix of sequences that are given as tokens and offsets.

    >>> to_matrix(np.array([7, 0, 8], np.int32), np.array([0, 1, 3])).tolist()
    [[8, 0], [1, 9]]
    """
    lengths = np.diff(offsets)
    matrix = np.zeros((len(lengths), int(lengths.max(initial=0))), np.uint32)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = tokens[offsets[0] : offsets[-1]].astype(np.uint32) + 1
    return matrix


def from_matrix(matrix: EntryMatrix) -> tuple[Tokens, Offsets]:
    """Return the tokens and offsets of the sequences in a matrix.

    >>> from_matrix(np.array([[8, 0], [1, 9]], np.uint32))
    (array([7, 0, 8], dtype=int32), array([0, 1, 3]))
    """
    there: NDArray[Any] = matrix > 0
    return (matrix[there] - 1).astype(np.int32), offsets_of(there.sum(1))
