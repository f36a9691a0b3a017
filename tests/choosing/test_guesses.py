"""Guessed ids: greedy text is the same with them, in fewer forward passes."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_model import FACTS, Passes, eager, prompts, tiny_index, tiny_model, tiny_tokenizer
from transformers import LogitsProcessor, LogitsProcessorList

from refactx.choosing.guesses import MOST, _has_another_object, another_line, behind_fact, guess
from refactx.decoding.machine import InFact, Machine
from refactx.grounded.model import ground

CYCLE = [40, 41, 42, 43, 44]
TOKENS = 60


class Cycle(LogitsProcessor):
    """Makes a model write the same five ids again and again, but for one other id at some places."""

    def __init__(self, others: tuple[int, ...] = ()) -> None:
        self.others = others

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        length = input_ids.shape[1]
        wanted = 50 if length in self.others else CYCLE[length % len(CYCLE)]
        out = torch.full_like(scores, -10.0)
        out[:, wanted] = 0.0
        return out  # type: ignore[return-value]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 10), st.integers(1, 7))
def test_a_guess_is_what_followed_the_last_place_where_the_latest_ids_stood(
    ids: list[int], most: int, matched: int
) -> None:
    places = [n for n in range(len(ids) - matched) if ids[n : n + matched] == ids[-matched:]]
    expected = ids[places[-1] + matched :][:most] if places else []
    assert guess(np.array(ids, np.int64), most, matched) == expected


def written(others: tuple[int, ...], **options: Any) -> tuple[Any, int]:
    grounded = ground(tiny_model(), tiny_tokenizer(), tiny_index(FACTS))
    processors = LogitsProcessorList([Cycle(others)])
    length = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    with Passes(grounded._model) as passes:
        out = grounded.generate(**prompts("hello"), logits_processor=processors, **length, **options)
    return out, passes.number


def test_text_that_repeats_itself_takes_a_fraction_of_the_passes_also_where_a_guess_is_wrong() -> None:
    start = prompts("hello")["input_ids"].shape[1]
    for others in ((), (start + 20, start + 37, start + TOKENS - 1)):
        out, passes = written(others)
        wanted = [50 if n in others else CYCLE[n % 5] for n in range(start, start + TOKENS)]
        assert out[0, start:].tolist() == wanted
        assert passes < (TOKENS if others else TOKENS / 2) * 2 / 3  # each wrong one costs five more


def test_the_cache_that_comes_back_holds_nothing_but_the_text() -> None:
    """Whatever was guessed and wrong is gone: going on from the cache is going on from the text."""
    start = prompts("hello")["input_ids"].shape[1]
    out, _ = written((start + 20, start + TOKENS - 1), return_dict_in_generate=True)
    cache, ids = out.past_key_values, out.sequences
    fed = cache.get_seq_length()
    assert fed < ids.shape[1]
    model = tiny_model()
    with torch.no_grad():
        after = model(ids[:, fed:], past_key_values=cache).logits[:, -1]
        assert torch.allclose(after, model(ids).logits[:, -1], atol=1e-4)


def test_a_streamer_gets_each_id_once() -> None:
    seen: list[int] = []

    class Streamer:
        def put(self, value: torch.Tensor) -> None:
            seen.extend(value.flatten().tolist())

        def end(self) -> None:
            seen.append(-1)

    grounded = ground(tiny_model(), tiny_tokenizer(), tiny_index(FACTS))
    out = grounded.generate(
        **prompts("a Fact:"), logits_processor=eager(), max_new_tokens=TOKENS, do_sample=False, streamer=Streamer()
    )
    assert seen == [*out[0].tolist(), -1]


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        ("a Fact: <Ann> <p> <b>", " .\n"),
        ("a Fact: <Ann> <p> <b", ""),
        ("a Fact: <Ann>", ""),
        ("a Fact:", ""),
        ("a Fact: <Ann> <p> <b> .", ""),
        ("hello\n", ""),
        ("Fact: <Ann> <p> <b> .so Fact: <Ann> <p> <c>", " .s"),
        ("Fact: <Ann> <p> <b> .so", ""),
    ],
)
def test_behind_a_whole_fact_comes_its_terminator(text: str, behind: str) -> None:
    machine = Machine(tiny_index(FACTS))
    encode = machine.source.tokenizer.encode
    ids = encode(text)
    assert behind_fact(machine, machine.run(ids, 0), np.array(ids)) == encode(behind)


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        ("a Fact: <Ann> <p> <b>", ""),
        ("a Fact: <Ann> <p> <b> .", "\nFact:"),
        ("Fact: <Ann> <p> <b> .so Fact: <Ann> <p> <c> .", "so Fact: <Ann> <p"),
        ("Fact: <Ann> <p> <b> .so Fact: <Ann> <p> <c> .s", ""),
        ("hello", ""),
    ],
)
def test_right_behind_a_fact_comes_what_stands_behind_the_one_before(text: str, behind: str) -> None:
    machine = Machine(tiny_index(FACTS))
    ids = machine.source.tokenizer.encode(text)
    found = another_line(machine, machine.run(ids, 0), np.array(ids))
    assert found == machine.source.tokenizer.encode(behind)[:MOST]


class Prefers(LogitsProcessor):
    """Makes a model write an id wherever it may."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        out = scores.clone()
        out[:, self.number] += 50.0
        return out  # type: ignore[return-value]


def test_with_the_terminator_guessed_a_text_of_facts_takes_a_pass_less_for_each() -> None:
    grounded = ground(tiny_model(), tiny_tokenizer(), tiny_index(FACTS))
    (end,) = grounded.machine.source.tokenizer.encode(" .")
    numbers, outs = [], []
    for drafts in (lambda *given: [], behind_fact):
        with pytest.MonkeyPatch.context() as patch, Passes(grounded._model) as passes:
            patch.setattr("refactx.choosing.guesses.behind_fact", drafts)
            options = {"max_new_tokens": 20, "do_sample": False}
            processors = LogitsProcessorList([*eager(), Prefers(end)])
            outs.append(grounded.generate(**prompts("a Fact:"), logits_processor=processors, **options))
        numbers.append(passes.number)
    assert outs[0].tolist() == outs[1].tolist()
    facts = grounded.facts(outs[1])[0]
    assert 0 < len(facts) <= numbers[0] - numbers[1]


def test_no_object_is_guessed_that_the_same_subject_and_property_have_had() -> None:
    """It stood there before, and cannot stand there again."""
    machine = Machine(tiny_index(FACTS))
    run = machine.source.tokenizer.encode
    for text, has in (
        ("Fact: <Ann> <p> <b> .\nFact: <Ann> <p> <", True),
        ("Fact: <Ann> <p> <b> .\nFact: <Ann> <", False),
        ("Fact: <Ann> <p> <b> .\nFact: <Bé> <p> <", False),
        ("Fact: <Ann> <p> <", False),
        ("Fact: <Ann> <p> <b> .", False),
    ):
        state = machine.run(run(text), 0)
        assert isinstance(state, InFact) is not text.endswith(".")
        assert _has_another_object(machine, state) is has, text
