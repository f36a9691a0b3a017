"""Published gold queries are read as walks, which an index answers as a store of its claims does; what is no walk is None,
or an error."""

import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pyoxigraph import DefaultGraph, RdfFormat, Store
from support.ingest.living_index import LivingIndex
from support.query.gold_claims import CLAIMS, LABELS

from bench.gold_walks.__main__ import compare
from bench.gold_walks.answers import answer_of_index, answer_of_store
from bench.gold_walks.differences import SAME
from refactx.ingest.source_options import Selection
from refactx.iris import OWN_PREFIXES as PREFIXES
from refactx.sparql.walks import from_sparql
from refactx.walks.facts import TreeFacts
from refactx.walks.language import QueryError, read_line, write_line
from refactx.walks.sparql_text import to_sparql

WALKS = [
    ("SELECT DISTINCT ?x WHERE { wd:Q30 wdt:P47 ?x . }", "list <United States> <shares border with>"),
    ("select distinct ?answer where { ?answer wdt:P161 wd:Q23359 }", "list <Taylor Lautner> <cast member of>"),
    (
        "SELECT DISTINCT ?x WHERE { ?x wdt:P161 wd:Q23359 ; wdt:P31 / wdt:P279 * wd:Q11424 . }",
        "list <Taylor Lautner> <cast member of> which <instance of> <subclass of>* <film>",
    ),
    (
        "SELECT DISTINCT ?uri WHERE { ?type wdt:P279 * wd:Q515 . ?uri wdt:P31 ?type ; wdt:P17 wd:Q30 . }",
        "list <United States> <country of> which <instance of> <subclass of>* <city>",
    ),
    (
        'SELECT DISTINCT ?x WHERE { ?x wdt:P161 wd:Q23359 ; wdt:P577 ?y . FILTER ( ( ?y < "2012-01-01T00:00:00Z" ^^'
        ' xsd:dateTime ) && ( ?y >= "2011-01-01T00:00:00Z" ^^ xsd:dateTime ) ) }',
        "list <Taylor Lautner> <cast member of> which <publication date> equals <2011>",
    ),
    ("SELECT ?uri WHERE { ?uri wdt:P31 wd:Q515 . }", "list <city> <has instance>"),
    (
        "SELECT (COUNT(DISTINCT ?sub) AS ?count) WHERE { ?sub wdt:P31 / wdt:P279 * wd:Q515 . }",
        "count <city> <has subclass>* <has instance>",
    ),
    ("SELECT ( COUNT ( ?obj ) AS ?value ) { wd:Q1588 wdt:P1449 ?obj }", "count <Louisiana> <nickname>"),
    ("SELECT ( COUNT ( * ) AS ?x ) WHERE { ?x wdt:P31 wd:Q515 . }", "count <city> <has instance>"),
    ("SELECT ?answer WHERE { wd:Q100 wdt:P17 ?X . ?X wdt:P36 ?answer }", "list <Boston> <country> <capital>"),
    ("SELECT DISTINCT ?uri WHERE { wd:Q100 wdt:P17 / wdt:P36 ?uri }", "list <Boston> <country> <capital>"),
    ("ASK WHERE { wd:Q30 wdt:P47 wd:Q16 . wd:Q30 wdt:P47 wd:Q5 }",
     "ask <United States> <shares border with> <Canada> and <shares border with> <human>"),
    ("ASK WHERE { wd:Q61 wdt:P2927 ?obj filter ( ?obj = 10.67 ) }",
     "ask <Washington, D.C.> <water as percent of area> equals <10.67>"),
    (
        "select ?ent where { ?ent wdt:P31 wd:Q515 . ?ent wdt:P1082 ?obj . ?ent wdt:P17 wd:Q30 } ORDER BY ASC ( ?obj ) LIMIT 5",
        "least 5 <United States> <country of> which <instance of> <city> by <population>",
    ),
    (
        "SELECT ?u WHERE { ?u wdt:P31 wd:Q515 ; wdt:P1376 ?of ; wdt:P17 ?c FILTER(?c = wd:Q30 || ?c = wd:Q16)"
        " FILTER(?of IN (wd:Q30, wd:Q96)) }",
        "list <United States> or <Mexico> <has capital> which <instance of> <city>"
        " which <country> <United States> or <Canada>",
    ),
    (
        "SELECT ?u WHERE { ?u wdt:P17 wd:Q30 ; wdt:P1449 ?n FILTER(?n IN ('Bayou State'@en, 'Magic State'@en)) }",
        "list <United States> <country of> which <nickname> <Bayou State> or <Magic State>",
    ),
    (
        "SELECT DISTINCT ?u WHERE { ?u wdt:P31 wd:Q515 ; wdt:P1082 ?p FILTER(?p >= 700000) }",
        "list <city> <has instance> which <population> from <700000>",
    ),
    (
        "SELECT ?uri WHERE { ?uri wdt:P31 wd:Q515 ; wdt:P17 ?of . ?of wdt:P36/wdt:P1082 ?n } ORDER BY DESC(?n) LIMIT 2",
        "most 2 <city> <has instance> by <country>/<capital>/<population>",
    ),
    (
        "SELECT DISTINCT * WHERE { ?uri wdt:P31 wd:Q515 . ?uri wdt:P1082 ?n . ?uri rdfs:label ?label }"
        " ORDER BY DESC ( ?n ) LIMIT 1",
        "most <city> <has instance> by <population>",
    ),
    (
        "SELECT DISTINCT ?uri WHERE { ?uri wdt:P17 wd:Q30 . ?uri wdt:P1449 ?name . }"
        " GROUP BY ?uri ORDER BY DESC ( COUNT ( ?name ) ) LIMIT 1",
        "most <United States> <country of> by count <nickname>",
    ),
    (
        "SELECT DISTINCT ?sbj ?sbj_label WHERE { ?sbj wdt:P31 wd:Q515 . ?sbj rdfs:label ?sbj_label . FILTER ( STRSTARTS ("
        " lcase ( ?sbj_label ) , 'w' ) ) . FILTER ( lang ( ?sbj_label ) = 'en' ) } LIMIT 25",
        "list <city> <has instance> which starts with <w>",
    ),
    (
        "SELECT DISTINCT ?uri WHERE { ?uri wdt:P17 wd:Q30 . ?uri wdt:P1449 ?name ."
        ' FILTER ( REGEX ( ?name , "^Bayou State$" ) ) }',
        "list <United States> <country of> which <nickname> equals <Bayou State>",
    ),
    ('SELECT * WHERE { ?uri skos:altLabel "Taylor Daniel Lautner" @en . }', "list <Taylor Daniel Lautner (alias)> <alias of>"),
    ("SELECT ?x { ?x wdt:P17 wd:Q30 FILTER(year(?d) > 2008) . ?x wdt:P577 ?d }",
     "list <United States> <country of> which <publication date> over <2008>"),
    ("SELECT ?uri { ?uri wdt:P31 wd:Q515 . MINUS { ?uri wdt:P17 wd:Q30 } }",
     "list <city> <has instance> which not <country> <United States>"),
    ("SELECT DISTINCT ?u WHERE { ?u wdt:P31 wd:Q515 FILTER NOT EXISTS { ?u wdt:P17 wd:Q30 } }",
     "list <city> <has instance> which not <country> <United States>"),
    ("SELECT DISTINCT ?u WHERE { wd:Q60 wdt:P17 ?t . ?u wdt:P31 wd:Q515 ; wdt:P17 ?t . FILTER ( ?u != wd:Q60 ) }",
     "list <New York City> <country> <country of> which <instance of> <city> which not is <New York City>"),
    ("SELECT DISTINCT ?uri WHERE { ?uri wdt:P31 wd:Q515 . { ?uri wdt:P17 wd:Q30 . } UNION { ?uri wdt:P17 wd:Q16 . } }",
     "list <United States> or <Canada> <country of> which <instance of> <city>"),
    ("SELECT DISTINCT ?u { VALUES ?c { wd:Q30 wd:Q16 } ?u wdt:P17 ?c }", "list <United States> or <Canada> <country of>"),
    ("SELECT ?u { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c FILTER ( ?c IN ( wd:Q30, wd:Q16 ) ) }",
     "list <United States> or <Canada> <country of> which <instance of> <city>"),
    ("SELECT ?u { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c FILTER ( ?c = wd:Q30 || ?c = wd:Q16 ) }",
     "list <United States> or <Canada> <country of> which <instance of> <city>"),
    ("SELECT ?u { ?u wdt:P1082 ?p FILTER ( ?u IN ( wd:Q100, wd:Q60 ) ) } ORDER BY DESC(?p) LIMIT 1",
     "most <Boston> or <New York City> by <population>"),
    ("SELECT DISTINCT ?u { { ?u wdt:P31 wd:Q515 } UNION { ?u wdt:P31 ?t . ?t wdt:P279* wd:Q515 } ?u wdt:P17 wd:Q30 }",
     "list <United States> <country of> which <instance of> <subclass of>* <city>"),
    ("SELECT DISTINCT ?u { ?f wdt:P31 wd:Q515 . ?f wdt:P17 wd:Q30 . ?f wdt:P1082 ?u . }",
     "count <United States> <country of> which <instance of> <city> per <population>"),
    ("SELECT ?c { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c } GROUP BY ?c HAVING ( COUNT ( ?u ) > 1 )",
     "count <city> <has instance> per <country> over <1>"),
    ("SELECT ?c { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c } GROUP BY ?c HAVING ( COUNT ( ?u ) >= 1 )",
     "count <city> <has instance> per <country> over <0>"),
    ("SELECT ?c { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c } GROUP BY ?c ORDER BY DESC ( COUNT ( ?u ) ) LIMIT 1",
     "count <city> <has instance> per <country> most 1"),
    ("SELECT ?c (COUNT(?u) AS ?n) { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c } GROUP BY ?c",
     "count <city> <has instance> per <country>"),
    ("SELECT ?u { ?u wdt:P17 wd:Q30 ; wdt:P1449 ?n } GROUP BY ?u HAVING ( COUNT ( ?n ) > 1 )",
     "list <United States> <country of> which count <nickname> over <1>"),
    ("SELECT ( SUM ( ?p ) AS ?s ) WHERE { ?u wdt:P31 wd:Q515 ; wdt:P1082 ?p }", "sum <city> <has instance> by <population>"),
    ("SELECT ?c ( AVG ( ?p ) AS ?s ) WHERE { ?u wdt:P31 wd:Q515 ; wdt:P1082 ?p ; wdt:P17 ?c } GROUP BY ?c",
     "average <city> <has instance> by <population> per <country>"),
    ("SELECT ?u { ?u wdt:P31 wd:Q515 FILTER EXISTS { ?u wdt:P17 wd:Q30 } }",
     "list <United States> <country of> which <instance of> <city>"),
    ("SELECT ?u { ?u wdt:P31 wd:Q515 OPTIONAL { ?u wdt:P17 ?c } FILTER ( !BOUND ( ?c ) ) }",
     "list <city> <has instance> which not count <country> over <0>"),
    ('SELECT ?u { ?u wdt:P31 wd:Q515 ; wdt:P1082 ?p FILTER ( ?p > xsd:integer("650000") ) }',
     "list <city> <has instance> which <population> over <650000>"),
    ("ASK { FILTER NOT EXISTS { wd:Q100 wdt:P47 ?x } }", "ask <Boston> not count <shares border with> over <0>"),
    ("SELECT ?u ?p { ?u wdt:P31 wd:Q515 ; wdt:P1082 ?p }",
     "list <city> <has instance> which count <population> over <0> show <population>"),
    ("SELECT ?u ?c ?p { ?u wdt:P31 wd:Q515 ; wdt:P1082 ?p OPTIONAL { ?u wdt:P17 ?c } } ORDER BY DESC(?p) LIMIT 2",
     "most 2 <city> <has instance> by <population> show <country> <population>"),
    ("SELECT ?u { ?u wdt:P31 wd:Q515 ; wdt:P17 ?anything }", "list <city> <has instance> which count <country> over <0>"),
]  # fmt: skip
NO_WALKS = [
    "SELECT * { VALUES ?c { wd:Q30 wd:Q16 } ?u wdt:P17 ?c }",
    "SELECT ?u { { ?u wdt:P17 wd:Q30 } UNION { ?u wdt:P131 wd:Q30 } }",
    "SELECT ?u { { ?u wdt:P17 wd:Q30 } UNION { wd:Q30 wdt:P17 ?u } }",
    "SELECT ?u { { ?u wdt:P17 wd:Q30 } UNION { ?u wdt:P17 wd:Q16 ; wdt:P31 wd:Q515 } }",
    "SELECT ?u { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c FILTER ( ?c IN ( wd:Q30, 'Canada' ) ) }",
    "SELECT ?u { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c FILTER ( ?c = wd:Q30 || ?u = wd:Q16 ) }",
    "SELECT ?c (COUNT(?u) AS ?n) { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c } GROUP BY ?u",
    "SELECT ?c { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c ; wdt:P1449 ?n } GROUP BY ?c HAVING ( COUNT ( ?n ) > 1 )",
    "SELECT ?c { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c } GROUP BY ?c HAVING ( COUNT ( ?u ) * 2 > 1 )",
    "SELECT ?u { ?u wdt:P31 wd:Q515 OPTIONAL { ?u wdt:P17 ?c } FILTER ( !BOUND ( ?d ) ) }",
    "SELECT ( MAX ( ?p ) AS ?s ) WHERE { ?u wdt:P31 wd:Q515 ; wdt:P1082 ?p }",
    "SELECT ( SUM ( ?p ) AS ?s ) WHERE { wd:Q100 wdt:P1082 ?p }",
    "SELECT ?uri { ?uri wdt:P31 wd:Q515 . OPTIONAL { ?uri wdt:P17 wd:Q30 } }",
    "SELECT ?uri { ?uri wdt:P1082 ?p . ?uri wdt:P2927 ?a . BIND ( ( ?p / ?a ) AS ?d ) } ORDER BY DESC ( ?d ) LIMIT 1",
    "SELECT ?uri { ?uri wdt:P31 wd:Q515 ; wdt:P1082 ?p ; wdt:P2927 ?a } ORDER BY DESC ( ?p / ?a ) LIMIT 1",
    "SELECT ?ans_1 ?ans_2 WHERE { wd:Q30 wdt:P47 ?ans_1 . wd:Q30 wdt:P36 ?ans_2 }",
    "SELECT ( COUNT ( ?s1 ) as ?c ) WHERE { ?s1 ?p1 wd:Q30 . ?s1 wdt:P31 wd:Q515 . }",
    "SELECT DISTINCT ?x WHERE { wd:Q30 wdt:P47 | wdt:P36 ?x . }",
    "SELECT DISTINCT ?v WHERE { ?u wdt:P17 wd:Q30 ; wdt:P1082 ?v } ORDER BY DESC ( ?v ) LIMIT 1",
    "SELECT DISTINCT ?u WHERE { ?u wdt:P17 wd:Q30 ; wdt:P1082 ?v FILTER(?v < 5) } ORDER BY DESC ( ?v ) LIMIT 1",
    "SELECT DISTINCT ?u WHERE { ?u wdt:P17 wd:Q30 ; wdt:P1449 ?n } ORDER BY ?n LIMIT 1",
    "SELECT DISTINCT ?u WHERE { ?u wdt:P17 wd:Q30 ; wdt:P1449 ?n FILTER(?n > 5) }",
    "SELECT DISTINCT ?u WHERE { ?u wdt:P31 wd:Q515 } OFFSET 3",
    "SELECT ?u { ?u wdt:P22 wd:Q12 }",
    "SELECT ?u { ?u ^wdt:P40|wdt:P22 wd:Q11 }",
    "SELECT ?u { wd:Q11 wdt:P40|wdt:P26|^wdt:P25 ?u }",
    "SELECT DISTINCT ?u WHERE { ?u wdt:P31 wd:Q515 ; wdt:P1082 ?p FILTER(?p > 5 || ?p < 3) }",
    "SELECT DISTINCT ?u WHERE { ?u wdt:P31 wd:Q515 ; wdt:P1449 ?n FILTER(REGEX(?n, 'a.b')) }",
    "SELECT DISTINCT ?u WHERE { ?u wdt:P31 wd:Q515 ; wdt:P17 ?c FILTER ( ?c != wd:Q30 ) }",
    "SELECT ?u { { SELECT ?u { ?u wdt:P31 wd:Q515 } LIMIT 3 } }",
    "SELECT ?u { ?u wdt:P17 ?u . ?u wdt:P31 wd:Q515 }",
    "SELECT ?u { ?u wdt:P31 wd:Q404 }",
    "SELECT ?u { ?u wdt:P404 wd:Q30 }",
    "SELECT ?s WHERE { wd:Q23359 skos:altLabel ?s . }",
    "SELECT ?u { ?u p:P31/ps:P17 wd:Q515 }",
    "SELECT ?u { ?u rdfs:label 'Boston'@en }",
    "ASK { ?u wdt:P17 ?c }",
    "ASK { }",
    "DESCRIBE wd:Q30",
    "CONSTRUCT { ?u wdt:P17 wd:Q30 } WHERE { ?u wdt:P31 wd:Q515 }",
]


