"""Pronouns that stand for nothing in a question: then nobody is taken, but for who was named before it."""

from collections.abc import Sequence

import pytest
from support.query.sample_world import KUBRICK, answers, world
from support.query.world import FakeScore, overlap

from refactx.ask.prompt import load_prompt
from refactx.english import open_pronoun

INDEX = world()
WORDS = load_prompt().words


@pytest.mark.parametrize(
    "question",
    [
        "And what is his email?",
        "When was she born?",
        "What is it?",
        "Which department does she work in?",
        "Which films did he direct?",
        "Does he work for Acme?",
        "What is the phone number of his boss?",
        "Where do they live?",
        "Who owns this?",
        "what is her name",
        "How old is he?",
        "Who is his manager?",
    ],
)
def test_a_pronoun_that_stands_for_nothing(question: str) -> None:
    assert WORDS is not None
    named = [(at, at + 4)] if (at := question.find("Acme")) >= 0 else []
    place = open_pronoun(question, named, WORDS.is_function)
    assert place is not None
    assert question[slice(*place)].lower() in ("his", "she", "it", "he", "they", "this", "her")


@pytest.mark.parametrize(
    "question",
    [
        "What is the email of Acme?",
        "Who runs Acme, and what is her email?",
        "Did Acme sell its shares?",
        "In his life, what did Acme write?",
        "Which company has its headquarters in Graz?",
        "How many people have their birthday in May?",
        "Who sold his company?",
        "Is it true that penguins fly?",
        "What are the emails of companies and their owners?",
        "How many people were born this year?",
        "Who runs the IT department?",
        "Who wrote His Dark Materials (Acme)?",
        "",
    ],
)
def test_a_pronoun_that_stands_for_something_in_the_question(question: str) -> None:
    assert WORDS is not None
    named = [(at, at + 4)] if (at := question.find("Acme")) >= 0 else []
    if (at := question.find("His Dark")) >= 0:
        named.append((at, at + len("His Dark Materials")))
    assert open_pronoun(question, named, WORDS.is_function) is None


@pytest.mark.parametrize(
    ("earlier", "question", "antecedent", "named"),
    [
        ((), "Which films did he direct?", "missing", False),
        (("Hello\nHi!",), "Which films did he direct?", "missing", False),
        (("Who is Stanley Kubrick?\nI don't know.",), "Which films did he direct?", "before", True),
        (("Who directed Lolita?\nStanley Kubrick", "Thanks\nGood."), "When was he born?", "before", True),
        (("Who is Stanley Kubrick?\nA director",), "And the spouse?", "none", True),
        (("Who is Stanley Kubrick?\nA director",), "What is the capital of Peru?", "none", False),
    ],
)
def test_names_of_the_latest_turn_stand_for_a_pronoun(
    earlier: Sequence[str], question: str, antecedent: str, named: bool
) -> None:
    found = answers(INDEX, question, FakeScore(INDEX.tokenizer, overlap(question)), earlier=earlier)
    assert found.antecedent == antecedent
    assert (KUBRICK in {one.name for one in found.mentions.entities}) == named
