"""Candidates for queries over random graphs, against brute force, with a score by words in common."""

import math
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.check import HUB
from support.query.choice import CLASSES, EVERY, Asked, mentions_of, some_asked
from support.query.twin import INVERTED, Graph, with_inverse

from refactx.selection.mentions import Mention, Mentions, QueryWords
from refactx.selection.query_lines import Candidate
from refactx.selection.weights import Weights
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.language import ASKED_HEADS, Hop, Query, QueryError, WalkFilter
from refactx.walks.sets import WalkLimits

OPTIONS = st.sampled_from([EVERY, Weights(), Weights(starts=1, extended=1, drop_queries_below=0.5, sampled_members=2)])


def refusal(query: Query, asked: Asked) -> str:
    """Why a query is refused; empty if it has an answer."""
    try:
        evaluate_walk(query, asked.facts)
    except QueryError as error:
        return str(error)
    return ""


def named(asked: Asked) -> set[str]:
    return {one.name for one in asked.mentions.entities}


@pytest.mark.parametrize("head", ASKED_HEADS)
@settings(max_examples=25)
@given(asked=some_asked())
def test_every_candidate_can_be_answered(head: str, asked: Asked) -> None:
    """Except that members may be sorted by what those that a wider class adds have in another form."""
    for one in asked.candidates(head):  # type: ignore[arg-type]
        reason, is_wide = refusal(one.query, asked), any(hop.closure for w in one.query.which for hop in w.hops)
        assert not reason or (is_wide and head in ("most", "least") and "cannot be sorted" in reason)


@settings(max_examples=50)
@given(some_asked(st.integers(1, 3)), st.sampled_from(ASKED_HEADS))
def test_only_those_that_need_all_facts_of_a_hub_cannot(asked: Asked, head: str) -> None:
    """A filter by a class or by a property with literals too is not read backwards, so it needs them."""
    for one in asked.candidates(head):  # type: ignore[arg-type]
        reason = refusal(one.query, asked)
        if HUB in reason:
            hops = [which.hops for which in one.query.which]
            assert asked.facts.is_hub(one.query.start, one.query.hops[0].predicate)
            assert any(len(some) > 1 or some[0].predicate == "m" for some in hops)


@settings(max_examples=50)
@given(some_asked(), st.sampled_from(ASKED_HEADS), OPTIONS)
def test_candidates_are_made_of_what_the_question_names(asked: Asked, head: str, options: Weights) -> None:
    found = asked.candidates(head, options)  # type: ignore[arg-type]
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert len({one.query for one in found}) == len(found)
    for one in found:
        assert one.query.start in named(asked)
        assert {which.value for which in one.query.which} <= named(asked) | set(asked.mentions.numbers)
        assert one.score > -math.inf
        assert one.line.startswith(f"{one.query.head} <{one.query.start.partition(' (')[0]}>")
        assert "*" not in one.line


@settings(max_examples=50)
@given(some_asked(), st.sampled_from(["list", "count"]))
def test_all_sets_of_the_starts_are_candidates(asked: Asked, head: str) -> None:
    """If the question names some of their properties, those alone, and the members of classes. Of a count of values the
    values are meant."""
    found = {one.query for one in asked.candidates(head) if not one.query.which}  # type: ignore[arg-type]
    pairs = {(s, p) for s, p, _ in with_inverse(asked.claims) if s in named(asked)}
    back = {"p of": "p", "q of": "q", "m of": "m"}
    wanted = {(s, p) for s, p in pairs if {p, back.get(p, p)} & asked.mentions.predicates} or pairs
    heads = {p: "list" if p in ("n", "t") else head for _, p in wanted}
    sets = {Query(heads[p], s, (Hop(p),)) for s, p in wanted}  # type: ignore[arg-type]
    instances = asked.facts.inverse_of("p") if asked.words is CLASSES else None
    assert sets <= found
    assert {(one.head, one.hops) for one in found - sets} <= {(head, (Hop(instances or ""),))}


@settings(max_examples=50)
@given(some_asked())
def test_questions_for_yes_or_no_may_have_either_answer(asked: Asked) -> None:
    """Two entities of which one has the predicate, and the other is its object for somebody."""
    graph, found = with_inverse(asked.claims), asked.candidates("ask")
    single = {(q.start, q.which[0].hops[0].predicate, q.which[0].value) for q in queries_of(found, 1) if is_is(q)}
    has, objects = {(s, p) for s, p, _ in graph}, {(p, o) for _, p, o in graph}
    assert single == {
        (s, p, o)
        for s, p, o in product(named(asked), INVERTED, named(asked))
        if s != o and (s, p) in has and (p, o) in objects
    }
    for query in queries_of(found, 1):
        assert evaluate_walk(query, asked.facts).truth == ((query.start, *parts(query)) in graph) or not is_is(query)