@cache
def store() -> Store:
    prefixes = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in PREFIXES.items())
    labels = "".join(f'wd:{id_} rdfs:label "{label}"@en .\n' for id_, label in LABELS.items())
    opened = Store()
    opened.load((prefixes + labels + CLAIMS).encode(), RdfFormat.TURTLE)
    return opened


@pytest.fixture(scope="module")
def living(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> LivingIndex:
    return LivingIndex(module_url, tmp_path_factory.mktemp("gold"))


def ingest(living: LivingIndex, limit: int) -> None:
    """Ingest the claims; an object with more subjects is a hub."""
    path: Path = living.folder / "claims.nt"
    store().dump(str(path), RdfFormat.N_TRIPLES, from_graph=DefaultGraph())
    living.ingest_from(path, selection=Selection(inverse=True, inverse_limit=limit))


@pytest.fixture(scope="module")
def facts(living: LivingIndex) -> Iterator[TreeFacts]:
    ingest(living, 1000)
    with living.open() as index:
        yield TreeFacts(index)


@pytest.mark.parametrize(("gold", "line"), WALKS)
def test_a_gold_query_is_a_walk_with_its_answers(gold: str, line: str, facts: TreeFacts) -> None:
    compared = compare(gold, facts, store())
    assert (compared.line, compared.outcome, compared.written) == (line, SAME, SAME)


@pytest.mark.parametrize("gold", NO_WALKS)
def test_what_is_no_walk_is_none(gold: str, facts: TreeFacts) -> None:
    prefixes = "PREFIX p: <http://www.wikidata.org/prop/> PREFIX ps: <http://www.wikidata.org/prop/statement/> "
    assert from_sparql(prefixes + gold, facts) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1, column 1, at the end"),
        ("who directed it?", "line 1, column 1, at 'who directed"),
        ("SELECT ?x WHERE {\n  wd:Q1 wdt:P2 ?x }}", "line 2, column 20, at '}'"),
        ("SELECT ?x { ?x foo:bar wd:Q1 }", "the prefix foo: is not known: declare it with PREFIX"),
        ("INSERT DATA { wd:Q1 wdt:P2 wd:Q3 }", "line 1, column 1"),
    ],
)
def test_what_is_no_sparql_is_refused_with_its_place(text: str, complaint: str, facts: TreeFacts) -> None:
    with pytest.raises(QueryError) as error:
        from_sparql(text, facts)
    assert complaint in str(error.value)


