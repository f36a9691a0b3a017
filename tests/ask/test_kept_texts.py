"""Texts that begin like an earlier one continue what was read of it, and are the same as without that."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.table_engine import TableEngine

from refactx.ask.writer import BatchWriter, TextRequest, WritingOptions
from refactx.engines.engine import Feed, FeedTree

IDS, MOST = 12, 20
KEPT = WritingOptions(is_end=lambda _: False, answer_line=lambda _, __: (), keeps=True, free=True)
ALONE = WritingOptions(is_end=lambda _: False, answer_line=lambda _, __: (), free=True)


class Counted(TableEngine):
    """It counts the ids that it has read, and never holds more than its capacity."""

    fed = prefilled = 0

    def prefill(self, ids: Sequence[int]) -> int:
        self.prefilled += len(ids)
        return super().prefill(ids)

    def feed(self, feeds: Sequence[tuple[int, Feed]], trees: Sequence[FeedTree] = ()) -> Any:
        self.fed += sum(len(feed.ids) for _, feed in feeds)
        found = super().feed(feeds, trees)
        assert self.capacity is None or self.held() <= self.capacity
        return found

    def fork(self, sequence: int) -> int:
        self.prefilled -= len(self.read[sequence])
        return super().fork(sequence)

    def held(self) -> int:
        return sum(map(len, self.read.values()))


class CountedOnce(Counted):
    """Ids that several sequences begin with are held once."""

    def held(self) -> int:
        return len({tuple(ids[: n + 1]) for ids in self.read.values() for n in range(len(ids))})


class Model:
    """What a writer without facts needs of a model."""

    ends = (0,)

    def __init__(self, seed: int, capacity: int | None = None, kind: type[Counted] = Counted) -> None:
        draw = np.random.default_rng(seed)
        self.engine = kind(draw.normal(size=(IDS, IDS)).astype(np.float32), np.zeros((1, IDS), np.float32))
        self.engine.capacity = capacity


def texts(model: Any, prompts: Sequence[Sequence[int]], options: WritingOptions, at_once: int = 1) -> list[list[int]]:
    orders = [TextRequest(prompt=prompt, max_new_tokens=MOST) for prompt in prompts]
    return [text.ids for text in BatchWriter(model, None).write(orders, options, at_once)]


def conversations(seed: int) -> list[list[int]]:
    """Prompts that begin alike in some of their parts."""
    draw, found = random.Random(seed), list[list[int]]()
    for _ in range(10):
        begin = draw.choice(found) if found else []
        cut = draw.randint(0, len(begin))
        found.append(begin[:cut] + draw.choices(range(1, IDS), k=draw.randint(1, 60)))
    return found


@pytest.mark.long
@given(seed=st.integers(0, 999), capacity=st.sampled_from([None, 4000, 900, 300]), at_once=st.sampled_from([1, 3]))
def test_texts_are_those_that_nothing_was_kept_for(seed: int, capacity: int | None, at_once: int) -> None:
    prompts = conversations(seed)
    expected = texts(Model(seed), prompts, ALONE)
    assert texts(Model(seed, capacity), prompts, KEPT, at_once) == expected


def test_a_conversation_that_grows_is_read_once() -> None:
    draw, model, prompt = random.Random(1), Model(1), list[int]()
    for _ in range(5):
        prompt = [*prompt, *draw.choices(range(1, IDS), k=100)]
        before = model.engine.fed
        (text,) = texts(model, [prompt], KEPT)
        assert model.engine.fed - before < 100 + MOST + 1
        prompt = [*prompt, *text]


def test_a_text_that_does_not_fit_beside_kept_ones_takes_their_room() -> None:
    draw, model = random.Random(1), Model(1, capacity=250)
    one, other = (draw.choices(range(1, IDS), k=200) for _ in range(2))
    assert len(texts(model, [one, other, one], KEPT)) == 3
    assert len(model.engine.read) == 1


def test_what_a_writer_that_was_given_up_had_read_is_not_kept() -> None:
    model: Any = Model(1)
    options = WritingOptions(
        is_end=lambda _: False, answer_line=lambda _, __: (), keeps=True, free=True, cancelled=lambda: True
    )
    orders = [TextRequest(prompt=[1] * 40, max_new_tokens=MOST)]
    assert [text.is_interrupted for text in BatchWriter(model, None).write(orders, options)] == [True]
    assert model.engine.read == {}


@pytest.mark.long
@given(seed=st.integers(0, 999), capacity=st.sampled_from([None, 900, 250, 150]))
def test_prefixes_that_do_not_fit_beside_others_take_their_room(seed: int, capacity: int | None) -> None:
    draw, model = random.Random(seed), Model(seed, capacity, CountedOnce)
    prefixes = [draw.choices(range(1, IDS), k=60) for _ in range(10)]
    for prefix in draw.choices(prefixes, k=20):
        prompt = [*prefix, *draw.choices(range(1, IDS), k=5)]
        options = replace(ALONE, prefix=prefix)
        assert texts(model, [prompt], options) == texts(Model(seed), [prompt], ALONE)


def test_prefixes_for_which_there_is_room_are_read_once() -> None:
    draw, model = random.Random(1), Model(1, 400, CountedOnce)
    prefixes = [draw.choices(range(1, IDS), k=60) for _ in range(5)]
    orders = [(prefix, [*prefix, 1, 2]) for prefix in prefixes]
    for prefix, prompt in orders:
        texts(model, [prompt], replace(ALONE, prefix=prefix))
    before = model.engine.prefilled
    for prefix, prompt in orders:
        texts(model, [prompt], replace(ALONE, prefix=prefix))
    assert model.engine.prefilled == before == 300
