"""The grammar of SPARQL reads what pyoxigraph reads, and its tree says where each part stands."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Store

from refactx.iris import PREFIXES
from refactx.sparql.syntax.parser import ParseError, cursor_of, parse, read_sparql
from refactx.sparql.syntax.tokens import tokens_of
from refactx.sparql.syntax.tree import Term, nodes, shape_of, triples_of
from refactx.walks.language import QueryError

ROOT = Path(__file__).parents[2]
BASE = "http://e.invalid/"
WORDS = """SELECT ASK WHERE DISTINCT FROM NAMED GROUP BY HAVING ORDER ASC DESC LIMIT OFFSET VALUES UNDEF OPTIONAL MINUS
    UNION GRAPH FILTER BIND AS NOT EXISTS IN COUNT SUM GROUP_CONCAT SEPARATOR COALESCE CONCAT IF REGEX STR BNODE RAND IRI a
    true ?x $y _:b <http://a> <a> wd:Q1 wdt:P2 xsd:date 5 -1.5 0.5e3 2. "x" 'y'@en '''z''' "d"^^xsd:date @en { } ( ) [ ] . ;
    , = != < > <= >= && || ! + - * / ^ | ? ^^ CONSTRUCT DESCRIBE LATERAL""".split()  # noqa: SIM905
NOT_OF_THE_GRAMMAR = ("Duplicated variable", "unbound", "already", "not allowed", "Prefix not found", "bound")
"""What pyoxigraph says of queries that break rules about variables, which no grammar has."""


def golds() -> Iterator[str]:
    """The queries of the packs and of the tests' data sets."""
    for path in [*ROOT.glob("prompts/packs/*/*.jsonl"), ROOT / "tests/eval/questions/own.jsonl"]:
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line) if line.startswith("{") else {}
            yield from (text for text in (fields.get("sparql"), fields.get("query")) if isinstance(text, str) and text)


GOLDS = sorted(set(golds()))


def refusal(text: str) -> str:
    """Why pyoxigraph refuses a query; empty if it does not."""
    try:
        Store().query(text, base_iri=BASE, prefixes=PREFIXES)
    except SyntaxError as error:
        return str(error)
    except (RuntimeError, ValueError):
        return ""
    return ""


def is_read(text: str) -> bool:
    try:
        parse(tokens_of(text))
    except ParseError:
        return False
    return True


def test_all_gold_queries_are_read() -> None:
    assert len(GOLDS) > 100
    assert [text for text in GOLDS if not is_read(text)] == []


@given(st.sampled_from(GOLDS), st.integers(0, 2**32), st.integers(1, 3))
def test_a_changed_query_is_read_if_pyoxigraph_reads_it(text: str, seed: int, changes: int) -> None:
    drawn = random.Random(seed)
    words = [token.text for token in tokens_of(text) if not token.is_space and token.upper not in ("SERVICE", "SILENT")]
    for _ in range(changes):
        at, other = drawn.randrange(len(words)), drawn.randrange(len(words))
        words[at : at + drawn.choice([0, 0, 1])] = drawn.choice([[], [words[other]], [drawn.choice(WORDS)]])
    # pyoxigraph refuses a space before the list of these two, which SPARQL allows.
    changed = re.sub(r"\b(COALESCE|CONCAT) \(", r"\1(", " ".join(words), flags=re.IGNORECASE)
    refused = refusal(changed)
    if not any(reason in refused for reason in NOT_OF_THE_GRAMMAR):
        assert is_read(changed) == (not refused), (changed, refused)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ASKWHERE { ?x ?y 1 }", False),  # words that stand together
        ("ASK { ?x ?y << ?a ?b ?c >> }", False),  # triples as terms, of SPARQL 1.2
        ("ASK { foo:a ?y 1 }", True),  # a prefix that is not declared
        ("SELECT ?x ?x { ?x ?y 1 }", True),  # rules about variables
        ("ASK { <Ann Lee> <child of> ?x }", True),  # labels
        ("ASK { ?x ?y foo:m.03_r3 }", True),  # a name with a dot before a digit
    ],
)
def test_where_the_grammar_differs_from_pyoxigraph(text: str, expected: bool) -> None:
    assert (is_read(text), not refusal(text)) == (expected, not expected)


