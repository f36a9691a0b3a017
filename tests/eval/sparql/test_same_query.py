"""Semantic query match against a brute-force twin, and under every change that it must and must not notice."""

import random
import re
from collections.abc import Callable, Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.pgmr import Pieces, queries, written

from refactx.eval.sparql import Mode, same_query
from refactx.walks.language import QueryError

Triple = tuple[str, str, str]
MODES: list[Mode] = ["strict", "paper"]
NAMES = ("?a", "?b", "?c")
TERMS = st.sampled_from([*NAMES, "wd:Q1", "wd:Q2"])
TRIPLES = st.lists(st.tuples(TERMS, st.sampled_from(["wdt:P1", "?b"]), TERMS), min_size=1, max_size=4)


def ask(triples: Sequence[Triple], prefix: str = "") -> str:
    return f"ASK {{ {prefix}{' . '.join(' '.join(triple) for triple in triples)} }}"


def twin(one: Sequence[Triple], other: Sequence[Triple], mode: Mode) -> bool:
    """Whether some renaming of the variables makes one set of triples the other."""
    form: Callable[[Sequence[str]], tuple[str, ...]] = tuple if mode == "strict" else lambda terms: tuple(sorted(terms))
    wanted = {form(triple) for triple in other}
    renamings = [dict(zip(NAMES, names, strict=True)) for names in permutations(NAMES)]
    return any({form([names.get(t, t) for t in triple]) for triple in one} == wanted for names in renamings)


@settings(max_examples=150, deadline=None)
@given(TRIPLES, TRIPLES, st.sampled_from(MODES))
def test_patterns_are_compared_as_by_all_renamings(one: list[Triple], other: list[Triple], mode: Mode) -> None:
    assert same_query(ask(one), ask(other), mode) == twin(one, other, mode)


@settings(max_examples=60, deadline=None)
@given(TRIPLES, st.permutations(NAMES), st.randoms(use_true_random=False), st.sampled_from(MODES))
def test_names_and_the_order_of_triples_are_free(
    triples: list[Triple], names: list[str], chance: random.Random, mode: Mode
) -> None:
    renamed = [tuple(dict(zip(NAMES, names, strict=True)).get(term, term) for term in triple) for triple in triples]
    shuffled = chance.sample(renamed, len(renamed))
    assert same_query(ask(triples), ask(shuffled), mode)  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(queries())
def test_any_query_is_itself_with_other_names_and_no_other_if_an_id_differs(pieces: Pieces) -> None:
    sparql = written(pieces)
    for mode in MODES:
        assert same_query(sparql, sparql, mode)
    other = written(pieces, lambda id_: f"{id_}0")
    assert same_query(sparql, other) == (other == sparql)
    renamed = re.sub(r"\?x\b", "?renamed", sparql)
    assert same_query(sparql, renamed)


@pytest.mark.parametrize(
    ("one", "other", "modes"),
    [
        (
            "SELECT ?x { ?x wdt:P1 ?y }",
            "PREFIX q: <http://www.wikidata.org/prop/direct/> select ?b\n{?b q:P1 ?c.}",
            MODES,
        ),
        ("ASK { ?x wdt:P1 wd:Q1 ; wdt:P2 wd:Q2 }", "ASK { ?x wdt:P2 wd:Q2 . ?x wdt:P1 wd:Q1 }", MODES),
        (
            "ASK { ?x wdt:P1 ?y FILTER(?y > 1) ?y wdt:P2 ?z }",
            "ASK { ?y wdt:P2 ?z . ?x wdt:P1 ?y FILTER(?y > 1) }",
            MODES,
        ),
        ("ASK { ?x wdt:P1 [ wdt:P2 5 ] }", 'ASK { _:b wdt:P2 "5"^^xsd:integer . ?x wdt:P1 _:b }', MODES),
        (
            "CONSTRUCT { ?x wdt:P1 ?y . ?y wdt:P2 ?x } WHERE { ?x wdt:P3 ?y }",
            "CONSTRUCT { ?y wdt:P2 ?x . ?x wdt:P1 ?y } WHERE { ?x wdt:P3 ?y }",
            MODES,
        ),
        ("ASK { wd:Q1 wdt:P1 ?x }", "ASK { ?x wdt:P1 wd:Q1 }", ["paper"]),
        ("ASK { ?x wdt:P1 ?y }", "ASK { ?x wdt:P1 _:y }", []),
        ("ASK { ?x wdt:P1 ?y }", "ASK { ?x wdt:P1 ?x }", []),
        ("SELECT ?x { ?x wdt:P1 ?y }", "SELECT ?y { ?x wdt:P1 ?y }", ["paper"]),
        ("SELECT ?x ?y { ?x wdt:P1 ?y }", "SELECT ?y ?x { ?x wdt:P1 ?y }", ["paper"]),
        ("SELECT ?x { ?x wdt:P1 ?y }", "SELECT DISTINCT ?x { ?x wdt:P1 ?y }", []),
        ("SELECT ?x { ?x wdt:P1 ?y } LIMIT 1", "SELECT ?x { ?x wdt:P1 ?y } LIMIT 2", []),
        ("SELECT ?x { ?x wdt:P1 ?y } ORDER BY ?y", "SELECT ?x { ?x wdt:P1 ?y } ORDER BY DESC(?y)", []),
        ("ASK { ?x wdt:P1 ?y FILTER(?y > 1) }", "ASK { ?x wdt:P1 ?y FILTER(1 < ?y) }", []),
        ("ASK { ?x wdt:P1/wdt:P2 ?y }", "ASK { ?x wdt:P2/wdt:P1 ?y }", []),
        (
            "ASK { ?x wdt:P1 ?y OPTIONAL { ?x wdt:P2 ?z } ?z wdt:P3 ?w }",
            "ASK { ?x wdt:P1 ?y . ?z wdt:P3 ?w OPTIONAL { ?x wdt:P2 ?z } }",
            [],
        ),
    ],
)
def test_what_is_the_same_query(one: str, other: str, modes: list[Mode]) -> None:
    assert [mode for mode in MODES if same_query(one, other, mode)] == modes
    assert [mode for mode in MODES if same_query(other, one, mode)] == modes


def test_many_triples_that_differ_in_names_alone_are_compared() -> None:
    chain = [(f"?v{at}", "wdt:P1", f"?v{at + 1}") for at in range(30)]
    assert same_query(ask(chain), ask(chain[::-1]))
    assert not same_query(ask(chain), ask([*chain[:-1], ("?v0", "wdt:P1", "?w")]))


def test_what_is_no_sparql_is_an_error() -> None:
    with pytest.raises(QueryError, match="this is not SPARQL"):
        same_query("ASK {}", "who?")
