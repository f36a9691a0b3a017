"""The end of a text of the loop, and what a call takes besides: criteria, streamers, caches, position ids."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.loop_runs import (
    Streamer,
    both,
    by_transformers,
    fact_count,
    grounded,
    index,
    llama,
)
from support.tiny_model import (
    PROMPTS,
    Passes,
    eager,
    ids,
    one_thread,  # noqa: F401
    prompts,
    tiny_tokenizer,
    token,
)
from transformers import (
    DynamicCache,
    LogitsProcessor,
    MaxTimeCriteria,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
)

from refactx.ask.grounded import Interrupt
from refactx.engines.transformers.internals import CACHE
from refactx.selection import beams
from refactx.selection.beams import search_fact


class Ends(StoppingCriteria):
    """Ends a row at a given id, the first time or the `times`-th time that it is there."""

    def __init__(self, number: int, times: int = 1) -> None:
        self.number, self.times = number, times

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.Tensor:
        found = input_ids == self.number
        return found[:, -1] & (found.sum(dim=1) >= self.times)


ROUND = ids("a", "b", "c", "d", "e", "f")


class Again(LogitsProcessor):
    """Makes a model repeat some ids."""

    def __init__(self, some: list[int]) -> None:
        self.some = some

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        out = scores.clone()
        for row, last in enumerate(input_ids[:, -1].tolist()):
            following = self.some.index(last) + 1 if last in self.some else 0
            out[row, self.some[following % len(self.some)]] += 1000
        return out  # type: ignore[return-value]


class TestStopping:
    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS[1:]])
    @pytest.mark.parametrize(
        "criterion",
        [Ends(token("p>")), Ends(token(" .")), Ends(token("Ann>")), StopStringCriteria(tiny_tokenizer(), ["<p", "Bo"])],
    )
    @pytest.mark.parametrize("sampled", [False, True])
    def test_criteria_are_called_for_every_id(self, criterion: Any, texts: tuple[str, ...], sampled: bool) -> None:
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

    def test_the_limit_of_time(self) -> None:
        for texts in (PROMPTS[:1], PROMPTS):
            inputs = prompts(*texts)
            ours, theirs = both(llama(), inputs, eager(), max_new_tokens=50, do_sample=False, max_time=0.0)
            assert ours.tolist() == theirs.tolist()
            assert ours.shape[1] == inputs["input_ids"].shape[1] + 1


class Limits(StoppingCriteria):
    """Ends each row of a batch at a different length."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = torch.tensor(lengths)

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.Tensor:
        return self.lengths <= input_ids.shape[1]