def test_each_part_has_its_span() -> None:
    text = (
        "PREFIX a: <http://a> SELECT ?x { <Ann> <child> ?x ; <age> ?a , ?b . OPTIONAL { ?x ?p ?o } { ?x <q> 1 } UNION { } "
        "MINUS { ?x <r> 'b'@en } BIND(?a AS ?c) VALUES ?x { <Bob> } FILTER EXISTS { ?x <s> [ <t> ( 1 2 ) ] } "
        "SERVICE <http://s> { } GRAPH ?g { ?x (<u>|^<v>)* ?y } { SELECT ?x { ?x <w> ?z } LIMIT 1 } } ORDER BY ?x LIMIT 3"
    )
    parsed = parse(tokens_of(text))
    query = parsed.query
    assert query.where is not None
    assert [(element.kind, parsed.text(element.span)) for element in query.where.elements] == [
        ("triples", "<Ann> <child> ?x ; <age> ?a , ?b"),
        ("optional", "OPTIONAL { ?x ?p ?o }"),
        ("union", "{ ?x <q> 1 } UNION { }"),
        ("minus", "MINUS { ?x <r> 'b'@en }"),
        ("bind", "BIND(?a AS ?c)"),
        ("values", "VALUES ?x { <Bob> }"),
        ("filter", "FILTER EXISTS { ?x <s> [ <t> ( 1 2 ) ] }"),
        ("service", "SERVICE <http://s> { }"),
        ("graph", "GRAPH ?g { ?x (<u>|^<v>)* ?y }"),
        ("group", "{ SELECT ?x { ?x <w> ?z } LIMIT 1 }"),
    ]
    triples = [one for one in triples_of(query) if not one.is_listed]
    paths = ["<child>", "<age>", "<age>", "?p", "<q>", "<r>", "<s>", "<t>", "(<u>|^<v>)*", "<w>"]
    assert [parsed.text(one.path.span) for one in triples] == paths
    assert [parsed.text(one.subject.span) for one in triples if one.is_within] == ["[ <t> ( 1 2 ) ]"]
    assert parsed.text(query.after).strip() == "ORDER BY ?x LIMIT 3"
    assert parsed.text((0, parsed.prologue.body)).strip() == "PREFIX a: <http://a>"


@pytest.mark.parametrize("text", GOLDS[::20])
def test_the_span_of_a_term_is_its_text(text: str) -> None:
    parsed = parse(tokens_of(text))
    for term in (node for node in nodes(parsed.query) if isinstance(node, Term)):
        written = parsed.text(term.span)
        if term.kind == "variable":
            assert written[1:] == term.value
        elif term.kind == "literal" and written[:1] in "'\"":
            assert term.value in written.encode().decode("unicode_escape", "ignore") or "\\" in written


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ask{?x wdt:P1 wd:Q1}", "PREFIX p: <http://www.wikidata.org/prop/direct/> ASK WHERE { ?x p:P1 wd:Q1 . }"),
        ("SELECT ?x { ?x a (1) ; <a:p>/(<a:q>) [] }", "SELECT ?x where { ?x a ( 1 ) ; (<a:p>/<a:q>) [ ] . }"),
        ("ASK { ?x ?y 5 FILTER(!(?x = -5)) }", "ASK { ?x ?y '5'^^xsd:integer FILTER(! (?x = '-5'^^xsd:integer)) }"),
        (r"ASK { ?x ?y 'a\tb' }", 'ASK { ?x ?y """a\tb""" }'),
    ],
)
def test_ways_to_write_a_query_give_the_same_tree(one: str, other: str) -> None:
    assert shape_of(read_sparql(one).query) == shape_of(read_sparql(other).query)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ASK { <Ann Lee> wdt:P2 ?x }", "line 1, column 7, at '<Ann Lee>"),
        (f"ASK {'{' * 120}{'}' * 120}", "nested too deeply"),
        (f"ASK {{ ?x ?y ?z FILTER(?x = {'-?y' * 200}) }}", "nested too deeply"),
        ("ASK { ?x foo:p ?y }", "the prefix foo: is not known"),
    ],
)
def test_what_is_no_sparql_is_told_by_its_place(text: str, complaint: str) -> None:
    with pytest.raises(QueryError, match=complaint.replace("(", r"\(")):
        read_sparql(text)


@pytest.mark.parametrize(
    ("typed", "wants", "subject", "triples"),
    [
        ("", "term", None, 0),
        ("SELECT ?x { ", "term", None, 0),
        ("SELECT ?x { <Ann> ", "path", "Ann", 0),
        ("SELECT ?x { <Ann> <child>/", "path", "Ann", 0),
        ("SELECT ?x { <Ann> <child> ", "object", "Ann", 0),
        ("SELECT ?x { <Ann> <child> ?x ; ", "path", "Ann", 0),
        ("SELECT ?x { <Ann> <child> ?x , ", "object", "Ann", 0),
        ("SELECT ?x { <Ann> <child> ?x . ?x ", "path", "x", 1),
        ("SELECT ?x { <Ann> <child> [ ", "path", None, 0),
        ("SELECT ?x { <Ann> <child> ?x FILTER(?x = ", "term", None, 1),
        ("SELECT ?x } ", "term", None, 0),
    ],
)
def test_where_a_query_ends_that_is_typed(typed: str, wants: str, subject: str | None, triples: int) -> None:
    cursor = cursor_of(tokens_of(typed))
    found = None if cursor.subject is None else cursor.subject.value
    assert (cursor.wants, found, len(cursor.triples)) == (wants, subject, triples)