def test_a_predicate_of_two_properties_has_the_facts_of_both(facts: TreeFacts) -> None:
    query = read_line("list <part one> <followed by>+")
    sparql = to_sparql(query, facts)
    assert "wd:Q1 (wdt:P156|^wdt:P155)/(wdt:P156|^wdt:P155)* ?x ." in sparql
    assert answer_of_store(sparql, store()) == answer_of_index(query, facts) == {"Q2", "Q3"}
    assert from_sparql(sparql, facts, exact=True) == query
    backwards = read_line("list <part three> <follows>+")
    assert from_sparql("SELECT ?x { ?x (wdt:P156|^wdt:P155)+ wd:Q3 }", facts, exact=True) == backwards
    assert from_sparql("SELECT ?x { ?x wdt:P155 wd:Q1 }", facts) == read_line("list <part one> <followed by>")


def test_a_predicate_has_the_facts_of_every_property_of_which_it_is_the_inverse(facts: TreeFacts) -> None:
    child, spouse = "(wdt:P40|^wdt:P22|^wdt:P25)", "(wdt:P26|^wdt:P26)"
    for line, path, rows in (
        ("list <Eve> <child>", f"wd:Q11 {child} ?x .", {"Q13", "Q14"}),
        ("list <Adam> <spouse> <child>", f"wd:Q12 {spouse} ?y1 .\n  ?y1 {child} ?x .", {"Q13", "Q14"}),
        ("list <Seth> <child of>", "?x wdt:P40 wd:Q14 .", {"Q11"}),
        ("list <Abel> <mother>", "wd:Q13 wdt:P25 ?x .", {"Q11"}),
        ("count <Adam> <spouse>+", f"wd:Q12 {spouse}/{spouse}* ?x .", {"2"}),
    ):
        query = read_line(line)
        sparql = to_sparql(query, facts)
        assert path in sparql
        assert answer_of_store(sparql, store()) == answer_of_index(query, facts) == rows
        assert from_sparql(sparql, facts, exact=True) == query
    assert "<Eve> (<child>|^<father>|^<mother>) ?x" in to_sparql(
        read_line("list <Eve> <child>"), facts, with_labels=True
    )


