"""Tokens, shapes and errors of queries that may have labels in angle brackets."""

from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Store
from support.sparql.endpoint import running

from refactx.sparql.engines import EngineTimeoutError, QueryRefusedError, SparqlSyntaxError, StoreEngine, checking
from refactx.sparql.engines.checking import check_query, read_query, with_limit
from refactx.sparql.syntax.tokens import tokens_of

PARTS = [
    "SELECT ?x", "{", "}", "(", ")", "<Ann Lee>", "<http://a>", "?x", "<", ">", "FILTER", "'<b>'", '"""a"\n"""', "# c\n",
    "wd:Q1", "wdt:P1", "/", "^", "+", "*", ".", ";", ",", "5", "-1.5e3", "@en", "^^xsd:date", "VALUES", "\n", "é", "\\", "'",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS)).map(" ".join) | st.text())
def test_tokens_are_the_text(text: str) -> None:
    tokens = tokens_of(text)
    assert "".join(token.text for token in tokens) == text
    assert [token.start for token in tokens] == [
        sum(len(before.text) for before in tokens[:at]) for at in range(len(tokens))
    ]


@given(st.lists(st.sampled_from(PARTS)).map(" ".join) | st.text())
def test_any_text_is_a_query_or_has_an_error_of_one_line(text: str) -> None:
    try:
        check_query(text)
    except (SparqlSyntaxError, QueryRefusedError) as error:
        assert len(str(error).splitlines()) == 1, str(error)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("SELECT ?x { <Ann Lee> <child> ?x }", ["<Ann Lee>", "<child>"]),
        ("SELECT ?x { <Ann><child>/<child>+ ?x }", ["<Ann>", "<child>", "<child>"]),
        ("SELECT ?x { ?x <age> ?a FILTER(?a < 3 && 5 > ?a) }", ["<age>"]),
        ("SELECT ?x { ?x <age> ?a FILTER(?a<3&&?b>2) }", ["<age>"]),
        (
            "SELECT ?x { ?x <age> ?a FILTER(?x = <Ann (poet)> || ?x IN (<Bob>, <http://c>)) }",
            ["<age>", "<Ann (poet)>", "<Bob>"],
        ),
        ("SELECT ?x { VALUES ?x { <Ann> <Ocean's 11> } }", ["<Ann>", "<Ocean's 11>"]),
        ("SELECT ?x { ?x <http://a/b> '<Ann>' # <Bob>\n }", []),
        ("SELECT ?x { ?x <urn:a> <mailto:a@b> }", []),
        ("BASE <http://a/> SELECT ?x { ?x <p> <q> }", []),
        ("SELECT ?x { <Star Wars: Episode IV> ?p ?x }", ["<Star Wars: Episode IV>"]),
        ("SELECT (?a<?b AS ?c) { <Ann> <age> ?a , ?b }", ["<Ann>", "<age>"]),
        ("ASK { FILTER NOT EXISTS { <Ann> <child> ?x } }", ["<Ann>", "<child>"]),
        ("SELECT ?x { ?x <age> ?a } GROUP BY ?x HAVING(COUNT(?a) < 3)", ["<age>"]),
    ],
)
def test_labels(text: str, labels: list[str]) -> None:
    assert [token.text for token in tokens_of(text) if token.kind == "label"] == labels
    assert check_query(text).is_ask == text.startswith("ASK")


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("SELECT ?x {\n  wd:Q1 wdt:P1 ?x", 1, 11, "the bracket { is not closed"),
        ("SELECT ?x {\n  wd:Q1 wdt:P1 ?x ) }", 2, 19, "expected } for the bracket of line 1, column 11"),
        ("SELECT ?x { wd:Q1 wdt:P1 ?x } }", 1, 31, "no bracket is open that } would close"),
        ("SELECT ?x { dbr:Ann wdt:P1 ?x }", 1, 13, "the prefix dbr: is not declared: begin the query with PREFIX dbr: <...>"),
        ("SELCT ?x { wd:Q1 wdt:P1 ?x }", 1, 1, "expected as in SELECT ?x"),
        ("how many children does Ann have?", 1, 1, "expected as in SELECT ?x"),
    ],
)  # fmt: skip
def test_the_place_of_an_error(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(SparqlSyntaxError) as caught:
        check_query(text)
    assert f"this is not SPARQL: line {line}, column {column}, at " in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ASK {\n wd:Q1 wdt:P1\u00a0?x }", "line 2, column 14 has U+00A0 (NO-BREAK SPACE): write a space"),
        ("ASK { ?x rdfs:label “Ann”@en }", 'line 1, column 21 has U+201C (LEFT DOUBLE QUOTATION MARK): write "'),
        ("“ASK { ?x ?y 1 }”", "line 1, column 1 has U+201C"),
        ("ASK { ?x ?y ?z FILTER(?z > −1) }", "line 1, column 28 has U+2212 (MINUS SIGN)"),
        ("ASK { ?x\u200b ?y ?z }", "line 1, column 9 has U+200B (ZERO WIDTH SPACE): leave it out"),
        ("ASK { ?x ?y 'caf\udce9' }", "line 1, column 17 has a byte that is no UTF-8 (0xE9)"),
    ],
)
def test_an_odd_character_is_named_with_its_place(text: str, said: str) -> None:
    with pytest.raises(SparqlSyntaxError) as caught:
        check_query(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffSELECT ?x { wd:Q1 wdt:P1 ?x }",
        "PREFIX a: <http://a#>\n\ufeffSELECT ?x { wd:Q1 a:b ?x }",
        r"SELECT ?x \u0057HERE { wd:Q1 wdt:P1 ?x }",
        r'SELECT ?x \U00000057HERE { <http://a\u0062> ?y "it\u2019s", ?x }',
        "SELECT ?x { ?x rdfs:label '\u00a0“”', <New\u00a0York> } # “”",
    ],
)
def test_marks_escapes_and_characters_that_are_legal(text: str) -> None:
    assert check_query(text).variables == ("x",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"ASK {{ ?x {'wdt:P1/' * 400}wdt:P1 ?y }}", "the query has 401 triple patterns and steps of paths"),
        (f"ASK {{ ?x wdt:P1 {', '.join(f'?v{n}' for n in range(200))} }}", "the query has 200 triple patterns"),
        (f"ASK {{ ?x wdt:P1 ({' 1' * 300}) }}", "the query has 301 triple patterns"),
        (f"ASK {{ {'OPTIONAL { } ' * 3000} }}", "the query has 9,003 keywords and signs"),
        (f"ASK {{ FILTER({'1 || ' * 5000} 1) }}", "the query has 5,004 keywords and signs"),
        (f"ASK {{ FILTER({'(' * 10_000}1{')' * 10_000}) }}", "10002 brackets within each other"),
        (f"ASK {{ ?x ?y '{'a' * 100_000}' }}", "the query has 100,016 characters"),
        (f"ASK {{ ?x ?y {'a-' * 40_000} }}", "the query has 80,0"),
    ],
)
def test_a_query_that_would_take_too_long_to_check_is_refused_by_its_size(text: str, said: str) -> None:
    with pytest.raises(QueryRefusedError) as caught:
        check_query(text)
    assert said in str(caught.value)


