"""Draft tokens: greedy text is the same with them, in fewer forward passes."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_model import FACTS, Passes, eager, prompts, tiny_index, tiny_model, tiny_tokenizer
from transformers import LogitsProcessor, LogitsProcessorList

from refactx.ask.grounded import ground
from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.transformers.internals import CACHE
from refactx.selection.plain import MOST, end_of_fact, has_other_object, line_after_fact, repeat

CYCLE = [40, 41, 42, 43, 44]
TOKENS = 60


class Cycle(LogitsProcessor):
    """Makes a model repeat the same five ids, with another id at some places."""

    def __init__(self, others: tuple[int, ...] = ()) -> None:
        self.others = others

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        length = input_ids.shape[1]
        wanted = 50 if length in self.others else CYCLE[length % len(CYCLE)]
        out = torch.full_like(scores, -10.0)
        out[:, wanted] = 0.0
        return out  # type: ignore[return-value]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 10), st.integers(1, 7))
def test_a_draft_has_the_ids_that_followed_the_latest_ids_before(ids: list[int], most: int, matched: int) -> None:
    places = [n for n in range(len(ids) - matched) if ids[n : n + matched] == ids[-matched:]]
    expected = ids[places[-1] + matched :][:most] if places else []
    assert repeat(np.array(ids, np.int64), most, matched) == expected


def written(others: tuple[int, ...], **options: Any) -> tuple[Any, int]:
    grounded = ground(tiny_model(), tiny_tokenizer(), tiny_index(FACTS))
    processors = LogitsProcessorList([Cycle(others)])
    length = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    with Passes(grounded._model) as passes:
        out = grounded.generate(**prompts("hello"), logits_processor=processors, **length, **options)
    return out, passes.number


def test_text_that_repeats_itself_takes_a_fraction_of_the_passes_also_with_wrong_drafts() -> None:
    start = prompts("hello")["input_ids"].shape[1]
    for others in ((), (start + 20, start + 37, start + TOKENS - 1)):
        out, passes = written(others)
        wanted = [50 if n in others else CYCLE[n % 5] for n in range(start, start + TOKENS)]
        assert out[0, start:].tolist() == wanted
        assert passes < (TOKENS if others else TOKENS / 2) * 2 / 3  # each wrong one costs five more


def test_the_returned_cache_has_nothing_but_the_text() -> None:
    """Wrong draft tokens are gone: the text continues from the cache as it does from its ids."""
    start = prompts("hello")["input_ids"].shape[1]
    out, _ = written((start + 20, start + TOKENS - 1), return_dict_in_generate=True)
    cache, ids = getattr(out, CACHE), out.sequences
    fed = cache.get_seq_length()
    assert fed < ids.shape[1]
    model = tiny_model()
    with torch.no_grad():
        after = model(ids[:, fed:], **{CACHE: cache}).logits[:, -1]
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
    ("text", "following"),
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
def test_the_draft_after_a_whole_fact_is_its_terminator(text: str, following: str) -> None:
    machine = Machine(tiny_index(FACTS))
    encode = machine.source.tokenizer.encode
    ids = encode(text)
    assert end_of_fact(machine, machine.run(ids, 0), np.array(ids)) == encode(following)


@pytest.mark.parametrize(
    ("text", "following"),
    [
        ("a Fact: <Ann> <p> <b>", ""),
        ("a Fact: <Ann> <p> <b> .", "\nFact:"),
        ("Fact: <Ann> <p> <b> .so Fact: <Ann> <p> <c> .", "so Fact: <Ann> <p"),
        ("Fact: <Ann> <p> <b> .so Fact: <Ann> <p> <c> .s", ""),
        ("hello", ""),
    ],
)
def test_the_draft_after_a_fact_has_the_ids_after_the_fact_before(text: str, following: str) -> None:
    machine = Machine(tiny_index(FACTS))
    ids = machine.source.tokenizer.encode(text)
    found = line_after_fact(machine, machine.run(ids, 0), np.array(ids))
    assert found == machine.source.tokenizer.encode(following)[:MOST]


class Prefers(LogitsProcessor):
    """Makes a model write an id whenever it is allowed."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        out = scores.clone()
        out[:, self.number] += 50.0
        return out  # type: ignore[return-value]


def test_drafts_of_terminators_save_a_pass_for_each_fact() -> None:
    grounded = ground(tiny_model(), tiny_tokenizer(), tiny_index(FACTS))
    (end,) = grounded.machine.source.tokenizer.encode(" .")
    numbers, outs = [], []
    for drafts in (lambda *given: [], end_of_fact):
        with pytest.MonkeyPatch.context() as patch, Passes(grounded._model) as passes:
            patch.setattr("refactx.selection.plain.end_of_fact", drafts)
            options = {"max_new_tokens": 20, "do_sample": False}
            processors = LogitsProcessorList([*eager(), Prefers(end)])
            outs.append(grounded.generate(**prompts("a Fact:"), logits_processor=processors, **options))
        numbers.append(passes.number)
    assert outs[0].tolist() == outs[1].tolist()
    facts = grounded.facts(outs[1])[0]
    assert 0 < len(facts) <= numbers[0] - numbers[1]


def test_no_object_is_drafted_that_the_subject_and_property_have_had() -> None:
    """It has been written, and cannot be written again."""
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
        assert has_other_object(machine, state) is has, text
