"""Sequences looked up in pieces of facts, all of them at once: every step is one branching further, in numpy over all.

A node is a range of entries (`refactx.piece`), and nodes of one step lie apart, so a step costs no more than one look at the
entries of all pieces, and at the end at a few of them. (Writing the entries out as matrices, `refactx.unfold`, costs ten times
as much where a piece has few of the sequences; and a `Piece` of each row, as readers keep, half as much as the search.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.piece import NEVER, Unsigned, fact_members
from refactx.ragged import Offsets, offsets_of, ragged
from refactx.token_codes import MAX_TOKEN, TokenCodes
from refactx.unfold import Block

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """The entries of several pieces of level 0 behind each other: `lcp` uint[n]; the codes of their suffixes, and where each
    one's begin and end; `begins`, the first entry of each piece, and how many there are in all."""

    lcp: Unsigned
    data: Bytes
    starts: Offsets
    ends: Offsets
    begins: Offsets
    codes: TokenCodes

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]], codes: TokenCodes) -> "_Entries":
        """From what rows hold. Raises ValueError where the members of one contradict each other."""
        parts = [fact_members(row) for row in rows]
        lcp = np.concatenate([part[0] for part in parts])
        lengths = np.concatenate([part[1] for part in parts])
        data = b"".join(part[2] for part in parts)
        begins = offsets_of(np.array([len(part[0]) for part in parts], np.int64))
        ends = np.cumsum(lengths, dtype=np.int64)
        code_ends = np.cumsum([len(part[2]) for part in parts])
        if lcp[begins[:-1]].any() or (ends[begins[1:] - 1] != code_ends).any():
            raise ValueError("its suffixes do not add up")
        return cls(lcp, np.frombuffer(data, np.uint8), ends - lengths, ends, begins, codes)

    def suffixes(self, entries: Offsets) -> tuple[NDArray[np.int32], Offsets]:
        """The suffixes' tokens one after another, and int64[len(entries) + 1] where each begins."""
        sizes = self.ends[entries] - self.starts[entries]
        data = self.data[ragged(self.starts[entries], sizes)]
        tokens, begins = self.codes.decode_all(data.tobytes())
        return tokens, np.searchsorted(begins, offsets_of(sizes))

    def heads(self, entries: Offsets) -> NDArray[np.int32]:
        """The first token of each suffix."""
        return self.codes.tokens_at(self.data, self.starts[entries])


def search(rows: Sequence[tuple[Any, ...]], counts: Offsets, targets: Block, codes: TokenCodes) -> NDArray[np.bool_]:
    """Whether each row of `targets` is an entry of its piece: bool[n]. Of the targets, which ascend, the first `counts[0]`
    belong to the first piece, and so on; `rows` hold pieces of level 0, as `refactx.codec` unpacked them.

    Raises ValueError or IndexError where a piece is damaged.
    """
    entries = _Entries.of(rows, codes)
    found = np.zeros(len(targets), np.bool_)
    lengths = (targets > 0).sum(1)
    which = np.arange(len(targets))
    low, high = np.repeat(entries.begins[:-1], counts), np.repeat(entries.begins[1:], counts)
    matched = np.zeros(len(targets), np.int64)
    while len(which):
        going_on, low, high, matched, ended = _step(entries, targets[which], lengths[which], low, high, matched)
        found[which[ended]] = True
        which = which[going_on]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """The nodes of one step: the entries `low` to `high` - 1 of each; `inside`, the shared lengths of all of these, one node
    behind the other from `begins` on, with the highest value there is for each node's first; and `depth`, down to where its
    entries are one path (`NEVER` where there is one only)."""

    low: Offsets
    high: Offsets
    inside: Unsigned
    begins: Offsets
    depth: Offsets

    @classmethod
    def of(cls, lcp: Unsigned, low: Offsets, high: Offsets) -> "_Nodes":
        sizes = high - low
        begins = offsets_of(sizes)
        inside = lcp[ragged(low, sizes)]
        inside[begins[:-1]] = np.iinfo(lcp.dtype).max
        depth = np.minimum.reduceat(inside, begins[:-1]).astype(np.int64)
        return cls(low, high, inside, begins, np.where(sizes > 1, depth, NEVER))

    def children(self, wanted: NDArray[np.bool_]) -> tuple[Offsets, Offsets]:
        """The entries at which the children of some of the nodes begin, and which node each one is of."""
        depth = np.where(self.depth < NEVER, self.depth, 0).astype(self.inside.dtype)
        begins = self.inside == np.repeat(depth, np.diff(self.begins))
        begins[self.begins[:-1]] = True
        at = np.flatnonzero(begins)
        owner = np.searchsorted(self.begins, at, "right") - 1
        kept = wanted[owner]
        at, owner = at[kept], owner[kept]
        return at + (self.low - self.begins[:-1])[owner], owner


def _step(
    entries: _Entries, targets: Block, lengths: Offsets, low: Offsets, high: Offsets, matched: Offsets
) -> tuple[Offsets, Offsets, Offsets, Offsets, Offsets]:
    """One branching further. Each target shares `matched` tokens with all entries [low, high); `low` ascends.

    Gives which targets go on, their new `low`, `high` and `matched`; and which ones are found.
    """
    is_first = np.append(True, low[1:] != low[:-1])
    first, node_of = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    nodes = _Nodes.of(entries.lcp, low[first], high[first])
    tokens, offsets = entries.suffixes(nodes.low)
    base = entries.lcp[nodes.low].astype(np.int64)
    path_end = base + np.diff(offsets)
    depth = np.minimum(nodes.depth, path_end)
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
        wanted = np.zeros(len(nodes.low), np.bool_)
        wanted[at[inner]] = True
        child, owner = nodes.children(wanted)
        token = entries.heads(child)
        path_tokens = tokens[np.minimum(offsets[:-1] - base + depth, max(0, len(tokens) - 1))]
        is_path = child == nodes.low[owner]
        token[is_path] = path_tokens[owner[is_path]]
        next_tokens = targets[going_on[inner], matched[inner]].astype(np.int64) - 1
        low[inner], high[inner] = _follow(nodes, child, owner, token, at[inner], next_tokens)
    alive = np.flatnonzero(low < high)
    return going_on[alive], low[alive], high[alive], matched[alive], ended


def _agree(
    targets: Block, matched: Offsets, node_of: Offsets, depth: Offsets, tokens: NDArray[np.int32], at_zero: Offsets
) -> NDArray[np.bool_]:
    """Whether each target has the tokens of its node's path from `matched` to the node's depth."""
    counts = depth[node_of] - matched
    positions = ragged(matched, counts)
    rows = np.repeat(np.arange(len(targets)), counts)
    path = tokens[positions + np.repeat(at_zero[node_of], counts)]
    differs = targets[rows, positions] != path + np.uint32(1)
    agree: NDArray[np.bool_] = np.bincount(rows[differs], minlength=len(targets)) == 0
    return agree


def _follow(
    nodes: _Nodes, child: Offsets, owner: Offsets, token: NDArray[np.int32], node_of: Offsets, next_tokens: Offsets
) -> tuple[Offsets, Offsets]:
    """The child that each target goes to, as a range of entries; an empty one where there is none."""
    keys = owner * MAX_TOKEN + token
    is_last = np.append(owner[1:] != owner[:-1], True)
    child_ends = np.where(is_last, nodes.high[owner], np.append(child[1:], 0))
    wanted = node_of * MAX_TOKEN + next_tokens
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    there = keys[at] == wanted
    return np.where(there, child[at], 0), np.where(there, child_ends[at], 0)
