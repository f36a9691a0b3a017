"""What the meaning of a question says of queries and of facts: predicates, classes and objects."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from support.query.sample_world import FILMS, KENNEDY, KUBRICK, PERU, Script, answers, world
from support.query.world import FakeScore

from refactx.decoding.states import Free
from refactx.engines.engine import TreeReading
from refactx.fact import verbalise
from refactx.ranking.encoders import WordEncoder
from refactx.ranking.ranker import Ranker
from refactx.selection.query_answers import QueryAnswers

INDEX = world()


class Synonyms(WordEncoder):
    """Words in common, after some words have become others."""

    name = "synonyms"

    def __init__(self, **words: str) -> None:
        self._words = words

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return super().encode([re.sub(r"\w+", lambda word: self._words.get(word[0], word[0]), text) for text in texts])


def asked(question: str, ranker: Ranker | None = None) -> QueryAnswers:
    return answers(INDEX, question, FakeScore(INDEX.tokenizer, Script("")), ranker=ranker)


def best(question: str, head: str, ranker: Ranker | None) -> str:
    """The query of a head that is first by its prior alone."""
    found = answers(INDEX, question, FakeScore(INDEX.tokenizer, lambda line: -9.0), ranker=ranker)
    return INDEX.run(found.search(TreeReading.ROWS).candidates(head))[0].line  # type: ignore[arg-type, index, union-attr, no-any-return, attr-defined]


@pytest.mark.parametrize(("word", "measure"), [("surface", "area"), ("inhabitants", "population")])
def test_the_set_is_sorted_by_what_the_question_means(word: str, measure: str) -> None:
    ranker = Ranker(Synonyms(surface="area", inhabitants="population"))
    assert best(f"Which country has the most {word}?", "most", ranker).endswith(f"by <{measure}>")


def test_a_number_is_compared_with_values_of_a_near_predicate_alone() -> None:
    search = asked("Is Peru higher than 5000 feet?", Ranker(WordEncoder())).search(TreeReading.ROWS)
    assert INDEX.run(search.candidates("ask")) == []  # type: ignore[arg-type]
    search = asked("Is the area of Peru over 5000?", Ranker(WordEncoder())).search(TreeReading.ROWS)
    [found] = INDEX.run(search.candidates("ask"))  # type: ignore[arg-type]
    assert found.line == "ask <Peru> <area> over <5000>"


@pytest.mark.parametrize(
    ("question", "predicate", "is_other"),
    [
        ("Which films did Stanley Kubrick direct?", "director of", False),
        ("Which countries did Stanley Kubrick visit?", "director of", True),
        ("What did Stanley Kubrick direct?", "director of", False),
        ("Which countries did Stanley Kubrick visit?", "spouse", False),  # its objects have no class
    ],
)
def test_objects_of_another_class_than_the_question_asks_for_are_known(
    question: str, predicate: str, is_other: bool
) -> None:
    assert asked(question).is_of_other_class(KUBRICK, predicate) == is_other


@pytest.mark.parametrize(
    ("question", "fact", "answer"),
    [
        ("Is Caroline Kennedy a child of JFK?", ("Caroline Kennedy (n)", "child of", KENNEDY), "yes"),
        ("Is Lima the capital of Peru?", (PERU, "capital", "Lima (city)"), "yes"),
        ("Did Stanley Kubrick direct Jaws?", (KUBRICK, "director of", f"{next(iter(FILMS))} (film)"), "no"),
    ],
)
def test_a_yes_or_no_follows_the_fact(question: str, fact: tuple[str, str, str], answer: str) -> None:
    """An object that the question names by an alias is named."""
    found = asked(question)
    state = INDEX.machine.run(INDEX.tokenizer.encode(f"Fact:{verbalise(*fact)} .\n"), 0)
    assert isinstance(state, Free)
    ids = list(found.objects(state))
    assert INDEX.tokenizer.decode(ids[: len(ids) - len(found.end)]).removeprefix("Answer: ") == answer