@settings(max_examples=50)
@given(some_asked())
def test_two_objects_of_one_predicate_are_joined(asked: Asked) -> None:
    found = asked.candidates("ask")
    single = [query for query in queries_of(found, 1) if is_is(query)]
    joined = {
        (one.start, one.which[0].hops, frozenset((one.which[0].value, other.which[0].value)))
        for one, other in combinations(single, 2)
        if one.start == other.start and one.which[0].hops == other.which[0].hops
    }
    pairs = [(q.start, q.which[0].hops, frozenset(w.value for w in q.which)) for q in queries_of(found, 2)]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == joined
    places = {one.name: one.start for one in asked.mentions.entities}
    assert all(places[query.which[0].value] < places[query.which[1].value] for query in queries_of(found, 2))


@settings(max_examples=50)
@given(some_asked(), st.sampled_from(["most", "least"]))
def test_sets_are_sorted_by_all_that_their_members_have(asked: Asked, head: str) -> None:
    graph, plain = with_inverse(asked.claims), Asked(asked.claims, mentions_of(named(asked)))
    found = [one.query for one in plain.candidates(head) if not one.query.which]  # type: ignore[arg-type]
    expected = {
        (s, p, by)
        for s, p, o in graph
        if s in named(asked) and p not in ("n", "t", "x")
        for member, by, _ in graph
        if member == o and by in ("n", "t")
    }
    by_values = {(q.start, q.hops[0].predicate, q.by.predicate) for q in found if q.by and q.by.predicate != "m"}
    assert by_values == expected
    for query in found:
        assert evaluate_walk(query, asked.facts).values


@settings(max_examples=50)
@given(some_asked(st.integers(1, 3)), st.sampled_from(["most", "least"]), st.sampled_from([2, 999]))
def test_members_of_hubs_are_sampled_by_a_scan_of_a_small_index(asked: Asked, head: Any, sample: int) -> None:
    """With a sample of all members, the sets of hubs are sorted by all that their members have."""
    options = replace(EVERY, sampled_members=sample)
    small, large = (replace(asked, size=WalkLimits().scanned + more) for more in (0, 1))
    found = {one.query for one in small.candidates(head, options)}
    assert {most for _, most in small.facts.scans} <= {sample}
    assert len(small.facts.scans) <= len({(one, p) for one in named(asked) for p in INVERTED})
    large_found = {one.query for one in large.candidates(head, options)}
    assert large_found <= found
    assert not large.facts.scans
    if sample == 999:
        plain = {one.query for one in replace(asked, limit=math.inf).candidates(head, options)}
        assert {one for one in found if not one.which} == {one for one in plain if not one.which}


def queries_of(found: list[Candidate], filters: int) -> list[Query]:
    return [one.query for one in found if len(one.query.which) == filters]


def is_is(query: Query) -> bool:
    return query.which[0].operator == "is"


def parts(query: Query) -> tuple[str, str]:
    return query.which[0].hops[0].predicate, query.which[0].value


CLAIMS: Graph = frozenset(
    {("A", "p", "B"), ("A", "p", "C"), ("B", "n", "7"), ("C", "n", "30"), ("B", "q", "D"), ("A", "n", "0")}
    | {("D", "x", "b"), ("B", "m", "7"), ("C", "m", "30"), ("C", "p", "D"), ("C", "p", "B")}
)


def lines(asked: Asked, head: str) -> set[str]:
    return {one.line for one in asked.candidates(head)}  # type: ignore[arg-type]


