"""Facts that are written out piece by piece, and looked up in batches, are those of the tree."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored_trees import Sequences, build

from refactx.errors import CorruptIndexError
from refactx.ingest.segment.cutting import Shape
from refactx.tree.bulk import Targets, contained, fact_matrices, from_matrix, keys, matrices, search, to_matrix
from refactx.tree.codes import TokenCodes, offsets_of
from refactx.tree.piece import Piece, from_members, to_members
from refactx.tree.stored import StoredTree

tokens = st.one_of(st.integers(0, 4), st.integers(0, 300), st.sampled_from([255, 256, 16_383, 65_535, (1 << 24) - 1]))
sequences = st.lists(st.lists(tokens, min_size=1, max_size=9).map(tuple), min_size=1, max_size=120, unique=True)
shapes = st.builds(
    Shape,
    facts=st.sampled_from([1, 2, 5, 512]),
    inner=st.sampled_from([2, 3, 4096]),
    root=st.sampled_from([2, 24_576]),
)


def run_of(facts: Sequences) -> Any:
    flat = np.array([token for fact in facts for token in fact], np.int32)
    return flat, offsets_of(np.array([len(fact) for fact in facts], np.int64))


def facts_in(tree: StoredTree) -> Sequences:
    found = []
    for block in fact_matrices(tree):
        flat, offsets = from_matrix(block)
        found += [tuple(flat[low:high].tolist()) for low, high in pairwise(offsets)]
    return found


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(sequences, sequences, shapes)
def test_the_facts_of_a_segment_are_read_in_order_and_found_among_others(
    facts: Sequences, others: Sequences, shape: Shape
) -> None:
    tree, _ = build(facts, shape)
    assert facts_in(tree) == sorted(facts)
    asked = sorted({*facts, *others, *(fact[:-1] for fact in facts if len(fact) > 1), *((*fact, 0) for fact in facts)})
    assert contained(tree, *run_of(asked)).tolist() == [fact in set(facts) for fact in asked]
    for one in asked[:: len(asked) // 8 + 1]:  # alone, so that no piece may have anything like it
        assert contained(tree, *run_of([one])).tolist() == [one in set(facts)]


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(sequences, st.integers(1, 90))
def test_a_piece_is_the_same_in_matrices_of_any_size(facts: Sequences, cells: int) -> None:
    tree, _ = build(facts, Shape(facts=512))
    piece = tree.piece(tree.root_key)
    written = [row for _, block in matrices(piece, tree.codes, cells) for row in block]
    assert [tuple((row[row > 0].astype(int) - 1).tolist()) for row in written] == sorted(facts)
    sorted_keys = keys(to_matrix(*run_of(sorted(facts))))
    assert (sorted_keys[:-1] < sorted_keys[1:]).all(), "bytes compare like sequences"


def test_nothing_is_found_in_nothing() -> None:
    tree, _ = build([(1, 2)], Shape())
    assert contained(tree, *run_of([])).tolist() == []


def test_levels_that_contradict_each_other_are_an_error() -> None:
    facts = [(first, second) for first in range(40) for second in range(3)]
    tree, rows = build(facts, Shape(facts=8, inner=8, root=8))
    counted = StoredTree(rows, tree.codec, tree.codes, levels=tree.root_key[0] + 1, facts=7, name="test")
    with pytest.raises(CorruptIndexError, match="it counts 120 facts, the catalogue 7"):
        list(fact_matrices(counted))
    piece = Piece.of_facts(lcp=np.array([0, 3], np.uint32), ends=np.array([0, 1, 2], np.int32), codes=b"\1\2")
    with pytest.raises(ValueError, match="shares more tokens than the one before"):
        list(matrices(from_members(to_members(piece), 0), TokenCodes(np.empty(0, np.int32))))


def test_pieces_with_arrays_of_different_widths_are_searched_together() -> None:
    long = [
        (first, *range(400, 700), last) for first in (3, 7) for last in (1, 2)
    ]  # 300 tokens take two bytes to count
    facts = sorted([(first, second) for first in range(20) for second in range(5)] + long)
    tree, _ = build(facts, Shape(facts=4, inner=4096))
    asked = sorted([*facts, *((*fact[:-1], 9) for fact in facts)])
    assert contained(tree, *run_of(asked)).tolist() == [fact in set(facts) for fact in asked]


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(sequences, st.data())
def test_a_damaged_piece_is_an_error_or_a_wrong_answer_and_no_crash(facts: Sequences, data: st.DataObject) -> None:
    tree, _ = build(facts, Shape(facts=512))
    members = list(to_members(tree.piece(tree.root_key)))
    at = data.draw(st.integers(0, 4))
    value = members[at]
    if isinstance(value, bytes):
        changed = bytearray(value)
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        widest = bytes([8]) + b"".join(
            bytes([one, 0, 0, 0, 0, 0, data.draw(st.integers(0, 3)), 0]) for one in value[1:]
        )
        members[at] = data.draw(st.sampled_from([bytes(changed), value[:-1], b"", 5, widest]))
    else:
        members[at] = data.draw(st.sampled_from([value + 1, value - 1, -1, 1 << 60, b"1"]))
    block, offsets = to_matrix(*run_of(sorted(facts))), run_of(sorted(facts))[1]
    targets = Targets(block, np.diff(offsets))
    everything = np.arange(len(facts))
    try:
        found = search([tuple(members)], np.array([len(facts)]), targets, everything, tree.codes)
    except (ValueError, IndexError):
        return
    assert found.shape == (len(facts),)
