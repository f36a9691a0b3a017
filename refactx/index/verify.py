"""The check of a whole index: a walk of all rows that collects faults.

The entries of each piece are compared with those of the level above: they must ascend, be divided among the entries
above without gap or overlap, and have the counts that are stored there. Every row must be reached once. A sample of the
facts is decoded, split and encoded again. If there are several segments, the signed sum of a fact must be 0 or 1.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from refactx.errors import CorruptIndexError
from refactx.fact import is_written, is_written_part, qualifiers_of, split_fact, verbalise
from refactx.index.index import Index
from refactx.index.names import block_key, is_id_key, is_written_id, language_of, unpack_ids
from refactx.tokenizer import FactTokenizer
from refactx.tree.bulk import surviving
from refactx.tree.codes import RowCodec, TokenCodes
from refactx.tree.piece import NEW_PIECE, TERMINAL, Piece, row_key
from refactx.tree.stored import StoredTree

SAMPLE_EVERY = 997
"""Every 997th fact is decoded and encoded again: a prime, so that no pattern in the data evades the sample."""

MOST_FAULTS = 20

_PAIR, _THREE_PAIRS = 1 + (1 << 16), 3 + (3 << 16)


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The result of a check: the first faults, and the numbers of rows, facts, tokens and names that were read.

    `sampled`: how many facts were encoded again.
    """

    faults: list[str] = field(default_factory=list)
    rows: int = 0
    facts: int = 0
    tokens: int = 0
    sampled: int = 0
    names: int = 0

    @property
    def sound(self) -> bool:
        """Whether there are no faults."""
        return not self.faults

    def add(self, fault: str) -> None:
        """Add a fault, unless there are `MOST_FAULTS` already."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """The part of a lower piece that an entry stands for: entries [low, high), which begin with `prefix` and have
    `leaves` facts."""

    prefix: tuple[int, ...]
    low: int
    high: int
    leaves: int


def verify(index: Index, progress: Callable[[int], object] = lambda facts: None) -> Verdict:
    """Check an index. `progress` is called with the number of facts that were read since its last call.

    Damage becomes a fault in the verdict; DatabaseError and IndexNotFoundError are raised.
    """
    verdict = Verdict()
    for fault in index.faults():
        verdict.add(fault)
    if (loss := index.tokenizer.loss) and not index.entry.report.get("texts_checked"):
        verdict.add(
            f"the tokenizer {index.tokenizer_name} changes text ({loss}), and this index was made before an ingest left "
            "facts out whose text it changes: it may have facts of other names than its sources, so ingest them again"
        )
    for (_, tree), rows in zip(index.segments, index.rows, strict=True):
        before = verdict.rows
        try:
            _SegmentWalk(tree, index, verdict=verdict, progress=progress).run()
        except (CorruptIndexError, ValueError, IndexError, OverflowError) as error:
            verdict.add(str(error))
            continue
        stored = rows.count()
        if stored != verdict.rows - before:
            verdict.add(f"{stored:,} rows are stored, but {verdict.rows - before:,} are reached from the root")
    _verify_names(index, verdict)
    if verdict.sound and len(index.segments) > 1:  # each fact must be in their sum once or never
        try:
            verdict.facts = sum(map(len, surviving(index.segments)))
        except CorruptIndexError as error:
            verdict.add(str(error))
    if verdict.sound and verdict.facts != index.facts:
        verdict.add(f"{verdict.facts:,} facts are stored, but the catalogue has {index.facts:,}")
    return verdict


def _verify_names(index: Index, verdict: Verdict) -> None:
    """Check all blocks of names: their entries must ascend within a table, and have the key of the first. A table with
    names by id must have the same pairs in both orders."""
    for table in index.name_tables:
        last_name = ""
        last_ids = dict[str, int]()  # by language
        by_id: list[int] = []
        by_name: list[int] = []
        for key, block in index.name_table_rows(table, first=b""):
            try:
                ids: list[str] = []
                if is_id_key(key):
                    numbers, names = unpack_ids(key, block, RowCodec(), f"block of ids {key.hex()}")
                    language = language_of(key)
                    in_order = last_ids.get(language, -(1 << 63)) < int(numbers[0])
                    last_ids[language] = int(numbers[-1])
                    by_id += [] if language else [_sum_pairs(numbers.tolist(), names)]
                else:
                    entries = index.unpack_names(key, block)
                    names, ids = list(entries), [named.id for named in entries.values()]
                    in_order = block_key(names[0]) == key and all(a < b for a, b in pairwise([last_name, *names]))
                    last_name = names[-1]
                    signed = (-one.number if one.object_kind == "inverse" else one.number for one in entries.values())
                    by_name.append(_sum_pairs(signed, names))
                    verdict.names += len(names)
            except CorruptIndexError as error:
                verdict.add(str(error))
                continue
            if not (all(map(is_written_part, names)) and all(map(is_written_id, ids))):
                verdict.add(f"block of names {key!r}: it has a name or an id that no ingest writes")
            if not in_order:
                verdict.add(f"block of names {key!r}: its entries are not in order")
        if by_id and sum(by_id) != sum(by_name):
            verdict.add(f"name table {table}: its names by id are not those of its ids by name")


def _sum_pairs(numbers: Iterable[int], names: Iterable[str]) -> int:
    """Return a sum that two sets of pairs have in common only if they are equal, whatever their order."""
    return sum(map(hash, zip(numbers, names, strict=True)))


def unwritten_facts(piece: Piece, codes: TokenCodes, tokenizer: FactTokenizer) -> Iterator[str]:
    """Yield the texts of the facts in a piece that have a character no ingest writes (`refactx.fact.is_written`).

    An index that was made by hand may have some, to forge lines. Raises ValueError as `TokenCodes.decode_all` does.
    """
    tokens, _ = codes.decode_all(piece.codes)
    suspects = tokenizer.unwritten
    if not suspects.take(tokens, mode="clip").any() and not suspects.take(piece.heads, mode="clip").any():
        return
    for entry, sequence in enumerate(sequences_of(piece, codes)):
        text = tokenizer.decode(sequence)
        if (piece.level == 0 or piece.kinds[entry] == TERMINAL) and not is_written(text):
            yield text


def sequences_of(piece: Piece, codes: TokenCodes) -> Iterator[tuple[int, ...]]:
    """Yield the token ids of all entries."""
    before: tuple[int, ...] = ()
    for entry in range(len(piece)):
        before = before[: int(piece.lcp[entry])] + tuple(piece.suffix(entry, codes))
        yield before


class _SegmentWalk:
    """The walk of one segment."""

    def __init__(self, tree: StoredTree, index: Index, *, verdict: Verdict, progress: Callable[[int], object]) -> None:
        self._tree, self._index, self._verdict, self._progress = tree, index, verdict, progress
        # `<` counts 1 and `>` 1 << 16, in each token that has some.
        counts = (
            (number, one.count(b"<") + (one.count(b">") << 16))
            for number, one in enumerate(index.tokenizer.token_bytes)
        )
        self._brackets = {number: count for number, count in counts if count}

    def run(self) -> None:
        """Visit all pieces, level by level. Raise CorruptIndexError if the walk cannot continue."""
        pieces: list[tuple[bytes, list[_Expected]]] = [(self._tree.root_key, [])]
        while pieces:
            below: list[tuple[bytes, list[_Expected]]] = []
            for key, expected in pieces:
                for below_key, part in self._visit(key, expected):
                    if below and below[-1][0] == below_key:  # also if two neighbouring pieces share it
                        below[-1][1].append(part)
                    else:
                        below.append((below_key, [part]))
            pieces = below

    def _visit(self, key: bytes, expected: list[_Expected]) -> Iterator[tuple[bytes, _Expected]]:
        """Check a piece. Yield for each of its subtrees the key of the lower piece and the part that it stands for."""
        piece = self._tree.piece(key)
        verdict = self._verdict
        verdict.rows += 1
        where = f"row {key.hex()}"
        sequences = list(sequences_of(piece, self._tree.codes))
        for text in unwritten_facts(piece, self._tree.codes, self._index.tokenizer):
            verdict.add(f"{where}: the fact {text!a} has a character that no ingest writes")
        if any(not one < other for one, other in pairwise(sequences)):
            verdict.add(f"{where}: its entries do not ascend")
        if expected:
            self._compare(where, piece, sequences, expected)
        if piece.level == 0:
            self._count(sequences)
            return
        if piece.kinds.max() > NEW_PIECE or piece.leaves.min() < 1:
            verdict.add(f"{where}: one of its kinds or counts is impossible")
        open_key, done = piece.carried_key, piece.carried_items
        for entry, sequence in enumerate(sequences):
            if piece.kinds[entry] == TERMINAL:
                self._count([sequence])
                continue
            if piece.lower_piece(entry)[0] == entry:
                open_key, done = row_key(piece.level - 1, list(sequence)), 0
            if open_key[:1] != bytes([piece.level - 1]):
                raise CorruptIndexError(f"{where}: entry {entry} refers to a row that is not of the level below")
            items = int(piece.items[entry])
            leaves = int(piece.leaves[entry])
            yield open_key, _Expected(prefix=sequence, low=done, high=done + items, leaves=leaves)
            done += items

    def _compare(self, where: str, piece: Piece, sequences: list[tuple[int, ...]], expected: list[_Expected]) -> None:
        """Compare the entries of a piece with what the level above says of them."""
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
                self._verdict.add(
                    f"{where}: {leaves:,} facts begin with {list(part.prefix)}, but the level above has {part.leaves:,}"
                )
            if any(sequence[: len(part.prefix)] != part.prefix for sequence in inside):
                self._verdict.add(f"{where}: an entry does not begin with {list(part.prefix)}")
            at = part.high
        if at != len(sequences):
            self._verdict.add(f"{where}: entries {at} to {len(sequences)} belong to no entry above")

    def _count(self, facts: list[tuple[int, ...]]) -> None:
        """Count facts, and check the texts of every 997th and of those without pairs of brackets for
        three parts, and two for each qualifier."""
        verdict, brackets = self._verdict, self._brackets
        for fact in facts:
            verdict.facts += 1
            verdict.tokens += len(fact)
            count = sum([brackets[token] for token in fact if token in brackets])  # noqa: C419 (a list is faster)
            if (count != _THREE_PAIRS and not _has_qualifiers(count)) or verdict.facts % SAMPLE_EVERY == 1:
                self._check_text(fact)
        self._progress(len(facts))

    def _check_text(self, fact: tuple[int, ...]) -> None:
        """Decode a fact, split it, and encode it again."""
        self._verdict.sampled += 1
        tokenizer = self._index.tokenizer
        text = tokenizer.decode(fact)
        parts = split_fact(text)
        if parts is None or verbalise(*parts, qualifiers_of(text)) != text:
            self._verdict.add(f"the ids {list(fact)} have the text {text!r}, which is not a fact of three parts")
        elif tuple(tokenizer.encode_after(self._index.trigger, text)) != fact:
            self._verdict.add(f"the fact {text!r} encodes to other ids than the stored ones")


def _has_qualifiers(count: int) -> bool:
    """Return whether brackets are those of three parts and of pairs after them.

    >>> [_has_qualifiers(pairs * _PAIR) for pairs in (2, 3, 4, 5)]
    [False, False, False, True]
    """
    pairs, rest = divmod(count, _PAIR)
    return rest == 0 and pairs > 3 and pairs % 2 == 1