class TestByHand:
    def test_numbers_are_compared_with_quantities_of_the_start(self) -> None:
        words = QueryWords(operators={"over": ["more"], "under": ["less"]})
        asked = Asked(CLAIMS, mentions_of(["B", "D"], numbers=["5"]), words, question="more or less than 5")
        assert {line for line in lines(asked, "ask") if "5" in line} == {
            f"ask <B> <{predicate}> {operator} <5>" for predicate in "nm" for operator in ("over", "under")
        }
        asked = Asked(CLAIMS, mentions_of(["B"], ["m"], ["5"]), words, question="5")
        assert lines(asked, "ask") == {"ask <B> <m> equals <5>"}, "the predicate that the question names, alone"

    def test_a_number_is_compared_with_times_if_it_is_a_year(self) -> None:
        claims: Graph = frozenset(
            {("A", "t", "1990-05"), ("A", "n", "7"), ("A", "m", "B"), ("A", "m", "30"), ("B", "m", "A")}
        )
        assert lines(Asked(claims, mentions_of(["A", "C"], numbers=["1990"])), "ask") == {
            f"ask <A> <{predicate}> equals <1990>" for predicate in "tnm"
        }
        assert lines(Asked(claims, mentions_of(["A", "C"], numbers=["-1.5"])), "ask") == {
            f"ask <A> <{predicate}> equals <-1.5>" for predicate in "nm"
        }
        assert not lines(Asked(claims, mentions_of(["B"], numbers=["1990"])), "ask")

    def test_how_many_may_ask_for_a_value(self) -> None:
        assert lines(Asked(CLAIMS, mentions_of(["A"])), "count") == {"count <A> <p>", "list <A> <n>"}

    def test_the_class_that_is_named_has_the_members_that_are_sorted(self) -> None:
        claims = CLAIMS | {("Ea", "p", "B"), ("Ea", "n", "7")}
        found = lines(Asked(claims, mentions_of(["B", "A"]), CLASSES), "most")
        assert "most <B> <p of> by <n>" in found
        assert not any(line.startswith("most <A>") for line in found)

    def test_members_are_counted_by_what_the_question_names(self) -> None:
        assert "most <A> <p> by count <q>" in lines(Asked(CLAIMS, mentions_of(["A"], ["q"])), "most")
        assert "most <A> <p> by count <q>" not in lines(Asked(CLAIMS, mentions_of(["A"])), "most")

    def test_values_of_two_kinds_do_not_sort(self) -> None:
        assert "most <A> <p> by <m>" in lines(Asked(CLAIMS, mentions_of(["A"])), "most")
        for odd in ("D", "A"):
            claims = CLAIMS | {("B", "m", odd)}
            assert "most <A> <p> by <m>" not in lines(Asked(claims, mentions_of(["A"])), "most")

    def test_a_hub_is_counted_but_not_listed(self) -> None:
        asked = Asked(CLAIMS, mentions_of(["B"]), limit=1)
        assert "count <B> <p of>" in lines(asked, "count")
        assert "list <B> <p of>" not in lines(asked, "list")

    def test_without_entities_there_are_none(self) -> None:
        asked = Asked(CLAIMS, mentions_of([], ["p"], ["7"]))
        assert not any(asked.candidates(head) for head in ASKED_HEADS)


def test_the_namesake_with_more_facts_is_likelier() -> None:
    entities = [Mention(0, 1, "Eb (e)", "E", 0.2), Mention(0, 1, "Ea", "E", 0.8)]
    claims: Graph = frozenset({("Ea", "p", "A"), ("Eb (e)", "p", "A")})
    found = Asked(claims, Mentions(entities, frozenset(), [])).candidates("list")
    assert [(one.query.start, one.line) for one in found] == [("Ea", "list <E> <p>"), ("Eb (e)", "list <E> <p>")]
    assert found[0].score - found[1].score == pytest.approx(0.5 * math.log(4))


def test_starts_far_below_the_best_are_not_followed() -> None:
    asked = Asked(CLAIMS, mentions_of(["A", "B"]))

    def of_line(line: str) -> float:
        return -1.0 if "<A>" in line else -5.0

    near, far = (asked.candidates("list", Weights(keep_starts_within=within), of_line) for within in (4.0, 3.9))
    assert {one.query.start for one in near} == {"A", "B"}
    assert {one.query.start for one in far} == {"A"}


@settings(max_examples=40)
@given(some_asked())
def test_the_narrower_lists_of_a_start(asked: Asked) -> None:
    """The list itself comes first, and what follows has filters that leave some members, maybe all."""
    for start, predicate in sorted({(s, p) for s, p, _ in asked.claims if s in named(asked)}):
        mention = next(one for one in asked.mentions.entities if one.name == start)
        whole, *narrower = asked.search().narrower(mention, predicate)
        assert whole.query == Query("list", start, (Hop(predicate),))
        every = set(evaluate_walk(whole.query, asked.facts).values)
        for one in narrower:
            assert len(one.query.which) in (1, 2)
            assert len({which.value for which in one.query.which}) == len(one.query.which)
            values = set(evaluate_walk(one.query, asked.facts).values)
            assert values
            assert values <= every


def test_a_filter_has_to_gain() -> None:
    asked = Asked(frozenset({("A", "p", "B"), ("B", "q", "C")}), mentions_of(["A", "C"]))
    weights = Weights(filter_gain=2.5, left_out_penalty=0.0)
    found = {one.line: one.score for one in asked.candidates("list", weights, lambda line: -7.0)}
    assert found["list <A> <p>"] == -7.0
    assert found["list <A> <p> which <q> <C>"] == -9.5
    assert WalkFilter((Hop("q"),), "is", "C") in {w for one in asked.candidates("list") for w in one.query.which}
