"""SPARQL of walks has the rows that brute force says, and is read back as the walk."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.claims_store import UNLIKE, rows, store_of
from support.query.twin import ASKED, ENTITIES, Graph, SetFacts, first_by, members, with_inverse

from refactx.sparql.walks import from_sparql
from refactx.walks.language import Query, QueryError, read_line
from refactx.walks.sparql_text import to_sparql

COMPARABLE: st.SearchStrategy[tuple[Graph, Query]] = ASKED.map(
    lambda asked: (frozenset(fact for fact in asked[0] if fact[2] not in UNLIKE), asked[1])
).filter(lambda asked: not any(which.operator == "is" and which.value in UNLIKE for which in asked[1].which))


@pytest.mark.long
@settings(max_examples=400)
@given(COMPARABLE)
def test_any_query_has_the_rows_of_brute_force_in_sparql(asked: tuple[Graph, Query]) -> None:
    claims, query = asked
    facts, graph = SetFacts(claims), with_inverse(claims)
    try:
        sparql = to_sparql(query, facts)
    except QueryError as error:
        assert "compare" in str(error)
        assert not members(graph, query)
        return
    found = rows(sparql, store_of(claims), facts)
    if query.by is not None:
        assert isinstance(found, list)
        every = dict(first_by(graph, Query(query.head, query.start, query.hops, query.which, query.by, 1000)))
        assert len(set(found)) == len(found)
        assert [every[name] for name in found] == [key for _, key in first_by(graph, query)]
    elif query.head == "count":
        assert found == [str(len(members(graph, query)))]
    elif query.head == "ask":
        assert found == bool(members(graph, query))
    else:
        assert isinstance(found, list)
        assert len(set(found)) == len(found)
        assert set(found) == members(graph, query)


def test_values_have_no_way_back_in_sparql_as_in_facts() -> None:
    claims: Graph = frozenset({("A", "m", "30"), ("A", "m", "B")})
    query = read_line("list <A> <m> which <m of> is <A>")
    sparql = to_sparql(query, SetFacts(claims))
    assert rows(sparql, store_of(claims), SetFacts(claims)) == ["B"]
    assert from_sparql(sparql, SetFacts(claims)) == query
    other = sparql.replace("^", "").replace("isIRI", "isLITERAL")
    assert from_sparql(other, SetFacts(claims)) is None
    assert from_sparql(sparql.replace("FILTER(isIRI(?x))", ""), SetFacts(claims), exact=True) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("list <A> <m> which <m of>* is <A>", {"B"}),
        ("list <A> <m> which <m of>* <m of> <A>", {"B"}),
        ("list <A> <m> which <m of>* <m> <B>", {"B"}),
        ("list <A> <m> which <m> <m of> <B>", set()),
        ("list <A> <m> which <m of>* over <7>", {"30"}),
        ("list <A> <m> <m of>*", {"A", "B", "30"}),
        ("list <C> <m> <m of>*", {"7.5"}),
        ("list <C> <m> <m of>* <m>", set()),
        ("list <A> <p> which <m> <m of> <A>", set()),
        ("ask <D> <m> <m of> <A>", set()),
    ],
)
def test_values_lead_at_most_to_themselves_in_sparql_as_in_facts(line: str, expected: set[str]) -> None:
    claims: Graph = frozenset(
        {("A", "m", "30"), ("A", "m", "B"), ("B", "m", "7"), ("C", "m", "7.5"), ("A", "p", "D"), ("D", "m", "30")}
    )
    query, facts = read_line(line), SetFacts(claims)
    found = rows(sparql := to_sparql(query, facts), store_of(claims), facts)
    assert members(with_inverse(claims), query) == expected
    assert found == bool(expected) if query.head == "ask" else sorted(found) == sorted(expected)  # type: ignore[arg-type]
    read = from_sparql(sparql, facts)
    assert read is None or members(with_inverse(claims), read) == expected


@pytest.mark.parametrize("line", ["list <A> <p> which is <A> or <A>", "list <A> <p> which <m> is <B> or <B>"])
def test_a_value_that_is_there_twice_is_one(line: str) -> None:
    facts = SetFacts(frozenset({("A", "p", "A"), ("A", "m", "B")}))
    once = line.rpartition(" or ")[0]
    assert to_sparql(read_line(line), facts) == to_sparql(read_line(once), facts)


@pytest.mark.long
@settings(max_examples=400)
@given(COMPARABLE)
def test_any_query_in_sparql_is_read_as_one_with_the_same_members(asked: tuple[Graph, Query]) -> None:
    claims, query = asked
    facts, graph = SetFacts(claims), with_inverse(claims)
    try:
        read = from_sparql(to_sparql(query, facts), facts)
    except QueryError:
        return
    if read is None:
        # Text of what may be a literal or an entity, or a literal that may be a time or a number, is no single filter.
        assert any(which.operator != "is" or which.value not in ENTITIES for which in query.which)
        return
    if query.head == "ask":
        assert bool(members(graph, read)) == bool(members(graph, query))
    else:
        assert members(graph, read) == members(graph, query)
        assert (read.head, read.by, read.limit) == (query.head, query.by, query.limit)


@pytest.mark.parametrize(
    ("line", "sparql"),
    [
        ("list <A> <p>", "SELECT DISTINCT ?x WHERE { wd:Q0 wdt:P112 ?x . }"),
        ("count <A> <p of>", "SELECT (COUNT(DISTINCT ?x) AS ?count) WHERE { ?x wdt:P112 wd:Q0 . }"),
        ("list <A> <p> <q of>+", "SELECT DISTINCT ?x WHERE { wd:Q0 wdt:P112 ?y1 . ?x wdt:P113+ ?y1 . }"),
        ("ask <A> <p> <B> and <q> <C>", "ASK WHERE { wd:Q0 wdt:P112 wd:Q1 . wd:Q0 wdt:P113 wd:Q2 . }"),
        ("ask <A> <n> over <0.50>", "ASK WHERE { wd:Q0 wdt:P110 ?v1 . FILTER(?v1 > 0.50) }"),
        (
            "list <A> <p> which <p> <q>* <B>",
            "SELECT DISTINCT ?x WHERE { wd:Q0 wdt:P112 ?x . ?x wdt:P112/wdt:P113* wd:Q1 . }",
        ),
        (
            "list <A> <p> which <t> equals <1990> which starts with <e>",
            "SELECT DISTINCT ?x WHERE { wd:Q0 wdt:P112 ?x . ?x wdt:P116 ?v1 ."
            ' FILTER(?v1 >= "1990-01-01T00:00:00Z"^^xsd:dateTime && ?v1 < "1991-01-01T00:00:00Z"^^xsd:dateTime)'
            ' ?x rdfs:label ?label2 . FILTER(LANG(?label2) = "en") FILTER(STRSTARTS(LCASE(STR(?label2)), "e")) }',
        ),
        (
            "list <A> <p> which <t> under <1990-05-02>",
            "SELECT DISTINCT ?x WHERE { wd:Q0 wdt:P112 ?x . ?x wdt:P116 ?v1 ."
            ' FILTER(?v1 < "1990-05-02T00:00:00Z"^^xsd:dateTime) }',
        ),
        (
            "most 3 <A> <p> by <n>",
            "SELECT DISTINCT ?x WHERE { wd:Q0 wdt:P112 ?x . ?x wdt:P110 ?value . } ORDER BY DESC(?value) LIMIT 3",
        ),
        (
            "least <A> <p> by count <q>",
            "SELECT ?x WHERE { wd:Q0 wdt:P112 ?x . ?x wdt:P113 ?value . }"
            " GROUP BY ?x ORDER BY ASC(COUNT(DISTINCT ?value)) LIMIT 1",
        ),
    ],
)
def test_sparql_of_a_line_reads_back_as_the_line(line: str, sparql: str) -> None:
    query, facts = read_line(line), SetFacts(frozenset())
    written = to_sparql(query, facts)
    prefixes, lines = written.splitlines()[:-1], []
    while not prefixes[-1].startswith("PREFIX"):
        lines.append(prefixes.pop().strip())
    assert " ".join([*reversed(lines), written.splitlines()[-1]]) == sparql
    assert all(f"{prefix.split()[1]}" in sparql for prefix in prefixes)
    read = from_sparql(written, facts)
    assert read == query


def test_labels_take_the_place_of_ids_for_people() -> None:
    query, facts = read_line("list <Eb (e)> <p of> which <q of> <q> <A> which <n> over <5>"), SetFacts(frozenset())
    assert to_sparql(query, facts, with_labels=True) == (
        "SELECT DISTINCT ?x WHERE {\n  ?x <p> <Eb (e)> .\n  ?x ^<q>/<q> <A> .\n  ?x <n> ?v1 .\n  FILTER(?v1 > 5)\n}\n"
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("list <Nobody> <p>", "<Nobody> has no id"),
        ("list <A> <knows>", "<knows> has no id"),
        ("list <A> <p> which <q> <Nobody>", "<Nobody> has no id"),
        ("list <A> <p> which <n> over <many>", "over <many> cannot be compared"),
        ("list <A> <p> which <t> equals <soon>", "equals <soon> cannot be compared"),
        ("list <A> <p> which <q> over <5>", "compares with entities"),
        ("most <A> <p> by <x>", "<x> has no order"),
    ],
)
def test_names_without_ids_and_what_does_not_compare_are_refused(line: str, complaint: str) -> None:
    with pytest.raises(QueryError, match=re.escape(complaint)):
        to_sparql(read_line(line), SetFacts(frozenset()))
