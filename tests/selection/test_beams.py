"""Calls of `generate` with fact beams: batches, samples, caches, forward passes, and calls that are refused."""

from typing import Any

import pytest
import torch
from support.beam_runs import ALL, INDEX, MORE, grounded, llama
from support.tiny_model import (
    FACTS,
    PROMPTS,
    Eager,
    Passes,
    check_text,
    eager,
    ids,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_tokenizer,
)
from transformers import LogitsProcessorList, StoppingCriteriaList

from refactx.ask.grounded import ground
from refactx.engines.transformers.internals import CACHE
from refactx.errors import InputError, ModelError
from refactx.selection.beams import MOST_DRAFTED, FactBeams


class TestCalls:
    @pytest.mark.parametrize("side", ["left", "right"])
    def test_each_row_of_a_batch_has_the_ids_that_it_has_alone(self, side: str) -> None:
        options: dict[str, Any] = {"fact_beams": 2, "max_new_tokens": 30, "do_sample": False}
        inputs = prompts(*PROMPTS, side=side)
        together = grounded().generate(**inputs, logits_processor=eager(), **options)
        facts = grounded().facts(together)
        length = inputs["input_ids"].shape[1]
        for n, text in enumerate(PROMPTS):
            # Transformers takes padding on the right for an end of the text, so the text is another one, but the same alone.
            row = {name: values[n : n + 1] for name, values in inputs.items()}
            alone = grounded().generate(
                **(prompts(text) if side == "left" else row), logits_processor=eager(), **options
            )
            assert together[n, length:].tolist() == alone[0, -30:].tolist()
            assert [f.text for f in grounded().facts(alone)[0]] == [f.text for f in facts[n]]

    def test_rows_that_end_early_are_padded(self) -> None:
        given = LogitsProcessorList([Eager(1.5, pieces=False, end=1.5)])
        out = grounded(INDEX, 3).generate(
            **prompts(*PROMPTS), logits_processor=given, fact_beams=2, max_new_tokens=60, do_sample=False
        )
        ends = ids("</s>", "<pad>")
        assert {row[-1] for row in out.tolist()} & set(ends)
        for row in out.tolist():
            following = row[row.index(ends[0]) + 1 :] if ends[0] in row else []
            assert set(following) <= {ends[1]}

    def test_sampled_text_is_that_of_its_seed(self) -> None:
        outs = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            options = {"fact_beams": 2, "max_new_tokens": 40, "do_sample": True}
            outs.append(grounded().generate(**prompts("so"), logits_processor=eager(), **options).tolist())
        assert outs[0] == outs[1] != outs[2]

    @pytest.mark.parametrize("texts", [("so",), ("so", "a Fact:")])
    def test_several_samples_of_one_prompt(self, texts: tuple[str, ...]) -> None:
        torch.manual_seed(0)
        options: dict[str, Any] = {"fact_beams": 2, "max_new_tokens": 40, "do_sample": True, "num_return_sequences": 3}
        out = grounded().generate(**prompts(*texts), logits_processor=eager(), **options)
        found = grounded().facts(out)
        assert len(out) == 3 * len(texts)
        assert len({tuple(row) for row in out.tolist()}) == len(out)
        for row, facts in zip(out.tolist(), found, strict=True):
            check_text(INDEX, row, prompts(*texts)["input_ids"].shape[1], facts)

    def test_one_fact_after_another_until_all_are_written(self) -> None:
        few = tiny_index(FACTS[:3])
        model = ground(llama(0), tiny_tokenizer(), few)
        given = LogitsProcessorList([Eager(8.0, pieces=False)])
        out = model.generate(**prompts("so"), logits_processor=given, fact_beams=3, max_new_tokens=80, do_sample=False)
        assert {fact.text for fact in model.facts(out)[0]} == {fact + " ." for fact in few.facts}

    def test_a_dictionary_may_be_returned(self) -> None:
        options: dict[str, Any] = {"fact_beams": 3, "max_new_tokens": 40, "do_sample": False}
        plain = grounded().generate(**prompts("so"), logits_processor=eager(), **options)
        rich = grounded().generate(**prompts("so"), logits_processor=eager(), **options, return_dict_in_generate=True)
        assert torch.equal(plain, rich.sequences)
        on = {"max_new_tokens": 20, "do_sample": False, "logits_processor": eager()}
        again = grounded().generate(plain, **on)
        assert torch.equal(again, grounded().generate(plain, **{CACHE: getattr(rich, CACHE)}, **on))

    def test_passes_are_fewer_than_ids(self) -> None:
        given = LogitsProcessorList([Eager(8.0, pieces=False)])
        with Passes(llama(0)) as passes:
            out = grounded().generate(
                **prompts("a Fact:"), logits_processor=given, fact_beams=3, max_new_tokens=60, do_sample=False
            )
        assert len(grounded().facts(out)[0]) > 2
        assert 10 < passes.number < 45

    def test_the_best_fact_is_not_read_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With one beam and no drafts, the model reads nothing but the text, each id once."""
        monkeypatch.setattr("refactx.selection.beams.line_after_fact", lambda *given: [])
        with Passes(llama(0)) as passes:
            out = grounded(MORE).generate(**prompts("a Fact:"), fact_beams=1, max_new_tokens=40, do_sample=False)
        assert len(grounded(MORE).facts(out)[0]) == 1
        assert passes.ids <= out.shape[1]

    def test_a_search_begins_with_the_paths_of_the_last_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """That saves passes and does not change the text."""
        given = LogitsProcessorList([Eager(8.0, pieces=False)])
        outs, numbers = [], []
        for most in (MOST_DRAFTED, 0):
            monkeypatch.setattr("refactx.selection.beams.MOST_DRAFTED", most)
            for options in (FactBeams(3), FactBeams(3, renormalise=True, length_penalty=1.0)):
                with Passes(llama(0)) as passes:
                    out = grounded(MORE).generate(
                        **prompts("a"), logits_processor=given, fact_beams=options, max_new_tokens=80, do_sample=False
                    )
                assert len(grounded(MORE).facts(out)[0]) > 4
                outs.append(out.tolist())
                numbers.append(passes.number)
        assert outs[:2] == outs[2:]
        assert numbers[0] < 0.9 * numbers[2]
        assert numbers[1] < numbers[3]

    @pytest.mark.parametrize("cut", [3, 6, 9])
    def test_a_text_that_ends_within_a_fact_may_continue_with_its_cache(self, cut: int) -> None:
        """The model may have read more of the fact than the text has."""
        inputs = prompts("a Fact:")
        length = inputs["input_ids"].shape[1] + cut
        ends = StoppingCriteriaList([lambda ids, _: torch.full((len(ids),), ids.shape[1] >= length)])
        options: dict[str, Any] = {"fact_beams": 3, "max_new_tokens": 40, "do_sample": False}
        rich = grounded().generate(**inputs, **options, stopping_criteria=ends, return_dict_in_generate=True)
        assert rich.sequences.shape[1] == length
        assert getattr(rich, CACHE).get_seq_length() < length
        on = {"max_new_tokens": 20, "do_sample": False, "logits_processor": eager()}
        again = grounded().generate(rich.sequences, **on)
        assert torch.equal(again, grounded().generate(rich.sequences, **{CACHE: getattr(rich, CACHE)}, **on))

    def test_a_pass_takes_all_beams_at_once(self) -> None:
        """A fact takes no more passes than its longest rival has ids, for any number of beams."""
        for beams in (1, 3, ALL):
            with Passes(llama(0)) as passes:
                grounded(MORE).generate(**prompts("a Fact:"), fact_beams=beams, max_new_tokens=14, do_sample=False)
            assert 2 < passes.number <= 16

    def test_allowed_ids_are_asked_for_by_the_row_of_the_batch(self) -> None:
        def only(row: int, _: torch.Tensor) -> list[int]:
            return ids("abcd"[row])

        options: dict[str, Any] = {"max_new_tokens": 2, "prefix_allowed_tokens_fn": only, "do_sample": True}
        for more in ({}, {"fact_beams": 2}):
            out = grounded().generate(**prompts("so", "in"), **options, num_return_sequences=2, **more)
            assert out[:, -2:].tolist() == [ids(letter, letter) for letter in "abcd"]


class TestRefused:
    @pytest.mark.parametrize(
        "options",
        [
            {"num_beams": 2, "do_sample": False},
            {"num_beams": 2, "do_sample": True},
            {"prompt_lookup_num_tokens": 3, "do_sample": False},
            {"assistant_model": "another", "do_sample": False},
        ],
        ids=str,
    )
    def test_text_that_is_neither_greedy_nor_sampled(self, options: dict[str, Any]) -> None:
        if "assistant_model" in options:
            options = {**options, "assistant_model": llama(1)}
        for texts in (["so"], ["so", "a Fact:"]):
            with pytest.raises(InputError, match="fact beams and channels need greedy or sampled text"):
                grounded().generate(**prompts(*texts), fact_beams=2, max_new_tokens=8, **options)

    @pytest.mark.parametrize(
        "options",
        [
            {"cache_implementation": "static"},
            {"use_cache": False},
            {"output_scores": True, "return_dict_in_generate": True},
            {"guidance_scale": 1.5},
        ],
        ids=str,
    )
    def test_calls_that_the_search_cannot_do(self, options: dict[str, Any]) -> None:
        with pytest.raises(ModelError, match="fact beams need"):
            grounded().generate(**prompts("so"), fact_beams=2, max_new_tokens=8, do_sample=False, **options)

    @pytest.mark.parametrize("number", [0, -1])
    def test_no_beams(self, number: int) -> None:
        with pytest.raises(InputError, match="at least 1"):
            grounded().generate(**prompts("so"), fact_beams=number, max_new_tokens=8)
        with pytest.raises(InputError, match="length penalty"):
            FactBeams(1, length_penalty=-1.0)
