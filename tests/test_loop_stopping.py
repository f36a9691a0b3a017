"""Where a text of the loop ends, and what else runs beside it: criteria, streamers, caches, the state between calls."""

from typing import Any

import pytest
import torch
from loop_runs import (
    Streamer,
    both,
    by_transformers,
    fact_count,
    grounded,
    index,
    llama,
)
from tiny_model import (
    PROMPTS,
    Passes,
    eager,
    one_thread,  # noqa: F401
    prompts,
    tiny_tokenizer,
    token,
)
from transformers import (
    DynamicCache,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
)


class Ends(StoppingCriteria):
    """Ends a row at a given id, wherever it stands."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.Tensor:
        return input_ids[:, -1] == self.number


class TestStopping:
    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS[1:]])
    @pytest.mark.parametrize(
        "criterion",
        [Ends(token("p>")), Ends(token(" .")), Ends(token("Ann>")), StopStringCriteria(tiny_tokenizer(), ["<p", "Bo"])],
    )
    @pytest.mark.parametrize("sampled", [False, True])
    def test_criteria_are_asked_at_every_id(self, criterion: Any, texts: tuple[str, ...], sampled: bool) -> None:
        if sampled and len(texts) > 1:
            texts = texts[1:2]  # the same seed gives the same ids for a single row only
        criteria = StoppingCriteriaList([criterion])
        options = {"max_new_tokens": 30, "do_sample": sampled, "stopping_criteria": criteria}
        ours, theirs = both(llama(), prompts(*texts), eager(), **options)
        assert ours.tolist() == theirs.tolist()

    def test_stop_strings(self) -> None:
        for texts in (PROMPTS[:1], PROMPTS):
            options = {"max_new_tokens": 50, "do_sample": False, "stop_strings": ["<p"], "tokenizer": tiny_tokenizer()}
            ours, theirs = both(llama(), prompts(*texts), eager(), **options)
            assert ours.tolist() == theirs.tolist()
        assert index().tokenizer.decode(ours[1].tolist()).endswith("<p")

    def test_time_that_is_up(self) -> None:
        for texts in (PROMPTS[:1], PROMPTS):
            inputs = prompts(*texts)
            ours, theirs = both(llama(), inputs, eager(), max_new_tokens=50, do_sample=False, max_time=0.0)
            assert ours.tolist() == theirs.tolist()
            assert ours.shape[1] == inputs["input_ids"].shape[1] + 1


class TestWhatComesAndGoes:
    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS])
    @pytest.mark.parametrize("options", [{}, {"fact_beams": 1}])
    def test_a_streamer_gets_what_transformers_loop_puts(self, texts: Any, options: dict[str, Any]) -> None:
        if options and len(texts) > 1:
            return
        inputs, streamers = prompts(*texts), (Streamer(), Streamer())
        common: dict[str, Any] = {"max_new_tokens": 30, "do_sample": False}
        out = grounded().generate(**inputs, logits_processor=eager(), streamer=streamers[0], **common, **options)
        by_transformers(llama(), inputs, eager(), streamer=streamers[1], **common)
        if not options:
            assert streamers[0].seen == streamers[1].seen
        assert streamers[0].seen[0] == inputs["input_ids"].tolist()
        assert streamers[0].seen.pop() == "end"
        if len(texts) == 1:
            prompt, *rest = streamers[0].seen
            assert [*prompt[0], *(number for put in rest for number in put)] == out[0].tolist()

    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS])
    def test_a_dictionary_may_be_returned(self, texts: Any) -> None:
        inputs = prompts(*texts)
        options: dict[str, Any] = {"max_new_tokens": 40, "do_sample": False, "return_dict_in_generate": True}
        ours, theirs = both(llama(), inputs, eager(), **options)
        assert ours.sequences.tolist() == theirs.sequences.tolist()
        assert type(ours) is type(theirs)
        assert isinstance(ours.past_key_values, DynamicCache)

    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS])
    def test_the_text_may_go_on_with_the_cache_returned(self, texts: Any) -> None:
        inputs = prompts(*texts)
        common: dict[str, Any] = {"logits_processor": eager(), "do_sample": False}
        for cut in (1, 3, 7):
            first = grounded().generate(**inputs, **common, max_new_tokens=cut, return_dict_in_generate=True)
            mask = torch.cat([inputs["attention_mask"], torch.ones((len(texts), cut), dtype=torch.long)], dim=1)
            on = {"input_ids": first.sequences, "attention_mask": mask}
            again = grounded().generate(**on, **common, max_new_tokens=15)
            with_cache = grounded().generate(**on, **common, max_new_tokens=15, past_key_values=first.past_key_values)
            assert with_cache.tolist() == again.tolist()

    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS])
    def test_a_cache_may_be_given(self, texts: Any) -> None:
        inputs = prompts(*texts)
        expected = by_transformers(llama(), inputs, eager(), max_new_tokens=40, do_sample=False)
        cache = DynamicCache(config=llama().config)
        begun = inputs["input_ids"][:, :-1]
        mask = inputs["attention_mask"][:, :-1]
        positions = (mask.cumsum(-1) - 1).clamp_min(0)
        with torch.no_grad():
            llama()(input_ids=begun, attention_mask=mask, position_ids=positions, past_key_values=cache)
        options: dict[str, Any] = {"logits_processor": eager(), "max_new_tokens": 40, "do_sample": False}
        with Passes(llama(0)) as without:
            grounded().generate(**inputs, **options)
        with Passes(llama(0)) as passes:
            out = grounded().generate(**inputs, **options, past_key_values=cache)
        assert out.tolist() == expected.tolist()
        assert passes.ids <= without.ids - begun.numel()

    def test_position_ids_may_be_given(self) -> None:
        inputs = prompts(*PROMPTS)
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp_min(0) + 5
        ours, theirs = both(llama(), inputs, eager(), max_new_tokens=40, do_sample=False)
        assert ours.tolist() == theirs.tolist()
        assert fact_count(ours, inputs) > 4
