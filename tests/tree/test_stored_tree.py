"""A tree written in rows answers exactly as the same facts in memory, whatever the size of pieces and cache."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refactx.errors import CorruptIndexError
from refactx.ingest.segment.learn import learn
from refactx.ingest.segment.level_cutter import Packing, SegmentBuilder, Shape
from refactx.tree.arrays import Offsets, frontier_depths, offsets_of, shared_lengths
from refactx.tree.children import MemoryTree, Tokens
from refactx.tree.codec import RowCodec
from refactx.tree.stored import StoredTree

Sequences = list[tuple[int, ...]]


class ListedFacts:
    """Sorted distinct sequences, from a list."""

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sorted(set(sequences))

    def __len__(self) -> int:
        return len(self.sequences)

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        chosen = self.sequences[low:high]
        tokens = np.array([token for sequence in chosen for token in sequence], np.int32)
        return tokens, offsets_of(np.array([len(sequence) for sequence in chosen], np.int64))


class DictRows(dict[bytes, bytes]):
    """Rows kept in a dictionary, which counts what is fetched."""

    fetched = 0

    def fetch(self, key: bytes) -> bytes | None:
        self.fetched += 1
        return self.get(key)

    def fetch_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        self.fetched += 1
        return {key: self[key] for key in keys if key in self}


def build(sequences: Sequences, shape: Shape, cache_bytes: int = 1 << 20) -> tuple[StoredTree, DictRows]:
    facts = ListedFacts(sequences)
    codes, dictionary = learn(facts, 9)
    codec = RowCodec(dictionary)
    with TemporaryDirectory() as work:
        builder = SegmentBuilder(facts, Packing(codes, codec), Path(work), shape)
        rows = list(builder.rows())
    assert [key for key, _ in rows] == sorted({key for key, _ in rows}), "keys are unique and ascend"
    source = DictRows(rows)
    return StoredTree(source, codec, codes, builder.levels, len(facts), "test", cache_bytes), source


def agree(stored: StoredTree, sequences: Sequences, every: int = 1) -> None:
    """Both answer alike along every so manieth sequence."""
    memory = MemoryTree(sequences)
    prefixes = {sequence[:depth] for sequence in sequences[::every] for depth in range(len(sequence) + 1)}
    for prefix in sorted(prefixes, reverse=True) + sorted(prefixes):
        got, expected = stored.children(prefix), memory.children(prefix)
        assert got.tokens.tolist() == expected.tokens.tolist(), prefix
        assert got.leaves.tolist() == expected.leaves.tolist(), prefix
        assert got.terminal == expected.terminal, prefix
        assert got.tokens.dtype == np.int32
        assert got.leaves.dtype == np.int64
        for absent in (5, 100_000):
            if absent not in expected.tokens:
                assert stored.children((*prefix, absent)).total == 0


token = st.sampled_from([0, 1, 2, 3, 127, 128, 255, 300, 20_000, 151_668])
sequence = st.lists(token, min_size=1, max_size=7).map(tuple)
shapes = st.builds(
    Shape, facts=st.integers(1, 9), inner=st.integers(1, 9), root=st.integers(1, 12), code_bytes=st.integers(1, 60)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(sequence, min_size=1, max_size=120), shapes, st.sampled_from([0, 3000, 1 << 20]))
def test_the_stored_tree_equals_the_tree_in_memory(sequences: Sequences, shape: Shape, cache_bytes: int) -> None:
    stored, _ = build(sequences, shape, cache_bytes)
    agree(stored, sequences)


def random_sequences(count: int, seed: int) -> Sequences:
    """Many sequences that branch like facts: few choices at some depths, many at others, some prefixes of others."""
    random = np.random.default_rng(seed)
    choices = [1, 30, 3, 20, 6, 1, 500, 2]
    return [
        tuple(int(random.integers(0, choices[depth])) * 7 + depth for depth in range(random.integers(5, 9)))
        for _ in range(count)
    ]


def test_a_tree_of_several_runs_and_levels_equals_the_tree_in_memory() -> None:
    sequences = random_sequences(100_000, 1)
    stored, rows = build(sequences, Shape(facts=64, inner=128, root=200))
    assert max(key[0] for key in rows) >= 2
    agree(stored, sequences, every=10)


def test_a_cold_walk_reads_one_row_a_level_and_a_warm_one_none() -> None:
    sequences = random_sequences(20_000, 2)
    shape = Shape(facts=64, inner=128, root=200)
    stored, rows = build(sequences, shape)
    levels = len({key[0] for key in rows})
    for sequence in sequences[:50]:
        stored = StoredTree(rows, stored.codec, stored.codes, levels, len(set(sequences)), "test")
        rows.fetched = 0
        for depth in range(len(sequence) + 1):
            stored.children(sequence[:depth])
        assert rows.fetched <= levels
        rows.fetched = 0
        for depth in range(len(sequence) + 1):
            stored.children(sequence[:depth])
        assert rows.fetched == 0


def test_pieces_stay_within_their_bounds() -> None:
    shape = Shape(facts=32, inner=64, root=100, code_bytes=400)
    stored, rows = build(random_sequences(5_000, 3), shape)
    top = max(key[0] for key in rows)
    for key in rows:
        if key[0] < top:
            assert len(stored.piece(key)) <= (shape.inner if key[0] else shape.facts)


def test_a_missing_or_exchanged_row_is_an_error_that_names_it() -> None:
    sequences = random_sequences(5_000, 4)
    stored, rows = build(sequences, Shape(facts=32, inner=64, root=100), cache_bytes=0)
    first, second = [key for key in rows if key[0] == 0][:2]
    rows[first], rows[second] = rows[second], rows[first]
    with pytest.raises(CorruptIndexError, match=f"index 'test': row {first.hex()}.*checksum"):
        for sequence in sorted(sequences):
            stored.children(sequence)
    del rows[first]
    with pytest.raises(CorruptIndexError, match=f"row {first.hex()}.*missing"):
        for sequence in sorted(sequences):
            stored.children(sequence)


@given(st.lists(sequence, min_size=1, max_size=60), st.integers(1, 8))
def test_frontier_depths_equal_their_definition(sequences: Sequences, capacity: int) -> None:
    facts = ListedFacts(sequences)
    shared = shared_lengths(*facts.read_tokens(0, len(facts)))

    def deepest_large(of: tuple[int, ...]) -> int:
        sizes = [sum(other[:depth] == of[:depth] for other in facts.sequences) for depth in range(len(of) + 1)]
        return max((depth for depth, size in enumerate(sizes) if size > capacity), default=-1)

    assert frontier_depths(shared, capacity).tolist() == [deepest_large(s) for s in facts.sequences]
