"""Literals that a question names, in a graph that is not Wikidata's: filters of the members of a class, named or not."""

from functools import partial

import pytest
from support.query.world import FakeScore, WorldIndex, overlap, result_of

from refactx.engines.engine import TreeReading
from refactx.selection.mentions import QueryWords, ValueSpans, unnamed, widest_names
from refactx.selection.queries import Candidate, LineScores, QuerySearch
from refactx.walks.language import Head

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
WORDS = QueryWords(
    heads={"ask": ["is"]},
    operators={"over": ["more than"]},
    function=frozenset(["who", "is", "in", "the", "does", "which", "has", "how", "many"]),
    class_of=f"P31 {TYPE}",
)
PEOPLE = {
    ("Ann", "city", "Graz"),
    ("Ann", "age", "40"),
    ("Ann", "knows", "Bo"),
    ("Ann", "knows", "Cy"),
    ("Bo", "city", "Linz"),
    ("Bo", "age", "31"),
    ("Bo", "knows", "Ann"),
    ("Cy", "city", "Graz"),
    ("Cy", "club", "The Gunners"),
    *((name, "instance of", "Person") for name in ("Ann", "Bo", "Cy")),
}


def candidates(question: str, head: Head, class_id: str = TYPE, subject: str = "") -> list[Candidate]:
    """The queries for a question, the likeliest first; of a list those after a fact of a subject."""
    properties = {
        "instance of": (class_id, "entity", "has instance"),
        "knows": ("P1", "entity", "knows (inverse)"),
        "city": ("P2", "text", ""),
        "club": ("P3", "text", ""),
        "age": ("P4", "quantity", ""),
    }
    index = WorldIndex(PEOPLE, properties)  # type: ignore[arg-type]
    search = QuerySearch(
        facts=index.facts,
        words=WORDS,
        question=question,
        mentions=index.mentions(question, WORDS),
        scores=LineScores(index.tokenizer, FakeScore(index.tokenizer, overlap(question)), TreeReading.ROWS, "Query:"),
        widest=partial(widest_names, index.machine),
    )
    return result_of(search.of_class(unnamed(subject)) if head == "list" else search.candidates(head))


@pytest.mark.parametrize(
    ("question", "head", "line"),
    [
        ("Who lives in graz?", "list", "list <Person> <has instance> which <city> <Graz>"),
        ("Which persons are gunners?", "list", "list <Person> <has instance> which <club> <The Gunners>"),
        ("Who has the age 31?", "list", "list <Person> <has instance> which <age> <31>"),
        ("Which person has an age of more than 31?", "list", "list <Person> <has instance> which <age> over <31>"),
        ("How many have the city Graz?", "count", "count <Person> <has instance> which <city> <Graz>"),
        ("Does Bo live in Graz?", "ask", "ask <Bo> <city> <Graz>"),
        ("Who knows the most?", "most", "most <Person> <has instance> by count <knows>"),
    ],
)
def test_a_literal_that_the_question_names_is_a_filter(question: str, head: Head, line: str) -> None:
    assert candidates(question, head)[0].line == line


def test_a_question_for_yes_or_no_has_no_list() -> None:
    assert not candidates("Is Bo in Graz?", "list")
    assert not candidates("Is Bob in Graz?", "ask")
    assert candidates("Is Bob in Graz?", "list", subject="Bo")[0].line == "ask <Bo> <city> <Graz>"


def test_none_in_wikidata() -> None:
    assert not candidates("Who lives in Graz?", "list", "P31")
    assert not candidates("Does Bo live in Graz?", "ask", "P31")


def test_a_literal_that_nobody_has_is_none() -> None:
    assert not candidates("Who lives in Wels?", "list")


@pytest.mark.parametrize(
    ("question", "value", "place"),
    [
        ("Who plays for the gunners?", "The Gunners", (18, 25)),
        ("Is it in Côte d'Ivoire?", "Cote d’Ivoire", (9, 22)),
        ("Who is in Western Europe?", "Western Asia", None),
        ("Who has more than 40?", "40", None),
        ("Who has 40?", "40", (8, 10)),
        ("Who is the", "the", None),
        ("Who is " + "very " * 20, "very " * 20, None),
    ],
)
def test_the_words_of_a_literal_stand_in_the_question(question: str, value: str, place: tuple[int, int] | None) -> None:
    assert ValueSpans(WORDS, question).find(value) == place
