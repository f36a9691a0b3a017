"""Every mode of `generate`, on a tiny random model: only facts of the index, none twice, everything else untouched."""

import copy
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiny_model import (
    FACTS,
    PROMPTS,
    SURPLUS,
    MemoryIndex,
    allowed_by_brute_force,
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
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerFast,
)

from refactx.engines.hf.processor import FactLogitsProcessor
from refactx.errors import InputError, RefactxError, TokenizerMismatchError
from refactx.grounded.model import GroundedModel, ground


class Watched(LogitsProcessor):
    """A processor, with every call of it checked against the brute-force mask of each row."""

    def __init__(self, processor: FactLogitsProcessor, index: MemoryIndex) -> None:
        self.processor, self.index, self.calls = processor, index, 0

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        before = scores.clone()
        after = self.processor(input_ids, scores)
        assert torch.equal(before, scores), "scores were changed in place"
        length = self.processor.prompt_length
        assert length is not None
        self.calls += 1
        for row, old, new in zip(input_ids.tolist(), before, after, strict=True):
            allowed = allowed_by_brute_force(self.index, row[length:], self.index.tokenizer.decode_bytes(row[:length]))
            if allowed == set():  # off the tree: its last id again
                allowed = {row[-1]}
                old[row[-1]] = 0 if old[row[-1]].isneginf() else old[row[-1]]
            if allowed is None:
                assert torch.equal(old, new)
            else:
                numbers = sorted(allowed)
                assert torch.equal(new[numbers], old[numbers])
                assert torch.isneginf(new).sum() == len(new) - len(numbers) + torch.isneginf(old[numbers]).sum()
        return after


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model()


@pytest.fixture(scope="module")
def index() -> MemoryIndex:
    return tiny_index(FACTS)


@pytest.fixture(scope="module")
def grounded(model: Any, index: MemoryIndex) -> GroundedModel:
    return ground(model, tiny_tokenizer(), index)


MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "static cache": {"do_sample": False, "cache_implementation": "static"},
    "no cache": {"do_sample": False, "use_cache": False},
    "sampling": {"do_sample": True, "temperature": 1.5, "top_k": 5},
    "top-p": {"do_sample": True, "top_p": 0.5},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3, "do_sample": False},
    "several beams": {"num_beams": 5, "num_return_sequences": 5, "do_sample": False},
    "beam sampling": {"num_beams": 3, "num_return_sequences": 2, "do_sample": True},
}


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
    assert sum(map(len, found)) > len(out)  # more than one a sequence: the test has something to test
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
    assert len(facts) > 2
    check_text(index, out[0].tolist(), inputs["input_ids"].shape[1], facts)
    if not do_sample:
        assert torch.equal(out, grounded.generate(**options, logits_processor=eager()))


def test_an_assistant_model_changes_nothing(grounded: GroundedModel) -> None:
    inputs = prompts("a Fact:")
    options: dict[str, Any] = {**inputs, "max_new_tokens": 60, "do_sample": False}
    out = grounded.generate(**options, logits_processor=eager(), assistant_model=tiny_model(seed=1))
    assert torch.equal(out, grounded.generate(**options, logits_processor=eager()))
    assert len(grounded.facts(out)[0]) > 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.sampled_from(["so", "hello", "a b c", "in"]), min_size=1, max_size=3),
    facts=st.sets(st.sampled_from(FACTS), min_size=1),
    mode=st.sampled_from(list(MODES)),
    memo=st.sampled_from([0, 1, 3, 64]),
    strength=st.sampled_from([2.0, 6.0, 12.0]),
    seed=st.integers(0, 99),
)
def test_the_mask_is_the_brute_force_one_at_every_step(
    model: Any, texts: list[str], facts: set[str], mode: str, memo: int, strength: float, seed: int
) -> None:
    few = tiny_index(facts)
    watched = Watched(FactLogitsProcessor(few, tiny_tokenizer(), memo_size=memo), few)
    torch.manual_seed(seed)
    processors = LogitsProcessorList([*eager(mode, strength), watched])
    model.generate(**prompts(*texts), logits_processor=processors, max_new_tokens=30, **MODES[mode])
    assert watched.calls >= 29 or "beam" in mode