@pytest.mark.parametrize(
    ("gold", "outcome"),
    [
        ("SELECT ?x { wd:Q11 wdt:P40 ?x }", "inverse property"),
        ("SELECT ?x { ?y wdt:P26 wd:Q12 . ?y wdt:P40 + ?x }", "inverse property"),
        ("SELECT ?x { wd:Q30 wdt:P47 ?x } LIMIT 1", "limit"),
        ("SELECT ( COUNT ( ?x ) AS ?n ) { wd:Q11 wdt:P26 / ^ wdt:P26 / wdt:P40 ?x } LIMIT 1", "inverse property"),
        ("SELECT (COUNT(?x) AS ?n) { ?y wdt:P17 wd:Q30 . ?y wdt:P31 / wdt:P279 * ?x . ?x wdt:P31 wd:Q11 }", SAME),
        ("SELECT (COUNT(?x) AS ?n) { wd:Q30 ^wdt:P17/wdt:P31 ?x }", "rows"),
        ("SELECT ?x { wd:Q30 ^wdt:P17/wdt:P47|wdt:P17 ?x } LIMIT 1", "no walk"),
        ("SELECT ?x { wd:Q11 wdt:P40 ?x } LIMIT 0", "inverse property + limit"),
    ],
)
def test_a_query_that_walks_read_in_another_way_is_not_exact(gold: str, outcome: str, facts: TreeFacts) -> None:
    compared = compare(gold, facts, store())
    assert compared.outcome == outcome
    assert not compared.is_exact or outcome == SAME


