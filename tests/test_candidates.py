"""The subjects that a model may mean are in the tree, the likeliest first, and none with a place among them is overlooked."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from tiny_model import (
    MemoryIndex,
    log_probabilities,
    one_thread,  # noqa: F401
    tiny_index,
    tiny_model,
)

from refactx.candidates import Limits, Subject, subjects
from refactx.chunks import ChunkedModel
from refactx.prefix import prefill
from refactx.state import InFact, Machine

GRAPH = (
    *(f"<Bo (n)> <p> <{letter}>" for letter in "bcde"),
    "<Bo (b)> <p> <b>",
    "<Bo (bb)> <p> <b>",
    "<Bo (bb)> <q> <b>",
    "<Bo> <in> <b>",
    "<Ann (n)> <p> <b>",
    "<Annin> <p> <b>",
    "<Bé> <p> <c>",
    "<in (n) in> <p> <c>",
)
EVERY = Limits(99, 99, math.inf)


@cache
def llama(seed: int) -> Any:
    return tiny_model(seed)


def found(index: MemoryIndex, text: str, seed: int, limits: Limits) -> tuple[list[Subject], list[int], InFact]:
    """The subjects behind a text, its ids, and the state there."""
    ids, machine = index.tokenizer.encode(text), Machine(index)
    state = machine.run(ids, 0)
    assert isinstance(state, InFact)
    prefix = prefill(llama(seed), [ids[:-1]])
    inputs = {"past_key_values": prefix.cache, "position_ids": torch.arange(len(ids) - 1)[None]}
    model = ChunkedModel(llama(seed), inputs, (1, len(ids) - 1))
    logits = model.feed([ids[-1:]])
    before = model.rows
    some = subjects(machine, state, len(ids), model, logits, limits)
    assert model.rows == before
    assert model.feed([ids[-1:]]).shape == logits.shape, "the model stays where it was"
    return some, ids, state


def shown(index: MemoryIndex, state: InFact, some: Sequence[Subject]) -> list[str]:
    return [index.tokenizer.decode([*state.prefix, *one.ids]).strip() for one in some]


@pytest.mark.parametrize(
    "text", ["a Fact:", "a Fact: <", "Fact: <B", "Fact: <Bo (", "Fact: <Bo (n)> <p> <b> .\nFact: <Bo"]
)
@pytest.mark.parametrize("seed", range(3))
def test_with_room_for_all_every_subject_with_facts_left_is_found_once(text: str, seed: int) -> None:
    index = tiny_index(GRAPH)
    some, ids, state = found(index, text, seed, EVERY)
    begun = index.tokenizer.decode(state.prefix).strip()
    expected = {fact.split("> <")[0] + ">" for fact in GRAPH if fact.startswith(begun)}
    assert sorted(shown(index, state, some)) == sorted(expected)
    assert [one.own for one in some] == sorted((one.own for one in some), reverse=True)
    written = text.count(" .")
    for one, name in zip(some, shown(index, state, some), strict=True):
        facts = [fact for fact in GRAPH[written:] if fact.startswith(name)]
        assert one.state.children.total == len(facts)
        namesakes = [fact for fact in GRAPH[written:] if fact.startswith(name.partition("(")[0].removesuffix(">"))]
        if "(" in name:
            namesakes = [fact for fact in namesakes if fact[len(name.partition(" (")[0])] == " "]
            assert one.share == pytest.approx(len(facts) / len(namesakes))
        else:
            assert one.share == 1
        assert one.own == pytest.approx(own(index, seed, ids, state, one), abs=1e-3)


def own(index: MemoryIndex, seed: int, ids: list[int], state: InFact, one: Subject) -> float:
    """Its name's log-probability by one plain pass: of the ids that have an alternative."""
    if b"(" in index.tokenizer.decode_bytes(state.prefix):
        return 0.0  # the name was there
    steps = log_probabilities(llama(seed), [*ids, *one.ids])[len(ids) - 1 :]
    total, path = 0.0, list(state.prefix)
    done = {fact.tokens for fact in state.facts}
    for depth, token in enumerate(one.ids):
        text = index.tokenizer.decode_bytes(path)
        if b">" in text or b" (" in text:
            break
        left = [fact for fact in index.sequences if fact[: len(path)] == tuple(path) and fact not in done]
        total += float(steps[depth, token]) * (len({fact[len(path)] for fact in left}) > 1)
        path.append(token)
    return total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("limits", "most"),
    [(Limits(1, 1), 1), (Limits(2, 1), 2), (Limits(1, 2), 2), (Limits(99, 2), 8), (Limits(99, 99, 0.0), 3)],
)
def test_limits_keep_the_best(limits: Limits, most: int, seed: int) -> None:
    index = tiny_index(GRAPH)
    some, _, state = found(index, "a Fact:", seed, limits)
    every, _, _ = found(index, "a Fact:", seed, EVERY)
    assert 1 <= len(some) <= most
    assert set(shown(index, state, some)) <= set(shown(index, state, every))
    if limits.unlikely == 0:
        assert {one.own for one in some} == {max(one.own for one in every)}
    if limits.names == 99 and limits.namesakes == 2:
        assert "<Bo (b)>" not in shown(index, state, some), "the one with the fewest facts"