@pytest.mark.parametrize("mode", MODES)
def test_a_memo_of_any_size_gives_the_same_result(mode: str, model: Any, index: MemoryIndex) -> None:
    outs = []
    for memo_size in (64, 2, 1, 0):
        torch.manual_seed(3)
        processor = FactLogitsProcessor(index, tiny_tokenizer(), memo_size=memo_size)
        processors = LogitsProcessorList([*eager(mode), processor])
        outs.append(model.generate(**prompts(*PROMPTS), logits_processor=processors, max_new_tokens=30, **MODES[mode]))
    assert all(torch.equal(outs[0], out) for out in outs[1:])


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


def test_a_batch_gives_each_prompt_what_it_gets_alone(grounded: GroundedModel) -> None:
    options: dict[str, Any] = {"max_new_tokens": 40, "do_sample": False}
    out = grounded.generate(**prompts(*PROMPTS), logits_processor=eager(), **options)
    together = [[fact.text for fact in facts] for facts in grounded.facts(out)]
    for text, facts in zip(PROMPTS, together, strict=True):
        alone = grounded.generate(**prompts(text), logits_processor=eager(), **options)
        assert [fact.text for fact in grounded.facts(alone)[0]] == facts


class TestProcessor:
    def call(self, processor: FactLogitsProcessor, *rows: list[int], scores: Any = None) -> torch.Tensor:
        scores = torch.randn(len(rows), len(tiny_tokenizer()) + SURPLUS) if scores is None else scores
        return processor(torch.tensor(rows), scores)

    @pytest.fixture
    def make(self, index: MemoryIndex) -> Callable[..., FactLogitsProcessor]:
        return lambda **options: FactLogitsProcessor(index, tiny_tokenizer(), **options)

    def test_free_rows_get_the_very_scores_back(self, make: Callable[..., FactLogitsProcessor]) -> None:
        scores = torch.randn(2, len(tiny_tokenizer()) + SURPLUS)
        assert make()(torch.tensor([ids("a", "b"), ids("in", "Fact:")]), scores) is scores

    def test_the_models_surplus_ids_are_never_allowed_in_a_fact(self, make: Callable[..., FactLogitsProcessor]) -> None:
        masked = self.call(make(), ids("a", " Fact:"))
        assert torch.isneginf(masked[0, len(tiny_tokenizer()) :]).all()
        assert (~torch.isneginf(masked[0])).nonzero().flatten().tolist() == [token(" <")]

    def test_rows_do_not_matter_only_ids_do(self, make: Callable[..., FactLogitsProcessor]) -> None:
        processor, fact = make(prompt_length=1), ids("a", " Fact:", " <", "Ann")
        self.call(processor, ids("a", "b"), fact[:2])
        self.call(processor, fact[:3], fact[:3])  # both beams go on from the second
        masked = self.call(processor, [*ids("a", "b"), token("b"), token("b")], fact)  # back to a row taken before
        assert not torch.isneginf(masked[0]).any()
        assert (~torch.isneginf(masked[1])).sum() == 1
        shorter = self.call(processor, fact[:3])  # ids taken back, as assisted decoding does
        assert set((~torch.isneginf(shorter[0])).nonzero().flatten().tolist()) == set(ids("Ann", "B"))

    def test_where_others_ruled_out_all_that_is_allowed_it_gets_0(self, make: Callable[..., Any]) -> None:
        scores = torch.randn(2, len(tiny_tokenizer()) + SURPLUS)
        scores[0, ids("Ann", "B")] = -torch.inf
        scores[1, ids("Ann")] = -torch.inf
        row = ids("Fact:", " <")
        masked = self.call(make(), row, row, scores=scores)
        assert masked[0, ids("Ann", "B")].tolist() == [0, 0]
        assert masked[1, ids("Ann", "B")].tolist() == [-torch.inf, scores[1, token("B")]]

    def test_a_row_off_the_tree_gets_its_last_id_only(self, make: Callable[..., FactLogitsProcessor]) -> None:
        processor = make(prompt_length=1)
        for row in (ids("Fact:", "a"), ids("Fact:", "a", "Fact:"), ids("Fact:", "<s>")):
            assert (~torch.isneginf(self.call(processor, row)[0])).nonzero().flatten().tolist() == row[-1:]

    @pytest.mark.parametrize("mode", MODES)
    def test_ids_may_be_int32(self, mode: str, index: MemoryIndex, model: Any) -> None:
        outs = []
        for dtype in (torch.int32, torch.int64):
            processors = LogitsProcessorList([*eager(mode), FactLogitsProcessor(index, tiny_tokenizer())])
            torch.manual_seed(0)
            given = prompts("a Fact:")["input_ids"].to(dtype)
            outs.append(model.generate(given, logits_processor=processors, max_new_tokens=15, **MODES[mode]).tolist())
        assert outs[0] == outs[1]

    def test_half_precision_scores_stay_so(self, make: Callable[..., FactLogitsProcessor]) -> None:
        scores = torch.randn(1, len(tiny_tokenizer()) + SURPLUS).to(torch.bfloat16)
        assert self.call(make(), ids("Fact:"), scores=scores).dtype == torch.bfloat16

    def test_a_second_call_with_another_prompt_is_noticed(self, make: Callable[..., FactLogitsProcessor]) -> None:
        processor = make()
        self.call(processor, ids("a", "b", " Fact:"))
        self.call(processor, ids("c", " Fact:", " <", "Ann", ">"))
        assert processor.prompt_length == 5

    def test_reset_makes_it_ready_for_the_next_call(self, make: Callable[..., FactLogitsProcessor]) -> None:
        processor = make()
        self.call(processor, ids("a"))
        processor.reset()
        assert processor.prompt_length is None
        self.call(processor, ids("a", "b", "c"))
        assert processor.prompt_length == 3

    def test_generate_with_it_twice_gives_the_same(self, make: Callable[..., FactLogitsProcessor], model: Any) -> None:
        processor = make()
        options: dict[str, Any] = {"logits_processor": LogitsProcessorList([*eager(), processor]), "max_new_tokens": 30}
        first = model.generate(**prompts("a"), **options, do_sample=False)
        model.generate(**prompts("hello there"), **options, do_sample=False)
        processor.reset()
        assert torch.equal(first, model.generate(**prompts("a"), **options, do_sample=False))

    def test_a_tokenizer_that_is_not_the_indexs_is_refused(self, index: MemoryIndex) -> None:
        backend = copy.deepcopy(tiny_tokenizer().backend_tokenizer)
        backend.pre_tokenizer = None
        other = PreTrainedTokenizerFast(tokenizer_object=backend)
        with pytest.raises(TokenizerMismatchError, match="another tokenizer"):
            FactLogitsProcessor(index, other)
        with pytest.raises(TokenizerMismatchError, match="another tokenizer"):
            ground(tiny_model(), other, index)


