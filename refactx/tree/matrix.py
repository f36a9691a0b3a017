"""Front-coded entries written out, many at a time: what walking token by token would be too slow for.

A *block* is n entries as one matrix, uint32[n, width]: token ids plus one, zeros behind each entry's end. So rows compare
like the sequences, a shorter one before those that it begins.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.tree.children import Tokens
from refactx.tree.piece import MAX_KEY, Piece, row_key
from refactx.tree.ragged import Offsets, offsets_of
from refactx.tree.stored import LONGEST_FACT
from refactx.tree.token_codes import TokenCodes

Block = NDArray[np.uint32]

CELLS = 1 << 20
"""Of a block, at most: all of a root at once could be gigabytes."""


def blocks(piece: Piece, codes: TokenCodes, cells: int = CELLS) -> Iterator[tuple[int, Block]]:
    """All entries of a piece in order: the number of each block's first entry, and the block, of at most so many cells, or
    one row."""
    # No entry is longer than if each byte of its codes were a token.
    longest = int((piece.lcp.astype(np.int64) + np.diff(piece.ends)).max()) + 1
    step = max(1, cells // longest)
    before: Block = np.zeros((1, 0), np.uint32)
    for low in range(0, len(piece), step):
        high = min(low + step, len(piece))
        block = _block(piece, codes, low, high, before)
        before = block[-1:]
        yield low, block


def _block(piece: Piece, codes: TokenCodes, low: int, high: int, before: Block) -> Block:
    """Entries [low, high), given the one before them as a row."""
    first, last = int(piece.ends[low]), int(piece.ends[high])
    suffixes, starts = codes.decode_all(piece.codes[first:last])
    # Where each entry's codes begin among all: the codes are whole, so each end is a start.
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
    flat = out.reshape(-1)  # one index a cell: numpy takes half as long as with two
    at = np.repeat(np.arange(1, high - low + 1) * width + lcp + heads - begins[:-1], lengths)
    at += np.arange(len(suffixes))
    flat[at] = suffixes + np.uint32(1)
    rows = np.arange(width, (high - low + 1) * width, width)
    if heads:
        flat[rows + lcp] = piece.heads[low:high] + np.uint32(1)
    # A token before an entry's own suffix is that of the last row above whose suffix reaches so far up.
    source = np.zeros(out.shape, np.int32)
    np.multiply(np.arange(width, dtype=np.int32) >= lcp[:, None], rows[:, None], out=source[1:], casting="unsafe")
    np.maximum.accumulate(source, axis=0, out=source)
    source += np.arange(width, dtype=np.int32)
    whole: Block = flat[source[1:]]
    return whole


def keys(block: Block) -> NDArray[np.bytes_]:
    """The rows as fixed-width bytes that compare like the sequences: bytes[n]."""
    wide = block if block.shape[1] else np.zeros((len(block), 1), np.uint32)
    return np.ascontiguousarray(wide, ">u4").view(f"S{4 * wide.shape[1]}")[:, 0]


def row_keys(level: int, block: Block) -> list[bytes]:
    """The keys of the pieces of a level that begin with the rows of a block (`refactx.tree.piece.row_key`).

    >>> [key.hex() for key in row_keys(1, np.array([[259, 8], [1, 0]], np.uint32))]
    ['01000102000007', '01000000']
    """
    size = 3 * block.shape[1]  # bytes a token: the last three of four
    data = np.ascontiguousarray((block - np.uint32(1)).astype(">u4").view(np.uint8).reshape(*block.shape, 4)[:, :, 1:])
    ends = 3 * (block > 0).sum(1)
    if len(block) and 1 + int(ends.max()) > MAX_KEY:
        return [row_key(level, (row[row > 0].astype(np.int64) - 1).tolist()) for row in block]
    head, flat = bytes([level]), data.tobytes()
    return [head + flat[at * size : at * size + end] for at, end in enumerate(ends.tolist())]


def to_block(tokens: Tokens, offsets: Offsets) -> Block:
    """Sequences, as tokens and offsets, as a block.

    >>> to_block(np.array([7, 0, 8], np.int32), np.array([0, 1, 3])).tolist()
    [[8, 0], [1, 9]]
    """
    lengths = np.diff(offsets)
    block = np.zeros((len(lengths), int(lengths.max(initial=0))), np.uint32)
    block[np.arange(block.shape[1]) < lengths[:, None]] = tokens[offsets[0] : offsets[-1]].astype(np.uint32) + 1
    return block


def from_block(block: Block) -> tuple[Tokens, Offsets]:
    """A block as tokens and offsets.

    >>> from_block(np.array([[8, 0], [1, 9]], np.uint32))
    (array([7, 0, 8], dtype=int32), array([0, 1, 3]))
    """
    there: NDArray[Any] = block > 0
    return (block[there] - 1).astype(np.int32), offsets_of(there.sum(1))
