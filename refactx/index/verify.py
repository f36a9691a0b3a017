"""Walks everything of an index and tells what is wrong with it.

Each piece is unfolded and held against what the level above says of it: that its entries ascend, that they are divided
among the entries above without gap or overlap, that counts agree, and that every row is reached once. A sample of the
facts is decoded, split and encoded again. Where there are several segments, no fact may be there twice, or less than never.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from refactx.errors import CorruptIndexError
from refactx.fact import split_fact, unit
from refactx.index.index import Index
from refactx.index.names import block_key
from refactx.tree.piece import NEW_PIECE, TERMINAL, Piece, row_key
from refactx.tree.scan import surviving
from refactx.tree.stored import StoredTree

SAMPLE_EVERY = 997
"""Every so manieth fact is decoded and encoded again: a prime, so that no pattern of the data escapes it."""

MOST_FAULTS = 20


@dataclass(slots=True)
class Verdict:
    """What a walk found: the first faults, and how much was looked at."""

    faults: list[str] = field(default_factory=list)
    rows: int = 0
    facts: int = 0
    tokens: int = 0
    sampled: int = 0
    names: int = 0

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def add(self, fault: str) -> None:
        """Note a fault, if there is room for it."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)


@dataclass(frozen=True, slots=True)
class _Expected:
    """What an entry says of its part of a piece below: entries [low, high), all behind `prefix`, `leaves` facts in all."""

    prefix: tuple[int, ...]
    low: int
    high: int
    leaves: int


def verify(index: Index, progress: Callable[[int], object] = lambda facts: None) -> Verdict:
    """Walk all rows of an index. `progress` is called with the number of facts seen since its last call."""
    verdict = Verdict()
    for (_, tree), rows in zip(index.segments, index.rows, strict=True):
        before = verdict.rows
        try:
            whole = _Segment(tree, index, verdict, progress)
            whole.walk()
        except (CorruptIndexError, ValueError, IndexError, OverflowError) as error:
            verdict.add(str(error))
            continue
        stored = rows.count()
        if stored != verdict.rows - before:
            verdict.add(f"{stored:,} rows are stored, but {verdict.rows - before:,} are reached from the root")
    _verify_names(index, verdict)
    if verdict.sound and len(index.segments) > 1:
        _verify_sum(index, verdict)
    if verdict.sound and verdict.facts != index.facts:
        verdict.add(f"it holds {verdict.facts:,} facts, but its catalogue entry says {index.facts:,}")
    return verdict


def _verify_sum(index: Index, verdict: Verdict) -> None:
    """Add the segments up: each fact must be there once or never. The facts of the verdict are those that are there."""
    try:
        verdict.facts = sum(map(len, surviving(index.segments)))
    except CorruptIndexError as error:
        verdict.add(str(error))


def _verify_names(index: Index, verdict: Verdict) -> None:
    """Read all blocks of names: each in the order of its names, behind the block before it, under the key of its first."""
    for table in index.name_tables:
        before = ""
        for key, block in index.name_table_rows(table):
            try:
                names = list(index.unpack_names(key, block))
            except CorruptIndexError as error:
                verdict.add(str(error))
                continue
            if (
                not names
                or block_key(names[0]) != key
                or any(one >= other for one, other in pairwise([before, *names]))
            ):
                verdict.add(f"block of names {key!r}: its names are not in order")
            before = names[-1] if names else before
            verdict.names += len(names)


class _Segment:
    """The walk of one segment."""

    def __init__(self, tree: StoredTree, index: Index, verdict: Verdict, progress: Callable[[int], object]) -> None:
        self._tree, self._index, self._verdict, self._progress = tree, index, verdict, progress

    def walk(self) -> None:
        """Visit all pieces, level by level. Raises CorruptIndexError where the walk cannot go on."""
        pieces: list[tuple[bytes, list[_Expected]]] = [(self._tree.root_key, [])]
        while pieces:
            below: list[tuple[bytes, list[_Expected]]] = []
            for key, expected in pieces:
                for below_key, part in self._visit(key, expected):
                    if below and below[-1][0] == below_key:  # also where neighbouring pieces share the one below
                        below[-1][1].append(part)
                    else:
                        below.append((below_key, [part]))
            pieces = below

    def _visit(self, key: bytes, expected: list[_Expected]) -> Iterator[tuple[bytes, _Expected]]:
        piece = self._tree.piece(key)
        verdict = self._verdict
        verdict.rows += 1
        where = f"row {key.hex()}"
        sequences = list(self._sequences(piece))
        if any(not one < other for one, other in pairwise(sequences)):
            verdict.add(f"{where}: its entries do not ascend")
        if expected:
            self._compare(where, piece, sequences, expected)
        if piece.level == 0:
            self._look_at(sequences)
            return
        if piece.kinds.max() > NEW_PIECE or piece.leaves.min() < 1:
            verdict.add(f"{where}: a kind or count of it is impossible")
        open_key, done = piece.carried_key, piece.carried_items
        for entry, sequence in enumerate(sequences):
            if piece.kinds[entry] == TERMINAL:
                self._look_at([sequence])
                continue
            if piece.lower_piece(entry)[0] == entry:
                open_key, done = row_key(piece.level - 1, list(sequence)), 0
            if open_key[:1] != bytes([piece.level - 1]):
                raise CorruptIndexError(f"{where}: entry {entry} leads to no row of the level below")
            items = int(piece.items[entry])
            leaves = int(piece.leaves[entry])
            yield open_key, _Expected(sequence, done, done + items, leaves)
            done += items

    def _sequences(self, piece: Piece) -> Iterator[tuple[int, ...]]:
        before: tuple[int, ...] = ()
        for entry in range(len(piece)):
            before = before[: int(piece.lcp[entry])] + tuple(piece.suffix(entry, self._tree.codes))
            yield before

    def _compare(self, where: str, piece: Piece, sequences: list[tuple[int, ...]], expected: list[_Expected]) -> None:
        at = 0
        for part in expected:
            if part.low != at or part.high > len(sequences):
                self._verdict.add(f"{where}: entries {at} to {part.low} belong to no entry above")
                return
            inside = sequences[part.low : part.high]
            leaves = part.high - part.low
            if piece.level:
                leaves = int(piece.leaves[part.low : part.high].sum(dtype=np.int64))
            if leaves != part.leaves:
                self._verdict.add(f"{where}: {leaves:,} facts under {list(part.prefix)}, {part.leaves:,} said above")
            if any(sequence[: len(part.prefix)] != part.prefix for sequence in inside):
                self._verdict.add(f"{where}: an entry does not begin with {list(part.prefix)}")
            at = part.high
        if at != len(sequences):
            self._verdict.add(f"{where}: entries {at} to {len(sequences)} belong to no entry above")

    def _look_at(self, facts: list[tuple[int, ...]]) -> None:
        verdict = self._verdict
        for fact in facts:
            verdict.facts += 1
            verdict.tokens += len(fact)
            if verdict.facts % SAMPLE_EVERY == 1:
                self._read_back(fact)
        self._progress(len(facts))

    def _read_back(self, fact: tuple[int, ...]) -> None:
        self._verdict.sampled += 1
        tokenizer = self._index.tokenizer
        text = tokenizer.decode(fact)
        parts = split_fact(text)
        if parts is None or "".join(map(unit, parts)) != text:
            self._verdict.add(f"fact {list(fact)} reads {text!r}, which does not split into three parts")
        elif tuple(tokenizer.encode_after(self._index.trigger, text)) != fact:
            self._verdict.add(f"fact {text!r} does not encode to the ids that are stored for it")
