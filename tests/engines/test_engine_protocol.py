"""Texts, fact beams and the channel over any engine, compared with brute force over plain passes.

The engines are those of `support.engines.twins`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.channel_runs import EVERY, EXAMPLES
from support.engines.texts import CHOOSERS, INDEX, LENGTH, MACHINE, Text, Writing, decoded, encode, new_channel, picked
from support.engines.twins import WRITERS, Twins
from support.tiny_model import check_text, one_thread, whole_facts  # noqa: F401

from refactx.engines.engine import FactChooser, Feed, TreeReading
from refactx.engines.scheduler import Scheduler, run_jobs
from refactx.errors import ModelError
from refactx.selection.beams import BeamChooser, FactBeams
from refactx.selection.chooser import ChannelChooser

SEEDS = st.integers(0, 999)
EVERY_ENGINE = pytest.mark.parametrize("make", WRITERS.values(), ids=WRITERS.keys())
options = partial(settings, deadline=None, derandomize=True)  # other sums than the twin's differ in the last bits


def write(twins: Twins, *texts: Text, choose: Callable[[], FactChooser] | None = None) -> list[Writing]:
    """Write texts, and check that each sequence has read its text, except for the pending ids."""
    engine, checked = twins.engine, []

    def check(writing: Writing, sequence: int) -> None:
        [logits], _ = engine.feed([(sequence, Feed(writing.row.pending))])  # whoever continues the text feeds them
        np.testing.assert_allclose(logits[-1], twins.logits(writing.ids)[-1], atol=1e-3)
        checked.append(writing)

    examples, drafts = engine.prefill(encode(EXAMPLES)), len(texts) == 1 or not engine.pads
    writings = [Writing(engine, text, choose=choose, examples=examples, drafts=drafts) for text in texts]
    for writing in writings:
        writing.job.end = partial(check, writing)
    run_jobs(Scheduler(engine), [writing.job for writing in writings])
    assert len(checked) == len(texts)
    engine.drop(examples)
    assert not twins.held()
    return writings


def plainly(twins: Twins, text: Text) -> list[int]:
    """The same text, id by id, and facts by the model alone."""
    ids = text.ids
    state = MACHINE.run(ids, len(ids))
    while len(ids) < text.end:
        ids.append(picked(state, twins.logits(ids)[-1]))
        state = MACHINE.advance(state, ids[-1], len(ids) - 1)
    return ids


def likelihood(twins: Twins, before: Sequence[int], ids: Sequence[int]) -> float:
    """The log-probability of ids after others, by one plain pass."""
    logits = twins.logits([*before, *ids[:-1]])[-len(ids) :].astype(np.float64)
    return float((logits[range(len(ids)), list(ids)] - np.log(np.exp(logits).sum(-1))).sum())


@pytest.mark.long
@EVERY_ENGINE
@options(max_examples=25)
@given(
    seed=SEEDS,
    texts=st.lists(
        st.builds(Text, st.sampled_from(["so", "a Fact:", "b c in", "Fact: <B"]), end=st.integers(9, LENGTH)),
        min_size=1,
        max_size=3,
    ),
)
def test_texts_are_those_of_a_loop_without_chains_and_drafts(
    make: Callable[[int], Twins], seed: int, texts: list[Text]
) -> None:
    twins = make(seed % 8)
    assert [one.ids for one in write(twins, *texts)] == [plainly(twins, text) for text in texts]


@EVERY_ENGINE
@pytest.mark.parametrize("seed", range(5))
def test_forced_tokens_take_no_passes(make: Callable[[int], Twins], seed: int) -> None:
    [writing] = write(make(seed), Text("a Fact:"))
    ids = writing.ids
    states = [MACHINE.run(ids[:n], 3) for n in range(3, len(ids))]
    forced = sum(MACHINE.forced(state) is not None for state in states)
    assert forced
    assert writing.job.passes <= len(states) - forced + 1


@pytest.mark.long
@EVERY_ENGINE
@options(max_examples=15)
@given(seed=SEEDS)
def test_as_many_beams_as_facts_find_the_likeliest_fact(make: Callable[[int], Twins], seed: int) -> None:
    twins = make(seed)

    def beams() -> FactChooser:
        return BeamChooser(MACHINE, FactBeams(len(whole_facts(INDEX))))

    if twins.engine.trees is not TreeReading.SHARED:
        with pytest.raises(ModelError, match="fact beams need"):
            write(twins, Text("a Fact:"), choose=beams)
        return
    [writing] = write(twins, Text("a Fact:"), choose=beams)
    prompt = encode("a Fact:")
    first = MACHINE.run(writing.ids, len(prompt)).facts[0]
    best = max(likelihood(twins, prompt, fact) for fact in whole_facts(INDEX))
    assert likelihood(twins, prompt, writing.ids[first.start : first.stop]) == pytest.approx(best, abs=1e-3)


@EVERY_ENGINE
@pytest.mark.parametrize("mode", CHOOSERS)
def test_a_text_may_end_within_what_was_chosen_at_once(make: Callable[[int], Twins], mode: str) -> None:
    twins = make(0)
    if mode == "beams" and twins.engine.trees is not TreeReading.SHARED:
        return
    [whole] = write(twins, Text("a Fact:", mode))
    for end in range(4, 30):  # the prompt has three ids
        [cut] = write(twins, Text("a Fact:", mode, end))
        assert cut.ids == whole.ids[:end]


@EVERY_ENGINE
@pytest.mark.parametrize("seed", range(5))
def test_the_channel_writes_facts_and_an_answer(make: Callable[[int], Twins], seed: int) -> None:
    [writing] = write(make(seed), Text("a Fact:", "channel", end=90))
    prompt_length = len(writing.text.ids)
    facts = MACHINE.facts(writing.ids, prompt_length)
    assert facts
    assert "\nAnswer:" in decoded(writing.ids)
    check_text(INDEX, writing.ids, prompt_length, facts)


@EVERY_ENGINE
@options(max_examples=10)
@given(seed=SEEDS, question=st.sampled_from(["who is Ann?", "b", "in p"]))
def test_the_channel_chooses_the_fact_after_which_the_question_is_likeliest(
    make: Callable[[int], Twins], seed: int, question: str
) -> None:
    twins = make(seed)
    channel = new_channel(
        question, property_weight=0.0, name_weight=0.0, share_weight=0.0, facts_of_property=1, **EVERY
    )
    [writing] = write(twins, Text("a Fact:"), choose=lambda: ChannelChooser(MACHINE, channel))
    asked, lead = encode(f" {question}"), encode(" Question:")
    scores: dict[tuple[int, ...], float] = {}
    for fact in INDEX.sequences:
        begin = next(fact[:n] for n in range(len(fact)) if INDEX.tokenizer.decode_bytes(fact[:n]).count(b">") == 2)
        scores[begin] = likelihood(twins, [*encode(EXAMPLES), *encode("Fact:"), *begin, *lead], asked)
    first = MACHINE.run(writing.ids, len(writing.text.ids)).facts[0].tokens
    [chosen] = [score for begin, score in scores.items() if first[: len(begin)] == begin]
    assert chosen == pytest.approx(max(scores.values()), abs=1e-3)
    assert len(scores) > 3
