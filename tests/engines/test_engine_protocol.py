"""The loop, fact beams and the channel over another engine than Transformers, compared with brute force."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.table_engine import TableEngine
from support.tiny_model import FACTS, MemoryIndex, check_text, tiny_index, whole_facts

from refactx.choosing.beam_search import FactBeams
from refactx.choosing.beams import BeamChooser
from refactx.choosing.channel import Channel, ChannelOptions
from refactx.choosing.channel_chooser import ChannelChooser
from refactx.choosing.plain import PlainChooser
from refactx.decoding.machine import Machine
from refactx.engines.chooser import FactChooser
from refactx.engines.engine import Logits
from refactx.engines.loop import Hooks, Row, TextLoop

INDEX = tiny_index(FACTS)
MACHINE = Machine(INDEX)
LENGTH = 60


class Greedy:
    """Picks the likeliest id that may follow."""

    greedy = True

    def pick(self, rows: Sequence[Row], logits: Logits) -> list[int]:
        return [likeliest(MACHINE, row, scores) for row, scores in zip(rows, logits, strict=True)]

    def skip(self) -> None:
        pass


def likeliest(machine: Machine, row: Row, scores: Logits) -> int:
    allowed = machine.allowed(row.state)
    return int(scores.argmax() if allowed is None else allowed[scores[allowed].argmax()])


def random_engine(seed: int, eager: float = 6.0) -> TableEngine:
    """A random engine that often writes triggers. The offsets are small, so that draft tokens are often right."""
    random, size = np.random.default_rng(seed), len(INDEX.tokenizer.token_bytes)
    table = random.normal(size=(size, size)).astype(np.float32)
    table[:, INDEX.tokenizer.encode(" Fact:")] += eager
    return TableEngine(table, random.normal(scale=0.2, size=(997, size)).astype(np.float32))


def new_row(engine: TableEngine, text: str, number: int = 0) -> Row:
    """A row of the loop that has read a prompt."""
    ids = INDEX.tokenizer.encode(text)
    state = MACHINE.run(ids, len(ids))
    return Row(number=number, sequence=engine.prefill(ids), prompt=ids, state=state, capacity=LENGTH)


def write(engine: TableEngine, chooser: FactChooser, *texts: str, end: int = LENGTH) -> list[list[int]]:
    """Write texts of `end` ids and check that each sequence has read its text, except for the pending ids."""
    rows = [new_row(engine, text, number) for number, text in enumerate(texts)]
    loop = TextLoop(
        machine=MACHINE,
        chooser=chooser,
        picker=Greedy(),
        engine=engine,
        hooks=Hooks(lambda row: row.length >= end, lambda token: None),
        max_length=LENGTH,
    )
    loop.write(rows, [engine.logits(row.written.tolist()) for row in rows])
    for row in rows:
        assert row.pending, "whoever continues the text feeds its last id"
        assert [*engine.dropped[row.sequence], *row.pending] == row.written.tolist()
    return [row.written.tolist() for row in rows]


def plainly(engine: TableEngine, text: str) -> list[int]:
    """The same text, id by id."""
    ids = INDEX.tokenizer.encode(text)
    state = MACHINE.run(ids, len(ids))
    while len(ids) < LENGTH:
        allowed, [scores] = MACHINE.allowed(state), engine.logits(ids)
        ids.append(int(scores.argmax() if allowed is None else allowed[scores[allowed].argmax()]))
        state = MACHINE.advance(state, ids[-1], len(ids) - 1)
    return ids


@settings(deadline=None)
@given(seed=st.integers(0, 999), texts=st.lists(st.sampled_from(["a", "a Fact:", "b c in"]), min_size=1, max_size=3))
def test_texts_are_those_of_a_loop_without_chains_and_drafts(seed: int, texts: list[str]) -> None:
    engine = random_engine(seed)
    assert write(engine, PlainChooser(MACHINE), *texts) == [plainly(engine, text) for text in texts]
    assert not engine.read, "every sequence is dropped in the end"


@pytest.mark.parametrize("seed", range(5))
def test_forced_tokens_take_no_steps(seed: int) -> None:
    engine = random_engine(seed)
    [ids] = write(engine, PlainChooser(MACHINE), "a Fact:")
    states = [MACHINE.run(ids[:n], 2) for n in range(2, len(ids))]
    forced = sum(MACHINE.forced(state) is not None for state in states)
    assert forced
    assert engine.steps <= len(states) - forced + 1


@settings(deadline=None)
@given(seed=st.integers(0, 999))
def test_as_many_beams_as_facts_find_the_likeliest_fact(seed: int) -> None:
    engine = random_engine(seed)
    [ids] = write(engine, BeamChooser(MACHINE, FactBeams(len(whole_facts(INDEX)))), "a Fact:")
    assert not engine.read
    prompt = INDEX.tokenizer.encode("a Fact:")
    first = MACHINE.run(ids, len(prompt)).facts[0]

    def score(fact: Sequence[int]) -> float:
        logits = engine.logits([*prompt, *fact[:-1]], len(fact)).astype(np.float64)
        return float((logits[range(len(fact)), fact] - np.log(np.exp(logits).sum(-1))).sum())

    best = max(map(score, whole_facts(INDEX)))
    assert score(ids[first.start : first.stop]) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("end", range(4, 30))  # the prompt has three ids
def test_a_text_may_end_within_what_was_chosen_at_once(end: int) -> None:
    whole, cut = (write(random_engine(0), BeamChooser(MACHINE, FactBeams(3)), "a Fact:", end=n) for n in (LENGTH, end))
    assert cut == [whole[0][:end]]


@pytest.mark.parametrize("seed", range(5))
def test_the_channel_writes_facts_and_an_answer(seed: int) -> None:
    engine = random_engine(seed)
    encode = INDEX.tokenizer.encode
    lead, question = encode(" Question:"), encode(" who is Ann?")
    example = encode("Fact: <x> <y> Question: z?\n")
    channel = Channel(
        engine=engine,
        examples=engine.prefill(example),
        question=[*lead, *question],
        lead=len(lead),
        marker="Answer:",
        options=ChannelOptions(again=math.inf),
    )
    [written] = write(engine, ChannelChooser(MACHINE, channel), "a Fact:")
    assert list(engine.read.values()) == [example], "nothing but the examples is left"
    prompt_length = len(encode("a Fact:"))
    facts = MACHINE.facts(written, prompt_length)
    assert facts
    assert "\nAnswer:" in INDEX.tokenizer.decode(written)
    check_text(MemoryIndex(INDEX.tokenizer, FACTS), written, prompt_length, facts)
