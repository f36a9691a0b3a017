"""If no fact makes the question much likelier than it is without one, the answer is the prompt's `unknown`."""

import math
from typing import Any

import pytest
import torch
from support.channel_runs import EXAMPLES, GRAPH, QUESTIONS, llama, until_closed
from support.tiny_model import (
    MemoryIndex,
    eager,
    log_probabilities,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_tokenizer,
)

from refactx.ask.grounded import ground
from refactx.selection.channel import Channel
from refactx.selection.weights import Weights

UNKNOWN = "hello"


def write(
    seed: int, question: str, min_confidence: float, text: str = "a Fact:", unknown: str = UNKNOWN, **options: Any
) -> tuple[MemoryIndex, list[int], list[Any]]:
    """Index, ids, and the facts before the answer."""
    index, model = tiny_index(GRAPH), llama(seed)
    lead, asked = (index.tokenizer.encode(part) for part in (" Question:", f" {question}"))
    channel = Channel(
        examples=[tuple(index.tokenizer.encode(EXAMPLES))],
        question=[*lead, *asked],
        lead=len(lead),
        marker="Answer:",
        unknown=unknown,
        weights=Weights(min_confidence=min_confidence, another_fact_gain=math.inf, **options),
    )
    grounded, inputs = ground(model, tiny_tokenizer(), index), prompts(text)
    out = grounded.generate(
        **inputs, channel=channel, logits_processor=eager(), max_new_tokens=120, do_sample=False, eos_token_id=None
    )
    row = out[0].tolist()
    before = (
        fact for fact in grounded.facts(out)[0] if "Answer:" not in index.tokenizer.decode(row[: fact.token_span[0]])
    )
    return index, row, list(before)


def answer(index: MemoryIndex, row: list[int], facts: list[Any]) -> str:
    following = index.tokenizer.decode(row[facts[-1].token_span[1] :])
    assert following.lstrip().startswith("Answer:")
    return following.lstrip().removeprefix("Answer:")


def likely(index: MemoryIndex, seed: int, question: str, fact: list[int]) -> float:
    """The log-probability of the question after some ids of a fact, by one pass over the whole text."""
    lead, asked = (index.tokenizer.encode(part) for part in (" Question:", f" {question}"))
    text = [*index.tokenizer.encode(f"{EXAMPLES}Fact:"), *fact, *lead, *asked]
    of_all = log_probabilities(llama(seed), text)[-len(asked) - 1 : -1]
    return float(of_all.gather(1, torch.tensor(asked)[:, None]).sum())


@pytest.mark.parametrize("question", QUESTIONS[:2])
@pytest.mark.parametrize("seed", range(3))
def test_decides_by_how_much_likelier_the_best_fact_makes_the_question(seed: int, question: str) -> None:
    index, plain, facts = write(seed, question, math.inf, unknown="", facts_of_property=2)
    tell = max(
        likely(index, seed, question, list(until_closed(index, plain[slice(*fact.token_span)], 2)))
        - likely(index, seed, question, [])
        for fact in facts
    )
    for min_confidence, is_answered in (
        (-math.inf, True),
        (tell - 0.01, True),
        (tell + 0.01, False),
        (math.inf, False),
    ):
        _, row, found = write(seed, question, min_confidence, facts_of_property=2)
        assert [fact.text for fact in found] == [fact.text for fact in facts], "the facts are shown"
        if is_answered:
            assert row == plain
        else:
            assert answer(index, row, facts).startswith(f" {UNKNOWN}")


def test_a_fact_that_was_not_chosen_may_be_the_answer() -> None:
    index, row, facts = write(0, QUESTIONS[0], math.inf, "a Fact: <Ann> <q> <", facts_of_property=1)
    assert [fact.text for fact in facts] == ["<Ann> <q> <b> ."]
    assert not answer(index, row, facts).startswith(f" {UNKNOWN}")
