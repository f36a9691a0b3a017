"""The grammar of queries: whatever it lets a model write can be answered, and queries with an answer can be written."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.lines import is_written, line_of, machine_of, walk
from support.query.memory_index import RowsIndex, in_segments
from support.query.twin import CLAIMS, INVERTED, OBJECTS, Graph, SetFacts, with_inverse

from refactx.decoding.states import Dead, InQuery
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.facts import TreeFacts
from refactx.walks.language import read_line

CUTS = st.lists(st.integers(0, 2), max_size=100)
SEEDS = st.integers(0, 1 << 30)
FEW = [(s, p, o) for p in "pqtn" for s in "ABC" for o in OBJECTS[p][:3]]


def has_answer(graph: Graph, line: str) -> bool:
    """Whether any query that begins with the head and the start of a line can be answered.

    For `most` and `least`, some object of the start has to have facts; for a list, some facts must not be counted alone.
    """
    query = read_line(line)
    objects = {o for s, _, o in graph if s == query.start}
    subjects = {s for s, _, _ in graph}
    return bool(objects & subjects if query.by else objects or query.head != "list")


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(CLAIMS, CUTS, SEEDS)
def test_a_query_that_is_allowed_can_be_answered(claims: Graph, cuts: list[int], seed: int) -> None:
    graph = with_inverse(claims)
    index = RowsIndex(in_segments(graph, cuts))
    machine = machine_of(index)
    for number in range(5):
        line = line_of(machine, seed + number)
        assert read_line(line)
        if has_answer(graph, line):
            evaluate_walk(read_line(line), TreeFacts(index))


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(CLAIMS, SEEDS, st.sampled_from([1, 2, 3, 99]))
def test_it_can_be_answered_with_known_kinds_and_with_hubs_too(claims: Graph, seed: int, limit: int) -> None:
    facts = SetFacts(claims, limit)
    machine = machine_of(RowsIndex([(1, facts.facts)]), facts)
    for number in range(5):
        line = line_of(machine, seed + number)
        if has_answer(facts.facts, line):
            evaluate_walk(read_line(line), facts)


def short_queries(graph: Graph) -> Iterator[str]:
    """Lines that have an answer, by brute force."""
    subjects = sorted({s for s, _, _ in graph})
    every = sorted(graph)
    links = [(s, p, o) for s, p, o in every if p.removesuffix(" of") in INVERTED]
    for s, p, o in every:
        yield from (f"{head} <{s}> <{p}> ." for head in ("list", "count", "ask"))
        if p in ("t", "n"):
            yield from (f"ask <{s}> <{p}> {operator} <7> ." for operator in ("over", "under", "equals") if p == "n")
            yield f"ask <{s}> <{p}> under <1990-05> ." if p == "t" else f"list <{s}> <{p}> which over <-1.5> ."
        if p in ("p", "q", "p of", "q of"):
            yield from (f"ask <{s}> <{p}> <{other}> ." for other in (o, *subjects))
        yield f"list <{s}> <{p}> which is <{o}> ."
    for s, p, o in links:
        for _, q, value in [fact for fact in every if fact[0] == o]:
            yield f"list <{s}> <{p}> <{q}> ."
            yield f"count <{s}> <{p}> which <{q}> <{value}> ."
            yield f"most <{s}> <{p}> by count <{q}> ."
            yield f"least 3 <{s}> <{p}> which <{q}> <{value}> by count <{q}> ."
            if q in ("t", "n"):
                yield f"most <{s}> <{p}> by <{q}> ."
            if q == p:
                yield f"list <{s}> <{p}>+ ."
                yield f"count <{s}> <{p}>* <{q}> ."


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(
    st.frozensets(
        st.sampled_from([(s, p, o) for p in "pqtn" for s in "ABC" for o in OBJECTS[p][:3]]), min_size=1, max_size=8
    )
)
def test_a_short_query_with_an_answer_is_allowed(claims: Graph) -> None:
    graph = with_inverse(claims)
    machine = machine_of(RowsIndex([(1, graph)]))
    assert [line for line in short_queries(graph) if not is_written(machine, line)] == []


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(CLAIMS, SEEDS)
def test_a_state_is_a_function_of_the_ids(claims: Graph, seed: int) -> None:
    index = RowsIndex([(1, with_inverse(claims))])
    machine = machine_of(index)
    for ids, state in walk(machine, seed):
        for other in (machine, machine_of(index)):
            again = other.run(ids, 0)
            assert again == state
            if isinstance(state, InQuery):
                assert np.array_equal(other.allowed(again), machine.allowed(state))  # type: ignore[arg-type]


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(CLAIMS, SEEDS)
def test_ids_that_are_allowed_are_those_that_do_not_leave_the_grammar(claims: Graph, seed: int) -> None:
    machine = machine_of(RowsIndex([(1, with_inverse(claims))]))
    others = random.Random(seed).sample(range(len(machine.token_bytes) + 2), 20)
    for ids, state in walk(machine, seed):
        tokens = machine.allowed(state)
        if tokens is None:
            continue
        assert tokens.dtype == np.int32
        assert tokens.tolist() == sorted(set(tokens.tolist()))
        assert machine.forced(state) == (int(tokens[0]) if len(tokens) == 1 else None)
        for token in {*others, *tokens.tolist()}:
            assert isinstance(machine.advance(state, token, len(ids)), Dead) == (token not in tokens)
