"""Scores of written queries: ids, hallucinated URIs, BLEU, and all of them over questions."""

import pytest
from hypothesis import given, settings
from support.query.pgmr import IRIS, Pieces, ids_of, queries, written

from refactx.eval.sparql import bleu, score_queries, unknown_ids
from refactx.eval.sparql import ids_of as ids_in
from refactx.walks.language import QueryError

GOLD = "SELECT ?x { wd:Q1 wdt:P1 ?x }"


@settings(max_examples=50, deadline=None)
@given(queries())
def test_the_ids_of_a_query_are_those_that_it_was_written_with(pieces: Pieces) -> None:
    ids, found = set(ids_of(pieces)), ids_in(written(pieces))
    others = {piece.strip("<>") for piece in pieces if piece in IRIS}
    assert found.all == ids | others
    assert found.properties - others == {id_ for id_ in ids if id_[0] == "P"}


@settings(max_examples=30, deadline=None)
@given(queries())
def test_a_query_is_hallucinated_if_one_id_is_not_known(pieces: Pieces) -> None:
    ids = ids_of(pieces)
    assert unknown_ids([written(pieces)], lambda found: found) == [frozenset()]
    for id_ in ids:
        assert unknown_ids([written(pieces)], lambda found, id_=id_: set(found) - {id_}) == [frozenset({id_})]  # type: ignore[misc]


def test_each_score_is_the_share_of_its_queries() -> None:
    written_queries = [
        "select ?y { wd:Q1 wdt:P1 ?y }",  # all right
        "SELECT ?x { ?x wdt:P1 wd:Q1 }",  # right for the paper alone
        "SELECT ?x { wd:Q2 wdt:P1 ?x }",  # another entity
        "SELECT ?x { wd:Q1 wdt:P9 ?x ",  # a property that does not exist, and no SPARQL
        None,
    ]
    scores = score_queries(written_queries, [GOLD] * 5, known=lambda ids: set(ids) & {"Q1", "Q2", "P1"})
    assert (scores.questions, scores.written, scores.parses) == (5, 0.8, 0.6)
    assert (scores.sqm_strict, scores.sqm_paper) == (0.2, 0.4)
    assert (scores.qid_em, scores.pid_em, scores.hallucinated) == (0.6, 0.6, 0.2)
    assert 0 < scores.bleu < 100
    assert scores.bleu_signature.startswith("nrefs:1|case:mixed|")
    assert score_queries([GOLD], [GOLD]).hallucinated is None


def test_queries_that_equal_gold_have_all_scores() -> None:
    scores = score_queries([GOLD, "ASK {}"], [GOLD, "ASK {}"]).to_json()
    assert {name: value for name, value in scores.items() if isinstance(value, float)} == {
        "written": 1, "parses": 1, "sqm_strict": 1, "sqm_paper": 1, "qid_em": 1, "pid_em": 1, "bleu": 100,
    }  # fmt: skip


def test_declared_prefixes_make_no_difference_to_bleu() -> None:
    declared = "PREFIX wd: <http://www.wikidata.org/entity/> PREFIX wdt: <http://www.wikidata.org/prop/direct/>\n"
    query, other = "SELECT ?x WHERE { wd:Q1 wdt:P1 ?x }", "SELECT 'no SPARQL < {"
    assert bleu([query], [declared + query]).score == bleu([declared + query], [query]).score == 100
    assert bleu([other], [query]).score < 100 == bleu([other], [other]).score


def test_white_space_makes_no_difference_to_bleu() -> None:
    assert bleu(["ASK  {\n wd:Q1 wdt:P1 ?x }"], ["ASK { wd:Q1 wdt:P1 ?x }"]).score == 100


def test_gold_that_is_no_sparql_and_other_numbers_of_queries_are_errors() -> None:
    with pytest.raises(QueryError, match="this is not SPARQL"):
        score_queries(["ASK {}"], ["who?"])
    with pytest.raises(ValueError, match="1 queries for 2 gold queries"):
        bleu(["ASK {}"], ["ASK {}", "ASK {}"])
