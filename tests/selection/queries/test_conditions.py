"""Filters by other entities that a question names, against brute force: those that some member matches, and no others."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.choice import CLASSES, PLAIN, mentions_of
from support.query.twin import CLAIMS, ENTITIES, INVERTED, Graph, SetFacts, members, with_inverse

from refactx.selection.conditions import NEAREST_SUBJECTS, STEPS_TO_WIDER, Base, Condition, Conditions
from refactx.selection.mentions import Mention, Mentions, QueryWords
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.language import Hop, Query, WalkFilter

LINKS = ("p", "q", "m", "p of", "q of", "m of")


def found(facts: SetFacts, start: str, predicate: str, words: QueryWords = PLAIN, sample: int = 99) -> list[Condition]:
    named = mentions_of()
    base = Base(named.entities[ENTITIES.index(start)], facts.describe([predicate])[predicate])
    return Conditions(facts, words, named, sample).of(base)


def matching(claims: Graph, start: str, predicate: str, which: WalkFilter) -> set[str]:
    return members(with_inverse(claims), Query("list", start, (Hop(predicate),), (which,)))


@settings(max_examples=60)
@given(CLAIMS, st.sampled_from(ENTITIES), st.sampled_from(LINKS), st.sampled_from([PLAIN, CLASSES]))
def test_filters_are_those_that_members_match(claims: Graph, start: str, predicate: str, words: QueryWords) -> None:
    """All entities are named. Of a class, those that are part of it count too."""
    facts = SetFacts(claims)
    conditions = found(facts, start, predicate, words)
    for one in conditions:
        assert one.mention.name != start
        assert one.which.value == one.mention.name
        matches = matching(claims, start, predicate, one.which)
        assert one.members
        assert set(one.members) <= matches
        listed = evaluate_walk(Query("list", start, (Hop(predicate),), (one.which,)), facts)
        assert set(listed.values) == matches
    direct = {(one.which.hops[0].predicate, one.which.value) for one in conditions}
    assert len(direct) == len(conditions)
    feasible = {
        (name, other)
        for name, other in product(INVERTED, ENTITIES)
        if other != start and matching(claims, start, predicate, WalkFilter((Hop(name),), "is", other))
    }
    assert feasible <= direct
    assert words is CLASSES or feasible == direct


@settings(max_examples=60)
@given(CLAIMS, st.sampled_from(ENTITIES), st.sampled_from(LINKS), st.integers(1, 3))
def test_filters_of_hubs_are_found_from_the_other_side(claims: Graph, start: str, predicate: str, limit: int) -> None:
    """The inverse facts of hubs are not there: of the start's, or of the entity's that is named."""
    facts = SetFacts(claims, limit)
    is_hub, conditions = facts.is_hub(start, predicate), found(facts, start, predicate)
    for one in conditions:
        assert one.members
        assert set(one.members) <= matching(claims, start, predicate, one.which)
    direct = {(one.which.hops[0].predicate, one.which.value) for one in conditions}
    for name, other in product(INVERTED, ENTITIES):
        if other != start and matching(claims, start, predicate, WalkFilter((Hop(name),), "is", other)):
            assert (name, other) in direct or (is_hub and facts.is_hub(other, f"{name} of"))


@settings(max_examples=30)
@given(CLAIMS, st.sampled_from(ENTITIES), st.sampled_from(LINKS), st.integers(1, 3))
def test_a_small_sample_has_no_wrong_filter(claims: Graph, start: str, predicate: str, sample: int) -> None:
    for one in found(SetFacts(claims), start, predicate, sample=sample):
        assert one.members
        assert set(one.members) <= matching(claims, start, predicate, one.which)


def test_a_member_beyond_the_sample_is_found_from_the_other_side() -> None:
    facts = SetFacts(frozenset({(f"z{n:02}", "p", "A") for n in range(40)} | {("z39", "q", "B"), ("z40", "q", "C")}))
    [one] = found(facts, "A", "p of", sample=5)
    assert (one.which, one.members) == (WalkFilter((Hop("q"),), "is", "B"), ["z39"])


def test_words_in_common_exclude_a_filter() -> None:
    claims: Graph = frozenset({("A", "p", "B"), ("B", "q", "C"), ("B", "q", "D")})
    facts = SetFacts(claims)
    named = [Mention(0, 5, "A", "A", 1.0), Mention(3, 8, "C", "C", 1.0), Mention(5, 6, "D", "D", 1.0)]
    conditions = Conditions(facts, PLAIN, Mentions(named, frozenset(), []), 99)
    base = Base(named[0], facts.describe(["p"])["p"])
    assert [one.mention.name for one in conditions.of(base)] == ["D"]


def test_no_filter_of_literals() -> None:
    claims: Graph = frozenset({("A", "n", "7"), ("A", "x", "b"), ("B", "p", "C")})
    assert not found(SetFacts(claims), "A", "n")
    assert not found(SetFacts(claims), "A", "x")


@pytest.mark.parametrize("depth", [1, 2, STEPS_TO_WIDER, STEPS_TO_WIDER + 1])
def test_a_class_is_found_some_steps_up(depth: int) -> None:
    """`Ea` has an instance of the narrowest class; another member has a class that is not part of the widest one."""
    chain = [*(f"class {n}" for n in range(depth)), "C"]
    claims = {("A", "m", "Ea"), ("Ea", "p", chain[0]), ("A", "m", "7"), ("A", "m", "B"), ("B", "p", "class")}
    claims |= {(narrow, "q", wide) for narrow, wide in pairwise(chain)}
    conditions = [one for one in found(SetFacts(frozenset(claims)), "A", "m", CLASSES) if one.mention.name == "C"]
    assert len(conditions) == (depth <= STEPS_TO_WIDER)
    for one in conditions:
        assert (one.which, one.members) == (WalkFilter((Hop("p"), Hop("q", "*")), "is", "C"), ["Ea"])


def test_most_of_a_named_hub_is_not_read() -> None:
    """Of a hub's many subjects none is read: whether each member has it is looked up."""
    claims = frozenset({("A", "p", "B"), ("B", "q", "C"), *((f"z{n}", "q", "C") for n in range(3 * NEAREST_SUBJECTS))})
    facts = SetFacts(claims, 5)
    [one] = found(facts, "A", "p")
    assert (one.which, one.members) == (WalkFilter((Hop("q"),), "is", "C"), ["B"])
