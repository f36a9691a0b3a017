"""The grammar of SPARQL: whatever it lets a model write is SPARQL with names that exist, and usual queries can be written."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.memory_index import RowsIndex
from support.query.twin import EVERY, Graph, with_inverse
from support.sparql.drawn_queries import check_names, is_written, line_of, sparql_machine, states_of, walk

from refactx.decoding.machine import Machine
from refactx.decoding.states import Dead, Free, InQuery
from refactx.errors import ModelError
from refactx.sparql.constrained.generation import closed
from refactx.sparql.engines.checking import check_query
from refactx.tokenizer import FactTokenizer

GRAPH: Graph = with_inverse(random.Random(1).sample(EVERY, 60)) | {("A", "p", "B"), ("B", "x", "b")}
SEEDS = st.integers(0, 1 << 30)
STARTS = (" SELECT (", " SELECT ?x (", " SELECT ?x { ?x <p> ?y } GROUP", " SELECT * { { SELECT (", " ASK {", "")


@pytest.fixture(scope="module")
def machine() -> Machine:
    return sparql_machine(RowsIndex([(1, GRAPH)]))


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(STARTS))
def test_what_is_allowed_is_sparql_with_names_that_exist(machine: Machine, seed: int, start: str) -> None:
    check_names(line_of(machine, seed, start), GRAPH)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_with_a_tokenizer_of_a_real_model_too(smollm2_folder: Path, seed: int) -> None:
    tokenizer = FactTokenizer.from_file(smollm2_folder / "tokenizer.json")
    check_names(line_of(real_machine(tokenizer), seed, STARTS[seed % len(STARTS)]), GRAPH)


_real: dict[str, Machine] = {}


def real_machine(tokenizer: FactTokenizer) -> Machine:
    if tokenizer.fingerprint not in _real:
        _real[tokenizer.fingerprint] = sparql_machine(RowsIndex([(1, GRAPH)], tokenizer))
    return _real[tokenizer.fingerprint]


WRITTEN = [
    "SELECT ?x { <A> <p> ?x }",
    "SELECT DISTINCT ?x ?y WHERE { <A> <p> ?x ; <p> <B> , ?y . ?y <q>/ <p>+ ?z . }",
    "ASK { <A> <p> <B> }",
    "ASK { ?x ^ <p>| ( <q>/ <p of>)* <F (f)> }",
    'SELECT ?x { ?x rdfs:label ?l FILTER(STRSTARTS(LCASE(STR(?l)), "a") && LANG(?l) = "en") } LIMIT 5 OFFSET 2',
    'SELECT ?x { ?x <x> ?l FILTER(CONTAINS(?l, "é") || REGEX(?l, "^b.*", "i")) }',
    "SELECT (COUNT(DISTINCT ?x) AS ?n) { <A> <p> ?x FILTER(?x != <B>) }",
    "SELECT (COUNT(*) AS ?n) (MAX(?v) AS ?m) { ?x <n> ?v }",
    "SELECT ?x (AVG(?v) AS ?a) { ?x <n> ?v } GROUP BY ?x HAVING(COUNT(?v) > 1) ORDER BY DESC(?a) ?x LIMIT 3",
    "SELECT ?x { ?x <p> ?y } GROUP BY ?x ORDER BY DESC(COUNT(?y)) LIMIT 1",
    'SELECT ?x { ?x <t> ?d FILTER(YEAR(?d) >= 1990 && ?d < "1995-01-01"^^xsd:date) } ORDER BY ?d',
    "SELECT ?y { ?x <t> ?d BIND(YEAR(?d) AS ?y) }",
    "SELECT * { { ?x <p> <A> } UNION { ?x <q> <A> } OPTIONAL { ?x <n> ?v } MINUS { ?x <t> ?t } }",
    "SELECT ?x { VALUES ?x { <A> <B> } ?x ?p 7 . FILTER NOT EXISTS { ?x <p> <A> } }",
    'SELECT ?x { ?x <x> "b"@en , "c" FILTER(?x IN ( <A>, <B>)) }',
    "SELECT ?n { { SELECT (COUNT(?x) AS ?n) { ?x <p> ?y } } FILTER(?n > 2) }",
    "SELECT (SUM(?n) AS ?s) { { SELECT ?y (COUNT(?x) AS ?n) { ?x <p> ?y } GROUP BY ?y } }",
    "SELECT ?x { ?x <n> ?a ; <n> ?b FILTER(?a - ?b > 1.5) }",
    "SELECT ?x { ?x <p> / <q> * <F (f)> ; <p> + <A> }",
]


@pytest.mark.parametrize("line", WRITTEN)
def test_usual_queries_can_be_written(machine: Machine, line: str) -> None:
    assert is_written(machine, line)
    check_names(line, GRAPH)


REFUSED = [
    ("SELECT ?x { <Nobody> <p> ?x }", "no such name"),
    ("SELECT ?x { <A> <nothing> ?x }", "no property"),
    ("SELECT ?x { <p> <p> ?x }", "a property as a subject"),
    ("SELECT ?x { ?x <A> ?y }", "an entity as a property"),
    ("SELECT ?x { <A> <p> ?x", "no bracket"),
    ("SELECT { <A> <p> ?x }", "no variable"),
    ("SELECT ?x ?x { <A> <p> ?x }", "twice the same variable"),
    ("SELECT ?y (COUNT(?x) AS ?n) { ?y <p> ?x }", "a variable that is not grouped"),
    ("SELECT ?y ?z (COUNT(?x) AS ?n) { ?y <p> ?x } GROUP BY ?y", "one of two that is not grouped"),
    ("SELECT (COUNT(?x) AS ?x) { <A> <p> ?x }", "a name in use"),
    ("SELECT (COUNT(?x) AS ?n) { ?n <p> ?x }", "the name of an aggregate in its pattern"),
    ("SELECT ?x { ?x <n> ?a BIND(1 AS ?a) }", "BIND to a variable in use"),
    ("SELECT ?x { ?x <p> ?y } GROUP BY ?x ORDER BY ?y", "sorted by what is not grouped"),
    ("DELETE { ?x ?p ?o }", "an update"),
    ("SELECT ?x { wd:Q1 wdt:P1 ?x }", "ids"),
]


@pytest.mark.parametrize(("line", "reason"), REFUSED)
def test_other_text_cannot_be_written(machine: Machine, line: str, reason: str) -> None:
    assert not is_written(machine, line), reason


def test_only_properties_of_a_subject_follow_it() -> None:
    graph: Graph = frozenset({("A", "p", "B"), ("B", "q", "A"), ("A", "t", "1990")})
    machine = sparql_machine(RowsIndex([(1, graph)]))
    assert is_written(machine, "ASK { <A> <p> ?x ; <t> ?y }")
    assert is_written(machine, "ASK { <A> <p>/ <q> ?x . ?x <q> ?y . <A> ^ <q> ?z }")
    assert not is_written(machine, "ASK { <A> <q> ?x }")
    assert not is_written(machine, "ASK { <A> <p> ?x ; <q> ?y }")
    assert not is_written(machine, "ASK { <A> <p> <B> . <B> <p> ?x }")


def test_an_index_whose_properties_have_no_ids() -> None:
    class Plain(RowsIndex):
        def ids_of(self, names: object) -> dict[str, object]:  # type: ignore[override]
            return {}

        def names_of(self, ids: object, *, inverse: bool = False) -> dict[str, str]:
            return {}

    machine = sparql_machine(Plain([(1, frozenset({("A", "p", "B"), ("B", "x", "b")}))]))
    assert is_written(machine, "SELECT ?x { ?x <p> ?y . ?y <x> ?z }")
    assert not is_written(machine, "SELECT ?x { ?x <q> ?y }")


@pytest.mark.long
@settings(max_examples=8)
@given(SEEDS)
def test_a_state_is_a_function_of_the_ids(machine: Machine, seed: int) -> None:
    other = sparql_machine(RowsIndex([(1, GRAPH)]))
    cut = random.Random(seed)
    for ids, state in walk(machine, seed):
        begin = cut.randrange(len(ids) + 1)
        halves = other.follow(other.run(ids[:begin], 0), ids[begin:], begin)
        assert halves == state
        if isinstance(state, InQuery):
            assert np.array_equal(other.allowed(halves), machine.allowed(state))  # type: ignore[arg-type]


@settings(max_examples=8)
@given(SEEDS)
def test_ids_that_are_allowed_are_those_that_do_not_leave_the_grammar(machine: Machine, seed: int) -> None:
    drawn = random.Random(seed)
    for ids, state in walk(machine, seed):
        tokens = machine.allowed(state)
        if tokens is None or drawn.random() < 0.7:
            continue
        assert tokens.dtype == np.int32
        assert tokens.tolist() == sorted(set(tokens.tolist()))
        assert machine.forced(state) == (int(tokens[0]) if len(tokens) == 1 else None)
        others = drawn.sample(range(len(machine.token_bytes) + 2), 20)
        for token in {*others, *drawn.sample(tokens.tolist(), min(20, len(tokens)))}:
            assert isinstance(machine.advance(state, token, len(ids)), Dead) == (token not in tokens)


@pytest.mark.parametrize("line", WRITTEN[::5])
def test_a_query_that_is_cut_can_be_closed_once_it_has_a_triple(machine: Machine, line: str) -> None:
    prompt = machine.source.tokenizer.encode("SPARQL:")
    ids = machine.source.tokenizer.encode(f"SPARQL: {line}")[len(prompt) :]
    found = [closed(machine, prompt, ids[:stop]) for stop in (0, *range(len(ids) - 20, len(ids) + 1, 2))]
    assert found[0] is None
    assert found[-1] == line
    first = next(stop for stop, query in enumerate(found) if query is not None)
    assert first < len(found) - 1
    for query in found[first:]:
        assert query is not None
        check_query(query)


def test_a_query_ends_with_its_line(machine: Machine) -> None:
    *_, state = states_of(machine, "ASK { <A> <p> <B> }\n")
    assert isinstance(state, Free) and state.tail.isspace()


def test_a_prompt_may_end_in_the_space_after_the_trigger(machine: Machine) -> None:
    encode = machine.source.tokenizer.encode
    prompt = encode("so SPARQL: ")
    ids = encode("ASK { <A> <p> <B> }\n")
    assert machine.queries([*prompt, *ids], len(prompt)) == ["ASK { <A> <p> <B> }"]


def test_another_trigger_of_facts_is_needed_if_it_is_that_of_queries() -> None:
    index = RowsIndex([(1, GRAPH)])
    index.trigger = "SPARQL:"  # type: ignore[misc]
    with pytest.raises(ModelError, match="SPARQL:"):
        sparql_machine(index)
