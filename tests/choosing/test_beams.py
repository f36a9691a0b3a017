"""Fact beams: the best whole fact at each trigger, and greedy or sampled text around it."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_model import (
    FACTS,
    PROMPTS,
    SURPLUS,
    Eager,
    MemoryIndex,
    Passes,
    allowed_by_brute_force,
    check_text,
    eager,
    ids,
    log_probabilities,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_model,
    tiny_tokenizer,
    whole_facts,
)
from transformers import LogitsProcessorList, MistralConfig, MistralForCausalLM, StoppingCriteriaList

from refactx.choosing.beam_search import MOST_GUESSED, FactBeams
from refactx.errors import InputError, ModelError
from refactx.grounded.model import GroundedModel, ground

INDEX = tiny_index(FACTS)
MORE = tiny_index([f"<{s}> <{p}> <{o}>" for s in ("Ann", "Bo") for p in "pq" for o in ("b", "bb", "c.")])
ALL = len(whole_facts(MORE))
"""As many beams as the larger tree has leaves."""


@cache
def llama(seed: int) -> Any:
    return tiny_model(seed)


@cache
def grounded(index: MemoryIndex = INDEX, seed: int = 0) -> GroundedModel:
    return ground(llama(seed), tiny_tokenizer(), index)


def free_of(index: MemoryIndex, written: Sequence[int]) -> bool:
    return allowed_by_brute_force(index, written) is None


def score_of_each(
    index: MemoryIndex,
    seed: int,
    before: Sequence[int],
    written: Sequence[int],
    fact: Sequence[int],
    options: FactBeams,
) -> float:
    """The score of a fact's ids behind `before`, by one plain forward pass."""
    scores = log_probabilities(llama(seed), [*before, *fact])[len(before) - 1 :]
    total = 0.0
    for at, number in enumerate(fact):
        total += float(scores[at, number])
        if options.renormalise:
            allowed = allowed_by_brute_force(index, [*written, *fact[:at]])
            assert allowed is not None
            total -= float(scores[at, sorted(allowed)].logsumexp(0))
    return total / len(fact) ** options.length_penalty


def beam_search(
    index: MemoryIndex, seed: int, before: Sequence[int], written: Sequence[int], options: FactBeams, room: int
) -> tuple[int, ...]:
    """The plain search: every hypothesis one id longer at each step, one pass each, to the last one's end.

    `written`: the ids behind the prompt, up to the trigger.
    """
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    cut: tuple[int, ...] = ()
    for _ in range(room):
        grown = []
        for total, fact in running:
            scores = log_probabilities(llama(seed), [*before, *fact])[-1]
            allowed = sorted(allowed_by_brute_force(index, [*written, *fact]) or ())
            if options.renormalise:
                scores = scores - scores[allowed].logsumexp(0)
            grown += [(total + float(scores[number]), (*fact, number)) for number in allowed]
        grown.sort(reverse=True)
        done = [free_of(index, [*written, *fact]) for _, fact in grown]
        finished += [
            (total / len(fact) ** options.length_penalty, fact)
            for (total, fact), ends in zip(grown, done, strict=True)
            if ends
        ]
        running = [hypothesis for hypothesis, ends in zip(grown, done, strict=True) if not ends][: options.beams]
        if not running:
            break
        cut = running[0][1]
    return max(finished)[1] if finished else cut


OPTIONS = [
    FactBeams(1, renormalise=renormalise, length_penalty=penalty)
    for renormalise in (False, True)
    for penalty in (0.0, 0.5, 1.0)
]


def with_beams(options: FactBeams, beams: int) -> FactBeams:
    return FactBeams(beams, options.renormalise, options.length_penalty)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_as_many_beams_as_facts_find_the_best_of_all(options: FactBeams) -> None:
    for seed, text in ((0, "so\nFact:"), (1, "a Fact:")):
        inputs = prompts(text)
        prompt = inputs["input_ids"][0].tolist()
        scored = sorted(
            (score_of_each(MORE, seed, prompt, ids("Fact:"), fact, options), fact) for fact in whole_facts(MORE)
        )
        out = grounded(MORE, seed).generate(
            **inputs, fact_beams=with_beams(options, ALL), max_new_tokens=len(scored[-1][1]), do_sample=False
        )
        assert tuple(out[0, len(prompt) :].tolist()) == scored[-1][1]


