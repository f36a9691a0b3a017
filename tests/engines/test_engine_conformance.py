"""Conformance to the protocol of engines: random programs of its calls give the logits of plain passes over all ids.

The engines are those of `support.engines.twins`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from support.engines.twins import ENGINES, Twins
from support.tiny_model import one_thread  # noqa: F401

from refactx.engines.engine import Feed, FeedTree, IdPath, Logits, TreeReading

NUMBERS = st.integers(0, 9)
IDS = st.lists(st.integers(5, 12), min_size=1, max_size=4)
CHUNKS = st.lists(st.tuples(IDS, NUMBERS), min_size=1, max_size=4)
PATHS = st.lists(st.lists(st.integers(5, 7), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4)
"""Paths of few ids, so that they share some."""
Reading = tuple[list[IdPath], bool, set[int] | None]
READINGS = st.tuples(PATHS, st.booleans(), st.none() | st.sets(st.integers(0, 16), min_size=3))
"""The ends of paths to read, whether short ones are read first, and the numbers of those wanted."""


@pytest.fixture(scope="module", autouse=True)
def small_passes() -> Iterator[None]:
    """Passes of the trees of Transformers that are small, so that a call of `read` takes several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.engines.transformers.engine.IDS_A_PASS", 5)
        patch.setattr("refactx.engines.transformers.engine.LEAST_OF_A_TREE", 2)
        patch.setattr("refactx.engines.transformers.engine._FIRST", 16)
        patch.setattr("refactx.engines.transformers.rows.IDS_A_PASS", 5)
        patch.setattr("refactx.engines.transformers.rows.ROWS_A_PASS", 2)
        yield


@dataclass(eq=False)
class OpenTree:
    """A tree of an engine, the text that it continues, and the paths that it has read, `ahead` included."""

    sequence: int
    tree: int
    text: list[int]
    read: set[IdPath]


