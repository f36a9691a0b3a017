"""Trees that need more sequences or cells than llama.cpp has: what was read is dropped, and read again when needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.llamacpp.twins import llamacpp_twins, plain_logits

from refactx.engines.engine import Engine, Feed, FeedTree, IdPath
from refactx.errors import ModelError

PATHS = st.lists(st.lists(st.integers(5, 8), min_size=1, max_size=5).map(tuple), min_size=1, max_size=6)
TEXT = [5, 6, 7]


def check(engine: Engine, tree: int, text: list[int], paths: list[IdPath]) -> None:
    """Read all paths of a tree, and compare the logits with those of plain passes."""
    left = list(range(len(paths)))
    while left:
        _, [(some, logits)] = engine.feed([], [FeedTree(tree, paths, left)])
        for n, after in zip(some, logits, strict=True):
            np.testing.assert_allclose(after, plain_logits([*text, *paths[n]])[-1], rtol=0, atol=1e-4)
        left = [n for n in left if n not in set(some)]


def every_path(ends: list[IdPath]) -> list[IdPath]:
    return sorted({end[: n + 1] for end in ends for n in range(len(end))})


@settings(max_examples=40, derandomize=True)
@given(slots=st.integers(3, 6), rounds=st.lists(PATHS, min_size=1, max_size=4), kept=PATHS, ahead=st.integers(0, 2))
def test_trees_with_few_sequences_give_the_logits_of_plain_passes(
    slots: int, rounds: list[list[IdPath]], kept: list[IdPath], ahead: int
) -> None:
    engine, _, _ = llamacpp_twins(slots)
    sequence, read = engine.prefill(TEXT), set[IdPath]()
    text = TEXT[: len(TEXT) - ahead]
    tree = engine.tree(sequence, TEXT[len(text) :])
    other = engine.tree(engine.fork(sequence))
    for ends in rounds:
        check(engine, tree, text, every_path(ends))
        check(engine, other, TEXT, ends)
        read |= set(every_path(ends))
    path = max(kept, key=lambda end: end in read)
    least = next((n for n in range(len(path), 0, -1) if path[:n] in read), 0)
    count = engine.keep(tree, path)
    assert least <= count <= len(path)
    [logits], _ = engine.feed([(sequence, Feed([9]))])
    np.testing.assert_allclose(logits[0], plain_logits([*text, *path[:count], 9])[-1], rtol=0, atol=1e-4)


def test_a_tree_may_have_more_ids_than_the_context_has_left() -> None:
    engine, _, _ = llamacpp_twins(slots=200, cells=256)
    text = [5 + n % 7 for n in range(240)]
    tree = engine.tree(engine.prefill(text))
    paths = every_path([(5 + n, 12, 5 + n, 12) for n in range(12)])
    check(engine, tree, text, paths)
    check(engine, tree, text, paths)
    assert engine.keep(tree, (8, 12, 8, 12)) == 4


def test_a_step_without_room_leaves_the_sequences_as_they_were() -> None:
    engine, _, _ = llamacpp_twins(cells=256)
    text, other = [5 + n % 7 for n in range(200)], [7, 8]
    first, second = engine.prefill(text), engine.prefill(other)
    tree = engine.tree(second)
    check(engine, tree, other, [(5,), (5, 6)])
    with pytest.raises(ModelError, match="256 ids is full"):
        engine.feed([(second, Feed([6])), (first, Feed([5] * 100))])
    logits, _ = engine.feed([(first, Feed([9])), (second, Feed([9]))])
    for found, ids in zip(logits, (text, other), strict=True):
        np.testing.assert_allclose(found[0], plain_logits([*ids, 9])[-1], rtol=0, atol=1e-4)


def test_a_prompt_without_room_leaves_no_sequence() -> None:
    engine, _, _ = llamacpp_twins(slots=2, cells=256)
    for _ in range(4):
        with pytest.raises(ModelError, match="256 ids is full"):
            engine.prefill([5] * 300)
    assert engine.capacity == 256
    engine.drop(engine.prefill([5] * 256))


def test_too_many_sequences_are_refused() -> None:
    engine, _, _ = llamacpp_twins(slots=2)
    sequence = engine.prefill(TEXT)
    engine.fork(sequence)
    with pytest.raises(ModelError, match="at most 2 sequences"):
        engine.fork(sequence)
    tree = engine.tree(sequence)
    with pytest.raises(ModelError, match="at most 2 sequences"):
        engine.feed([], [FeedTree(tree, [(5,)])])
    [logits], _ = engine.feed([(sequence, Feed([9]))])
    np.testing.assert_allclose(logits[0], plain_logits([*TEXT, 9])[-1], rtol=0, atol=1e-4)