@pytest.mark.parametrize(("options", "beams"), list(zip(OPTIONS, [1, 2, 3, 3, 2, 3], strict=True)), ids=str)
def test_each_fact_is_the_plain_searchs(options: FactBeams, beams: int) -> None:
    for index in (INDEX, MORE):
        inputs = prompts("a b c")
        length = inputs["input_ids"].shape[1]
        out = grounded(index).generate(
            **inputs,
            logits_processor=eager(),
            fact_beams=with_beams(options, beams),
            max_new_tokens=36,
            do_sample=False,
        )
        (facts,) = grounded(index).facts(out)
        row = out[0].tolist()
        assert len(facts) > 1
        for start, stop in (fact.token_span for fact in facts):
            room = len(row) - start
            expected = beam_search(index, 0, row[:start], row[length:start], with_beams(options, beams), room)
            assert tuple(row[start:stop]) == expected


@pytest.mark.parametrize("beams", [1, 2, 3])
def test_where_a_fact_may_end_the_longer_ones_are_still_looked_at(beams: int) -> None:
    """A fact that other facts go on from: its end takes no beam's place."""
    nested = tiny_index(["<a> <b> <c>", "<a> <b> <c> <d> <e> <f>", "<a> <b> <c> <.>", "<a> <b> <c> <dd>"])
    for options in OPTIONS[beams % 2 :: 2]:
        prompt = prompts("so Fact:")
        before = prompt["input_ids"][0].tolist()
        asked = with_beams(options, beams)
        out = ground(llama(1), tiny_tokenizer(), nested).generate(
            **prompt, fact_beams=asked, max_new_tokens=45, do_sample=False
        )
        written = out[0, len(before) :].tolist()
        expected = beam_search(nested, 1, before, ids("Fact:"), asked, 45)
        assert tuple(written[: len(expected)]) == expected


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    texts=st.lists(st.sampled_from([*PROMPTS, "in", "Fact: <Ann> <"]), min_size=1, max_size=3),
    seed=st.integers(0, 3),
    beams=st.integers(1, 5),
    option=st.sampled_from(OPTIONS),
    sampled=st.booleans(),
    strength=st.sampled_from([1.0, 4.0]),
    budget=st.integers(1, 60),
)
def test_only_facts_and_none_twice(
    texts: list[str], seed: int, beams: int, option: FactBeams, sampled: bool, strength: float, budget: int
) -> None:
    inputs = prompts(*texts)
    torch.manual_seed(seed)
    model = grounded(INDEX, seed)
    out = model.generate(
        **inputs,
        logits_processor=eager("", strength),
        fact_beams=with_beams(option, beams),
        max_new_tokens=budget,
        do_sample=sampled,
    )
    length = inputs["input_ids"].shape[1]
    assert out.shape == (len(texts), length + budget)
    for row, facts in zip(out.tolist(), model.facts(out), strict=True):
        assert len({fact.text for fact in facts}) == len(facts)
        check_text(INDEX, row, length, facts)


@pytest.mark.parametrize("text", ["so", "a b c"])
def test_outside_facts_the_text_is_what_greedy_writes_behind_them(text: str) -> None:
    inputs = prompts(text)
    length = inputs["input_ids"].shape[1]
    out = grounded().generate(**inputs, logits_processor=eager(), fact_beams=3, max_new_tokens=60, do_sample=False)
    (facts,) = grounded().facts(out)
    row, processor = out[0].tolist(), Eager(8.0, pieces=True)
    logits = llama(0)(input_ids=out).logits.detach()
    free = [at for at in range(length, len(row)) if free_of(INDEX, row[length:at])]
    assert facts
    assert len(free) > 5
    for at in free:
        scores: Any = logits[:, at - 1]
        assert row[at] == int(processor(out[:, :at], scores).argmax())


@pytest.mark.parametrize("budget", [1, 2, 5, 9, 10, 11, 12, 16])
def test_a_budget_that_ends_inside_a_fact_takes_the_best_that_fits(budget: int) -> None:
    inputs = prompts("a Fact:")
    before = inputs["input_ids"][0].tolist()
    for options in (FactBeams(2), FactBeams(3, length_penalty=1.0), FactBeams(3, renormalise=True)):
        out = grounded().generate(**inputs, fact_beams=options, max_new_tokens=budget, do_sample=False)
        written = tuple(out[0, len(before) :].tolist())
        expected = beam_search(INDEX, 0, before, ids("Fact:"), options, budget)
        assert len(written) == budget
        assert written[: len(expected)] == expected


