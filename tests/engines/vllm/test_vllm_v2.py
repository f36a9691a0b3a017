"""The class for the V2 model runner: rows in any order, slots that are used again, draft tokens, prompts in parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_model import FACTS, allowed_by_brute_force, ids, tiny_index
from support.vllm.twins import END, Away, RowsOf, Slots, check_row, chosen, facts_of, finite, layout, logits, params

from refactx.engines.vllm import FactLogitsProcessorV2

INDEX = tiny_index(FACTS)
SLOTS, LENGTH = 4, 400


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 999))
def test_each_row_has_the_brute_force_mask_of_its_request(data: st.DataObject, seed: int) -> None:
    dice, slots = np.random.default_rng(seed), Slots(SLOTS, LENGTH)
    processor = FactLogitsProcessorV2.over(facts_of(INDEX), slots)
    texts: dict[int, tuple[list[int], list[int], bool]] = {}
    for _ in range(data.draw(st.integers(1, 10))):
        for slot in data.draw(st.sets(st.integers(0, SLOTS - 1), max_size=2)):
            prompt, output, has_facts = texts.get(slot, (ids("h", "e"), [], True))
            if data.draw(st.booleans()):  # a new request; else the same one, which was preempted
                prompt, output, has_facts = (
                    ids(*data.draw(st.sampled_from(["a", "so", "hello"]))),
                    [],
                    dice.random() < 0.8,
                )
            texts[slot] = (prompt, output, has_facts)
            slots.put(slot, prompt, output)
            assert processor.add_request(slot, params(refactx_facts=int(has_facts))) == has_facts
        order = data.draw(st.permutations(sorted(texts)))
        rows = []
        for slot in order[: data.draw(st.integers(0, SLOTS))]:
            prompt, output, _ = texts[slot]
            drafts: list[int] = []
            for _ in range(data.draw(st.integers(0, 3))):
                drafts.append(chosen(allowed_by_brute_force(INDEX, [*output, *drafts], b"hello"), dice))
            rows.append(RowsOf(slot, [*prompt, *output], drafts))
        before = logits(sum(1 + len(row.drafts) for row in rows), dice)
        after = processor.apply(before.clone(), layout(rows))
        at = 0
        for row in rows:
            prompt, output, has_facts = texts[row.slot]
            for number in range(1 + len(row.drafts)):
                written = [*output, *row.drafts[:number]]
                check_row(
                    after[at], before[at], allowed_by_brute_force(INDEX, written, b"hello") if has_facts else None
                )
                at += 1
            output += row.drafts[: data.draw(st.integers(0, len(row.drafts)))]  # the drafts that were accepted, and one
            output.append(chosen(allowed_by_brute_force(INDEX, output, b"hello"), dice))
            slots.write(row.slot, [*prompt, *output])


def test_a_row_within_its_prompt_is_left_alone_and_looks_up_nothing() -> None:
    source, slots = Away(INDEX), Slots(SLOTS, LENGTH)
    processor = FactLogitsProcessorV2.over(facts_of(source), slots)
    prompt = ids("\n", "Fact:", " <", "B")
    slots.put(2, prompt)
    processor.add_request(2, params())
    before = logits(1, np.random.default_rng(0))
    source.go()
    check_row(processor.apply(before.clone(), layout([RowsOf(2, prompt[:2])]))[0], before[0], None)
    source.error = None
    after = processor.apply(before.clone(), layout([RowsOf(2, prompt)]))
    check_row(after[0], before[0], allowed_by_brute_force(INDEX, prompt[1:]))


def test_an_outage_ends_only_its_row() -> None:
    source, slots = Away(INDEX), Slots(SLOTS, LENGTH)
    processor = FactLogitsProcessorV2.over(facts_of(source), slots)
    for slot in (0, 3):
        slots.put(slot, ids("a"))
        processor.add_request(slot, params())
    source.go()
    before = logits(2, np.random.default_rng(0))
    slots.write(0, ids("\n", "Fact:"))
    slots.write(3, ids("a", "a"))
    after = processor.apply(before.clone(), layout([RowsOf(0, ids("\n", "Fact:")), RowsOf(3, ids("a", "a"))]))
    note = INDEX.tokenizer.encode("\n[refactx: the database of the facts cannot be reached]")
    assert finite(after[0]) == {note[0]}
    check_row(after[1], before[1], None)
    numbers = [*ids("\n", "Fact:"), *note]
    slots.write(0, numbers)
    after = processor.apply(before[:1].clone(), layout([RowsOf(0, numbers)]))
    assert finite(after[0]) == {END}


def test_a_batch_without_facts_is_not_copied_from_the_device() -> None:
    processor = FactLogitsProcessorV2.over(facts_of(INDEX), Slots(SLOTS, LENGTH))
    assert not processor.add_request(1, params(refactx_facts=0))
    context = layout([RowsOf(1, ids("a"))])
    context.pos = None  # whoever reads it fails
    before = logits(1, np.random.default_rng(0))
    assert processor.apply(before, context) is before


def test_wrong_options_are_refused_when_a_request_is_sent() -> None:
    with pytest.raises(ValueError, match="refactx_max_facts is 0"):
        FactLogitsProcessorV2.validate_params(params(refactx_max_facts=0))
