"""Nodes that say several things at once keep them together: statements of a graph."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.ingest.knowledge_runs import build_knowledge_base
from support.ingest.quiet import QUIET

from refactx.ingest.report import Report
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection

PREFIXES = """PREFIX : <http://example.org/>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
"""
PLACES = {"since": 0, "year": 1, "in": 9, "of": 8, "size": 9, "note": 9}
"""The properties of nodes in their order as qualifiers: times, `of`, others by name."""
VALUES = {
    "since": ("1990", "2001"),
    "year": ("2010",),
    "in": (":a", ":b"),
    "of": (":c",),
    "size": ("7", "8.5"),
    "note": ('"x"',),
}
Node = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
"""The subjects and properties that lead to a node, and its own properties and values."""
TOLD = st.lists(
    st.sampled_from(list(VALUES)).flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(VALUES[name]))),
    min_size=1,
    max_size=5,
    unique=True,
).map(tuple)
LEADS = st.lists(
    st.tuples(st.sampled_from((":a", ":d")), st.sampled_from(("has", "gets"))), max_size=2, unique=True
).map(tuple)
LINES = ["<http://example.org/ann> <http://example.org/knows> <http://example.org/bob> ."]


def built(
    text: str, name: str = "graph.ttl", selection: Selection = DEFAULT_SELECTION
) -> tuple[set[tuple[str, ...]], Report]:
    """Return the facts of a graph as tuples of their parts, and the account, which adds up."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, name)
        source.write_text(text)
        base = build_knowledge_base([source], Path(folder, "kb"), selection=selection, resources=QUIET)
        texts = pq.read_table(base.folder / "units.parquet")["text"].to_pylist()
        rows = pq.read_table(base.folder / "facts.parquet").to_pylist()
    facts = [tuple(part for unit in row.values() if unit >= 0 for part in texts[unit].split("> <")) for row in rows]
    report = base.report
    assert len(set(facts)) == len(facts) == report.facts
    assert report.lines_read == report.kept + sum(report.dropped.values())
    return set(facts), report


def facts_of(node: Node) -> set[tuple[str, ...]]:
    """Return the facts that a node makes, by its values one by one."""
    leads, told = node
    facts = set[tuple[str, ...]]()

    def written(value: str) -> str:
        return value.strip(':"')

    def state(subject: str, path: str, main: tuple[str, str], *others: tuple[str, str]) -> None:
        plain = (written(subject), path, written(main[1]))
        rest = sorted(
            (PLACES[name], name, written(value)) for name, value in told if (name, value) not in (main, *others)
        )
        facts.add(plain)
        facts.add((*plain, *(part for _, name, value in rest for part in (name, value))))

    things = [one for one in told if one[1][0] == ":"]
    numbers = [one for one in told if one[0] == "size"]
    main = things[0] if len(things) == 1 else numbers[0] if len(numbers) == 1 else None
    for subject, property_ in leads:
        facts |= {(written(subject), f"{property_}: {name}", written(value)) for name, value in told}
        if main is not None and len(told) > 1:
            state(subject, f"{property_}: {main[0]}", main)
    if not leads:
        for one in things:
            others = [other for other in things if other != one] or (
                numbers if len(things) == len(numbers) == 1 else []
            )
            for other in others:
                state(one[1], f"{one[0]}: {other[0]}", other, one)
    return facts


@settings(max_examples=25, phases=(Phase.explicit, Phase.generate), deadline=None)
@given(st.lists(st.tuples(LEADS, TOLD), min_size=1, max_size=4))
def test_nodes_give_the_facts_of_brute_force(nodes: Sequence[Node]) -> None:
    lines = [":x :knows :y ."]
    for at, (leads, told) in enumerate(nodes):
        lines += [f"{subject} :{property_} _:n{at} ." for subject, property_ in leads]
        lines += [f"_:n{at} :{name} {value} ." for name, value in told]
    expected = {("x", "knows", "y")}.union(*map(facts_of, nodes))
    assert built(PREFIXES + "\n".join(lines))[0] == expected


STATED = ("ann", "mayor", "graz", "since", "1990", "source", "paper")
ASSERTED = [
    ":ann :mayor :graz {| :since 1990 ; :source :paper |} .",
    ":ann :mayor :graz ~ :r . :r :since 1990 ; :source :paper .",
    ":ann :mayor :graz . _:r rdf:reifies <<( :ann :mayor :graz )>> ; :since 1990 ; :source :paper .",
    ":ann :mayor :graz . :r a rdf:Statement ; rdf:subject :ann ; rdf:predicate :mayor ; rdf:object :graz ; :since 1990 ;"
    " :source :paper .",
]


@pytest.mark.parametrize("told", ASSERTED)
def test_what_is_said_of_a_triple_qualifies_its_fact(told: str) -> None:
    assert built(PREFIXES + told)[0] == {STATED[:3], STATED}
    assert built(PREFIXES + told, selection=replace(DEFAULT_SELECTION, qualifiers=("time",)))[0] == {
        STATED[:3],
        STATED[:5],
    }


@pytest.mark.parametrize("told", [ASSERTED[2], ASSERTED[3], "<< :ann :mayor :graz >> :since 1990 ; :source :paper ."])
def test_a_triple_that_is_only_quoted_is_no_fact(told: str) -> None:
    """It is known only with what is said of it, and without that not at all."""
    told = told.removeprefix(":ann :mayor :graz . ")
    assert built(f"{PREFIXES} :x :knows :y . {told}")[0] == {("x", "knows", "y"), STATED}
    facts, report = built(f"{PREFIXES} :x :knows :y . _:r rdf:reifies <<( :ann :mayor :graz )>> .")
    assert facts == {("x", "knows", "y")}
    assert report.dropped["not asserted"] == 1


def test_triple_terms_of_lines_with_blank_nodes_and_literals() -> None:
    """Each line is counted, also terms within terms, and terms of other predicates."""
    rdf, ex = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://example.org/"
    term = f'<<( <{ex}ann> <{ex}age> "7" )>>'
    lines = [
        *LINES,
        f"_:r <{rdf}reifies> {term} .",
        f'_:r <{ex}since> "1990" .',
        f"<{ex}bob> <{ex}doubts> {term} .",
        f"_:s <{rdf}reifies> <<( <{ex}ann> <{ex}says> {term} )>> .",
    ]
    facts, report = built("\n".join(lines) + "\n", "graph.nt")
    assert facts == {("ann", "knows", "bob"), ("ann", "age", "7", "since", "1990")}
    assert report.lines_read == 5
    assert report.dropped == {"triple term": 2}


def test_without_qualifiers_a_graph_is_what_it_was() -> None:
    none = replace(DEFAULT_SELECTION, qualifiers=())
    facts, report = built(
        f"{PREFIXES} :ch :population [ :year 2010 ; :size 8 ] . [ :in :ch ; :of :eu ] . {ASSERTED[0]}", selection=none
    )
    assert facts == {("ch", "population: year", "2010"), ("ch", "population: size", "8"), STATED[:3]}
    assert report.statements == 0


def test_a_statement_with_two_subjects_is_none() -> None:
    facts, _ = built(f"{PREFIXES} :s rdf:subject :a, :b ; rdf:predicate :p ; rdf:object :c ; :since 1990 .")
    assert not any(len(fact) > 3 for fact in facts)


def test_too_many_things_make_no_pairs() -> None:
    told = " ; ".join(f":in :t{at}" for at in range(9))
    facts, report = built(f"{PREFIXES} :x :knows :y . [ {told} ] .")
    assert facts == {("x", "knows", "y")}
    assert report.dropped == {"anonymous node": 9}