class TestCalls:
    @pytest.mark.parametrize("side", ["left", "right"])
    def test_each_row_of_a_batch_is_what_it_is_alone(self, side: str) -> None:
        options: dict[str, Any] = {"fact_beams": 2, "max_new_tokens": 30, "do_sample": False}
        inputs = prompts(*PROMPTS, side=side)
        together = grounded().generate(**inputs, logits_processor=eager(), **options)
        facts = grounded().facts(together)
        length = inputs["input_ids"].shape[1]
        for n, text in enumerate(PROMPTS):
            # Padding on the right is read as text's end by Transformers, and so changes the text, but not from alone.
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
            behind = row[row.index(ends[0]) + 1 :] if ends[0] in row else []
            assert set(behind) <= {ends[1]}

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
        assert torch.equal(again, grounded().generate(plain, past_key_values=rich.past_key_values, **on))

    def test_passes_are_fewer_than_ids(self) -> None:
        given = LogitsProcessorList([Eager(8.0, pieces=False)])
        with Passes(llama(0)) as passes:
            out = grounded().generate(
                **prompts("a Fact:"), logits_processor=given, fact_beams=3, max_new_tokens=60, do_sample=False
            )
        assert len(grounded().facts(out)[0]) > 2
        assert 10 < passes.number < 45

    def test_the_best_fact_is_not_read_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With one beam and no guesses there is nothing to read but the text, each id of it once."""
        monkeypatch.setattr("refactx.choosing.guesses.another_line", lambda *given: [])
        with Passes(llama(0)) as passes:
            out = grounded(MORE).generate(**prompts("a Fact:"), fact_beams=1, max_new_tokens=40, do_sample=False)
        assert len(grounded(MORE).facts(out)[0]) == 1
        assert passes.ids <= out.shape[1]

    def test_a_search_begins_with_the_paths_of_the_last_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """That saves passes and changes nothing."""
        given = LogitsProcessorList([Eager(8.0, pieces=False)])
        outs, numbers = [], []
        for most in (MOST_GUESSED, 0):
            monkeypatch.setattr("refactx.choosing.beam_search.MOST_GUESSED", most)
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
    def test_a_text_that_is_ended_within_a_fact_may_go_on_with_its_cache(self, cut: int) -> None:
        """The model may have read more of the fact than the text has."""
        inputs = prompts("a Fact:")
        length = inputs["input_ids"].shape[1] + cut
        ends = StoppingCriteriaList([lambda ids, _: torch.full((len(ids),), ids.shape[1] >= length)])
        options: dict[str, Any] = {"fact_beams": 3, "max_new_tokens": 40, "do_sample": False}
        rich = grounded().generate(**inputs, **options, stopping_criteria=ends, return_dict_in_generate=True)
        assert rich.sequences.shape[1] == length
        assert rich.past_key_values.get_seq_length() < length
        on = {"max_new_tokens": 20, "do_sample": False, "logits_processor": eager()}
        again = grounded().generate(rich.sequences, **on)
        assert torch.equal(again, grounded().generate(rich.sequences, past_key_values=rich.past_key_values, **on))

    def test_a_pass_takes_all_beams_at_once(self) -> None:
        """A fact takes no more passes than its longest rival has ids, however many beams there are."""
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
            with pytest.raises(InputError, match="fact beams and channels search within greedy or sampled text"):
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
    def test_calls_that_the_search_does_not_know(self, options: dict[str, Any]) -> None:
        with pytest.raises(ModelError, match="fact beams need"):
            grounded().generate(**prompts("so"), fact_beams=2, max_new_tokens=8, do_sample=False, **options)

    def test_a_sliding_window(self) -> None:
        config = MistralConfig(
            vocab_size=len(tiny_tokenizer()) + SURPLUS,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            sliding_window=4,
        )
        model = ground(MistralForCausalLM(config).eval(), tiny_tokenizer(), INDEX)
        with pytest.raises(ModelError, match="fact beams need"):
            model.generate(**prompts("so"), fact_beams=2, max_new_tokens=8, do_sample=False, pad_token_id=0)

    @pytest.mark.parametrize("number", [0, -1])
    def test_no_beams(self, number: int) -> None:
        with pytest.raises(InputError, match="at least 1"):
            grounded().generate(**prompts("so"), fact_beams=number, max_new_tokens=8)
        with pytest.raises(InputError, match="length penalty"):
            FactBeams(1, length_penalty=-1.0)
