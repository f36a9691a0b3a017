"""The loop with other processors, other modes of generation and other models: its ids are those of Transformers' own."""

from threading import current_thread, main_thread
from typing import Any

import pytest
import torch
from support.loop_runs import (
    both,
    fact_count,
    grounded,
    index,
    llama,
    other_model,
)
from support.tiny_model import (
    PROMPTS,
    Eager,
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
    SynthIDTextWatermarkingConfig,
)

from refactx.engines.transformers.processor import FactLogitsProcessor


class ByRow:
    """`prefix_allowed_tokens_fn`: other ids for each row of the batch."""

    def __call__(self, row: int, written: torch.Tensor) -> list[int]:
        return [*ids(" Fact:", " .", "b", "Ann>"), token("abcdefgh"[row]), int(written[-1]) % 200]


OF_ROWS: dict[str, dict[str, Any]] = {
    "allowed by row": {"prefix_allowed_tokens_fn": ByRow()},
    "the prompt's ids": {"encoder_repetition_penalty": 2.0},
    "the prompt's n-grams": {"encoder_no_repeat_ngram_size": 2},
    "guidance": {"guidance_scale": 1.5},
}


class TestOtherProcessors:
    """Processors that depend on a row's number, or must see every id, still work."""

    @pytest.mark.parametrize("name", OF_ROWS)
    def test_greedy(self, name: str) -> None:
        for texts in (PROMPTS[1:2], PROMPTS):
            self.check(name, texts)

    def check(self, name: str, texts: tuple[str, ...]) -> None:
        inputs, given = prompts(*texts), [Eager(2.0, pieces=False)]
        if "n-grams" in name and len(texts) > 1:
            inputs = prompts("so a Fact:", "so b Fact:", "a b", "hello a")
        options = {**OF_ROWS[name], "max_new_tokens": 25, "do_sample": False}
        ours, theirs = both(llama(), inputs, given, **options)
        assert ours.tolist() == theirs.tolist()
        assert fact_count(ours, inputs)

    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS])
    def test_a_watermark_that_follows_the_text(self, texts: tuple[str, ...]) -> None:
        watermark = SynthIDTextWatermarkingConfig(keys=[1, 2, 3, 4, 5], ngram_len=3)
        options = {"max_new_tokens": 40, "do_sample": True, "watermarking_config": watermark}
        ours, theirs = both(llama(), prompts(*texts), eager(), **options)
        assert ours.tolist() == theirs.tolist()

    def test_two_indexes_at_once(self) -> None:
        """A processor for another index among the given ones still runs."""
        others = tiny_index(["<x> <y> <z>"], trigger="<")
        given = FactLogitsProcessor(others, tiny_tokenizer())
        inputs = prompts("hello")
        torch.manual_seed(0)
        out = grounded().generate(
            **inputs, logits_processor=LogitsProcessorList([Bias(token("<"), 30.0), given]), max_new_tokens=30
        )
        assert "< <x> <y> <z> ." in index().tokenizer.decode(out[0].tolist())


class Bias(LogitsProcessor):
    def __init__(self, number: int, bias: float) -> None:
        self.number, self.bias = number, bias

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        scores = scores.clone()  # type: ignore[assignment]
        scores[:, self.number] += self.bias
        return scores


FALLBACKS: dict[str, dict[str, Any]] = {
    "static cache": {"cache_implementation": "static"},
    "no cache": {"use_cache": False},
    "beams": {"num_beams": 3},
    "prompt lookup": {"prompt_lookup_num_tokens": 3},
    "scores": {"output_scores": True, "return_dict_in_generate": True},
    "attentions": {"output_attentions": True, "return_dict_in_generate": True},
    "chunked prompt": {"prefill_chunk_size": 2},
}


class TestOtherWays:
    """Calls that the loop cannot do run in Transformers' own, and it can do others than Llama."""

    @pytest.mark.parametrize("name", FALLBACKS)
    def test_the_ids_are_the_same(self, name: str) -> None:
        inputs = prompts(*(PROMPTS if name != "prompt lookup" else PROMPTS[1:2]))  # it takes a single row
        options = {**FALLBACKS[name], "max_new_tokens": 25, "do_sample": False}
        ours, theirs = both(llama(), inputs, eager(name), **options)
        sequences = [getattr(out, "sequences", out) for out in (ours, theirs)]
        assert sequences[0].tolist() == sequences[1].tolist()
        assert fact_count(sequences[0], inputs)
        for asked in ("scores", "attentions"):
            if asked == name:
                assert len(ours[asked]) == len(theirs[asked]) == 25

    def test_an_assistant(self) -> None:
        options = {"max_new_tokens": 40, "do_sample": False, "assistant_model": tiny_model(1)}
        ours, theirs = both(llama(), prompts("a Fact:"), eager(), **options)
        assert ours.tolist() == theirs.tolist()

    @pytest.mark.parametrize("name", ["sliding window", "learnt positions", "alibi", "state space"])
    @pytest.mark.parametrize("texts", [PROMPTS[2:3], PROMPTS])
    def test_other_models(self, name: str, texts: tuple[str, ...]) -> None:
        inputs, model = prompts(*texts), other_model(name)
        given = [Eager(1.5, pieces=True, end=0.5)]
        ours, theirs = both(model, inputs, given, max_new_tokens=30, do_sample=False)
        assert ours.tolist() == theirs.tolist()
        assert fact_count(ours, inputs)


def test_processors_of_a_batch_are_called_in_the_callers_thread_and_modes() -> None:
    seen = set[tuple[bool, bool]]()

    class Watch(LogitsProcessor):
        def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
            seen.add((current_thread() is main_thread(), torch.is_grad_enabled()))
            return scores

    given = LogitsProcessorList([*eager(), Watch()])
    grounded().generate(**prompts(*PROMPTS), logits_processor=given, max_new_tokens=20, do_sample=False)
    assert seen == {(True, False)}
