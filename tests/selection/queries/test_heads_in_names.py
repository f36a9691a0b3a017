"""Words of names ask for nothing: `phone number of` is no count, and `largest city` no superlative."""

from functools import partial

import pytest
from support.query.world import FakeScore, WorldIndex, overlap

from refactx.ask.prompt import load_prompt
from refactx.engines.engine import TreeReading
from refactx.selection.mentions import widest_names
from refactx.selection.queries import QuerySearch
from refactx.selection.query_lines import LineScores

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
WORDS = load_prompt("domain").words
PREDICATES = (
    *("phone number", "carNumber", "number of employees", "total number of seats", "head count", "How many wins"),
    *("first name", "last login", "largest city", "latest version", "most common language", "highest point"),
)
FACTS = {
    *(("Acme", name, "1") for name in PREDICATES),
    *((name, "instance of", "Company") for name in ("Acme", "Bolt")),
    *((name, "made by", "Acme") for name in ("How Many Roads", "The Last Samurai", "Most")),
}


def heads(question: str) -> list[str]:
    properties = {
        "instance of": (TYPE, "entity", "has instance"),
        "made by": ("P1", "entity", "made"),
        **{name: (f"P{number}", "text", "") for number, name in enumerate(PREDICATES, 2)},
    }
    index = WorldIndex(FACTS, properties)  # type: ignore[arg-type]
    assert WORDS is not None
    search = QuerySearch(
        facts=index.facts,
        words=WORDS,
        question=question,
        mentions=index.mentions(question, WORDS),
        scores=LineScores(index.tokenizer, FakeScore(index.tokenizer, overlap(question)), TreeReading.ROWS, "Query:"),
        widest=partial(widest_names, index.machine),
    )
    return list(search.heads)


@pytest.mark.parametrize("name", PREDICATES)
@pytest.mark.parametrize("asks", ["What is the {} of Acme?", "{} of Acme", "Tell me the {} of Acme"])
def test_words_of_a_predicate_ask_for_nothing(name: str, asks: str) -> None:
    assert heads(asks.format("car numbers" if name == "carNumber" else name)) == ["list"]


def test_nor_do_those_of_the_members_of_a_class() -> None:
    assert heads("What is the total number of seats of each company?") == ["list"]
    assert heads("Which company has the highest number of employees?") == ["most"]


@pytest.mark.parametrize(
    ("title", "asked"), [("How Many Roads", "list"), ("The Last Samurai", "list"), ("Most", "list")]
)
def test_nor_do_those_of_a_title(title: str, asked: str) -> None:
    assert heads(f"Who made {title}?") == [asked]
    assert heads(f"who made {title.lower()}?") == (["most"] if title == "Most" else [asked])


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("How many employees has Acme?", "count"),
        ("What is the number of phone numbers of Acme?", "count"),
        ("What is the number of products of Acme?", "count"),
        ("Which company has the most products?", "most"),
        ("What is the largest company of Acme?", "most"),
        ("Is the phone number of Acme 1?", "ask"),
        ("What is the telephone number of Acme?", "list"),
    ],
)
def test_other_words_ask_as_before(question: str, asked: str) -> None:
    assert heads(question) == [asked]