class TestBans:
    """Other processors that leave nothing of what a fact allows."""

    @pytest.mark.parametrize("mode", ["greedy", "sampling", "beams", "beam sampling"])
    def test_facts_come_out_whole_all_the_same(self, mode: str, index: MemoryIndex, grounded: GroundedModel) -> None:
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
        assert out[1, -1] == tiny_tokenizer().pad_token_id  # padded from inside its fact on, while the other went on
        assert grounded.facts(out)[1] == []

    def test_nor_does_one_that_is_padded_with_an_id_of_the_callers(self, grounded: GroundedModel) -> None:
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
        """More beams than a fact has ways to go on, and warpers behind our mask that cannot do without a score."""
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


class TestGroundedModel:
    def test_it_returns_what_generate_returns(self, grounded: GroundedModel) -> None:
        options: dict[str, Any] = {**prompts("a Fact:"), "max_new_tokens": 30, "do_sample": False}
        plain = grounded.generate(**options)
        rich = grounded.generate(**options, return_dict_in_generate=True, output_scores=True)
        assert torch.equal(plain, rich.sequences)
        assert len(rich.scores) == 30
        assert grounded.facts(plain) == grounded.facts(rich) == grounded.facts(rich.sequences)

    def test_ids_may_come_first_and_a_config_second(self, grounded: GroundedModel) -> None:
        config = GenerationConfig(max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)
        out = grounded.generate(prompts("a Fact:")["input_ids"], config)
        assert grounded.facts(out)[0]

    def test_the_prompt_may_be_embeddings(self, model: Any, grounded: GroundedModel) -> None:
        embeddings = model.get_input_embeddings()(prompts("a Fact:")["input_ids"])
        out = grounded.generate(inputs_embeds=embeddings, logits_processor=eager(strength=30.0), max_new_tokens=60)
        assert grounded.facts(out)[0]

    def test_a_streamer_sees_the_ids(self, grounded: GroundedModel) -> None:
        seen: list[int] = []

        class Streamer:
            def put(self, value: torch.Tensor) -> None:
                seen.extend(value.flatten().tolist())

            def end(self) -> None:
                pass

        out = grounded.generate(**prompts("a Fact:"), max_new_tokens=20, do_sample=False, streamer=Streamer())
        assert seen == out[0].tolist()

    def test_without_processors_in_place_free_text_is_the_models(self, model: Any) -> None:
        """A prompt and a text without triggers: grounded or not, the ids are the same."""
        quiet = ground(model, tiny_tokenizer(), tiny_index(FACTS, trigger="Fact:::"))
        options: dict[str, Any] = {**prompts("hello"), "max_new_tokens": 40, "do_sample": False}
        assert torch.equal(quiet.generate(**options), model.generate(**options))

    def test_several_threads_may_share_the_index(self, grounded: GroundedModel) -> None:
        def run(number: int) -> list[int]:
            text = PROMPTS[number % len(PROMPTS)]
            out = grounded.generate(**prompts(text), logits_processor=eager(), max_new_tokens=40, do_sample=False)
            return out[0].tolist()

        alone = [run(number) for number in range(len(PROMPTS))]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(run, range(12))) == alone * 3

    def test_facts_of_unknown_ids_need_the_prompts_length(self, grounded: GroundedModel) -> None:
        out = grounded.generate(**prompts("a Fact:"), max_new_tokens=30, do_sample=False)
        with pytest.raises(InputError, match="prompt_length"):
            grounded.facts(out.clone())
        length = prompts("a Fact:")["input_ids"].shape[1]
        assert grounded.facts(out.clone(), prompt_length=length) == grounded.facts(out)
        assert grounded.facts(out.tolist(), prompt_length=length) == grounded.facts(out)

    def test_it_forgets_outputs_that_are_gone(self, grounded: GroundedModel) -> None:
        gc.collect()
        before = dict(grounded._outputs)
        out = grounded.generate(**prompts("a"), max_new_tokens=2, return_dict_in_generate=True)
        assert len(grounded._outputs) == len(before) + 2
        del out
        gc.collect()
        assert grounded._outputs == before

    def test_all_else_is_the_models(self, model: Any, grounded: GroundedModel) -> None:
        assert grounded.config is model.config
        assert grounded.device == model.device
        with pytest.raises(AttributeError):
            _ = grounded.no_such_attribute

    def calls_of_continuous_batching(self, grounded: GroundedModel) -> Iterator[Callable[[], Any]]:
        inputs = prompts("a")["input_ids"]
        yield lambda: grounded.generate_batch([[1]])
        yield grounded.init_continuous_batching
        yield grounded.continuous_batching_context_manager
        yield lambda: grounded.generate(inputs, cache_implementation="paged")

    def test_continuous_batching_is_blocked(self, grounded: GroundedModel) -> None:
        for call in self.calls_of_continuous_batching(grounded):
            with pytest.raises(RefactxError, match="unconstrained"):
                call()

    def test_transformers_would_not_take_the_processor_there(self, index: MemoryIndex) -> None:
        assert FactLogitsProcessor(index, tiny_tokenizer()).supports_continuous_batching is False
