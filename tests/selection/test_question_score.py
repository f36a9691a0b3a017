"""The likelihood of a question after facts equals that of plain passes over whole texts, also if hopeless texts are
dropped."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.channel_runs import result_of
from support.tiny_model import log_probabilities, one_thread, read_as, tiny_index, tiny_model  # noqa: F401

from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import IdPath, Steps, TreeReading
from refactx.engines.scheduler import Job, Scheduler, run_jobs
from refactx.engines.transformers.rows import engine_of
from refactx.selection.scores import FIRST, QuestionScore, fact_so_far, no_fact

LONG = "one two three four five (six) seven (1900-1999)"
GRAPH = ("<Ann> <p> <b>", "<Bo (n)> <q> <c>", f"<Cy ({LONG})> <p> <Ann>", "<Ann> <r> <Bo (n)>")
EXAMPLES, LEAD = "Fact: <x> <y> Question: z?\n", " Question:"
INDEX = tiny_index(GRAPH)


@cache
def llama() -> Any:
    return tiny_model(3)


def encode(text: str) -> list[int]:
    return INDEX.tokenizer.encode(text)


class Score:
    """The likelihoods of a question after examples and texts, by the tiny model."""

    def __init__(self, lead: Sequence[int], question: Sequence[int]) -> None:
        self.score = QuestionScore(question=[*lead, *question], lead=len(lead))

    def likelihoods(self, texts: Sequence[IdPath], *more: Any) -> Any:
        engine = engine_of(llama())

        def steps() -> Steps[NDArray[np.float64]]:
            found = yield from self.score.likelihoods(texts, engine.trees, *more)
            yield from self.score.close()
            return found

        return result_of(steps(), engine, INDEX, [0], encode(EXAMPLES))


def of_question(question: str) -> Score:
    return Score(encode(LEAD), encode(question))


def at(text: str, written: Sequence[str] = ()) -> InFact:
    machine = Machine(INDEX)
    state = machine.run(encode("".join(f"Fact: {fact} .\n" for fact in written) + "Fact:" + text), 0)
    assert isinstance(state, InFact)
    return state


def plainly(before: str, path: IdPath, question: str) -> torch.Tensor:
    """The log-probability of each id of the question, float[ids], by one pass over the whole text."""
    asked = encode(question)
    text = [*encode(EXAMPLES), *encode(before), *path, *encode(LEAD), *asked]
    return log_probabilities(llama(), text)[-len(asked) - 1 : -1].gather(1, torch.tensor(asked)[:, None])[:, 0]


def fact_ids(fact: str, alias: str = "", written: Sequence[str] = ()) -> IdPath:
    return fact_so_far(Machine(INDEX), at(f" {fact}", written), alias)


def expected(before: str, path: IdPath, question: str) -> float:
    return float(plainly(before, path, question).sum())


@pytest.mark.usefixtures("read_as")
@pytest.mark.parametrize("question", [" b?", " who is it that Ann was?", "?"])
def test_equals_that_of_plain_passes(question: str) -> None:
    score, names = of_question(question), ("<Ann>", "<Bo (n)>")
    paths: list[tuple[int, IdPath]] = [(0, ()), (0, tuple(encode(" <p>"))), (1, tuple(encode(" <q> <c>")))]
    texts = [(*fact_ids(names[n]), *path) for n, path in paths]
    plain = [expected(f"Fact: {names[n]}", path, question) for n, path in paths]
    assert score.likelihoods(texts) == pytest.approx(plain, abs=1e-3)
    assert score.likelihoods([no_fact(Machine(INDEX))])[0] == pytest.approx(expected("Fact:", (), question), abs=1e-3)


@pytest.mark.long
@pytest.mark.usefixtures("read_as")
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.integers(5, 9), max_size=6).map(tuple), min_size=1, max_size=12),
    lead=st.sampled_from(["", LEAD]),
    ids_a_pass=st.sampled_from([1, 7, 256]),
)
def test_texts_with_common_beginnings_get_the_scores_that_each_gets_alone(
    rows: list[IdPath], lead: str, ids_a_pass: int
) -> None:
    question, begin = encode(" b in b?"), fact_ids("<Ann>")
    texts = [(*begin, *row) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        for module in ("engine", "rows"):
            patch.setattr(f"refactx.engines.transformers.{module}.IDS_A_PASS", ids_a_pass)
        together = Score(encode(lead), question).likelihoods(texts)
    alone = [Score(encode(lead), question).likelihoods([text])[0] for text in texts]
    assert together == pytest.approx(alone, abs=1e-3)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.lists(st.integers(5, 200), max_size=6).map(tuple), min_size=1, max_size=24),
    question=st.sampled_from([" b?", " who was it that Ann had been with?", "?"]),
    hopeless=st.sampled_from([0.0, 0.5, 2.0, 100.0, math.inf]),
    known=st.booleans(),
    seed=st.integers(0, 9),
)
def test_drops_only_texts_far_below_the_best_after_a_quarter_of_the_question(
    rows: list[IdPath], question: str, hopeless: float, known: bool, seed: int
) -> None:
    besides, texts = np.random.default_rng(seed).normal(size=len(rows)), [(*fact_ids("<Ann>"), *path) for path in rows]
    score = of_question(question)
    if known:  # scores from before, of the whole question or a part of it, change nothing
        score.likelihoods(texts[::2], besides[::2], hopeless)
        score.likelihoods(texts[:1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.selection.scores.RACED", 4)
        found = score.likelihoods(texts, besides, hopeless)
    of_ids = [plainly("Fact: <Ann>", path, question) for path in rows]
    first = math.ceil(FIRST * len(of_ids[0]))
    early = np.array([float(one[:first].sum()) for one in of_ids]) + besides
    raced = len(rows) >= 4 and first < len(of_ids[0])
    for n, one in enumerate(of_ids):
        gap = early.max() - early[n]
        if raced and gap > hopeless + 1e-3:
            assert found[n] == -math.inf
        elif not raced or gap < hopeless - 1e-3 or gap == 0:
            assert found[n] == pytest.approx(float(one.sum()), abs=1e-3)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.lists(st.integers(5, 200), max_size=4).map(tuple), min_size=1, max_size=12, unique=True),
    place=st.floats(-0.1, 1.1),
    raced=st.integers(1, 13),
    seed=st.integers(0, 9),
)
def test_a_bound_drops_the_texts_that_have_no_more_in_the_end(
    rows: list[IdPath], place: float, raced: int, seed: int
) -> None:
    besides, texts = np.random.default_rng(seed).normal(size=len(rows)), [(*fact_ids("<Ann>"), *path) for path in rows]
    whole = of_question(" who was it that Ann had been with?").likelihoods(texts)
    ends = (whole + besides).min(), (whole + besides).max()
    least = ends[0] + place * (ends[1] - ends[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.selection.scores.RACED", raced)
        found = of_question(" who was it that Ann had been with?").likelihoods(texts, besides, math.inf, least)
    for one, of_all, own in zip(found, whole, besides, strict=True):
        if abs(of_all + own - least) > 1e-3:
            assert one == pytest.approx(of_all if of_all + own > least else -math.inf, abs=1e-3)


def test_what_was_read_is_not_asked_for_again() -> None:
    score, texts = of_question(" who was it?"), [(*fact_ids("<Ann>"), *encode(f" <{name}>")) for name in "pqr"]
    first = score.likelihoods(texts)
    with pytest.raises(StopIteration) as done:
        next(score.score.likelihoods(texts[::-1], TreeReading.SHARED))
    assert done.value.value.tolist() == first.tolist()[::-1]


def test_each_id_is_read_once_for_all_continuations() -> None:
    question, begin = encode(" who was it?"), fact_ids("<Ann>")
    texts = [(*begin, 7, 8), (*begin, 7, 9), begin]
    engine = engine_of(llama())
    examples, read = engine.prefill(encode(EXAMPLES)), Counter[int]()
    score = Score(encode(LEAD), question).score

    def steps() -> Steps[None]:
        for some in (texts[2:], texts):
            yield from score.likelihoods(some, engine.trees)
        yield from score.close()

    job = Job(steps=steps(), begin=lambda: engine.fork(examples), examples=[examples])
    hook = llama().register_forward_pre_hook(
        lambda _, __, inputs: read.update(inputs["input_ids"][0].tolist()), with_kwargs=True
    )
    try:
        run_jobs(Scheduler(engine), [job])
    finally:
        hook.remove()
    assert read == Counter(begin) + Counter([7, 8, 9]) + Counter([*encode(LEAD), *question[:-1]] * 3)


def test_of_a_long_description_the_first_words_are_read() -> None:
    question, path = " who was it?", tuple(encode(" <p>"))
    found = of_question(question).likelihoods([(*fact_ids(f"<Cy ({LONG})>"), *path)])[0]
    brief, whole = (expected(f"Fact: <Cy ({words})>", path, question) for words in ("one two three four", LONG))
    assert found == pytest.approx(brief, abs=1e-3)
    assert abs(brief - whole) > 0.01


def test_a_fact_that_led_to_the_subject_comes_first() -> None:
    question, path = " who was it?", tuple(encode(" <q>"))
    texts = [fact_ids("<Bo (n)>", "", [fact]) for fact in ("<Ann> <r> <Bo (n)>", "<Ann> <p> <b>")]
    chain, alone = of_question(question).likelihoods([(*text, *path) for text in texts])
    led = expected("Fact: <Ann> <r> <Bo (n)> .\nFact: <Bo (n)>", path, question)
    assert chain == pytest.approx(led, abs=1e-3)
    assert alone == pytest.approx(expected("Fact: <Bo (n)>", path, question), abs=1e-3)


def test_a_subject_found_by_an_alias_has_the_alias_as_its_name() -> None:
    question, path = " who was it?", tuple(encode(" <p>"))
    names = {"<Ann>": "<in>", "<Bo (n)>": "<in (n)>", f"<Cy ({LONG})>": "<in (one two three four)>"}
    found = of_question(question).likelihoods([(*fact_ids(name, "in"), *path) for name in names])
    assert found == pytest.approx([expected(f"Fact: {called}", path, question) for called in names.values()], abs=1e-3)
