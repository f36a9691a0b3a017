"""Counts are additive and signed: segments, retractions and written facts are one mechanism."""

from hypothesis import given
from hypothesis import strategies as st
from support.signed_sum import SignedSum

from refactx.tree.tree import MemoryTree

sequence = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)
sets = st.sets(sequence, max_size=25)


@given(sets, sets, sets)
def test_a_signed_sum_of_segments_is_the_tree_of_the_facts_that_are_left(
    first: set[tuple[int, ...]], second: set[tuple[int, ...]], taken: set[tuple[int, ...]]
) -> None:
    second -= first  # appending adds a fact only if it is not there,
    taken &= first | second  # forgetting removes one only if it is
    summed = SignedSum([(+1, MemoryTree(first)), (+1, MemoryTree(second)), (-1, MemoryTree(taken))])
    expected = MemoryTree((first | second) - taken)
    for prefix in {fact[:depth] for fact in first | second for depth in range(len(fact) + 1)} | {()}:
        got, true = summed.children(prefix), expected.children(prefix)
        assert got.tokens.tolist() == true.tokens.tolist()
        assert got.leaves.tolist() == true.leaves.tolist()
        assert got.terminal == true.terminal
        assert got.total == true.total
