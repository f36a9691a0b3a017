"""Fact beams find the facts that a plain beam search finds, by brute force over whole texts."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.beam_runs import ALL, INDEX, MORE, grounded, llama
from support.tiny_model import (
    PROMPTS,
    Eager,
    MemoryIndex,
    allowed_by_brute_force,
    check_text,
    eager,
    ids,
    log_probabilities,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_tokenizer,
    whole_facts,
)

from refactx.ask.grounded import ground
from refactx.selection.beams import FactBeams


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
    """The score of a fact's ids after `before`, by one plain forward pass."""
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
    """The plain search: each step makes every hypothesis one id longer, with one pass each, until all have ended.

    `written`: the ids after the prompt, up to the trigger.
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
def test_with_as_many_beams_as_facts_the_best_fact_is_found(options: FactBeams) -> None:
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
def test_each_fact_is_that_of_the_plain_search(options: FactBeams, beams: int) -> None:
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
def test_longer_facts_are_searched_although_a_shorter_one_ends(beams: int) -> None:
    """A fact that other facts continue: its end does not take the place of a beam."""
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
def test_the_text_outside_facts_is_the_greedy_one_after_them(text: str) -> None:
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
