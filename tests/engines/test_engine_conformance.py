"""Conformance to the protocol of engines: random programs of its calls give the logits of plain passes over all ids.

To test another engine, write a function that returns a `Twins`, and enter it in `ENGINES`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from support.table_engine import TableEngine
from support.tiny_model import one_thread, tiny_model  # noqa: F401
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from refactx.engines.engine import Engine, Feed, IdPath, Logits, TokenTree
from refactx.engines.hf.engine import TransformersEngine
from refactx.engines.hf.trees import takes_masks

VOCABULARY = 20
NUMBERS = st.integers(0, 9)
IDS = st.lists(st.integers(5, 12), min_size=1, max_size=4)
CHUNKS = st.lists(st.tuples(IDS, NUMBERS), min_size=1, max_size=4)
PATHS = st.lists(st.lists(st.integers(5, 7), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4)
"""Paths of few ids, so that they share some."""
READINGS = st.tuples(PATHS, st.booleans(), st.none() | st.sets(st.integers(0, 16), min_size=3))
"""The ends of paths to read, whether short ones are read first, and the numbers of those wanted."""


@dataclass(frozen=True)
class Twins:
    """An engine without sequences, and a function that computes the same from all ids of a text.

    `add`: reads prompts, together if the engine can, and returns their sequences; `logits`: returns those after each of
    the ids, float32[ids, vocabulary], without the engine's caches. Ids are less than `VOCABULARY`.
    """

    engine: Engine
    add: Callable[[Sequence[list[int]]], list[int]]
    logits: Callable[[list[int]], Logits]


def table_twins() -> Twins:
    random = np.random.default_rng(0)
    table, offsets = (random.normal(size=(n, VOCABULARY)).astype(np.float32) for n in (VOCABULARY, 997))
    engine = TableEngine(table, offsets)
    return Twins(
        engine, lambda prompts: [engine.prefill(ids) for ids in prompts], lambda ids: engine.logits(ids, len(ids))
    )


def transformers_twins(model: Any) -> Twins:
    """The twins over a model: several prompts are the rows of a batch, padded on the left; one is prefilled."""
    engine = TransformersEngine(model)

    def add(prompts: Sequence[list[int]]) -> list[int]:
        if len(prompts) == 1:
            return [engine.prefill(prompts[0])]
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        inputs = {"attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp_min(0), "use_cache": True}
        cache = model(input_ids=ids, **inputs).past_key_values
        return engine.add_batch(inputs | {"past_key_values": cache}, (len(prompts), width))

    def logits(ids: list[int]) -> Logits:
        found: Logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()
        return found

    return Twins(engine, add, logits)


@cache
def masked_model() -> Any:
    model = tiny_model(2)
    assert takes_masks(model)
    return model


@cache
def unmasked_model() -> Any:
    """A model whose attention takes no masks of four dimensions: its trees are rows of a batch."""
    torch.manual_seed(0)
    config = GPTNeoConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPTNeoForCausalLM(config).eval()
    assert not takes_masks(model)
    return model


ENGINES: dict[str, Callable[[], Twins]] = {
    "table": table_twins,
    "transformers with tree attention": lambda: transformers_twins(masked_model()),
    "transformers with rows as trees": lambda: transformers_twins(unmasked_model()),
}


@pytest.fixture(scope="module", autouse=True)
def small_passes() -> Iterator[None]:
    """Passes of the trees of Transformers that are small, so that a call of `read` takes several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.engines.hf.trees.IDS_A_PASS", 5)
        patch.setattr("refactx.engines.hf.trees.ROWS_A_PASS", 2)
        yield


@dataclass(eq=False)
class OpenTree:
    """A tree of an engine, the text that it continues, and the paths that it has read, `ahead` included."""

    sequence: int
    tree: TokenTree
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
        feeds = [
            Feed(self.sequence(number + n), ids, last=last % len(ids) + 1)
            for n, (ids, last) in enumerate(chunks[: len(self.read)])
        ]
        for feed, logits in zip(feeds, self.engine.feed(feeds), strict=True):
            self.set_read(feed.sequence, [*self.read[feed.sequence], *feed.ids])
            self.compare(logits, self.read[feed.sequence], feed.last)

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
        self.set_read(sequence, [])
        self.engine.drop(sequence)
        del self.read[sequence]

    @precondition(lambda self: self.read)
    @rule(number=NUMBERS, count=st.integers(0, 3), reading=READINGS)
    def open_tree(self, number: int, count: int, reading: tuple[list[IdPath], bool, set[int] | None]) -> None:
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
    def read_tree(self, number: int, reading: tuple[list[IdPath], bool, set[int] | None]) -> None:
        ends, by_length, wanted = reading
        opened = self.trees[number % len(self.trees)]
        new = {end[: n + 1] for end in ends for n in range(len(end))} - opened.read
        paths = sorted(new, key=len) if by_length else sorted(new)
        numbers = None if wanted is None else [n for n in range(len(paths)) if n in wanted]
        found = []
        for some, logits in opened.tree.read(paths, numbers):
            found += some
            assert len(some) == len(logits)
            for n, after in zip(some, logits, strict=True):
                self.compare(after[None], [*opened.text, *paths[n]], 1)
        assert sorted(found) == list(range(len(paths)) if numbers is None else numbers)
        opened.read |= new
        assert all(path in opened.tree for path in ((), *opened.read))
        assert ((1, 2) in opened.tree) is not opened.tree.is_incremental

    @precondition(lambda self: self.trees)
    @rule(number=NUMBERS, ends=PATHS)
    def keep(self, number: int, ends: list[IdPath]) -> None:
        opened = self.trees[number % len(self.trees)]
        path = max(ends, key=lambda end: end in opened.read)
        kept = opened.tree.keep(path)
        most = next((n for n in range(len(path), 0, -1) if path[:n] in opened.read), 0)
        assert kept == most if opened.tree.is_incremental else 0 <= kept <= most
        self.set_read(opened.sequence, [*opened.text, *path[:kept]])

    def teardown(self) -> None:
        for sequence, ids in self.read.items():
            [logits] = self.engine.feed([Feed(sequence, [7])])
            self.compare(logits, [*ids, 7], 1)

    def sequence(self, number: int) -> int:
        return list(self.read)[number % len(self.read)]

    def set_read(self, sequence: int, ids: list[int]) -> None:
        """Note what a sequence has read. Its trees continued what it had read before."""
        self.read[sequence] = ids
        self.trees = [opened for opened in self.trees if opened.sequence != sequence]

    def compare(self, logits: Logits, ids: list[int], last: int) -> None:
        """Check logits, float32[last, vocabulary], against those of a plain pass over all ids."""
        plain = self.twins.logits(ids)[-last:]
        assert logits.dtype == np.float32
        assert logits.shape == plain.shape
        np.testing.assert_allclose(logits, plain, rtol=0, atol=1e-4)


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
        engine.feed([Feed(sequence, [7]), Feed(sequence, [8])])