class Program(RuleBasedStateMachine):
    """A random program. `read`: what each sequence has read; `trees`: those that may be read or kept."""

    def __init__(self, twins: Twins) -> None:
        super().__init__()
        self.engine, self.twins = twins.engine, twins
        self.read: dict[int, list[int]] = {}
        self.trees: list[OpenTree] = []

    @initialize(prompts=st.lists(IDS, min_size=2, max_size=3))
    def add_batch(self, prompts: list[list[int]]) -> None:
        self.add(prompts)

    @rule(prompts=st.lists(IDS, min_size=1, max_size=3))
    def add(self, prompts: list[list[int]]) -> None:
        self.read |= zip(self.twins.add(prompts), map(list, prompts), strict=True)

    @precondition(lambda self: self.read)
    @rule(number=NUMBERS, chunks=CHUNKS)
    def feed(self, number: int, chunks: list[tuple[list[int], int]]) -> None:
        """Feed sequences that follow each other, since these are often rows of one batch."""
        feeds = self.feeds(number, chunks)
        self.check_feeds(feeds, self.engine.feed(feeds)[0])

    @precondition(lambda self: self.trees)
    @rule(number=NUMBERS, chunks=CHUNKS, readings=st.lists(READINGS, min_size=1, max_size=2))
    def feed_all(self, number: int, chunks: list[tuple[list[int], int]], readings: list[Reading]) -> None:
        """Feed sequences and trees of others in one step."""
        opened = [self.trees[(number + n) % len(self.trees)] for n in range(min(len(readings), len(self.trees)))]
        taken = {one.sequence for one in opened}
        feeds = [(sequence, feed) for sequence, feed in self.feeds(number, chunks) if sequence not in taken]
        asked = [(one, *self.paths(one, reading)) for one, reading in zip(opened, readings, strict=False)]
        asked = [(one, paths, numbers) for one, paths, numbers in asked if numbers is None or numbers]
        asked = [(one, paths, numbers) for one, paths, numbers in asked if paths]
        if not asked and not feeds:
            return
        logits, found = self.engine.feed(feeds, [FeedTree(one.tree, paths, numbers) for one, paths, numbers in asked])
        for (one, paths, numbers), (some, after) in zip(asked, found, strict=True):
            self.check_paths(one, paths, some, after)
            left = [n for n in (range(len(paths)) if numbers is None else numbers) if n not in set(some)]
            self.read_rest(one, paths, left)
        self.check_feeds(feeds, logits)

    def feeds(self, number: int, chunks: list[tuple[list[int], int]]) -> list[tuple[int, Feed]]:
        return [
            (self.sequence(number + n), Feed(ids, last=last % len(ids) + 1))
            for n, (ids, last) in enumerate(chunks[: len(self.read)])
        ]

    def check_feeds(self, feeds: list[tuple[int, Feed]], found: list[Logits]) -> None:
        for (sequence, feed), logits in zip(feeds, found, strict=True):
            self.set_read(sequence, [*self.read[sequence], *feed.ids])
            self.compare(logits, self.read[sequence], feed.last)

    @precondition(lambda self: self.read)
    @rule(number=NUMBERS)
    def fork(self, number: int) -> None:
        sequence = self.sequence(number)
        self.read[self.engine.fork(sequence)] = list(self.read[sequence])

    @precondition(lambda self: self.read and self.engine.can_forget)
    @rule(number=NUMBERS, count=st.integers(0, 3))
    def forget(self, number: int, count: int) -> None:
        sequence = self.sequence(number)
        ids = self.read[sequence]
        if count < len(ids):
            self.engine.forget(sequence, count)
            self.set_read(sequence, ids[: len(ids) - count])

    @precondition(lambda self: self.read and self.engine.can_forget)
    @rule(number=NUMBERS, chunks=CHUNKS, count=st.integers(1, 3))
    def feed_and_forget(self, number: int, chunks: list[tuple[list[int], int]], count: int) -> None:
        """Take back ids of a sequence that was fed with others: a cache may have gaps among them."""
        self.feed(number, chunks)
        self.forget(number, count)

    @precondition(lambda self: self.read)
    @rule(number=NUMBERS)
    def drop(self, number: int) -> None:
        sequence = self.sequence(number)
        self.engine.drop(sequence)
        self.trees = [opened for opened in self.trees if opened.sequence != sequence]
        del self.read[sequence]

    @precondition(lambda self: self.read)
    @rule(number=NUMBERS, count=st.integers(0, 3), reading=READINGS)
    def open_tree(self, number: int, count: int, reading: Reading) -> None:
        sequence = self.sequence(number)
        ids = self.read[sequence]
        cut = max(1, len(ids) - (count if self.engine.can_forget else 0))
        ahead = tuple(ids[cut:])
        paths = {ahead[: n + 1] for n in range(len(ahead))}
        tree = self.engine.tree(sequence, ahead)
        self.trees.append(OpenTree(sequence, tree, ids[:cut], paths))
        self.read_tree(len(self.trees) - 1, reading)

    @precondition(lambda self: self.trees)
    @rule(number=NUMBERS, reading=READINGS)
    def read_tree(self, number: int, reading: Reading) -> None:
        opened = self.trees[number % len(self.trees)]
        paths, numbers = self.paths(opened, reading)
        self.read_rest(opened, paths, list(range(len(paths)) if numbers is None else numbers))

    @precondition(lambda self: self.trees)
    @rule(number=NUMBERS)
    def read_again(self, number: int) -> None:
        """Want the logits after paths that were read before."""
        opened = self.trees[number % len(self.trees)]
        paths = sorted(opened.read, key=len)
        self.read_rest(opened, paths, list(range(len(paths))))

    def paths(self, opened: OpenTree, reading: Reading) -> tuple[list[IdPath], list[int] | None]:
        """The new paths of a reading, and the numbers of those wanted."""
        ends, by_length, wanted = reading
        new = {end[: n + 1] for end in ends for n in range(len(end))} - opened.read
        paths = sorted(new, key=len) if by_length else sorted(new)
        return paths, None if wanted is None else [n for n in range(len(paths)) if n in wanted]

    def read_rest(self, opened: OpenTree, paths: list[IdPath], left: list[int]) -> None:
        """Read paths until there are logits after all that are wanted."""
        while left:
            _, [(some, logits)] = self.engine.feed([], [FeedTree(opened.tree, paths, left)])
            assert some
            assert set(some) <= set(left)
            self.check_paths(opened, paths, some, logits)
            left = [n for n in left if n not in set(some)]

    def check_paths(self, opened: OpenTree, paths: list[IdPath], some: Sequence[int], logits: Logits) -> None:
        assert len(some) == len(logits)
        for n, after in zip(some, logits, strict=True):
            self.compare(after[None], [*opened.text, *paths[n]], 1)
            opened.read |= {paths[n][: end + 1] for end in range(len(paths[n]))}

    @precondition(lambda self: self.trees)
    @rule(number=NUMBERS, ends=PATHS)
    def keep(self, number: int, ends: list[IdPath]) -> None:
        opened = self.trees[number % len(self.trees)]
        path = max(ends, key=lambda end: end in opened.read)
        kept = self.engine.keep(opened.tree, path)
        least = next((n for n in range(len(path), 0, -1) if path[:n] in opened.read), 0)
        assert least <= kept <= len(path) if self.engine.trees is TreeReading.SHARED else kept == 0
        self.set_read(opened.sequence, [*opened.text, *path[:kept]], kept=opened.tree)

    @precondition(lambda self: self.trees)
    @rule(number=NUMBERS)
    def close(self, number: int) -> None:
        opened = self.trees.pop(number % len(self.trees))
        self.engine.close(opened.tree)

    def teardown(self) -> None:
        for sequence, ids in self.read.items():
            [logits], _ = self.engine.feed([(sequence, Feed([7]))])
            self.compare(logits, [*ids, 7], 1)
        for sequence in self.read:
            self.engine.drop(sequence)
        assert not self.twins.held(), "the trees of a dropped sequence are closed"

    def sequence(self, number: int) -> int:
        return list(self.read)[number % len(self.read)]

    def set_read(self, sequence: int, ids: list[int], kept: int | None = None) -> None:
        """Note what a sequence has read. Its trees continued what it had read before, so they are closed; `kept`: the
        one that is closed already."""
        self.read[sequence] = ids
        for opened in self.trees:
            if opened.sequence == sequence and opened.tree != kept:
                self.engine.close(opened.tree)
        self.trees = [opened for opened in self.trees if opened.sequence != sequence]

    def compare(self, logits: Logits, ids: list[int], last: int) -> None:
        """Check logits, float32[last, vocabulary], against those of a plain pass over all ids."""
        plain = self.twins.logits(ids)[-last:]
        assert logits.dtype == np.float32
        assert logits.shape == plain.shape
        np.testing.assert_allclose(logits, plain, rtol=0, atol=self.twins.tolerance)


@pytest.mark.long
@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES.keys())
@torch.no_grad()
def test_random_programs_give_the_logits_of_plain_passes(make: Callable[[], Twins]) -> None:
    options = settings(max_examples=100, stateful_step_count=15, deadline=None, derandomize=True)
    run_state_machine_as_test(lambda: Program(make()), settings=options)


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES.keys())
@torch.no_grad()
def test_a_sequence_is_fed_once_in_a_step(make: Callable[[], Twins]) -> None:
    engine = make().engine
    sequence = engine.prefill([5, 6])
    with pytest.raises(ValueError, match="twice"):
        engine.feed([(sequence, Feed([7])), (sequence, Feed([8]))])


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES.keys())
@torch.no_grad()
def test_a_sequence_may_begin_without_ids(make: Callable[[], Twins]) -> None:
    twins = make()
    if twins.engine.trees is not TreeReading.SHARED:
        return
    sequence = twins.engine.prefill([])
    [logits], _ = twins.engine.feed([(sequence, Feed([5, 6, 7], last=2))])
    np.testing.assert_allclose(logits, twins.logits([5, 6, 7])[-2:], atol=twins.tolerance)
