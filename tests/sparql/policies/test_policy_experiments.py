"""The parts of `refactx eval --sparql`: F1 of rows, near-duplicates of names, and LC-QuAD's file."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ingest.living_index import LivingIndex

from refactx.eval.execution import row_f1, run_query
from refactx.eval.experiments import GrownMemory, RememberedMemory, near_duplicate, original_of
from refactx.eval.questions import read_queries
from refactx.query.pgmr import Mention
from refactx.sparql.engines import EngineError, EngineTimeoutError, Result
from refactx.sparql.memory import Entry, MemoryResolver, NameMemory

TERMS = st.sampled_from(["<a>", "<b>", '"1"', '"x"@en', None])


@given(st.lists(st.tuples(TERMS, TERMS), max_size=4), st.lists(st.tuples(TERMS, TERMS, TERMS), max_size=4))
def test_row_f1_is_that_of_the_best_columns(gold: list[Any], found: list[Any]) -> None:
    best = 0.0
    for one in range(3):
        for other in range(3):
            rows = {(row[one], row[other]) for row in found}
            hits = len(rows & set(gold))
            if one != other and hits:
                precision, recall = hits / len(rows), hits / len(set(gold))
                best = max(best, 2 * precision * recall / (precision + recall))
    assert row_f1({"rows": gold}, {"rows": found}) == pytest.approx(best)


@given(st.text("abcdef ", min_size=1, max_size=8).filter(str.strip), st.integers(1, 8), st.integers(0, 3))
def test_a_near_duplicate_is_another_name_with_its_own_id(label: str, number: int, seed: int) -> None:
    entry = Entry("P31", label, "a thing")
    made = near_duplicate(entry, number, seed)
    assert made == near_duplicate(entry, number, seed)
    assert original_of(made.id) == "P31"
    assert made.label.casefold().split() != label.casefold().split()


def test_a_grown_memory_finds_names_before_their_near_duplicates(stored: LivingIndex) -> None:
    with stored.open() as index:
        memory = RememberedMemory(NameMemory(index))
        grown, mention = GrownMemory(memory, 9), Mention("entity", "Bobb")
        (near,) = grown.nearest([mention], 200)
        similar = [one.similarity for one in near]
        assert similar == sorted(similar, reverse=True)
        own = memory.nearest([mention], 200)[0]
        assert [one for one in near if original_of(one.entry.id) is None] == list(own)
        assert len(near) == 9 * len(own)
        assert grown.exact([Mention("entity", "Ann")]) == memory.exact([Mention("entity", "Ann")])
        for one in (one.entry for one in near if original_of(one.entry.id) is not None):
            assert MemoryResolver(grown, tau=0.0).candidates(Mention("entity", one.label))[0].entry.label == one.label


class Failing:
    """An engine that always fails."""

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self._error = name, error

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        raise self._error

    def close(self) -> None:
        """Nothing is open."""


def test_an_endpoint_that_is_down_ends_the_run_and_a_query_that_fails_does_not() -> None:
    with pytest.raises(EngineError, match="503"):
        run_query(Failing("http://there/sparql", EngineError("503")), "ASK {}", 1)
    assert run_query(Failing("http://there/sparql", EngineTimeoutError("slow")), "ASK {}", 1) == {"error": "slow"}
    assert run_query(Failing("store", EngineError("too deep")), "ASK {}", 1) == {"error": "too deep"}


def test_lcquad_has_gold_queries_and_no_answers(tmp_path: Path) -> None:
    path = tmp_path / "lcquad.json"
    records = [
        {
            "uid": 7,
            "question": "n/a",
            "NNQT_question": "What is {child} of {Ann}?",
            "sparql_wikidata": "SELECT ?x { ?x wdt:P1 wd:Q3 }",
        },
        {
            "uid": 8,
            "question": "Is it?",
            "NNQT_question": "",
            "sparql_wikidata": "ASK { wd:Q1 wdt:P1 wd:Q2 }",
            "answer": [],
        },
    ]
    path.write_text(json.dumps(records))
    one, other = read_queries(path)
    assert (one.id, one.text, one.kind, one.answers) == ("7", "What is {child} of {Ann}?", "single", ())
    assert (other.text, other.kind, other.sparql) == ("Is it?", "ask", "ASK { wd:Q1 wdt:P1 wd:Q2 }")
