"""Superlatives sort by what their adjective compares, and count only what is counted."""

from functools import partial

import pytest
from support.query.world import FakeScore, WorldIndex, overlap, result_of

from refactx.ask.prompt import load_prompt
from refactx.engines.engine import TreeReading
from refactx.ranking.encoders import WordEncoder
from refactx.ranking.ranker import Ranker
from refactx.selection.mentions import widest_names
from refactx.selection.queries import QuerySearch
from refactx.selection.query_lines import Candidate, LineScores
from refactx.selection.weights import Weights

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
GOODS = {
    *((name, "row of", "products") for name in ("Chai", "Tofu", "Tea")),
    *((name, "row of", "teams") for name in ("Ajax", "Bolton")),
    *(("Chai", "price", "18"), ("Tofu", "price", "20"), ("Tea", "price", "3")),
    *(("Chai", "weight", "5"), ("Tofu", "weight", "1"), ("Tea", "weight", "2")),
    *(("Chai", "sold in", "Linz"), ("Chai", "sold in", "Graz"), ("Tofu", "sold in", "Graz")),
    *(("Ajax", "founded", "1900"), ("Bolton", "founded", "1874"), ("Ajax", "age", "30"), ("Bolton", "age", "28")),
    *((name, "row of", "tours") for name in ("Alps", "City")),
    *(("Alps", "cost", "90 EUR"), ("City", "cost", "20 EUR"), ("90 EUR", "amount", "90"), ("20 EUR", "amount", "20")),
    *(("Alps", "offered by", "Trek"), ("City", "offered by", "Trek"), ("Trek", "row of", "agencies")),
    *(("Trek", "offers", "Alps"), ("Trek", "offers", "City")),
    *(("Alps", "leads to", "Linz"), ("City", "leads to", "Linz"), ("Linz", "height", "266"), ("Graz", "height", "353")),
    *(("Ajax", "won", "Chai"), ("Ajax", "won", "Tofu"), ("Bolton", "won", "Tea")),
}
PROPERTIES = {
    "row of": (TYPE, "entity", "has row"),
    "price": ("P1", "quantity", ""),
    "weight": ("P2", "quantity", ""),
    "sold in": ("P3", "entity", "sells"),
    "founded": ("P4", "time", ""),
    "age": ("P5", "quantity", ""),
    "won": ("P6", "entity", "won by"),
    "cost": ("P7", "entity", ""),
    "amount": ("P8", "quantity", ""),
    "leads to": ("P9", "entity", ""),
    "height": ("P10", "quantity", ""),
    "offered by": ("P11", "entity", "offers"),
}


def sorted_by(question: str) -> str:
    """What the likeliest query of a question ranges over and sorts by."""
    return max(candidates(question), key=lambda one: one.score).line


def candidates(question: str) -> list[Candidate]:
    words = load_prompt("domain").words
    assert words is not None
    index = WorldIndex(GOODS, PROPERTIES)  # type: ignore[arg-type]
    ranker, weights = Ranker(WordEncoder()), Weights()
    search = QuerySearch(
        facts=index.facts,
        words=words,
        question=question,
        mentions=index.mentions(question, words),
        scores=LineScores(index.tokenizer, FakeScore(index.tokenizer, overlap(question)), TreeReading.ROWS, "Query:"),
        widest=partial(widest_names, index.machine),
        nearness=lambda names, called: weights.meaning * ranker.nearness(question, names),
    )
    return [one for head in search.heads for one in result_of(search.candidates(head))]


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Which is the most expensive product?", "most <products> <has row> by <price>"),
        ("Which product is the cheapest?", "least <products> <has row> by <price>"),
        ("What is the least expensive product?", "least <products> <has row> by <price>"),
        ("Which is the heaviest product?", "most <products> <has row> by <weight>"),
        ("Which product is sold in the most towns?", "most <products> <has row> by count <sold in>"),
        ("Which team has won the most products?", "most <teams> <has row> by count <won>"),
        ("Which is the most expensive tour?", "most <tours> <has row> by <cost>/<amount>"),
        ("What is the cheapest tour?", "least <tours> <has row> by <cost>/<amount>"),
        ("What is the cheapest that the agency Trek offers?", "least <Trek> <offers> by <cost>/<amount>"),
    ],
)
def test_a_superlative_sorts_by_what_it_compares(question: str, line: str) -> None:
    assert sorted_by(question) == line


@pytest.mark.parametrize(("question", "ways"), [("oldest", ("least", "most")), ("youngest", ("most", "least"))])
def test_the_oldest_has_the_earliest_date_or_the_highest_age(question: str, ways: tuple[str, str]) -> None:
    line = sorted_by(f"Which is the {question} team?")
    assert line in (f"{ways[0]} <teams> <has row> by <founded>", f"{ways[1]} <teams> <has row> by <age>")


def test_what_several_members_share_is_no_part_of_them() -> None:
    lines = {one.line for one in candidates("Which tour has the highest height?")}
    assert lines
    assert not [line for line in lines if "<height>" in line]
