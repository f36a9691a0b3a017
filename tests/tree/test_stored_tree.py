"""A tree in rows answers exactly as the same facts in memory, for any size of pieces and cache."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored_trees import ListedFacts, Sequences, agree, build, random_sequences

from refactx.errors import CorruptIndexError
from refactx.ingest.segment.cutting import Shape, frontier_depths
from refactx.tree.codes import shared_lengths
from refactx.tree.stored import StoredTree

token = st.sampled_from([0, 1, 2, 3, 127, 128, 255, 300, 20_000, 151_668])
sequence = st.lists(token, min_size=1, max_size=7).map(tuple)
shapes = st.builds(
    Shape, facts=st.integers(1, 9), inner=st.integers(1, 9), root=st.integers(1, 12), code_bytes=st.integers(1, 60)
)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(st.lists(sequence, min_size=1, max_size=120), shapes, st.sampled_from([0, 3000, 1 << 20]))
def test_the_stored_tree_equals_the_tree_in_memory(sequences: Sequences, shape: Shape, cache_bytes: int) -> None:
    stored, _ = build(sequences, shape, cache_bytes)
    agree(stored, sequences)


@pytest.mark.long
def test_a_tree_of_several_pieces_and_levels_equals_the_tree_in_memory() -> None:
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
        stored = StoredTree(rows, stored.codec, stored.codes, levels=levels, facts=len(set(sequences)), name="test")
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
