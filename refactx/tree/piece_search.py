"""Sequences looked up in pieces of facts, all of them at once: every step is one branching further, in numpy over all.

A node is a range of entries (`refactx.tree.piece`). As in a Patricia tree (Morrison 1968; Knuth, The Art of Computer Programming,
vol. 3, section 6.3) the way down compares nothing but the token at each branching: what remains is one entry for each
sequence, and at the end all sequences are compared with theirs in one pass. (Writing the entries out as matrices,
`refactx.tree.matrix`, costs ten times as much where a piece has few of the sequences; a `Piece` of each row, as readers keep, half
as much as the search; and comparing the paths between branchings on the way down half as much again.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.tree.matrix import Block
from refactx.tree.piece import Unsigned, fact_members
from refactx.tree.ragged import Offsets, offsets_of, ragged
from refactx.tree.token_codes import MAX_TOKEN, TokenCodes

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
        counts, lcp, lengths, data = fact_members(rows)
        begins = offsets_of(counts)
        sizes = lengths.astype(np.int64)
        ends = np.cumsum(sizes)
        code_ends = np.cumsum([len(one) for one in data])
        if lcp[begins[:-1]].any() or (ends[begins[1:] - 1] != code_ends).any():
            raise ValueError("its suffixes do not add up")
        return cls(lcp, np.frombuffer(b"".join(data), np.uint8), ends - sizes, ends, begins, codes)

    def suffixes(self, entries: Offsets) -> tuple[NDArray[np.int32], Offsets]:
        """The suffixes' tokens one after another, and int64[len(entries) + 1] where each begins."""
        sizes = self.ends[entries] - self.starts[entries]
        data = self.data[ragged(self.starts[entries], sizes)]
        tokens, begins = self.codes.decode_all(data.tobytes())
        return tokens, np.searchsorted(begins, offsets_of(sizes))

    def heads(self, entries: Offsets) -> NDArray[np.int32]:
        """The first token of each suffix."""
        return self.codes.tokens_at(self.data, self.starts[entries])


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Sequences that are looked up, ascending: as a block, and how many tokens each has."""

    block: Block
    lengths: Offsets


def search(
    rows: Sequence[tuple[Any, ...]], counts: Offsets, targets: Targets, chosen: Offsets, codes: TokenCodes
) -> NDArray[np.bool_]:
    """Whether each of the targets `chosen` (their numbers, ascending) is an entry of its piece: bool[len(chosen)]. The first
    `counts[0]` of these belong to the first piece, and so on; `rows` hold pieces of level 0, as `refactx.tree.codec` unpacked them.

    Raises ValueError or IndexError where a piece is damaged.
    """
    entries = _Entries.of(rows, codes)
    lengths = targets.lengths[chosen]
    entry = np.full(len(chosen), -1)  # the only one of its piece that a target can be
    which = np.arange(len(chosen))
    low, high = np.repeat(entries.begins[:-1], counts), np.repeat(entries.begins[1:], counts)
    entered = [(which, low)]
    while len(which):
        alone = high - low == 1
        entry[which[alone]] = low[alone]
        several = np.flatnonzero(~alone)
        if not len(several):
            break
        which, low, high = which[several], low[several], high[several]
        nodes = _Nodes.of(entries.lcp, low, high)
        depth = nodes.depth[nodes.of_target]
        ends = lengths[which] == depth  # if any entry ends at a node, its first one does
        entry[which[ends]] = low[ends]
        on = np.flatnonzero(lengths[which] > depth)
        which, node = which[on], nodes.of_target[on]
        tokens = targets.block[chosen[which], depth[on]].astype(np.int64) - 1
        low, high, is_new = nodes.follow(entries, node, tokens)
        entered.append((which[is_new], low[is_new]))
        there = np.flatnonzero(low < high)
        which, low, high = which[there], low[there], high[there]
    target, path = (np.concatenate(part) for part in zip(*entered, strict=True))
    reached = entry[target] >= 0
    if not reached.any():
        return np.zeros(len(chosen), np.bool_)
    return _same(entries, path[reached], target[reached], targets, chosen)


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """The nodes of one step, each of two entries or more: the first, and the one behind the last; the number of tokens that
    they share, `depth`; and which node each target is at. The children but the first of each: the entries where they begin, in
    order, their `owner`, and where those of each node begin."""

    low: Offsets
    high: Offsets
    depth: Offsets
    of_target: Offsets
    child: Offsets
    owner: Offsets
    begins: Offsets

    @classmethod
    def of(cls, lcp: Unsigned, low: Offsets, high: Offsets) -> "_Nodes":
        is_first = np.append(True, low[1:] != low[:-1])  # neighbours are mostly at the same node
        low, high, of_target = low[is_first], high[is_first], np.cumsum(is_first) - 1
        sizes = high - low - 1
        starts = offsets_of(sizes)
        inside = lcp[ragged(low + 1, sizes)]
        depth = np.minimum.reduceat(inside, starts[:-1])
        at = np.flatnonzero(inside == np.repeat(depth, sizes))
        begins = np.searchsorted(at, starts)
        owner = np.repeat(np.arange(len(low)), np.diff(begins))
        child = at + (low + 1 - starts[:-1])[owner]
        return cls(low, high, depth.astype(np.int64), of_target, child, owner, begins)

    def follow(self, entries: _Entries, node: Offsets, tokens: Offsets) -> tuple[Offsets, Offsets, NDArray[np.bool_]]:
        """The child of its node that each of some targets goes to by its next token, as a range of entries, an empty one where
        there is none; and whether that is another than the first, whose token is not looked at."""
        keys = self.owner * MAX_TOKEN + entries.heads(self.child)
        wanted = node * MAX_TOKEN + tokens
        at = np.searchsorted(keys, wanted)
        is_first = at == self.begins[node]  # in front of the second child, or the second itself
        at = np.minimum(at, len(keys) - 1)
        is_other = keys[at] == wanted
        behind = np.append(self.child[1:], 0)
        behind[self.begins[1:] - 1] = self.high
        first_high = np.where(is_first, self.child[self.begins[node]], self.low[node])
        low = np.where(is_other, self.child[at], self.low[node])
        return low, np.where(is_other, behind[at], first_high), is_other


def _same(entries: _Entries, path: Offsets, of: Offsets, targets: Targets, chosen: Offsets) -> NDArray[np.bool_]:
    """Whether each of the targets `chosen` is what stands along its path: bool[len(chosen)].

    `path`: for each of them, in any order, but those of one ascending, the entries by which it came to its own, which is the
    last: each begins with what the one before has up to where they part. `of`: which of `chosen` each is for.
    """
    order = np.argsort(of, kind="stable")
    path, of = path[order], of[order]
    distinct, at = np.unique(path, return_inverse=True)  # all targets of a piece came by its first entry
    tokens, begins = entries.suffixes(distinct)
    sizes, lcp, begins = np.diff(begins)[at], entries.lcp[path].astype(np.int64), begins[at]
    is_last = np.append(of[1:] != of[:-1], True)
    taken = np.where(is_last, sizes, np.append(lcp[1:], 0) - lcp)
    if (taken < 0).any() or (taken > sizes).any():
        raise ValueError("an entry shares more tokens than the one before it has")
    same = np.zeros(len(chosen), np.bool_)
    same[of[is_last]] = (lcp + sizes)[is_last] == targets.lengths[chosen[of[is_last]]]
    compared = np.flatnonzero(same[of])
    taken, lcp, of = taken[compared], lcp[compared], of[compared]
    owner = np.repeat(of, taken)
    found = targets.block[chosen[owner], ragged(lcp, taken)]
    same[owner[found != tokens[ragged(begins[compared], taken)] + np.uint32(1)]] = False
    return same
