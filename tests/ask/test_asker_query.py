"""Queries that an asker chooses for a question: what it needs for that, and which candidate is answered."""

from types import SimpleNamespace
from typing import Any

import pytest
from support.query.memory_index import RowsIndex
from support.tiny_asker import tiny_asker

from refactx.ask.queries import QueryChoice, choose_query
from refactx.documents import explained, to_json
from refactx.errors import InputError, ModelError
from refactx.selection.mentions import Mention, Mentions
from refactx.selection.query_lines import Candidate
from refactx.walks import TreeFacts, read_line

GRAPH = frozenset([("A", "p", "B"), ("A", "p", "C"), ("B", "n", "7"), ("C", "x", "b")])


def choice(*scored: tuple[str, float], without: float = -10.0) -> QueryChoice:
    return QueryChoice(
        question="how many p has A?",
        heads=("count",),
        mentions=Mentions([Mention(15, 16, "A", "A", 0.5)], frozenset("p"), ["7"]),
        candidates=tuple(Candidate(read_line(line), line, score) for line, score in scored),
        without=without,
        min_confidence=4.0,
        facts=TreeFacts(RowsIndex([(1, GRAPH)])),
    )


def test_the_likeliest_candidate_with_an_answer_is_answered() -> None:
    found = choice(("list <A> <q>", -1.0), ("most <A> <p> by <x>", -2.0), ("count <A> <p>", -3.0)).answer()
    assert found is not None
    assert (found.line, found.answer, found.confidence) == ("count <A> <p>", "2", 7.0)


def test_after_the_first_only_confident_candidates_are_tried() -> None:
    assert choice(("list <A> <q>", -1.0), ("count <A> <p>", -6.5)).answer() is None
    found = choice(("count <A> <p>", -9.0)).answer()
    assert found is not None
    assert found.confidence == 1.0
    assert choice().answer() is None


def test_the_choice_as_json() -> None:
    assert to_json(explained(choice(("count <A> <p>", -3.25)))) == {
        "heads": ["count"],
        "names": {
            "entities": [{"words": "A", "name": "A", "called": "A", "share": 0.5}],
            "predicates": ["p"],
            "numbers": ["7"],
        },
        "candidates": [{"query": "count <A> <p>", "score": -3.25, "confidence": 6.75}],
    }


def test_an_index_in_postgresql_is_needed() -> None:
    with pytest.raises(InputError, match="no index to query"):
        tiny_asker(facts=None).query("how many?")
    with pytest.raises(InputError, match="need an index in PostgreSQL, and a prompt"):
        tiny_asker().query("how many?")
    with pytest.raises(InputError, match="the question is empty"):
        tiny_asker().query(" ")


@pytest.mark.parametrize("engine", [None, SimpleNamespace(trees=0)])
def test_a_model_whose_engine_reads_trees_is_needed(engine: Any) -> None:
    channel: Any = SimpleNamespace(queries=object())
    machine: Any = None
    model: Any = SimpleNamespace(engine=engine)
    with pytest.raises(ModelError, match="decoder-only"):
        choose_query("how many?", channel, machine, model)