def test_many_values_are_no_large_query() -> None:
    check_query(f"ASK {{ VALUES ?x {{ {' '.join(f'wd:Q{n}' for n in range(1, 5000))} }} ?x ?y ?z }}")
    check_query(f"ASK {{ ?x ?y ?z FILTER(?z IN ({', '.join(map(str, range(5000)))})) }}")


def test_the_check_has_the_time_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    over = Event()
    monkeypatch.setattr(checking, "_checked", lambda text: over.wait())
    with pytest.raises(
        EngineTimeoutError, match=r"the check of the query takes more than 0\.001 s: write it with fewer"
    ):
        check_query("ASK { }", 0.001)
    over.set()


@pytest.mark.parametrize("text", ["", "  \n", "# nothing", "PREFIX a: <http://a>"])
def test_an_empty_query(text: str) -> None:
    with pytest.raises(SparqlSyntaxError, match="the query is empty: expected one such as SELECT"):
        check_query(text)


@pytest.mark.parametrize(
    "text", ["INSERT DATA { <Ann> <child> <Bob> }", "PREFIX a: <http://a> delete where { ?x ?y ?z }", "CLEAR ALL", "LOAD <http://a>"]
)  # fmt: skip
def test_an_update_is_refused(text: str) -> None:
    with pytest.raises(QueryRefusedError, match=r"this is a SPARQL update .*which was not run"):
        check_query(text)