@pytest.mark.parametrize(
    ("gold", "is_exact"),
    [
        ("SELECT ?x { ?x wdt:P31 wd:Q515 ; wdt:P17 wd:Q30 }", True),
        ("SELECT (COUNT(?x) AS ?n) { ?x wdt:P31 wd:Q515 ; wdt:P17 wd:Q30 }", True),
        ("SELECT (COUNT(*) AS ?n) { ?x wdt:P31 wd:Q515 ; wdt:P17 wd:Q30 } LIMIT 1", True),
        ("SELECT (COUNT(?x) AS ?n) { ?x wdt:P31/wdt:P279* wd:Q515 }", False),
        ("SELECT (COUNT(DISTINCT ?x) AS ?n) { ?x wdt:P31/wdt:P279* wd:Q515 }", True),
        ("SELECT (COUNT(?x) AS ?n) { ?x wdt:P31 wd:Q515 ; wdt:P1082 ?p FILTER(?p > 5) }", False),
        ("SELECT ?x { ?x wdt:P31 wd:Q515 ; wdt:P1082 ?p } ORDER BY ?p LIMIT 1", True),
        ("SELECT ?x { ?x wdt:P31 wd:Q515 ; wdt:P1082 ?p } ORDER BY ?p LIMIT 2", False),
        ("SELECT DISTINCT ?x { ?x wdt:P31 wd:Q515 ; wdt:P1082 ?p } ORDER BY ?p LIMIT 2", True),
        ("SELECT ?x { ?x wdt:P17 wd:Q30 ; wdt:P1449 ?n } GROUP BY ?x ORDER BY DESC(COUNT(?n)) LIMIT 2", True),
        ("SELECT ?x { ?x wdt:P17 wd:Q30 ; wdt:P31/wdt:P279* wd:Q515 ; wdt:P1449 ?n } GROUP BY ?x"
         " ORDER BY DESC(COUNT(?n)) LIMIT 2", False),
        ("SELECT ?x { ?x wdt:P17 wd:Q30 ; wdt:P1449 ?n FILTER(CONTAINS(?n, 'State')) }", False),
        ("SELECT ?x { ?x wdt:P17 wd:Q30 ; wdt:P1449 'Bayou State'@en }", True),
        ("SELECT ?x { ?x wdt:P161 wd:Q23359 ; wdt:P577 ?d FILTER(YEAR(?d) = 2011) }", True),
        ("ASK { wd:Q13 wdt:P25 wd:Q11 } LIMIT 1", True),
        ("ASK { wd:Q11 wdt:P26 wd:Q12 }", False),
    ],
)  # fmt: skip
def test_an_exact_walk_has_the_very_rows(gold: str, is_exact: bool, facts: TreeFacts) -> None:
    walk, exact = from_sparql(gold, facts), from_sparql(gold, facts, exact=True)
    assert walk is not None
    assert exact == (walk if is_exact else None)


