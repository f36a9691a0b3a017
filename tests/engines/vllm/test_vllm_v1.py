"""The class for the V1 model runner: whatever happens to the batch, each row has the mask of its own request."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_model import FACTS, ids, tiny_index, tiny_tokenizer
from support.vllm.twins import (
    END,
    Away,
    Direction,
    Update,
    check_row,
    chosen,
    expected,
    facts_of,
    finite,
    logits,
    params,
)

from refactx.engines.vllm import FactLogitsProcessorV1

INDEX = tiny_index(FACTS)


@dataclass
class Request:
    """A request of the twin engine."""

    prompt: list[int]
    has_facts: bool
    output: list[int] = field(default_factory=list)


class Batch:
    """A twin of vLLM's batch: rows that are added, removed, moved and swapped, with the updates that it sends."""

    def __init__(self, dice: np.random.Generator) -> None:
        self.rows: dict[int, Request] = {}
        self.waiting: list[Request] = []
        self.dice, self.update = dice, Update()

    def add(self, row: int, again: bool) -> None:
        """A new request enters a row, or one that was removed comes back with its output; it may replace another."""
        prompt = tiny_tokenizer()(str(self.dice.choice(["so", "hello", "in"])))["input_ids"]
        has_facts = bool(self.dice.random() < 0.8)
        request = self.waiting.pop() if again and self.waiting else Request(prompt, has_facts)
        self.rows[row] = request
        extra = {} if request.has_facts else {"refactx_facts": 0}
        self.update.added.append((row, params(**extra), request.prompt, request.output))

    def remove(self, row: int) -> None:
        if row in self.rows:
            self.waiting.append(self.rows.pop(row))
            self.update.removed.append(row)

    def move(self, a: int, b: int, direction: Direction) -> None:
        if a == b or a not in self.rows:
            return
        from_a, from_b = self.rows.pop(a), self.rows.pop(b, None)
        self.rows[b] = from_a
        if from_b is not None and direction is Direction.SWAP:
            self.rows[a] = from_b
        self.update.moved.append((a, b, direction))

    def take(self) -> Update | None:
        """The update of a step; None if nothing has changed."""
        taken, self.update = self.update, Update()
        return taken if taken.added or taken.removed or taken.moved else None


ROW = st.integers(0, 4)
STEP = st.fixed_dictionaries(
    {
        "removed": st.sets(ROW, max_size=2),
        "added": st.dictionaries(ROW, st.booleans(), max_size=3),
        "moved": st.lists(st.tuples(ROW, ROW, st.sampled_from(Direction)), max_size=2),
        "ids": st.lists(st.integers(0, 3), min_size=5, max_size=5),
    }
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=12), seed=st.integers(0, 999))
def test_each_row_has_the_brute_force_mask_of_its_request(steps: list[dict], seed: int) -> None:  # type: ignore[type-arg]
    dice = np.random.default_rng(seed)
    batch, processor = Batch(dice), FactLogitsProcessorV1.over(facts_of(INDEX))
    for step in steps:
        for row in step["removed"]:
            batch.remove(row)
        for row, again in step["added"].items():
            batch.add(row, again)
        for a, b, direction in step["moved"]:
            batch.move(a, b, direction)
        processor.update_state(batch.take())
        before = logits(5, dice)
        after = processor.apply(before.clone())
        for row in range(5):
            request = batch.rows.get(row)
            allowed = expected(INDEX, request.prompt, request.output) if request and request.has_facts else None
            check_row(after[row], before[row], allowed)
        for row, request in batch.rows.items():  # several ids at once, or none if vLLM discards the sampled one
            for _ in range(step["ids"][row]):
                allowed = expected(INDEX, request.prompt, request.output)
                request.output.append(chosen(allowed, dice) if request.has_facts else END)


def test_an_outage_ends_only_the_rows_that_need_the_index() -> None:
    source = Away(INDEX)
    processor = FactLogitsProcessorV1.over(facts_of(source))
    outputs = [ids("Fact:", " <"), ids("\n"), ids("Fact:")]
    processor.update_state(Update(added=[(n, params(), ids("\n"), output) for n, output in enumerate(outputs)]))
    dice = np.random.default_rng(0)
    before = logits(3, dice)
    processor.apply(before.clone())
    source.go()
    outputs[0] += ids("B")
    outputs[1] += ids("a")
    after = processor.apply(before.clone())
    note = INDEX.tokenizer.encode("\n[refactx: the database of the facts cannot be reached]")
    assert finite(after[0]) == {note[0]}
    check_row(after[1], before[1], None)
    check_row(after[2], before[2], set(ids(" <")))  # what it may write is known already
    source.error = None
    outputs[0] += note
    outputs[1] += ids(" Fact:")
    after = processor.apply(before.clone())
    assert finite(after[0]) == {END}
    check_row(after[1], before[1], set(ids(" <")))


def test_lookups_of_several_rows_wait_for_the_database_together() -> None:
    from threading import Barrier

    together = Barrier(3, timeout=10)

    class Waiting(Away):
        def children(self, prefix):  # type: ignore[no-untyped-def]
            together.wait()  # raises unless three lookups are under way at once
            return super().children(prefix)

    processor = FactLogitsProcessorV1.over(facts_of(Waiting(INDEX)))
    processor.update_state(Update(added=[(n, params(), ids("\n"), ids("Fact:")) for n in range(3)]))
    after = processor.apply(logits(3, np.random.default_rng(0)))
    assert [finite(row) for row in after] == [set(ids(" <"))] * 3


def test_a_row_all_of_whose_allowed_ids_others_banned_can_still_be_sampled() -> None:
    processor = FactLogitsProcessorV1.over(facts_of(INDEX))
    processor.update_state(Update(added=[(0, params(), ids("\n"), ids("Fact:"))]))
    banned = logits(1, np.random.default_rng(0))
    banned[0, ids(" <")] = -np.inf
    assert finite(processor.apply(banned)[0]) == set(ids(" <"))


def test_a_request_whose_prompt_is_not_known_is_read_from_its_output() -> None:
    """vLLM has no prompt ids for prompts that are embeddings."""
    processor = FactLogitsProcessorV1.over(facts_of(INDEX))
    processor.update_state(Update(added=[(0, params(), None, ids("\n", "Fact:"))]))
    assert finite(processor.apply(logits(1, np.random.default_rng(0)))[0]) == set(ids(" <"))


def test_the_mask_counts_for_greedy_requests_too() -> None:
    assert not FactLogitsProcessorV1.over(facts_of(INDEX)).is_argmax_invariant()
