"""Examples of queries from training data: which are taken, and which stand before a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.errors import InputError
from refactx.ranking.encoders import WordEncoder
from refactx.sparql.packs.prompt import load_sparql_prompt
from refactx.sparql.packs.shots import ShotChoice, shots_of, training_examples

NAMES = {"Q1": "Ann (poet)", "Q2": "Bob", "P3": "child", "P4": "spouse"}
PAIRS = [
    ("Who is the child of Ann?", "SELECT ?x { wd:Q1 wdt:P3 ?x }"),
    ("Whom did Bob marry?", "SELECT ?x { wd:Q2 wdt:P4 ?x }"),
    ("Has Ann a child?", "ASK { wd:Q1 wdt:P3 ?x }"),
    ("How many children has Bob?", "SELECT (COUNT(?x) AS ?n) { wd:Q2 wdt:P3 ?x }"),
]
LEFT_OUT = [
    ("Whose is it?", "SELECT ?x { wd:Q9 wdt:P3 ?x }"),
    ("What is broken?", "SELECT ?x { wd:Q1 wdt:P3"),
    ("What is there?", "SELECT ?x { ?x ?p ?y }"),
]
EXAMPLES = training_examples([*LEFT_OUT, *PAIRS], lambda ids: {id_: NAMES[id_] for id_ in ids if id_ in NAMES})


def test_questions_become_examples_whose_queries_are_whole_and_have_names_alone() -> None:
    assert [(one.question, one.sparql) for one in EXAMPLES] == PAIRS
    kinds = {entry.id: (entry.kind, entry.label, entry.description) for one in EXAMPLES for entry in one.names}
    assert kinds == {
        "Q1": ("entity", "Ann", "poet"),
        "Q2": ("entity", "Bob", ""),
        "P3": ("relation", "child", ""),
        "P4": ("relation", "spouse", ""),
    }


@given(st.sampled_from(["nearest", "random"]), st.integers(1, 3), st.integers(0, 9), st.integers(0, 3))
def test_a_question_is_none_of_its_own_examples(by: ShotChoice, count: int, seed: int, number: int) -> None:
    choose = shots_of(EXAMPLES, count, by, WordEncoder(), seed)
    chosen = choose(PAIRS[number][0])
    assert len({one.question for one in chosen}) == count
    assert PAIRS[number][0] not in {one.question for one in chosen}
    assert choose(PAIRS[number][0]) == chosen


def test_the_nearest_stands_last_and_in_the_form_of_its_writer() -> None:
    prompt = load_sparql_prompt()
    shown = type(prompt)(prompt.texts, prompt.examples, shots=shots_of(EXAMPLES, 2, "nearest", WordEncoder()))
    messages = shown.messages("placeholders", "How many children has Ann?")
    assert len(messages) == 1 + 2 * 2 + 1
    assert messages[-3]["content"] == "How many children has Bob?"
    assert messages[-2]["content"].splitlines()[1:] == ["entity1 = [ENT] Bob [/ENT]", "relation1 = [REL] child [/REL]"]


def test_too_few_examples_are_told() -> None:
    with pytest.raises(
        InputError, match="has 4 queries whose ids all have a name in the index: give --shots 4 or fewer"
    ):
        shots_of(EXAMPLES, 5, "random", WordEncoder())
