"""Which facts of an answer prove it: these come first, and each fact comes once."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.ask.evidence import evidence_of
from refactx.fact import Link, LinkedFact
from refactx.walks.answered import AnsweredQuery
from refactx.walks.evaluate import Result
from refactx.walks.language import Head, Hop, Query


def fact(subject: str, predicate: str, value: str) -> LinkedFact:
    return LinkedFact(Link(subject), Link(predicate), Link(value))


LEADS = fact("Sensor", "manager", "Ada Rossi (engineer)")
MAIL = fact("Ada Rossi (engineer)", "email", "ada@example.com")
PHONE = fact("Ben", "phone number", "555")
TEAM = [fact("Sales", "has member", name) for name in ("Ada", "Ben")]


def shown(answer: str, *facts: LinkedFact, unknown: bool = False) -> list[tuple[str, bool]]:
    return [(one.fact.predicate.label, one.proves) for one in evidence_of(answer, facts, (), unknown=unknown)]


def test_the_fact_with_the_answer_is_first_then_what_leads_to_it_then_what_was_tried() -> None:
    found = shown("ada@example.com", PHONE, LEADS, MAIL)
    assert found == [("email", True), ("manager", True), ("phone number", False)]


@pytest.mark.parametrize("answer", ["Ada Rossi", "ada rossi.", "Ada Rossi (engineer)", "Bo; Ada Rossi"])
def test_a_value_is_compared_without_its_description_and_case(answer: str) -> None:
    assert shown(answer, PHONE, LEADS)[0] == ("manager", True)


def test_a_subject_is_an_answer_where_no_object_is() -> None:
    assert shown("Sales", PHONE, *TEAM) == [("has member", True), ("has member", True), ("phone number", False)]


@pytest.mark.parametrize("answer", ["yes", "no", "2"])
def test_of_yes_and_of_a_count_the_last_facts_of_one_predicate_are_the_proof(answer: str) -> None:
    assert [proves for _, proves in shown(answer, PHONE, *TEAM)] == [True, True, False]


def test_a_date_written_otherwise_is_proved() -> None:
    assert shown("on 20 October 1956", fact("Danny", "born", "1956-10-20"), PHONE) == [
        ("born", True),
        ("phone number", False),
    ]


@pytest.mark.parametrize("answer", ["Lima", "17", ""])
def test_facts_that_do_not_say_the_answer_prove_nothing(answer: str) -> None:
    assert not any(proves for _, proves in shown(answer, LEADS, MAIL, *TEAM))


def test_facts_of_an_answer_that_is_not_known_prove_nothing() -> None:
    assert shown("I don't know.", LEADS, unknown=True) == [("manager", False)]


def answered(head: Head, values: list[str], facts: list[LinkedFact], count: int | None = None) -> AnsweredQuery:
    result = Result(values=tuple(values), count=count)
    query = Query(head, "Sales", (Hop("has member"),))
    return AnsweredQuery(query=query, line="", sparql=None, result=result, rows=(), facts=tuple(facts))


def test_the_facts_of_a_query_prove_its_answer_and_written_ones_beside_it_do_not() -> None:
    query = answered("count", [], TEAM, 2)
    found = evidence_of("2", [PHONE, TEAM[1]], [query])
    assert [(one.fact, one.proves) for one in found] == [(TEAM[0], True), (TEAM[1], True), (PHONE, False)]


names = st.sampled_from(string.ascii_uppercase[:5])


@given(st.lists(st.builds(fact, names, names, names)), names, st.booleans())
def test_each_fact_comes_once_and_proof_first(facts: list[LinkedFact], answer: str, unknown: bool) -> None:
    found = evidence_of(answer, facts, (), unknown=unknown)
    assert sorted(map(str, {one.fact for one in found})) == sorted(map(str, set(facts)))
    assert len(found) == len(set(facts))
    assert [one.proves for one in found] == sorted((one.proves for one in found), reverse=True)
    assert any(one.proves for one in found) == (
        not unknown and any(answer in (one.subject.label, one.object.label) for one in facts)  # type: ignore[union-attr]
    )
