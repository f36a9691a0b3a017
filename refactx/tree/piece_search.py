"""The search for many sequences in many pieces of facts at once: numpy takes all of them one branching further a step.

A node is a range of entries (`refactx.tree.piece`). As in a Patricia tree (Morrison 1968; Knuth, The Art of Computer
Programming, vol. 3, section 6.3), only the token at each branching is compared on the way down. One entry is left for
each sequence, and at the end all sequences are compared with their entries in one pass. (Alternatives: to write the
entries out as matrices, `refactx.tree.matrix`, takes ten times as long if a piece has few of the sequences; to make a
`Piece` of each row, as readers do, adds half of the time of the search; to compare the paths between branchings on the
way down adds another half.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.tree.arrays import Offsets, offsets_of, ragged
from refactx.tree.matrix import EntryMatrix
from refactx.tree.piece import Unsigned
from refactx.tree.piece_members import fact_members
from refactx.tree.token_codes import MAX_TOKEN, TokenCodes

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Entries:
    """The entries of several pieces of level 0, one piece after another.

    `lcp` uint[n]; `data`, the codes of all suffixes; `starts` and `ends`, where those of each suffix begin and end;
    `begins`, the first entry of each piece, and the number of all entries.
    """

    lcp: Unsigned
    data: Bytes
    starts: Offsets
    ends: Offsets
    begins: Offsets
    codes: TokenCodes

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]], codes: TokenCodes) -> "_Entries":
        """Return the entries in unpacked rows. Raise ValueError if the members of a row contradict each other."""
        counts, lcp, lengths, data = fact_members(rows)
        begins = offsets_of(counts)
        sizes = lengths.astype(np.int64)
        ends = np.cumsum(sizes)
        code_ends = np.cumsum([len(one) for one in data])
        if lcp[begins[:-1]].any() or (ends[begins[1:] - 1] != code_ends).any():
            raise ValueError("its suffixes do not add up")
        return cls(
            lcp=lcp,
            data=np.frombuffer(b"".join(data), np.uint8),
            starts=ends - sizes,
            ends=ends,
            begins=begins,
            codes=codes,
        )

    def suffixes(self, entries: Offsets) -> tuple[NDArray[np.int32], Offsets]:
        """Return the tokens of some entries' suffixes, one after another, and int64[len(entries) + 1] where each
        begins."""
        sizes = self.ends[entries] - self.starts[entries]
        data = self.data[ragged(self.starts[entries], sizes)]
        tokens, begins = self.codes.decode_all(data.tobytes())
        return tokens, np.searchsorted(begins, offsets_of(sizes))

    def heads(self, entries: Offsets) -> NDArray[np.int32]:
        """Return the first token of each suffix."""
        return self.codes.tokens_at(self.data, self.starts[entries])


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The sequences to look up, ascending: as a matrix, and the number of tokens of each."""

    matrix: EntryMatrix
    lengths: Offsets


def search(
    rows: Sequence[tuple[Any, ...]], counts: Offsets, targets: Targets, chosen: Offsets, codes: TokenCodes
) -> NDArray[np.bool_]:
    """Return whether each of the targets `chosen` (their numbers, ascending) is an entry of its piece:
    bool[len(chosen)].

    `rows`: the pieces, of level 0, as `refactx.tree.codec` unpacked them; `counts`: how many targets are looked up in
    each, the first of `chosen` in the first piece, and so on. Raises ValueError or IndexError if a piece is damaged.
    """
    entries = _Entries.of(rows, codes)
    lengths = targets.lengths[chosen]
    entry = np.full(len(chosen), -1)  # the only one of its piece that can equal the target
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
        tokens = targets.matrix[chosen[which], depth[on]].astype(np.int64) - 1
        low, high, is_new = nodes.follow(entries, node, tokens)
        entered.append((which[is_new], low[is_new]))
        there = np.flatnonzero(low < high)
        which, low, high = which[there], low[there], high[there]
    target, path = (np.concatenate(part) for part in zip(*entered, strict=True))
    reached = entry[target] >= 0
    if not reached.any():
        return np.zeros(len(chosen), np.bool_)
    return _same(entries, path[reached], target[reached], targets, chosen)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Nodes:
    """The nodes of one step, each of two entries or more.

    For each node: its entries [`low`, `high`); `depth`, the number of tokens that they share. For each target:
    `of_target`, its node. For all children except the first of each node, in order: `child`, the entry with which it
    begins; `owner`, its node. `begins`: where the children of each node begin among these.
    """

    low: Offsets
    high: Offsets
    depth: Offsets
    of_target: Offsets
    child: Offsets
    owner: Offsets
    begins: Offsets

    @classmethod
    def of(cls, lcp: Unsigned, low: Offsets, high: Offsets) -> "_Nodes":
        """Return the nodes of targets that have come down to entries [low, high)."""
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
        return cls(
            low=low,
            high=high,
            depth=depth.astype(np.int64),
            of_target=of_target,
            child=child,
            owner=owner,
            begins=begins,
        )

    def follow(self, entries: _Entries, node: Offsets, tokens: Offsets) -> tuple[Offsets, Offsets, NDArray[np.bool_]]:
        """Return the child to which the next token of each target leads, given the target's node.

        A child is a range of entries, empty if no child has that token; the third array says whether it is another
        child than the node's first, whose token is not compared.
        """
        keys = self.owner * MAX_TOKEN + entries.heads(self.child)
        wanted = node * MAX_TOKEN + tokens
        at = np.searchsorted(keys, wanted)
        is_first = at == self.begins[node]  # the token is at most the second child's
        at = np.minimum(at, len(keys) - 1)
        is_other = keys[at] == wanted
        child_high = np.append(self.child[1:], 0)
        child_high[self.begins[1:] - 1] = self.high
        first_high = np.where(is_first, self.child[self.begins[node]], self.low[node])
        low = np.where(is_other, self.child[at], self.low[node])
        return low, np.where(is_other, child_high[at], first_high), is_other


def _same(entries: _Entries, path: Offsets, of: Offsets, targets: Targets, chosen: Offsets) -> NDArray[np.bool_]:
    """Return whether each of the targets `chosen` equals the entry to which its search led: bool[len(chosen)].

    `path`: the first entries of the children that the searches took, those of one search in order; the last is the
    entry itself, and each shares its `lcp` tokens with the one before. `of`: the number in `chosen` for each of them.
    """
    order = np.argsort(of, kind="stable")
    path, of = path[order], of[order]
    distinct, at = np.unique(path, return_inverse=True)  # the first entry of a piece is on the path of all its targets
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
    found = targets.matrix[chosen[owner], ragged(lcp, taken)]
    same[owner[found != tokens[ragged(begins[compared], taken)] + np.uint32(1)]] = False
    return same
