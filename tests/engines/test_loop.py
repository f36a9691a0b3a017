"""Forced tokens without forward passes: the texts are those of Transformers' own loop, in fewer passes."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.loop_runs import (
    both,
    by_transformers,
    examples,
    fact_count,
    grounded,
    index,
    llama,
    some_texts,
    unforced,
)
from support.tiny_model import (
    PROMPTS,
    Eager,
    Passes,
    allowed_by_brute_force,
    check_text,
    eager,
    ids,
    log_probabilities,
    one_thread,  # noqa: F401
    prompts,
    tiny_tokenizer,
    token,
    whole_facts,
)

BANS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "repetition penalty": {"repetition_penalty": 1.3},
    "n-gram ban": {"no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[token(" <")], [token(" .")]]},
    "least length": {"min_new_tokens": 9},
    "begin and end": {"forced_eos_token_id": token("<"), "begin_suppress_tokens": ids("Fact:", " Fact:")},
}
SAMPLING: dict[str, dict[str, Any]] = {
    "plain": {"do_sample": True},
    "hot": {"do_sample": True, "temperature": 3.0},
    "cold": {"do_sample": True, "temperature": 0.3},
    "top-k": {"do_sample": True, "top_k": 3},
    "top-p": {"do_sample": True, "top_p": 0.6, "temperature": 1.5},
    "min-p": {"do_sample": True, "min_p": 0.2, "typical_p": 0.9},
}


class TestGreedy:
    def check(self, texts: list[str], side: str, seed: int, strength: float, end: float, ban: str, budget: int) -> None:
        inputs = prompts(*texts, side=side)
        given = [Eager(strength, pieces=True, end=end)]
        ours, theirs = both(llama(seed), inputs, given, max_new_tokens=budget, do_sample=False, **BANS[ban])
        assert ours.tolist() == theirs.tolist()

    cases = given(
        texts=some_texts(4),
        side=st.sampled_from(["left", "right"]),
        seed=st.integers(0, 7),
        strength=st.sampled_from([0.5, 1.0, 2.0, 6.0]),
        end=st.sampled_from([-math.inf, 0.0, 0.5, 1.0]),
        ban=st.sampled_from(list(BANS)),
        budget=st.integers(1, 60),
    )

    @examples(15)
    @cases
    def test_ids_are_those_of_transformers_loop(self, **case: Any) -> None:
        self.check(**case)

    @pytest.mark.slow
    @examples(2000)
    @cases
    def test_ids_are_those_of_transformers_loop_in_thousands(self, **case: Any) -> None:
        self.check(**case)

    @pytest.mark.parametrize("ban", ["nothing", "repetition penalty", "n-gram ban"])
    def test_there_are_facts_and_ends_to_compare(self, ban: str) -> None:
        facts, ended = 0, 0
        for seed in range(2):
            inputs = prompts(*PROMPTS)
            given = [Eager(1.0, pieces=True, end=1.0)]
            ours, theirs = both(llama(seed), inputs, given, max_new_tokens=45, do_sample=False, **BANS[ban])
            assert ours.tolist() == theirs.tolist()
            facts += fact_count(ours, inputs)
            ended += int((ours == token_of_end()).any(dim=1).sum())
        assert facts > 3
        assert ended > 1

    @pytest.mark.parametrize("text", PROMPTS[1:3])
    def test_every_budget_cuts_at_the_same_id(self, text: str) -> None:
        inputs = prompts(text)
        longest, _ = both(llama(), inputs, eager(), max_new_tokens=24, do_sample=False)
        for budget in range(1, 24):
            out = grounded().generate(**inputs, logits_processor=eager(), max_new_tokens=budget, do_sample=False)
            assert out.tolist() == longest[:, : inputs["input_ids"].shape[1] + budget].tolist()

    def test_max_length_counts_the_prompt(self) -> None:
        ours, theirs = both(llama(), prompts("a Fact:"), eager(), max_length=13, do_sample=False)
        assert ours.shape == (1, 13)
        assert ours.tolist() == theirs.tolist()

    def test_without_an_end_of_sequence(self) -> None:
        options: dict[str, Any] = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        inputs = prompts(*PROMPTS)
        ours, theirs = both(llama(), inputs, eager(), **options)
        assert ours.tolist() == theirs.tolist()
        assert fact_count(ours, inputs) > 4

    def test_rows_that_end_at_different_times_are_padded(self) -> None:
        given = [Eager(1.5, pieces=False, end=1.5)]
        inputs = prompts(*PROMPTS, *PROMPTS[:2], "in", "so")
        ours, theirs = both(llama(3), inputs, given, max_new_tokens=80, do_sample=False)
        assert ours.tolist() == theirs.tolist()
        following = ours[:, inputs["input_ids"].shape[1] :]
        lengths = (following != tiny_tokenizer().pad_token_id).sum(dim=1).tolist()
        assert len(set(lengths)) > 2

    def test_a_prompt_of_the_begin_of_sequence_alone(self) -> None:
        ours, theirs = both(llama(), {}, eager(), max_new_tokens=30, do_sample=False)
        assert ours.tolist() == theirs.tolist()
        out = grounded().generate(logits_processor=eager(), max_new_tokens=30, do_sample=False)
        assert grounded().facts(out)[0]


def token_of_end() -> int:
    return ids("</s>")[0]


class TestPasses:
    @examples(12)
    @given(
        text=st.sampled_from(PROMPTS),
        seed=st.integers(0, 3),
        strength=st.sampled_from([1.0, 4.0]),
        sampled=st.booleans(),
        budget=st.integers(1, 50),
    )
    def test_at_most_the_unforced_ids_and_one_more(
        self, text: str, seed: int, strength: float, sampled: bool, budget: int
    ) -> None:
        inputs = prompts(text)
        torch.manual_seed(seed)
        with Passes(llama(seed)) as passes:
            out = grounded(seed).generate(
                **inputs, logits_processor=eager("", strength), max_new_tokens=budget, do_sample=sampled
            )
        assert passes.number <= unforced(out[0].tolist(), inputs["input_ids"].shape[1]) + 1

    def test_far_fewer_than_ids(self) -> None:
        with Passes(llama(0)) as passes:
            out = grounded().generate(
                **prompts("a Fact:"), logits_processor=eager(), max_new_tokens=60, do_sample=False
            )
        assert len(grounded().facts(out)[0]) > 2
        assert 10 < passes.number < 40

    def test_a_batch_takes_fewer_passes_too(self) -> None:
        with Passes(llama(0)) as passes:
            grounded().generate(**prompts(*PROMPTS), logits_processor=eager(), max_new_tokens=60, do_sample=False)
        assert 10 < passes.number < 57

    def test_no_id_goes_through_the_model_twice(self) -> None:
        inputs = prompts("a Fact:")
        with Passes(llama(0)) as passes:  # there are no drafts in sampling
            out = grounded().generate(**inputs, logits_processor=eager(), max_new_tokens=60, do_sample=True)
        assert 10 < passes.ids < out.numel()


class TestSampling:
    @pytest.mark.parametrize("how", SAMPLING)
    def test_the_same_seed_gives_the_same_ids(self, how: str) -> None:
        for seed, text in enumerate(PROMPTS[1:3]):
            given = [Eager(4.0, pieces=True, end=2.0)]
            ours, theirs = both(llama(), prompts(text), given, seed, max_new_tokens=30, **SAMPLING[how])
            assert ours.tolist() == theirs.tolist()

    def test_the_random_generator_ends_in_the_state_of_transformers_loop(self) -> None:
        states = []
        for run in (grounded().generate, lambda **options: by_transformers(llama(), {}, **options)):
            torch.manual_seed(1)
            run(**prompts("a Fact:"), max_new_tokens=17, do_sample=True)
            states.append(torch.get_rng_state())
        assert torch.equal(*states)

    def test_several_samples_of_one_prompt_are_facts_each(self) -> None:
        inputs = prompts("a Fact:", "hello")
        torch.manual_seed(0)
        out = grounded().generate(
            **inputs, logits_processor=eager(), max_new_tokens=40, do_sample=True, num_return_sequences=4
        )
        assert out.shape[0] == 8
        assert len({tuple(row) for row in out.tolist()}) > 6
        for row, facts in zip(out.tolist(), grounded().facts(out), strict=True):
            check_text(index(), row, inputs["input_ids"].shape[1], facts)

    @pytest.mark.long
    def test_batches_have_the_same_distribution(self) -> None:
        """Each possible fact and terminator is as frequent as in the model's distribution (5 sigma)."""
        texts, number = ("a Fact:", "so hello Fact:"), 300
        inputs = prompts(*texts)
        torch.manual_seed(0)
        longest = max(map(len, whole_facts(index())))
        out = grounded().generate(
            **inputs, max_new_tokens=longest, do_sample=True, num_return_sequences=number, temperature=1.5
        )
        length = inputs["input_ids"].shape[1]
        for at, text in enumerate(texts):
            rows = out[at * number : (at + 1) * number, length:].tolist()
            expected = probabilities(prompts(text)["input_ids"][0].tolist(), temperature=1.5)
            assert math.isclose(sum(expected.values()), 1, abs_tol=1e-4)
            found = Counter(next(fact for fact in expected if tuple(row[: len(fact)]) == fact) for row in rows)
            assert sum(number * p > 5 for p in expected.values()) > 5
            for fact, p in expected.items():
                assert abs(found[fact] - number * p) <= 5 * math.sqrt(number * p * (1 - p)) + 1


def probabilities(prompt: list[int], temperature: float) -> dict[tuple[int, ...], float]:
    """The probability of each whole fact after a prompt that ends in a trigger, by plain forward passes."""
    found = {}
    for fact in whole_facts(index()):
        scores = log_probabilities(llama(), [*prompt, *fact])[len(prompt) - 1 :] / temperature
        total = 0.0
        for at, number in enumerate(fact):
            allowed = allowed_by_brute_force(index(), [*ids("Fact:"), *fact[:at]])
            assert allowed is not None
            total += float(scores[at, number] - scores[at, sorted(allowed)].logsumexp(0))
        found[fact] = math.exp(total)
    return found
