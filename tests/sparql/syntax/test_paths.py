"""Paths that are followed from their known ends: the same rows, as often, in a time that is that of the result."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store

from refactx.sparql.engines import Rows, StoreEngine
from refactx.sparql.syntax.paths import from_known_ends

NODES = tuple(f"<http://e/{letter}>" for letter in "abcd")
PROPERTIES = tuple(f"<http://e/{letter}>" for letter in "pqr")
TEXTS = ('"a"', "5", '"b"@en')

triples = st.tuples(st.sampled_from(NODES), st.sampled_from(PROPERTIES), st.sampled_from((*NODES, *TEXTS)))
paths = st.recursive(
    st.sampled_from(PROPERTIES),
    lambda inner: st.one_of(
        st.builds("{}/{}".format, inner, inner),
        st.builds("({}/{})".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("^({})".format, inner),
        st.builds("({}){}".format, inner, st.sampled_from("*+?")),
    ),
    max_leaves=5,
)
unknown = st.sampled_from(("?x", "?y", "_:b"))
patterns = st.tuples(
    st.one_of(unknown, st.sampled_from((*NODES, *TEXTS))), paths, st.sampled_from(("?x", "?z", *NODES, *TEXTS))
)


@st.composite
def groups(draw: st.DrawFn) -> str:
    """The inside of a group: triples, with or without `;` and `,`, and what may stand between them."""
    parts = list[str]()
    for subject, path, object_ in draw(st.lists(patterns, min_size=1, max_size=3)):
        following = draw(
            st.sampled_from(("", " ; <http://e/p> ?w", f", {NODES[0]}", " ; <http://e/q>/<http://e/r>* <http://e/a>"))
        )
        parts.append(f"{subject} {path} {object_}{following}")
        if draw(st.booleans()):
            parts[-1] += draw(st.sampled_from((" .", " . FILTER(BOUND(?x))", " FILTER(1 = 1)", " . # here\n")))
    return "\n. ".join(parts).replace(".\n.", ".").replace(". # here\n\n.", ". # here\n").replace(")\n.", ") ")


def rows(store: Store, query: str) -> Counter[tuple[object, ...]]:
    found = store.query(query)
    assert isinstance(found, QuerySolutions)
    names = [variable.value for variable in found.variables]
    return Counter(tuple(row[name] for name in sorted(names)) for row in found)


def stored(graph: list[tuple[str, str, str]]) -> Store:
    store = Store()
    store.update(f"INSERT DATA {{ {' . '.join(map(' '.join, graph))} }}")
    return store


@given(
    graph=st.lists(triples, max_size=12),
    group=groups(),
    optional=st.sampled_from(("{}", "?x <http://e/p> ?o OPTIONAL {{ {} }}", "{{ {} }} UNION {{ {} }}")),
)
def test_rows_are_those_of_the_query_as_often(graph: list[tuple[str, str, str]], group: str, optional: str) -> None:
    query = f"SELECT * {{ {optional.format(group, group.replace('_:b', '_:c'))} }}"
    store = stored(graph)
    try:
        wanted = rows(store, query)
    except SyntaxError:  # a blank node in two parts
        return
    assert rows(store, from_known_ends(query)) == wanted


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("ASK { ?x <p>/<q>* <a> }", "ASK { <a> ^<q>*/^<p> ?x .  }"),
        ("ASK { <a> ^(<p>/<q>*) ?x . ?x <r> ?y }", "ASK { <a> ^<q>*/^<p> ?x .  ?x <r> ?y }"),
        ("ASK { ?x <r> ?y . FILTER(?y) ?x <p>/<q>+ 5 }", "ASK { 5 ^<q>+/^<p> ?x . ?x <r> ?y . FILTER(?y)  }"),
    ],
)  # fmt: skip
def test_a_path_is_written_from_its_known_end_first(query: str, written: str) -> None:
    assert from_known_ends(query) == written


@pytest.mark.parametrize(
    "query",
    [
        "ASK { <b> <p>/<q>* <a> }",
        "ASK { ?x <p>/<q>* ?y }",
        "ASK { ?x <q>* <a> }",
        "ASK { ?x <p>/<q> <a> }",
        "ASK { ?x <p>/<q>* <a> ; <r> [ <s> ?z ] }",
        "ASK { ?x <p>/<q>* ",
    ],
)
def test_other_paths_stay(query: str) -> None:
    assert from_known_ends(query) == query


def test_the_time_is_that_of_the_result() -> None:
    """In the order of the query, the chains above each of the things are followed: half a billion steps."""
    store, part, kind = Store(), NamedNode("http://e/part"), NamedNode("http://e/kind")
    chain = [NamedNode(f"http://e/c{number}") for number in range(3000)]
    store.bulk_extend(Quad(one, part, other) for one, other in pairwise(chain))
    store.bulk_extend(Quad(NamedNode(f"http://e/t{n}"), kind, chain[n * 7 % 3000]) for n in range(300_000))
    store.bulk_extend([Quad(NamedNode("http://e/t5"), NamedNode("http://e/name"), Literal("five"))])
    engine = StoreEngine(store)
    try:
        for query in (
            "SELECT ?x { ?x <http://e/kind>/<http://e/part>* <http://e/c2> }",
            "SELECT ?x { ?x <http://e/name> ?n OPTIONAL { ?y <http://e/kind>/<http://e/part>* <http://e/c2> } }",
        ):
            found = engine.run(query, seconds=60)
            assert isinstance(found, Rows) and len(found.rows) == 300
    finally:
        engine.close()
