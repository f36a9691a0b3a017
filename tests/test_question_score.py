"""How likely facts make a question: what plain passes over whole texts say, also where hopeless rows are given up."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import log_probabilities, one_thread, tiny_index, tiny_model  # noqa: F401

from refactx.candidates import Path
from refactx.prefix import prefill
from refactx.question_score import FIRST, QuestionScore
from refactx.state import InFact, Machine

LONG = "one two three four five (six) seven (1900-1999)"
GRAPH = ("<Ann> <p> <b>", "<Bo (n)> <q> <c>", f"<Cy ({LONG})> <p> <Ann>", "<Ann> <r> <Bo (n)>")
EXAMPLES, LEAD = "Fact: <x> <y> Question: z?\n", " Question:"
INDEX = tiny_index(GRAPH)


@cache
def llama() -> Any:
    return tiny_model(3)


def encode(text: str) -> list[int]:
    return INDEX.tokenizer.encode(text)


def of_question(question: str) -> QuestionScore:
    lead = encode(LEAD)
    return QuestionScore(llama(), prefill(llama(), [encode(EXAMPLES)]), [*lead, *encode(question)], len(lead))


def at(text: str, written: Sequence[str] = ()) -> InFact:
    machine = Machine(INDEX)
    state = machine.run(encode("".join(f"Fact: {fact} .\n" for fact in written) + "Fact:" + text), 0)
    assert isinstance(state, InFact)
    return state


def plainly(before: str, path: Path, question: str) -> torch.Tensor:
    """Of each id of the question, float[ids], by one pass over the whole text."""
    asked = encode(question)
    text = [*encode(EXAMPLES), *encode(before), *path, *encode(LEAD), *asked]
    return log_probabilities(llama(), text)[-len(asked) - 1 : -1].gather(1, torch.tensor(asked)[:, None])[:, 0]


@pytest.mark.parametrize("question", [" b?", " who is it that Ann was?", "?"])
def test_is_that_of_plain_passes(question: str) -> None:
    score = of_question(question)
    model = score.behind(Machine(INDEX), [(at(" <Ann>"), ""), (at(" <Bo (n)>"), "")])
    paths: list[tuple[int, Path]] = [(0, ()), (0, tuple(encode(" <p>"))), (1, tuple(encode(" <q> <c>")))]
    expected = [plainly(f"Fact: {('<Ann>', '<Bo (n)>')[n]}", path, question).sum() for n, path in paths]
    assert score.likelihoods(model, paths) == pytest.approx([float(one) for one in expected], abs=1e-3)
    assert score.of_nothing(Machine(INDEX)) == pytest.approx(float(plainly("Fact:", (), question).sum()), abs=1e-3)


@pytest.mark.parametrize("ids_a_pass", [256, 3])
@pytest.mark.parametrize("names", [("<Ann>",), ("<Ann>", "<Bo (n)>", f"<Cy ({LONG})>")])
def test_subjects_are_compared_by_the_question_right_behind_them(
    names: Sequence[str], ids_a_pass: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refactx.question_score.IDS_A_PASS", ids_a_pass)
    question, path = " who was it?", tuple(encode(" <p>"))
    read = [name.replace(LONG, "one two three four") for name in names]
    score, subjects = of_question(question), [(at(f" {name}"), "") for name in names]
    model, found = score.compared(Machine(INDEX), subjects)
    expected = [float(plainly(f"Fact: {name}", (), question).sum()) for name in read]
    assert found == pytest.approx(expected, abs=1e-3)
    assert score.of_nothing(Machine(INDEX)) == pytest.approx(float(plainly("Fact:", (), question).sum()), abs=1e-3)
    again, _ = score.compared(Machine(INDEX), subjects)
    for behind in (model, again):
        likely = score.likelihoods(behind, [(row, path) for row in range(len(names))])
        expected = [float(plainly(f"Fact: {name}", path, question).sum()) for name in read]
        assert likely == pytest.approx(expected, abs=1e-3), "the model stands behind the subjects"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.lists(st.integers(5, 200), max_size=6).map(tuple), min_size=1, max_size=24),
    question=st.sampled_from([" b?", " who was it that Ann had been with?", "?"]),
    hopeless=st.sampled_from([0.0, 0.5, 2.0, 100.0, math.inf]),
    sizes=st.sampled_from([(256, 16), (20, 3)]),
    seed=st.integers(0, 9),
)
def test_gives_up_what_is_far_behind_once_a_quarter_is_read_and_nothing_else(
    rows: list[Path], question: str, hopeless: float, sizes: tuple[int, int], seed: int
) -> None:
    besides = np.random.default_rng(seed).normal(size=len(rows))
    score = of_question(question)
    model = score.behind(Machine(INDEX), [(at(" <Ann>"), "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.chunks.IDS_A_PASS", sizes[0])
        patch.setattr("refactx.chunks.ROWS_A_PASS", sizes[1])
        patch.setattr("refactx.question_score.RACED", 4)
        found = score.likelihoods(model, [(0, path) for path in rows], besides, hopeless)
    of_ids = [plainly("Fact: <Ann>", path, question) for path in rows]
    first = math.ceil(FIRST * len(of_ids[0]))
    early = np.array([float(one[:first].sum()) for one in of_ids]) + besides
    raced = len(rows) >= 4 and first < len(of_ids[0])
    for n, one in enumerate(of_ids):
        behind = early.max() - early[n]
        if raced and behind > hopeless + 1e-3:
            assert found[n] == -math.inf
        elif not raced or behind < hopeless - 1e-3 or behind == 0:
            assert found[n] == pytest.approx(float(one.sum()), abs=1e-3)


def test_of_a_long_description_the_first_words_are_read() -> None:
    question = " who was it?"
    score = of_question(question)
    model = score.behind(Machine(INDEX), [(at(f" <Cy ({LONG})>"), "")])
    path = tuple(encode(" <p>"))
    found = score.likelihoods(model, [(0, path)])[0]
    brief, whole = (
        float(plainly(f"Fact: <Cy ({words})>", path, question).sum()) for words in ("one two three four", LONG)
    )
    assert found == pytest.approx(brief, abs=1e-3)
    assert abs(brief - whole) > 0.01


def test_a_fact_that_led_to_the_subject_comes_first() -> None:
    question = " who was it?"
    score = of_question(question)
    states = [at(" <Bo (n)>", ["<Ann> <r> <Bo (n)>"]), at(" <Bo (n)>", ["<Ann> <p> <b>"])]
    model = score.behind(Machine(INDEX), [(state, "") for state in states])
    path = tuple(encode(" <q>"))
    chain, alone = score.likelihoods(model, [(0, path), (1, path)])
    assert chain == pytest.approx(
        float(plainly("Fact: <Ann> <r> <Bo (n)> .\nFact: <Bo (n)>", path, question).sum()), abs=1e-3
    )
    assert alone == pytest.approx(float(plainly("Fact: <Bo (n)>", path, question).sum()), abs=1e-3)


def test_who_is_found_by_an_alias_is_called_by_it() -> None:
    question = " who was it?"
    score, path = of_question(question), tuple(encode(" <p>"))
    names = {"<Ann>": "<in>", "<Bo (n)>": "<in (n)>", f"<Cy ({LONG})>": "<in (one two three four)>"}
    model = score.behind(Machine(INDEX), [(at(f" {name}"), "in") for name in names])
    found = score.likelihoods(model, [(row, path) for row in range(len(names))])
    expected = [float(plainly(f"Fact: {called}", path, question).sum()) for called in names.values()]
    assert found == pytest.approx(expected, abs=1e-3)