def test_a_check_asks_no_other_server() -> None:
    with running(Store()) as server:
        for form in ("ASK", "SELECT *"):
            for silent in ("", "SILENT "):
                check_query(f"{form} {{ SERVICE {silent}<{server.url}> {{ ?x ?y ?z }} }} ORDER BY ?x")
        assert server.requests == []


@pytest.mark.parametrize(
    "query", ["SELECT * { VALUES ?x { 1 2 3 } } # end", "SELECT ?x { } ORDER BY ?x VALUES ?x { 1 2 3 }"]
)
def test_a_limit_is_added_where_it_belongs(query: str) -> None:
    for limit in (1, 2, 5):
        assert len(list(Store().query(with_limit(query, limit)))) == min(limit, 3)  # type: ignore[arg-type]


def test_the_limit_of_a_query_within_is_another() -> None:
    inner = "SELECT ?x { { SELECT ?x { ?x ?y ?z } LIMIT 5 } }"
    assert with_limit(inner, 3) == f"{inner}\nLIMIT 3"
    assert with_limit(f"{inner} limit 4", 3) == f"{inner} limit 3"
    assert with_limit(f"{inner} LIMIT # all\n 2 OFFSET 9", 3) == f"{inner} LIMIT # all\n 2 OFFSET 9"
    assert with_limit(f"{inner} OFFSET 9 LIMIT # all\n 4", 3) == f"{inner} OFFSET 9 LIMIT # all\n 3"


@pytest.mark.parametrize("call", ["COALESCE (1, 2)", 'concat\n ("a", "b")', "BNODE ()", "IF (true, Concat (1), 2)"])
def test_a_space_after_the_name_of_a_function_is_taken(call: str) -> None:
    assert check_query(f"SELECT ({call} AS ?x) {{}}").variables == ("x",)
    same = "ASK { <Concat (band)> wdt:P1 'concat (x)' } # bnode ()"
    assert read_query(same) == same


GROWN = 'REPLACE("aaaaaaaa", "a", "aaaaaaaaaaaaaaaa")'
for _ in range(7):
    GROWN = f'REPLACE({GROWN}, "a", "aaaaaaaa")'


