"""Literals that a question names, in a graph that is not Wikidata's: filters of the members of a class, named or not."""

from dataclasses import replace
from functools import partial
from typing import ClassVar

import pytest
from support.query.world import FakeScore, WorldIndex, overlap, result_of

from refactx.engines.engine import TreeReading
from refactx.selection.mentions import QueryWords, ValueSpans, unnamed, widest_names
from refactx.selection.queries import QuerySearch
from refactx.selection.query_answers import try_answer
from refactx.selection.query_lines import Candidate, LineScores
from refactx.walks.language import Head

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
WORDS = QueryWords(
    heads={"ask": ["is"]},
    operators={"over": ["more than", "between"], "under": ["less than", "between"]},
    function=frozenset(["who", "is", "in", "the", "does", "which", "has", "how", "many"]),
    class_of=f"P31 {TYPE}",
    subclass_of=SUBCLASS,
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
    ("Cy", "note", "a keeper"),
    ("Ann", "is driver", "x"),
    ("Bo", "is driver", "no"),
    ("Cy", "Land Locked (LL)", "true"),
    ("Person", "subclass of", "Being"),
    ("Being", "subclass of", "Thing"),
    *((name, "instance of", "Person") for name in ("Ann", "Bo", "Cy")),
}


def people(class_id: str = TYPE) -> WorldIndex:
    properties = {
        "instance of": (class_id, "entity", "has instance"),
        "knows": ("P1", "entity", "knows (inverse)"),
        "city": ("P2", "text", ""),
        "club": ("P3", "text", ""),
        "age": ("P4", "quantity", ""),
        "note": ("P5", "text", ""),
        "is driver": ("P6", "text", ""),
        "Land Locked (LL)": ("P7", "literal", ""),
        "subclass of": (SUBCLASS, "entity", "has subclass"),
    }
    return WorldIndex(PEOPLE, properties)  # type: ignore[arg-type]


def candidates(question: str, head: Head, class_id: str = TYPE, subject: str = "") -> list[Candidate]:
    """The queries for a question, the likeliest first; of a list those after a fact of a subject."""
    index = people(class_id)
    search = QuerySearch(
        facts=index.facts,
        words=WORDS,
        question=question,
        mentions=index.mentions(question, WORDS),
        scores=LineScores(index.tokenizer, FakeScore(index.tokenizer, overlap(question)), TreeReading.ROWS, "Query:"),
        widest=partial(widest_names, index.machine),
    )
    lists = search.rank(search.of_class(unnamed(subject)))
    return result_of(lists if head == "list" else search.candidates(head))


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


@pytest.mark.parametrize(
    ("question", "head", "line"),
    [
        ("How many persons are drivers?", "count", "count <Person> <has instance> which <is driver> <x>"),
        ("Which person was landlocked?", "list", "list <Person> <has instance> which <Land Locked (LL)> <true>"),
        (
            "Which drivers has the city Graz?",
            "list",
            "list <Person> <has instance> which <city> <Graz> which <is driver> <x>",
        ),
        (
            "Which person has an age between 35 and 50?",
            "list",
            "list <Person> <has instance> which <age> over <35> which <age> under <50>",
        ),
        (
            "Which that Ann knows has an age of more than 30 and less than 50?",
            "list",
            "list <Ann> <knows (inverse)> which <age> over <30> which <age> under <50>",
        ),
        ("Is Bo instance of Being?", "ask", "ask <Bo> <instance of> <Being>"),
        ("Is Person subclass of Thing?", "ask", "ask <Person> <subclass of> <Thing>"),
    ],
)
def test_conditions_pairs_of_filters_and_ranges_are_candidates(question: str, head: Head, line: str) -> None:
    assert line in {one.line for one in candidates(question, head)}


