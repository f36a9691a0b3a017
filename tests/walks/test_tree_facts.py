"""The facts of an index, read through its tree, are those of a set, whatever its segments and its tokenizer."""

import random
from itertools import chain

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.channel_runs import joining_tokenizer
from support.query.check import check
from support.query.memory_index import RowsIndex, in_segments
from support.query.twin import ASKED, CLAIMS, ENTITIES, EVERY, PREDICATES, Graph, SetFacts, with_inverse

from refactx.tokenizer import FactTokenizer
from refactx.walks.facts import TreeFacts
from refactx.walks.language import Query

CUTS = st.lists(st.integers(0, 2), max_size=100)
TOKENIZERS = {
    "whole units": None,
    "byte level": FactTokenizer.from_transformers(joining_tokenizer("byte level")),
    "sentence piece": FactTokenizer.from_transformers(joining_tokenizer("sentence piece")),
}


def same(facts: TreeFacts, twin: SetFacts) -> None:
    """Check that every method answers as the twin does."""
    names = [*ENTITIES, "G", "A "]
    for name in names:
        assert facts.predicates(name) == twin.predicates(name)
    for predicate in (*PREDICATES, "z"):
        assert facts.counts(names, predicate) == twin.counts(names, predicate)
        assert facts.counts(["A"], predicate) == twin.counts(["A"], predicate)
        pairs = list(facts.objects(names, predicate))
        assert sorted(pairs) == sorted(twin.objects(names, predicate))
        assert [names.index(subject) for subject, _ in pairs] == sorted(names.index(subject) for subject, _ in pairs)
        assert pairs == [pair for name in names for pair in facts.objects([name], predicate)]
    wanted = sorted(with_inverse(EVERY))
    assert facts.hold(wanted) == twin.hold(wanted)
    assert facts.hold(wanted[:3]) == twin.hold(wanted[:3])
    assert facts.hold([]) == []
    ends = [("p", "A"), ("p of", "Eb (e)"), ("n", "7"), ("t", "1990-05"), ("q", "z")]
    every = twin.scan(ends, lambda: True)
    assert sorted(facts.scan(ends, lambda: True)) == every
    some = facts.scan(ends, lambda: True, 2)
    assert set(some) <= set(every)
    assert len(some) == min(2, len(every))


@pytest.mark.long
@settings(max_examples=15)
@given(CLAIMS, CUTS, st.sampled_from(sorted(TOKENIZERS)), st.sampled_from([0, 1 << 20]))
def test_the_facts_of_a_tree_are_those_of_a_set(claims: Graph, cuts: list[int], kind: str, cache_bytes: int) -> None:
    index = RowsIndex(in_segments(with_inverse(claims), cuts), TOKENIZERS[kind], cache_bytes)
    same(TreeFacts(index), SetFacts(claims))


@pytest.mark.long
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
@given(CLAIMS, CUTS, st.sampled_from(sorted(TOKENIZERS)), st.randoms(use_true_random=False))
def test_statements_beside_facts_change_no_answer(
    claims: Graph, cuts: list[int], kind: str, chance: random.Random
) -> None:
    """Facts with qualifiers are no further facts, nor is one without its plain fact: counts and objects stay. `statements`
    gives them, those with no plain fact too."""
    names = [*ENTITIES, "7", "1990-05"]
    plain = sorted(claims) + [(s, p, f"{o} long ago") for s, p, o in sorted(claims)[:4]]
    qualified = {
        (
            *fact,
            *(part for _ in range(chance.randint(1, 3)) for part in (chance.choice(PREDICATES), chance.choice(names))),
        )
        for fact in chance.choices(plain, k=12)
    }
    late = {fact for fact in qualified if chance.random() < 0.3}
    segments = [*in_segments(with_inverse(claims), cuts), (1, frozenset(qualified)), (-1, frozenset(late))]
    facts = TreeFacts(RowsIndex(segments, TOKENIZERS[kind]))
    same(facts, SetFacts(claims))
    assert sum(count for count, _ in facts.count_predicates().values()) == len(with_inverse(claims))
    every = {*with_inverse(claims), *(qualified - late)}
    for predicate in PREDICATES:
        found = [(s, predicate, o, *chain(*pairs)) for s, o, pairs in facts.statements(ENTITIES, predicate)]
        assert len(found) == len(set(found))
        assert set(found) == {fact for fact in every if fact[1] == predicate and fact[0] in ENTITIES}
    for subject, predicate, value, *pairs in qualified - late:
        if subject in ENTITIES:
            assert tuple(zip(pairs[::2], pairs[1::2], strict=True)) in facts.qualifiers(subject, predicate, value)


@pytest.mark.long
@settings(max_examples=60)
@given(ASKED, CUTS)
def test_any_query_on_a_tree_has_the_answer_of_brute_force(asked: tuple[Graph, Query], cuts: list[int]) -> None:
    claims, query = asked
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refactx.walks.sets.FEW", -1)
        patch.setattr("refactx.walks.sets.FEWER", 0)
        check(query, TreeFacts(RowsIndex(in_segments(with_inverse(claims), cuts))), claims)


@pytest.mark.parametrize("kind", sorted(TOKENIZERS))
def test_a_scan_ends_when_it_is_told_to(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refactx.walks.facts.ENTRIES_AT_ONCE", 10)
    claims = frozenset((f"n{number}", "p", "A") for number in range(30))
    facts = TreeFacts(RowsIndex([(1, claims)], TOKENIZERS[kind]))
    assert facts.size == len(facts.scan([("p", "A")], lambda: True)) == 30
    monkeypatch.setattr("refactx.tree.bulk._ROWS", 10)
    assert 0 < len(facts.scan([("p", "A")], lambda: False)) < 30


def test_many_subjects_take_a_round_trip_for_each_level() -> None:
    claims = frozenset((f"n{one}", "p", f"n{other}") for one in range(60) for other in range(one, 60, 7))
    index = RowsIndex([(1, with_inverse(claims))])
    facts, levels = TreeFacts(index), index.segments[0][1].root_key[0] + 1
    names = [f"n{number}" for number in range(60)]
    assert len(index.rows[0]) > 100
    assert sum(facts.counts(names, "p")) == len(claims)
    assert index.round_trips <= levels
    assert all(facts.hold(sorted(claims)))
    assert index.round_trips <= 2 * levels
    before = index.round_trips
    assert sum(facts.counts(names, "p")) == len(claims)
    assert index.round_trips == before


def test_a_part_of_many_objects_is_read_alone() -> None:
    claims = frozenset(("hub", "p", f"n{number}") for number in range(500))
    index = RowsIndex([(1, claims)])
    first = next(TreeFacts(index).objects(["hub"], "p"))
    some = index.round_trips
    assert first[0] == "hub"
    assert len(list(TreeFacts(index).objects(["hub"], "p"))) == 500
    assert index.round_trips > 5 * some
