"""Every mode of `generate` writes only facts of the index, and none twice."""

from typing import Any

import pytest
import torch
from support.loop_runs import MODES
from support.tiny_model import (
    FACTS,
    PROMPTS,
    MemoryIndex,
    check_text,
    eager,
    ids,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_model,
    tiny_tokenizer,
    token,
)

from refactx.ask.grounded import GroundedModel, ground


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_writes_only_facts_and_none_twice(
    mode: str, side: str, model: Any, index: MemoryIndex, grounded: GroundedModel
) -> None:
    inputs = prompts(*PROMPTS, side=side)
    torch.manual_seed(1)
    out = grounded.generate(**inputs, logits_processor=eager(mode), max_new_tokens=60, **MODES[mode])
    found = grounded.facts(out)
    assert len(found) == len(out)
    assert sum(map(len, found)) > len(out)  # more than one for each sequence, so that there is something to test
    length = inputs["input_ids"].shape[1]
    for row, facts in zip(out.tolist(), found, strict=True):
        assert len({fact.text for fact in facts}) == len(facts)
        check_text(index, row, length, facts)


@pytest.mark.parametrize("do_sample", [False, True])
def test_prompt_lookup_writes_what_plain_decoding_writes(do_sample: bool, index: MemoryIndex, grounded: Any) -> None:
    inputs = prompts("Fact: <Ann> <p> <b> .\nFact: <Ann> <p> <c> .\n\nFact:")
    options = {**inputs, "max_new_tokens": 60, "do_sample": do_sample}
    out = grounded.generate(**options, logits_processor=eager(), prompt_lookup_num_tokens=4)
    (facts,) = grounded.facts(out)
    assert len(facts) > 1
    check_text(index, out[0].tolist(), inputs["input_ids"].shape[1], facts)
    if not do_sample:
        assert torch.equal(out, grounded.generate(**options, logits_processor=eager()))


def test_an_assistant_model_changes_nothing(grounded: GroundedModel) -> None:
    inputs = prompts("a Fact:")
    options: dict[str, Any] = {**inputs, "max_new_tokens": 60, "do_sample": False}
    out = grounded.generate(**options, logits_processor=eager(), assistant_model=tiny_model(seed=1))
    assert torch.equal(out, grounded.generate(**options, logits_processor=eager()))
    assert len(grounded.facts(out)[0]) > 2


def test_the_same_call_gives_the_same_result(grounded: GroundedModel) -> None:
    outs = []
    for _ in range(2):
        torch.manual_seed(5)
        options = MODES["beam sampling"]
        outs.append(
            grounded.generate(**prompts(*PROMPTS), logits_processor=eager("beams"), max_new_tokens=30, **options)
        )
    assert torch.equal(*outs)
    assert grounded.facts(outs[0]) == grounded.facts(outs[1])


def test_each_text_of_a_batch_is_the_one_that_its_prompt_gets_alone(grounded: GroundedModel) -> None:
    options: dict[str, Any] = {"max_new_tokens": 40, "do_sample": False}
    out = grounded.generate(**prompts(*PROMPTS), logits_processor=eager(), **options)
    together = [[fact.text for fact in facts] for facts in grounded.facts(out)]
    for text, facts in zip(PROMPTS, together, strict=True):
        alone = grounded.generate(**prompts(text), logits_processor=eager(), **options)
        assert [fact.text for fact in grounded.facts(alone)[0]] == facts


class TestBans:
    """Other processors that rule out all ids that are allowed in a fact."""

    @pytest.mark.parametrize("mode", ["greedy", "sampling", "beams", "beam sampling"])
    def test_facts_are_whole_nevertheless(self, mode: str, index: MemoryIndex, grounded: GroundedModel) -> None:
        inputs = prompts("Fact:", "a Fact:")
        torch.manual_seed(0)
        options = {**MODES[mode], "no_repeat_ngram_size": 1, "bad_words_ids": [[token(" <")], [token(" .")]]}
        out = grounded.generate(**inputs, logits_processor=eager(mode), max_new_tokens=40, **options)
        for row, facts in zip(out.tolist(), grounded.facts(out), strict=True):
            check_text(index, row, inputs["input_ids"].shape[1], facts)
            assert facts or "beam" in mode

    def test_a_row_stopped_inside_a_fact_does_not_stop_the_others(self, grounded: GroundedModel) -> None:
        inputs = prompts("hello", "a Fact:")
        options: dict[str, Any] = {"stop_strings": ["<p"], "tokenizer": tiny_tokenizer(), "do_sample": True}
        torch.manual_seed(0)
        out = grounded.generate(**inputs, max_new_tokens=60, **options)
        assert out[1, -1] == tiny_tokenizer().pad_token_id  # padded from within its fact, while the other continued
        assert grounded.facts(out)[1] == []

    def test_nor_does_a_row_that_is_padded_with_a_callers_id(self, grounded: GroundedModel) -> None:
        inputs = prompts("hello", "a Fact:")
        options: dict[str, Any] = {"stop_strings": ["<p"], "tokenizer": tiny_tokenizer(), "do_sample": True}
        torch.manual_seed(0)
        out = grounded.generate(**inputs, max_new_tokens=60, pad_token_id=token("a"), **options)
        assert out[1, -3:].tolist() == ids("a", "a", "a")
        assert grounded.facts(out)[1] == []

    @pytest.mark.parametrize("warper", [{"eta_cutoff": 1e-3}, {"top_h": 0.5}, {"renormalize_logits": True}])
    @pytest.mark.parametrize("beams", [3, 6])
    def test_beams_off_the_tree_do_not_stop_sampling(
        self, beams: int, warper: dict[str, Any], index: MemoryIndex, grounded: GroundedModel
    ) -> None:
        """More beams than a fact has continuations, and warpers after the mask that need a score."""
        inputs = prompts("a Fact:", "hello")
        options: dict[str, Any] = {"do_sample": True, "num_beams": beams, "num_return_sequences": beams, **warper}
        torch.manual_seed(0)
        out = grounded.generate(**inputs, logits_processor=eager("beams"), max_new_tokens=30, **options)
        for row, facts in zip(out.tolist(), grounded.facts(out), strict=True):
            check_text(index, row, inputs["input_ids"].shape[1], facts)


class TestExhaustion:
    @pytest.mark.parametrize("mode", MODES)
    def test_each_fact_once_and_then_the_trigger_no_longer_constrains(self, mode: str, model: Any) -> None:
        few = tiny_index(FACTS[:2])
        grounded = ground(model, tiny_tokenizer(), few)
        torch.manual_seed(0)
        inputs = prompts("a", "hello")
        out = grounded.generate(**inputs, logits_processor=eager(mode, 20.0), max_new_tokens=60, **MODES[mode])
        for row, facts in zip(out.tolist(), grounded.facts(out), strict=True):
            check_text(few, row, inputs["input_ids"].shape[1], facts)
            assert {fact.text for fact in facts} == {fact + " ." for fact in few.facts}
