"""Sequences looked up in pieces of facts, all of them at once: every step is one branching further, in numpy over all.

A node is a range of entries (`refactx.piece`), and nodes of one step lie apart, so a step costs no more than one look at the
entries of all pieces, and at the end at a few of them. (Writing the entries out as matrices, `refactx.unfold`, costs ten times
as much where a piece has few of the sequences.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refactx.piece import NEVER, Piece
from refactx.token_codes import MAX_TOKEN, TokenCodes
from refactx.unfold import Block, Offsets

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """The entries of several pieces of level 0 behind each other: `lcp` int64[n]; the codes of their suffixes, and where each
    one's begin and end."""

    lcp: Offsets
    data: Bytes
    starts: Offsets
    ends: Offsets
    codes: TokenCodes

    def suffixes(self, entries: Offsets) -> tuple[NDArray[np.int32], Offsets]:
        """The suffixes' tokens one after another, and int64[len(entries) + 1] where each begins."""
        sizes = self.ends[entries] - self.starts[entries]
        data = self.data[_ragged(self.starts[entries], sizes)]
        tokens, begins = self.codes.decode_all(data.tobytes())
        return tokens, np.searchsorted(begins, _offsets(sizes))

    def heads(self, entries: Offsets) -> NDArray[np.int32]:
        """The first token of each suffix."""
        return self.codes.decode_at(self.data, self.starts[entries])


def search(pieces: Sequence[Piece], counts: Offsets, targets: Block, codes: TokenCodes) -> NDArray[np.bool_]:
    """Whether each row of `targets` is an entry of its piece: bool[n]. Of the rows the first `counts[0]` belong to the first
    piece, and so on; the pieces are of level 0.

    Raises ValueError where a piece is damaged.
    """
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    code_sizes = np.array([len(piece.codes) for piece in pieces], np.int64)
    begins = _offsets(sizes)
    bases = np.repeat(_offsets(code_sizes)[:-1], sizes)
    entries = _Entries(
        np.concatenate([piece.lcp for piece in pieces]).astype(np.int64),
        np.frombuffer(b"".join(piece.codes for piece in pieces), np.uint8),
        np.concatenate([piece.ends[:-1] for piece in pieces]) + bases,
        np.concatenate([piece.ends[1:] for piece in pieces]) + bases,
        codes,
    )
    found = np.zeros(len(targets), np.bool_)
    lengths = (targets > 0).sum(1)
    which = np.arange(len(targets))
    low, high = np.repeat(begins[:-1], counts), np.repeat(begins[1:], counts)
    matched = np.zeros(len(targets), np.int64)
    while len(which):
        going_on, low, high, matched, ended = _step(entries, targets[which], lengths[which], low, high, matched)
        found[which[ended]] = True
        which = which[going_on]
    return found


def _step(
    entries: _Entries, targets: Block, lengths: Offsets, low: Offsets, high: Offsets, matched: Offsets
) -> tuple[Offsets, Offsets, Offsets, Offsets, Offsets]:
    """One branching further. Each target shares `matched` tokens with all entries [low, high).

    Gives which targets go on, their new `low`, `high` and `matched`; and which ones are found.
    """
    nodes, first, node_of = np.unique(low, return_index=True, return_inverse=True)
    ends = high[first]
    tokens, offsets = entries.suffixes(nodes)
    base = entries.lcp[nodes]
    path_end = base + np.diff(offsets)
    depth = np.minimum(_branch_depths(entries.lcp, nodes, ends), path_end)
    if (base > matched[first]).any() or (depth < matched[first]).any():
        raise ValueError("an entry shares more tokens than the one before it has")
    same = lengths >= depth[node_of]
    same[same] = _agree(targets[same], matched[same], node_of[same], depth, tokens, offsets[:-1] - base)
    is_end = path_end == depth
    ended = np.flatnonzero(same & is_end[node_of] & (lengths == depth[node_of]))
    going_on = np.flatnonzero(same & (lengths > depth[node_of]))
    at = node_of[going_on]
    low, high, matched = low[going_on], high[going_on], depth[at]
    # Behind an entry that ends at the node come the others of it; where none ends, one of the children is it.
    behind = is_end[at]
    low[behind] += 1
    inner = np.flatnonzero(~behind)
    if len(inner):
        next_tokens = targets[going_on[inner], matched[inner]].astype(np.int64) - 1
        path_tokens = tokens[np.minimum(offsets[:-1] - base + depth, max(0, len(tokens) - 1))]
        low[inner], high[inner] = _children(entries, (nodes, ends, depth, path_tokens, ~is_end), at[inner], next_tokens)
    alive = np.flatnonzero(low < high)
    return going_on[alive], low[alive], high[alive], matched[alive], ended


def _branch_depths(lcp: Offsets, low: Offsets, high: Offsets) -> Offsets:
    """The depth down to which all entries [low, high) of each node are one path; `NEVER` where there is one only."""
    sizes = high - low - 1
    depths = np.full(len(low), NEVER, np.int64)
    several = np.flatnonzero(sizes > 0)
    if len(several):
        inside = lcp[_ragged(low[several] + 1, sizes[several])]
        depths[several] = np.minimum.reduceat(inside, _offsets(sizes[several])[:-1])
    return depths


def _agree(
    targets: Block, matched: Offsets, node_of: Offsets, depth: Offsets, tokens: NDArray[np.int32], at_zero: Offsets
) -> NDArray[np.bool_]:
    """Whether each target has the tokens of its node's path from `matched` to the node's depth."""
    counts = depth[node_of] - matched
    positions = _ragged(matched, counts)
    rows = np.repeat(np.arange(len(targets)), counts)
    path = tokens[positions + np.repeat(at_zero[node_of], counts)]
    differs = targets[rows, positions] != path + np.uint32(1)
    return np.bincount(rows[differs], minlength=len(targets)) == 0


def _children(
    entries: _Entries,
    described: tuple[Offsets, Offsets, Offsets, NDArray[np.int32], NDArray[np.bool_]],
    node_of: Offsets,
    next_tokens: Offsets,
) -> tuple[Offsets, Offsets]:
    """The child that each target goes to, as a range of entries; an empty one where there is none."""
    nodes, ends, depth, path_tokens, inner = described
    sizes = np.where(inner, ends - nodes - 1, 0)
    positions = _ragged(nodes + 1, sizes)
    owners = np.repeat(np.arange(len(nodes)), sizes)
    begins = entries.lcp[positions] == depth[owners]
    owner = np.concatenate([np.arange(len(nodes)), owners[begins]])
    child = np.concatenate([nodes, positions[begins]])
    token = np.concatenate([path_tokens.astype(np.int64), entries.heads(positions[begins])])
    order = np.lexsort((child, owner))
    owner, child, keys = owner[order], child[order], owner[order] * MAX_TOKEN + token[order]
    following = np.append(child[1:], 0)
    last = np.append(owner[1:] != owner[:-1], True)
    child_ends = np.where(last, ends[owner], following)
    wanted = node_of * MAX_TOKEN + next_tokens
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    there = keys[at] == wanted
    return np.where(there, child[at], 0), np.where(there, child_ends[at], 0)


def _ragged(starts: Offsets, lengths: Offsets) -> Offsets:
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def _offsets(lengths: Offsets) -> Offsets:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
