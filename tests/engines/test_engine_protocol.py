"""The loop, fact beams and the channel over another engine than Transformers: a bigram model, compared with brute
force."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bigram_engine import BigramEngine
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


def bigrams(seed: int, eager: float = 6.0) -> BigramEngine:
    """A random bigram model that often writes triggers."""
    table = np.random.default_rng(seed).normal(size=(len(INDEX.tokenizer.token_bytes),) * 2).astype(np.float32)
    table[:, INDEX.tokenizer.encode(" Fact:")] += eager
    return BigramEngine(table)


def write(engine: BigramEngine, chooser: FactChooser, *texts: str) -> list[list[int]]:
    prompts = [INDEX.tokenizer.encode(text) for text in texts]
    rows = [
        Row(
            number=n,
            sequence=engine.prefill(prompt),
            prompt=prompt,
            state=MACHINE.run(prompt, len(prompt)),
            capacity=LENGTH,
        )
        for n, prompt in enumerate(prompts)
    ]
    loop = TextLoop(
        machine=MACHINE,
        chooser=chooser,
        picker=Greedy(),
        engine=engine,
        hooks=Hooks(lambda row: row.length >= LENGTH, lambda token: None),
        max_length=LENGTH,
    )
    loop.write(rows, [engine.table[prompt[-1:]] for prompt in prompts])
    assert not engine.read, "every sequence is dropped in the end"
    return [row.written.tolist() for row in rows]


def plainly(engine: BigramEngine, text: str) -> list[int]:
    """The same text, id by id."""
    ids = INDEX.tokenizer.encode(text)
    state = MACHINE.run(ids, len(ids))
    while len(ids) < LENGTH:
        allowed, scores = MACHINE.allowed(state), engine.table[ids[-1]]
        ids.append(int(scores.argmax() if allowed is None else allowed[scores[allowed].argmax()]))
        state = MACHINE.advance(state, ids[-1], len(ids) - 1)
    return ids


@settings(deadline=None)
@given(seed=st.integers(0, 999), texts=st.lists(st.sampled_from(["a", "a Fact:", "b c in"]), min_size=1, max_size=3))
def test_texts_are_those_of_a_loop_without_chains_and_drafts(seed: int, texts: list[str]) -> None:
    engine = bigrams(seed)
    assert write(engine, PlainChooser(MACHINE), *texts) == [plainly(engine, text) for text in texts]


@pytest.mark.parametrize("seed", range(5))
def test_forced_tokens_take_no_steps(seed: int) -> None:
    engine = bigrams(seed)
    [ids] = write(engine, PlainChooser(MACHINE), "a Fact:")
    states = [MACHINE.run(ids[:n], 2) for n in range(2, len(ids))]
    forced = sum(MACHINE.forced(state) is not None for state in states)
    assert forced
    assert engine.steps <= len(states) - forced + 1


@settings(deadline=None)
@given(seed=st.integers(0, 999))
def test_as_many_beams_as_facts_find_the_likeliest_fact(seed: int) -> None:
    engine = bigrams(seed)
    [ids] = write(engine, BeamChooser(MACHINE, FactBeams(len(whole_facts(INDEX)))), "a Fact:")
    prompt = INDEX.tokenizer.encode("a Fact:")
    first = MACHINE.run(ids, len(prompt)).facts[0]
    sums = np.log(np.exp(engine.table.astype(np.float64)).sum(-1))

    def score(fact: Sequence[int]) -> float:
        before = [prompt[-1], *fact[:-1]]
        return sum(float(engine.table[b, token] - sums[b]) for b, token in zip(before, fact, strict=True))

    best = max(map(score, whole_facts(INDEX)))
    assert score(ids[first.start : first.stop]) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_the_channel_writes_facts_and_an_answer(seed: int) -> None:
    engine = bigrams(seed)
    lead, question = INDEX.tokenizer.encode(" Question:"), INDEX.tokenizer.encode(" who is Ann?")
    examples = engine.prefill(INDEX.tokenizer.encode("Fact: <x> <y> Question: z?\n"))
    channel = Channel(
        engine=engine,
        examples=examples,
        question=[*lead, *question],
        lead=len(lead),
        marker="Answer:",
        options=ChannelOptions(again=math.inf),
    )
    ids = INDEX.tokenizer.encode("a Fact:")
    row = Row(number=0, sequence=engine.prefill(ids), prompt=ids, state=MACHINE.run(ids, len(ids)), capacity=LENGTH)
    loop = TextLoop(
        machine=MACHINE,
        chooser=ChannelChooser(MACHINE, channel),
        picker=Greedy(),
        engine=engine,
        hooks=Hooks(lambda row: row.length >= LENGTH, lambda token: None),
        max_length=LENGTH,
    )
    loop.write([row], [engine.table[ids[-1:]]])
    assert list(engine.read) == [examples], "nothing but the examples is left"
    written = row.written.tolist()
    facts = MACHINE.facts(written, len(ids))
    assert facts
    assert "\nAnswer:" in INDEX.tokenizer.decode(written)
    check_text(MemoryIndex(INDEX.tokenizer, FACTS), written, len(ids), facts)