class Calls(StoppingCriteria):
    """Ends all rows at its tenth call."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.Tensor:
        self.number += 1
        return torch.full((len(input_ids),), self.number >= 10)


class TestCriteriaOfBatches:
    @pytest.mark.parametrize("make", [lambda: Limits(20, 15, 12, 30), Calls])
    def test_a_callers_criterion_gets_all_rows_at_once(self, make: Callable[[], StoppingCriteria]) -> None:
        inputs = prompts(*PROMPTS)
        options: dict[str, Any] = {"max_new_tokens": 30, "do_sample": False}
        ours = grounded().generate(**inputs, logits_processor=eager(), stopping_criteria=[make()], **options)
        theirs = by_transformers(llama(), inputs, eager(), stopping_criteria=[make()], **options)
        assert ours.tolist() == theirs.tolist()

    @pytest.mark.parametrize(
        "criterion", [StopStringCriteria(tiny_tokenizer(), ["Bo"]), MaxTimeCriteria(100.0), Interrupt(lambda _: False)]
    )
    def test_criteria_for_single_rows_take_no_more_passes(self, criterion: StoppingCriteria) -> None:
        with Passes(llama()) as passes:
            options: dict[str, Any] = {"max_new_tokens": 60, "do_sample": False, "stopping_criteria": [criterion]}
            grounded().generate(**prompts(*PROMPTS), logits_processor=eager(), **options)
        assert passes.number < 57


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
        assert isinstance(getattr(ours, CACHE), DynamicCache)

    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS])
    def test_the_text_may_continue_with_the_returned_cache(self, texts: Any) -> None:
        inputs = prompts(*texts)
        common: dict[str, Any] = {"logits_processor": eager(), "do_sample": False}
        for cut in (1, 3, 7):
            first = grounded().generate(**inputs, **common, max_new_tokens=cut, return_dict_in_generate=True)
            mask = torch.cat([inputs["attention_mask"], torch.ones((len(texts), cut), dtype=torch.long)], dim=1)
            on = {"input_ids": first.sequences, "attention_mask": mask}
            again = grounded().generate(**on, **common, max_new_tokens=15)
            with_cache = grounded().generate(**on, **common, max_new_tokens=15, **{CACHE: getattr(first, CACHE)})
            assert with_cache.tolist() == again.tolist()

    @pytest.mark.parametrize("last", ROUND)
    def test_a_text_that_ended_at_a_draft_token_may_continue_with_its_cache(self, last: int) -> None:
        inputs, criteria = prompts("a"), StoppingCriteriaList([Ends(last, times=3)])
        options: dict[str, Any] = {"do_sample": False, "stopping_criteria": criteria, "return_dict_in_generate": True}
        with Passes(llama()) as passes:
            first = grounded().generate(**inputs, logits_processor=[Again(ROUND)], max_new_tokens=60, **options)
        assert first.sequences[0, -1] == last
        assert passes.number < first.sequences.shape[1] - 3  # there were right draft tokens
        assert getattr(first, CACHE).get_seq_length() < first.sequences.shape[1]
        on: dict[str, Any] = {"input_ids": first.sequences, "max_new_tokens": 15, "do_sample": False}
        again = grounded().generate(**on)
        assert grounded().generate(**on, **{CACHE: getattr(first, CACHE)}).tolist() == again.tolist()

    def test_there_is_no_search_after_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        searched: list[int] = []
        monkeypatch.setattr(beams, "search_fact", lambda *args: searched.append(1) or search_fact(*args))
        criteria = StoppingCriteriaList([Ends(token(" Fact:"), times=2)])
        options: dict[str, Any] = {"do_sample": False, "stopping_criteria": criteria, "max_new_tokens": 60}
        given = [Again([*ROUND, token(" Fact:")])]
        out = grounded().generate(**prompts("a b"), logits_processor=given, fact_beams=3, **options)
        assert out[0, -1] == token(" Fact:")
        assert fact_count(out, prompts("a b")) == len(searched) == 1

    @pytest.mark.parametrize("texts", [PROMPTS[1:2], PROMPTS])
    def test_a_cache_may_be_given(self, texts: Any) -> None:
        inputs = prompts(*texts)
        expected = by_transformers(llama(), inputs, eager(), max_new_tokens=40, do_sample=False)
        cache = DynamicCache(config=llama().config)
        begun = inputs["input_ids"][:, :-1]
        mask = inputs["attention_mask"][:, :-1]
        positions = (mask.cumsum(-1) - 1).clamp_min(0)
        with torch.no_grad():
            llama()(input_ids=begun, attention_mask=mask, position_ids=positions, **{CACHE: cache})
        options: dict[str, Any] = {"logits_processor": eager(), "max_new_tokens": 40, "do_sample": False}
        with Passes(llama(0)) as without:
            grounded().generate(**inputs, **options)
        with Passes(llama(0)) as passes:
            out = grounded().generate(**inputs, **options, **{CACHE: cache})
        assert out.tolist() == expected.tolist()
        assert passes.ids <= without.ids - begun.numel()

    def test_position_ids_may_be_given(self) -> None:
        inputs = prompts(*PROMPTS)
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp_min(0) + 5
        ours, theirs = both(llama(), inputs, eager(), max_new_tokens=40, do_sample=False)
        assert ours.tolist() == theirs.tolist()
        assert fact_count(ours, inputs) > 4
