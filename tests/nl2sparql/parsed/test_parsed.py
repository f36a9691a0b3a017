"""Queries taken apart: paths mean the same before and after, each part stands where it did, and scopes are SPARQL's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Quad, QuerySolutions, Store

from refactx.nl2sparql.parsed import (
    Call,
    ParsedQuery,
    iri_of,
    literal,
    parse,
    parts,
    parts_of_literal,
    text_of_literal,
    variables,
)
from refactx.sparql.engines import QueryRefusedError, SparqlSyntaxError

NODES, PROPERTIES = [f"n:{n}" for n in range(4)], [f"p:{n}" for n in range(3)]

steps = st.sampled_from(PROPERTIES).flatmap(lambda name: st.sampled_from([f"<{name}>", f"<{name}>+", f"<{name}>?"]))
paths = st.recursive(
    steps,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("/".join).map("({})".format),
        st.tuples(inner, inner).map("|".join).map("({})".format),
        inner.map("^({})".format),
    ),
    max_leaves=4,
)
triples = st.tuples(*map(st.sampled_from, (NODES, PROPERTIES, NODES)))


def written(query: ParsedQuery, group: int = 0) -> str:
    """The patterns of a group as SPARQL again: those of a union as its branches."""
    found = [pattern.text.replace("_:", "?_") for pattern in query.patterns if pattern.group == group]
    unions: dict[int | None, list[str]] = {}
    for inner in query.inside(group):
        unions.setdefault(inner.union, []).append(f"{{ {written(query, inner.number)} }}")
    return " . ".join(found + [" UNION ".join(branches) for branches in unions.values()])


@settings(max_examples=40, deadline=None)
@given(paths, st.lists(triples, max_size=8))
def test_a_path_taken_apart_has_the_same_pairs(path: str, facts: list[tuple[str, str, str]]) -> None:
    store = Store()
    store.extend(Quad(*map(NamedNode, fact)) for fact in facts)

    def pairs(body: str) -> set[tuple[str, str]]:
        rows = store.query(f"SELECT DISTINCT ?a ?b {{ VALUES ?a {{ {' '.join(f'<{n}>' for n in NODES)} }} {body} }}")
        assert isinstance(rows, QuerySolutions)
        return {(str(row["a"]), str(row["b"])) for row in rows}

    assert pairs(written(parse(f"SELECT * {{ ?a {path} ?b }}"))) == pairs(f"?a {path} ?b")


def test_a_closure_over_several_steps_closes_each() -> None:
    assert [p.text for p in parse("ASK { ?a (<p:1>/<p:2>)* ?b }").patterns] == ["?a <p:1>* _:1", "_:1 <p:2>* ?b"]
    assert [p.text for p in parse("ASK { ?a !(<p:1>|<p:2>) ?b }").patterns] == ["?a !(<p:1>|<p:2>) ?b"]


def test_patterns_know_their_graph_and_service() -> None:
    query = parse(
        "SELECT * { ?a <p:1> ?b . GRAPH <g:1> { ?a <p:2> ?b SERVICE <s:1> { ?a <p:3> ?b GRAPH ?g { ?a <p:4> ?b } } } }"
    )
    places = {pattern.predicate: (pattern.graph, pattern.service) for pattern in query.patterns}
    assert places == {
        "<p:1>": (None, None),
        "<p:2>": ("<g:1>", None),
        "<p:3>": (None, "<s:1>"),
        "<p:4>": ("?g", "<s:1>"),
    }
    assert query.selected == ("?a", "?b", "?g")


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("?a <p:1> ?b FILTER(?a = 1)", "?a ?b"),
        ("?a <p:1> ?b OPTIONAL { ?b <p:2> ?c FILTER(?a = 1) }", "?a ?b ?c"),
        ("?a <p:1> ?b { ?b <p:2> ?c FILTER(?a = 1) }", "?b ?c"),
        ("?a <p:1> ?b SERVICE <s:1> { ?b <p:2> ?c FILTER(?a = 1) }", "?b ?c"),
        ("?a <p:1> ?b FILTER NOT EXISTS { ?b <p:2> ?c FILTER(?a = 1) }", "?a ?b ?c"),
        ("?a <p:1> ?b { SELECT ?c { ?c <p:2> ?d } } BIND(?a AS ?e) FILTER(?a = 1)", "?a ?b ?c ?e"),
        ("?a <p:1> ?b MINUS { ?a <p:2> ?c } FILTER(?a = 1)", "?a ?b"),
        ("GRAPH ?g { ?a <p:1> ?b } VALUES ?v { 1 } FILTER(?a = 1)", "?a ?b ?g ?v"),
    ],
)
def test_a_filter_sees_the_variables_of_its_group(body: str, seen: str) -> None:
    query = parse(f"SELECT * {{ {body} }}")
    [last] = [one for one in query.conditions if one.kind == "filter" and "?a" in variables(one.expression)]
    assert sorted(query.in_scope(last.group)) == seen.split()


def test_what_is_excluded_does_not_have_to_match() -> None:
    query = parse(
        "ASK { ?a <p:1> ?b OPTIONAL { ?a <p:2> ?c } MINUS { ?a <p:3> ?c } FILTER NOT EXISTS { ?a <p:4> ?c } }"
    )
    assert [p.predicate for p in query.patterns if query.has_to_match(p.group)] == ["<p:1>", "<p:2>"]


def test_expressions_are_calls() -> None:
    query = parse(
        "SELECT ?k (COUNT(DISTINCT ?a) AS ?n) { ?a <p:1> ?b BIND(IF(BOUND(?a), 1 + 2, <f:1>(?b)) AS ?k) "
        'FILTER(?a NOT IN (1, 2) || !REGEX(STR(?b), "x", "i")) } GROUP BY ?k HAVING(COUNT(*) > 1) ORDER BY DESC(?n)'
    )
    found = {one.kind: one for one in query.conditions}
    assert found["select"].expression == Call("COUNT", ("?a",), distinct=True)
    assert found["select"].variable == "?n"
    assert found["group"].expression == "?k"
    assert found["bind"].variable == "?k"
    assert {part.name for part in parts(found["filter"].expression) if isinstance(part, Call)} == {
        "||", "!", "IN", "REGEX", "STR"
    }  # fmt: skip
    assert {part.name for part in parts(found["bind"].expression) if isinstance(part, Call)} == {
        "IF", "BOUND", "+", "<f:1>"
    }  # fmt: skip


def test_names_have_their_prefix_and_bases_are_resolved() -> None:
    query = parse("PREFIX ex: <http://e.org/> BASE <http://b.org/> ASK { ex:a wdt:P31 <c> . VALUES ?v { ex:d UNDEF } }")
    assert query.names == (
        ("ex", "http://e.org/a"),
        ("wdt", "http://www.wikidata.org/prop/direct/P31"),
        ("ex", "http://e.org/d"),
    )
    assert "http://b.org/c" in query.iris
    assert parse("ASK { ?x <p:1> 5 , '6'^^xsd:int }").iris == ("p:1", "http://www.w3.org/2001/XMLSchema#int")
    assert query.prefixes == {"ex": "http://e.org/"}
    assert query.data[0].rows == (("<http://e.org/d>",), (None,))


@given(st.text(), st.sampled_from([("", ""), ("it", ""), ("", "http://www.w3.org/2001/XMLSchema#string")]))
def test_literals_are_written_and_read(text: str, kind: tuple[str, str]) -> None:
    assert parts_of_literal(literal(text, *kind)) == (text, *kind)


def test_terms_are_told_apart() -> None:
    assert (iri_of("<a:b>"), iri_of('"<a:b>"'), text_of_literal('"a"@it'), text_of_literal("?a")) == (
        "a:b",
        None,
        "a",
        None,
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT ?x { ?x", SparqlSyntaxError),
        ("ASK { nope:a <p:1> ?b }", SparqlSyntaxError),
        ("CONSTRUCT { ?a <p:1> ?b } WHERE { ?a <p:1> ?b }", QueryRefusedError),
        ("ASK { ?a !(<p:1>|^<p:2>) ?b }", QueryRefusedError),
        ("ASK " + "{" * 300 + "}" * 300, QueryRefusedError),
    ],
)
def test_what_is_no_query_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse(text)