@pytest.mark.parametrize(
    "query",
    [
        f"ASK {{ FILTER(STRLEN({GROWN}) > 3) }}",
        f"SELECT (MAX(STRLEN({GROWN})) AS ?n) {{ }}",
        f"SELECT (COUNT(*) AS ?n) {{ }} ORDER BY STRLEN({GROWN})",
        f"SELECT ?x {{ ?x wdt:P1 <some name> FILTER(STRLEN({GROWN}) > 3) }}",
    ],
)
def test_a_check_evaluates_nothing(query: str) -> None:
    """Each would take 256 MiB, in this process."""
    assert check_query(query).is_ask == query.startswith("ASK")


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ("SELECT * { ?b ?a ?c OPTIONAL { ?d ?e [ ?f 5 ] } }", "abcdef"),
        ("SELECT * { BIND(1 AS ?z) ?a ?c 5 MINUS { ?m ?a ?c } VALUES ?q { 1 } FILTER EXISTS { ?n ?c ?o } }", "acqz"),
        ("SELECT * { GRAPH ?g { ?s ?p 5 } { SELECT ?x (1 AS ?n) { ?x ?p ?y } } } VALUES ?w { 1 }", "gnpswx"),
        ("SELECT ?y (1 AS ?x) { ?x0 ?y ?z } GROUP BY ?y", "yx"),
    ],
)  # fmt: skip
def test_variables_are_those_that_are_shown(query: str, variables: str) -> None:
    assert check_query(query).variables == tuple(variables)
    assert tuple(one.value for one in Store().query(query).variables) == tuple(variables)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("SELECT DISTINCT COUNT(?uri) WHERE { ?uri wdt:P36 ?x . }", "write SELECT (COUNT(?uri) AS ?n)"),
        ("SELECT COUNT(?x) AS ?c WHERE { wd:Q797 wdt:P36 ?x }", "write SELECT (COUNT(?x) AS ?c)"),
        ("SELECT DISTINCT xsd:date(?d) WHERE { wd:Q797 wdt:P571 ?d }", "write SELECT (xsd:date(?d) AS ?date)"),
        ("SELECT ?x avg(?n) { ?x ?y ?n } GROUP BY ?x", "write SELECT ?x (avg(?n) AS ?avg)"),
        ("SELECT COUNT(DISTINCT ?n) { ?x ?y ?n }", "write SELECT (COUNT(DISTINCT ?n) AS ?n2)"),
        ("ASK { { SELECT max(?x) { ?x ?y ?z } } }", "write SELECT (max(?x) AS ?max)"),
        ("SELECT (COUNT(?x)) { ?x ?y ?z }", "write (COUNT(?x) AS ?n)"),
        ("SELECT DISTINCT(?x) { ?x ?y ?z }", "write ?x"),
        ("SELECT ?x, ?y { ?x ?y ?z }", "no commas stand between what SELECT shows"),
        ("SELECT ?x { ?x rdfs:label ?l . ?l bif:contains 'x' }", "write FILTER(CONTAINS("),
        ("DEFINE input:inference 'x' SELECT ?x { ?x ?y ?z }", "leave it out"),
        ("SELECT ?x { ?x wdt:P1 ?y OPTION (TRANSITIVE) }", "write a path with + or *"),
    ],
)
def test_spellings_of_other_engines_are_told_how_they_are_written(query: str, written: str) -> None:
    with pytest.raises(SparqlSyntaxError) as refused:
        check_query(query)
    assert written in str(refused.value)
    assert "expected as in" not in str(refused.value)


@given(st.lists(st.sampled_from([*PARTS, "SELECT", "COUNT", "AS", "xsd:date", "DISTINCT", "WHERE"])).map(" ".join))
def test_any_beginning_of_a_query_has_an_error_of_one_line(text: str) -> None:
    try:
        check_query(f"SELECT {text}")
    except (SparqlSyntaxError, QueryRefusedError) as error:
        assert len(str(error).splitlines()) == 1, str(error)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("geof:sfWithin(?a, ?b)", "begin the query with PREFIX geof: <http://www.opengis.net/def/function/geosparql/>"),
        ("<http://www.opengis.net/def/function/geosparql/latitude>(?a)", "leave PREFIX geof:"),
        ("<http://www.opengis.net/def/function/geosparql/distance>(?a, ?b)", "uom/OGC/1.0/metre> as the third"),
        ("geof:nothing(?a)", "compare geof:latitude(?place)"),
        ("<http://jena.apache.org/fn#x>(?a)", "use a function of SPARQL 1.1"),
        ("xsd:integer(?a, ?b)", "requires between 1 and 1 arguments"),
    ],
)
def test_functions_that_are_unknown_have_a_remedy(call: str, remedy: str) -> None:
    query = f"SELECT ({call} AS ?y) {{ ?x ?p ?a, ?b }}"
    with pytest.raises(QueryRefusedError) as refused:
        check_query(query)
    assert remedy in str(refused.value)
    with pytest.raises(QueryRefusedError) as refused:
        StoreEngine(Store()).run(query)
    assert remedy in str(refused.value)