FORMS = (
    "SELECT DISTINCT ?x {{ ?m wdt:{p} {a} ; wdt:{q} {b} ; wdt:{r} ?x }}",
    "SELECT DISTINCT ?x {{ {a} wdt:{p} ?m . ?m wdt:{q} {b} ; wdt:{r} ?x }}",
    "SELECT DISTINCT ?x {{ {a} wdt:{p} {b} ; wdt:{r} ?x }}",
    "SELECT DISTINCT ?x {{ {{ ?x wdt:{p} {a} }} UNION {{ ?x wdt:{p} {b} }} }}",
    "SELECT DISTINCT ?x {{ {{ {a} wdt:{p} ?x }} UNION {{ {b} wdt:{p} ?x }} }}",
    "SELECT DISTINCT ?x {{ VALUES ?y {{ {a} {b} }} ?x wdt:{p} ?y ; wdt:{q} ?z }}",
    "SELECT DISTINCT ?x {{ ?x wdt:{p} {a} FILTER(?x IN ({b}, wd:Q100, wd:Q60, wd:Q143716)) }}",
    "SELECT DISTINCT ?x {{ ?m wdt:{p} {a} ; wdt:{q} ?x }} GROUP BY ?x HAVING(COUNT(DISTINCT ?m) > {n})",
    "SELECT DISTINCT ?x {{ ?x wdt:{p} {a} ; wdt:{q} ?v }} GROUP BY ?x HAVING(COUNT(DISTINCT ?v) > {n})",
    "SELECT ?x (SUM(?v) AS ?n) {{ ?m wdt:{p} {a} ; wdt:{q} ?x ; wdt:P1082 ?v }} GROUP BY ?x",
    "SELECT DISTINCT ?x {{ ?x wdt:{p} {a} FILTER EXISTS {{ ?x wdt:{q} {b} }} }}",
    "SELECT DISTINCT ?x {{ ?x wdt:{p} {a} OPTIONAL {{ ?x wdt:{q} ?y }} FILTER(!BOUND(?y)) }}",
    "SELECT DISTINCT ?x ?y {{ ?x wdt:{p} {a} ; wdt:{q} ?y }}",
)