def test_a_question_for_yes_or_no_has_no_list() -> None:
    assert not candidates("Is Bo in Graz?", "list")
    assert not candidates("Is Bob in Graz?", "ask")
    assert candidates("Is Bob in Graz?", "list", subject="Bo")[0].line == "ask <Bo> <city> <Graz>"


def test_none_in_wikidata() -> None:
    assert not candidates("Who lives in Graz?", "list", "P31")
    assert not candidates("Does Bo live in Graz?", "ask", "P31")


def test_classes_count_with_those_that_they_are_part_of() -> None:
    for question in ("Is Bo instance of Being?", "Is Bo instance of Thing?", "Is Person subclass of Thing?"):
        answered = try_answer(candidates(question, "ask")[0].query, people().facts)
        assert answered is not None
        assert answered.answer == "yes"


def test_a_count_of_one_has_to_gain() -> None:
    of_two, of_one = (
        next(
            one.score for one in candidates(f"How many knows {name}?", "count") if one.line == f"count <{name}> <knows>"
        )
        for name in ("Ann", "Bo")
    )
    assert of_two - of_one == pytest.approx(2.0)


def test_texts_are_not_counted() -> None:
    assert "count <Cy> <note>" not in {one.line for one in candidates("How many note of Cy?", "count")}


def test_filters_that_no_member_has_together_are_no_pair() -> None:
    found = candidates("Which landlocked drivers has the city Graz?", "list")
    pairs = {tuple(sorted(which.value for which in one.query.which)) for one in found if len(one.query.which) == 2}
    assert pairs == {("Graz", "true"), ("Graz", "x")}


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
        ("Which are landlocked?", "Land Locked", (10, 20)),
        ("Which are land-locked now?", "landlocked", (10, 21)),
        ("Who is " + "very " * 20, "very " * 20, None),
    ],
)
def test_the_words_of_a_literal_stand_in_the_question(question: str, value: str, place: tuple[int, int] | None) -> None:
    assert ValueSpans(WORDS, question).find(value) == place


class TestByTwo:
    """Sets of the class that is asked for, to which something leads by two predicates."""

    CLAIMS: ClassVar = {
        *((name, "instance of", "Department") for name in ("Sales", "Data")),
        *((name, "instance of", "Person") for name in ("Ann", "Bo")),
        ("Ann", "expertise", "Coils"),
        ("Bo", "expertise", "Coils"),
        ("Ann", "member of", "Sales"),
        ("Bo", "member of", "Data"),
        ("Coils", "sold by", "Sales"),
        ("Lamps", "sold by", "Data"),
    }
    PROPERTIES: ClassVar = {
        "instance of": (TYPE, "entity", "has instance"),
        "expertise": ("P1", "entity", "expertise of"),
        "member of": ("P2", "entity", "has member"),
        "sold by": ("P3", "entity", "sells"),
    }

    def lines(self, question: str) -> list[str]:
        index = WorldIndex(self.CLAIMS, self.PROPERTIES)
        words = replace(WORDS, heads={"count": ["how many"], "most": ["most"]})
        search = QuerySearch(
            facts=index.facts,
            words=words,
            question=question,
            mentions=index.mentions(question, words),
            scores=LineScores(
                index.tokenizer, FakeScore(index.tokenizer, overlap(question)), TreeReading.ROWS, "Query:"
            ),
        )
        return [one.line for one in search.by_two(unnamed("Coils"))]

    @pytest.mark.parametrize(
        ("asks", "head"), [("Which departments have", "list"), ("How many departments have", "count")]
    )
    def test_lead_to_the_class_that_is_asked_for(self, asks: str, head: str) -> None:
        assert self.lines(f"{asks} Coils experts?") == [f"{head} <Coils> <expertise of> <member of>"]

    @pytest.mark.parametrize(
        "asked", ["Which people know Coils?", "Who knows Coils?", "Which department has most Coils?"]
    )
    def test_are_none_if_one_predicate_leads_there_or_no_class_is_asked_for(self, asked: str) -> None:
        assert self.lines(asked) == []
