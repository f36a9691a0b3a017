"""The logits processor: its mask is the brute-force one in every mode of `generate`, and other scores do not change."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.loop_runs import MODES
from support.tiny_model import (
    FACTS,
    PROMPTS,
    SURPLUS,
    MemoryIndex,
    allowed_by_brute_force,
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
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerFast,
)

from refactx.ask.grounded import ground
from refactx.engines.transformers.processor import FactLogitsProcessor
from refactx.errors import TokenizerMismatchError


class Watched(LogitsProcessor):
    """A processor whose every call is compared with the brute-force mask of each row."""

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


@pytest.mark.long
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


class TestProcessor:
    def call(self, processor: FactLogitsProcessor, *rows: list[int], scores: Any = None) -> torch.Tensor:
        scores = torch.randn(len(rows), len(tiny_tokenizer()) + SURPLUS) if scores is None else scores
        return processor(torch.tensor(rows), scores)

    @pytest.fixture
    def make(self, index: MemoryIndex) -> Callable[..., FactLogitsProcessor]:
        return lambda **options: FactLogitsProcessor(index, tiny_tokenizer(), **options)

    def test_the_scores_of_free_rows_are_returned_unchanged(self, make: Callable[..., FactLogitsProcessor]) -> None:
        scores = torch.randn(2, len(tiny_tokenizer()) + SURPLUS)
        assert make()(torch.tensor([ids("a", "b"), ids("in", "Fact:")]), scores) is scores

    def test_the_models_surplus_ids_are_never_allowed_in_a_fact(self, make: Callable[..., FactLogitsProcessor]) -> None:
        masked = self.call(make(), ids("a", " Fact:"))
        assert torch.isneginf(masked[0, len(tiny_tokenizer()) :]).all()
        assert (~torch.isneginf(masked[0])).nonzero().flatten().tolist() == [token(" <")]

    def test_rows_do_not_matter_only_ids_do(self, make: Callable[..., FactLogitsProcessor]) -> None:
        processor, fact = make(prompt_length=1), ids("a", " Fact:", " <", "Ann")
        self.call(processor, ids("a", "b"), fact[:2])
        self.call(processor, fact[:3], fact[:3])  # both beams continue the second
        masked = self.call(processor, [*ids("a", "b"), token("b"), token("b")], fact)  # back to an earlier row
        assert not torch.isneginf(masked[0]).any()
        assert (~torch.isneginf(masked[1])).sum() == 1
        shorter = self.call(processor, fact[:3])  # ids taken back, as assisted decoding does
        assert set((~torch.isneginf(shorter[0])).nonzero().flatten().tolist()) == set(ids("Ann", "B"))

    def test_allowed_ids_get_0_if_other_processors_ruled_them_all_out(self, make: Callable[..., Any]) -> None:
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

    def test_half_precision_scores_keep_their_type(self, make: Callable[..., FactLogitsProcessor]) -> None:
        scores = torch.randn(1, len(tiny_tokenizer()) + SURPLUS).to(torch.bfloat16)
        assert self.call(make(), ids("Fact:"), scores=scores).dtype == torch.bfloat16

    def test_a_second_call_with_another_prompt_is_noticed(self, make: Callable[..., FactLogitsProcessor]) -> None:
        processor = make()
        self.call(processor, ids("a", "b", " Fact:"))
        self.call(processor, ids("c", " Fact:", " <", "Ann", ">"))
        assert processor.prompt_length == 5

    def test_reset_prepares_for_the_next_call(self, make: Callable[..., FactLogitsProcessor]) -> None:
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

    def test_another_tokenizer_than_the_indexs_is_refused(self, index: MemoryIndex) -> None:
        backend = copy.deepcopy(tiny_tokenizer().backend_tokenizer)
        backend.pre_tokenizer = None
        other = PreTrainedTokenizerFast(tokenizer_object=backend)
        with pytest.raises(TokenizerMismatchError, match=r"another tokenizer.* --tokenizer MODEL$"):
            FactLogitsProcessor(index, other)
        with pytest.raises(TokenizerMismatchError, match="another tokenizer"):
            ground(tiny_model(), other, index)
