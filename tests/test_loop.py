"""Forced tokens without forward passes: the texts are those of Transformers' own loop, in fewer passes."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import (
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
    token,
    whole_facts,
)
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LogitsProcessor,
    LogitsProcessorList,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
    SynthIDTextWatermarkingConfig,
)

from refactx.grounded import GroundedModel, ground
from refactx.processor import FactLogitsProcessor

Inputs = dict[str, torch.Tensor]
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


@cache
def llama(seed: int = 0) -> Any:
    return tiny_model(seed)


@cache
def index() -> MemoryIndex:
    return tiny_index(FACTS)


@cache
def grounded(seed: int = 0) -> GroundedModel:
    return ground(llama(seed), tiny_tokenizer(), index())


def by_transformers(model: Any, inputs: Inputs, given: Sequence[Any] = (), **options: Any) -> Any:
    """What Transformers' own loop writes with the processor."""
    processors = LogitsProcessorList([*given, FactLogitsProcessor(index(), tiny_tokenizer())])
    return model.generate(**inputs, logits_processor=processors, **options)


def both(model: Any, inputs: Inputs, given: Sequence[Any] = (), seed: int = 0, **options: Any) -> tuple[Any, Any]:
    """What `grounded.generate` returns, and what Transformers' own loop does for the same seed."""
    torch.manual_seed(seed)
    ours = ground(model, tiny_tokenizer(), index()).generate(
        **inputs, logits_processor=LogitsProcessorList(given), **options
    )
    torch.manual_seed(seed)
    return ours, by_transformers(model, inputs, given, **options)


def fact_count(out: Any, inputs: Inputs) -> int:
    return sum(map(len, grounded().facts(out, prompt_length=inputs["input_ids"].shape[1])))


def unforced(row: Sequence[int], prompt_length: int) -> int:
    """How many ids behind the prompt had an alternative, by brute force. The prompt may end in a trigger or a fact."""
    text = index().tokenizer.decode(row[:prompt_length])
    begun = "Fact:" in text and "." not in text[text.rindex("Fact:") :]
    start = prompt_length
    while begun and "Fact:" not in index().tokenizer.decode(row[start:prompt_length]):
        start -= 1
    before = index().tokenizer.decode_bytes(row[:start])
    choices = [allowed_by_brute_force(index(), row[start:at], before) for at in range(prompt_length, len(row))]
    return sum(choice is None or len(choice) > 1 for choice in choices)


def some_texts(most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from([*PROMPTS, "a b c", "in", "b Fact: <Ann", "Fact"]), min_size=1, max_size=most)


# Two rows of floating-point sums in another order differ in the last bits: with ids drawn anew in each run, one in
# some million might flip. So the examples are always the same.
def examples(number: int) -> settings:
    return settings(max_examples=number, deadline=None, derandomize=True)


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
        behind = ours[:, inputs["input_ids"].shape[1] :]
        lengths = (behind != tiny_tokenizer().pad_token_id).sum(dim=1).tolist()
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
        with Passes(llama(0)) as passes:  # sampling guesses nothing
            out = grounded().generate(**inputs, logits_processor=eager(), max_new_tokens=60, do_sample=True)
        assert 10 < passes.ids < out.numel()


class TestSampling:
    @pytest.mark.parametrize("how", SAMPLING)
    def test_the_same_seed_gives_the_same_ids(self, how: str) -> None:
        for seed, text in enumerate(PROMPTS[1:3]):
            given = [Eager(4.0, pieces=True, end=2.0)]
            ours, theirs = both(llama(), prompts(text), given, seed, max_new_tokens=30, **SAMPLING[how])
            assert ours.tolist() == theirs.tolist()

    def test_the_generator_is_left_where_transformers_leaves_it(self) -> None:
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

    def test_batches_have_the_same_distribution(self) -> None:
        """Every fact and terminator that is possible comes as often as the model's probabilities say (5 sigma)."""
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
    """Of each whole fact behind a prompt that ends in a trigger, by plain forward passes."""
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


class Streamer:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def put(self, value: torch.Tensor) -> None:
        self.seen.append(value.tolist())

    def end(self) -> None:
        self.seen.append("end")


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
    """Processors that know a row's number, or follow the text id by id, still do."""

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
        """A processor of another index among the given ones is kept."""
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
    """What the loop does not know runs in Transformers' own, and what it does know is not only Llama."""

    @pytest.mark.parametrize("name", FALLBACKS)
    def test_the_ids_are_the_same(self, name: str) -> None:
        inputs = prompts(*(PROMPTS if name != "prompt lookup" else PROMPTS[1:2]))  # which takes one row only
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
    def test_models_of_other_kinds(self, name: str, texts: tuple[str, ...]) -> None:
        inputs, model = prompts(*texts), other_model(name)
        given = [Eager(1.5, pieces=True, end=0.5)]
        ours, theirs = both(model, inputs, given, max_new_tokens=30, do_sample=False)
        assert ours.tolist() == theirs.tolist()
        assert fact_count(ours, inputs)


@cache
def other_model(name: str) -> Any:
    common = {
        "vocab_size": len(tiny_tokenizer()) + SURPLUS,
        "initializer_range": 0.5,
        "bos_token_id": tiny_tokenizer().bos_token_id,
        "eos_token_id": tiny_tokenizer().eos_token_id,
        "pad_token_id": tiny_tokenizer().pad_token_id,
    }
    llama_like = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    model: Any
    match name:
        case "sliding window":
            model = MistralForCausalLM(
                MistralConfig(**common, **llama_like, num_key_value_heads=1, head_dim=8, sliding_window=6)
            )
        case "learnt positions":
            model = GPT2LMHeadModel(GPT2Config(**common, n_embd=16, n_layer=2, n_head=2, n_positions=128))
        case "alibi":
            model = BloomForCausalLM(BloomConfig(**common, hidden_size=16, n_layer=2, n_head=2))
        case _:
            model = MambaForCausalLM(MambaConfig(**common, hidden_size=16, num_hidden_layers=2, state_size=4))
    return model.eval()