@pytest.mark.parametrize("form", FORMS)
def test_random_queries_of_a_form_have_the_answers_of_their_walks(form: str, facts: TreeFacts) -> None:
    chance, compared = random.Random(form), list[str]()
    edges = list(re.findall(r"(?<![\w:])(wd:Q\d+)", CLAIMS))
    properties = ["P17", "P31", "P36", "P47", "P57", "P161", "P1082", "P1449", "P577"]  # which no others are inverse to
    for _ in range(500):
        p, q, r = (chance.choice(properties) for _ in "pqr")
        gold = form.format(p=p, q=q, r=r, a=chance.choice(edges), b=chance.choice(edges), n=chance.randrange(2))
        query = from_sparql(gold, facts)
        if query is None:
            continue
        expected = answer_of_store(gold, store())
        try:
            got = answer_of_index(query, facts)
        except QueryError:  # a predicate that no member has, after which nothing is found
            assert not expected, gold
            continue
        assert got == expected, (gold, write_line(query))
        compared.append(gold)
        assert from_sparql(gold, facts, exact=True) in (None, query)
    assert len(compared) > 3


def test_a_walk_does_not_start_at_a_hub_if_it_has_a_choice(module_url: str, living: LivingIndex) -> None:
    gold = "SELECT ?x { ?x wdt:P31 wd:Q515 ; wdt:P17 wd:Q30 }"
    for limit, line in ((10, "list <United States> <country of> which"), (3, "list <city> <has instance> which")):
        other = LivingIndex(module_url, living.folder, f"limit {limit}")
        ingest(other, limit)
        with other.open() as index:
            query = from_sparql(gold, TreeFacts(index))
            assert query is not None
            assert write_line(query).startswith(line)
            every = "SELECT ?x { ?x wdt:P17 wd:Q30 }"
            assert compare(every, TreeFacts(index), store()).outcome == SAME


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("list <Stanley Kubrick (film director)> <description>", {"film director"}),
        ("list <Abduction> <director> which <description> contains <DIRECTOR>", {"Q8006"}),
        ("list <Taylor Daniel Lautner (alias)> <alias of> <cast member of>", {"Q160071", "Q143716"}),
        ("list <Abduction> <director> which equals <stanley kubrick>", {"Q8006"}),
    ],
)
def test_descriptions_aliases_and_labels(line: str, rows: set[str], facts: TreeFacts) -> None:
    query = read_line(line)
    sparql = to_sparql(query, facts)
    assert answer_of_store(sparql, store()) == answer_of_index(query, facts) == rows
    read = from_sparql(sparql, facts)
    assert read is not None
    assert write_line(read) == line.replace("DIRECTOR", "director")
