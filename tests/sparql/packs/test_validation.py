"""Queries are checked: syntax, rules, names and variables, and by running them; `refactx validate`."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Store
from support.command import complains, run_refactx

from bench.packs.inventing import gold_queries
from refactx.sparql.engines import (
    EngineError,
    EngineTimeoutError,
    QueryRefusedError,
    Result,
    SparqlEngine,
    SparqlSyntaxError,
    StoreEngine,
)
from refactx.sparql.packs.invented import invented_engine
from refactx.sparql.packs.pack import Pack, PackExample, load_pack
from refactx.sparql.packs.prompt import with_prefixes
from refactx.sparql.packs.rules import SchemaTerm
from refactx.sparql.packs.validation import QuestionCheck, ValidationReport, validate

LIITA = load_pack("liita")
HEAD = "".join(f"PREFIX {name}: <{iri}> " for name, iri in LIITA.prefixes.items())
FAR = "SERVICE <https://klab.ilc.cnr.it/graphdb-compl-it/>"
SMALL = Pack(
    name="small",
    title="Small",
    version=1,
    languages=("en",),
    base="",
    prefixes={"ex": "http://e.org/"},
    graphs={"G": "http://g.org/"},
)


@pytest.mark.parametrize("key", sorted(gold_queries(LIITA))[::5])
def test_gold_queries_pass(key: str) -> None:
    assert validate(gold_queries(LIITA)[key], LIITA).problems == ()


def problems_of(query: str, pack: Pack = LIITA) -> list[tuple[str, str]]:
    return [(one.level, one.code) for one in validate(query, pack).problems]


@pytest.mark.parametrize(
    ("query", "code", "hint"),
    [
        ("SELECT ?x { ?x lila:hasPOS lila:noun }", "prefix", "PREFIX lila: <http://lila-erc.eu/ontologies/lila/>"),
        ("SELECT ?x { ?x nope:a ?y }", "prefix", "use a prefix of liita: lila:"),
        ("SELECT ?x { ?x <written form> ?y }", "iri", "the whole IRI"),
        ("SELECT COUNT(?x) AS ?n { ?x ?y ?z }", "syntax", "SELECT (COUNT(?x) AS ?name)"),
        ("SELECT ?x ?y { ?x ?p ?y } GROUP BY ?x", "syntax", "GROUP BY"),
        ("SELECT (<a:f>(?x) AS ?y) { ?x ?p ?z }", "function", "a cast to a type of XSD"),
        ("SELECT ?x { ?x ?y ", "syntax", "brackets closed"),
        ("", "syntax", "one whole SELECT or ASK"),
        ("DELETE WHERE { ?x ?y ?z }", "form", "SELECT or ASK"),
        ("CONSTRUCT { ?x ?y ?z } WHERE { ?x ?y ?z }", "form", "SELECT or ASK"),
    ],
)
def test_the_first_level_finds(query: str, code: str, hint: str) -> None:
    report = validate(query, LIITA)
    first = report.problems[0]
    assert (report.ok, first.level, first.code) == (False, "L1", code)
    assert hint in first.hint
    assert "Q1588" not in first.text


def test_what_is_too_large_and_odd_characters_are_found_by_the_first_level() -> None:
    (problem,) = validate(f"ASK {{ ?x {'wdt:P1/' * 400}wdt:P1 ?y }}", LIITA).problems
    assert (problem.level, problem.code) == ("L1", "size")
    assert "at most 100" in problem.hint
    (problem,) = validate("ASK { ?x\u00a0?y ?z }", LIITA).problems
    assert (problem.code, problem.hint) == ("syntax", "write a space")
    assert "line 1, column 9 has U+00A0" in problem.text


def test_columns_are_those_of_the_query_although_declarations_are_added() -> None:
    report = validate("SELECT ?x { ?x lila:hasPOS ?y ) }", LIITA)
    assert [one.code for one in report.problems[:2]] == ["prefix", "syntax"]
    assert "line 1, column 31" in report.problems[1].text


@pytest.mark.parametrize(
    ("query", "code", "hint"),
    [
        ("SELECT ?x { ?x lila:writtenRep ?y }", "name", "ontolex:writtenRep"),
        ("SELECT ?x { ?x ontolex:writenRep ?y }", "name", "ontolex:writtenRep"),
        ("SELECT ?x { ?x dcterms:writtenRep ?y }", "name", "ontolex:writtenRep"),
        ("SELECT ?x { ?x a dcterms:Lemma }", "name", "lila:Lemma"),
        ("SELECT ?x { ?x a lila:hasPOS }", "name", "?x lila:hasPOS ?y"),
        ("SELECT ?x { ?x <http://other.org/p> ?y }", "name", "examples or of the schema"),
        ("SELECT ?x { GRAPH <http://liita.it/lemmas> { ?x lila:hasPOS ?y } }", "graph", "GRAPH <http://liita.it/data>"),
        ("SELECT ?x { SERVICE <http://s.org> { ?x ontolex:sense ?y } }", "service", "klab.ilc.cnr.it"),
        ("SELECT ?z { ?x lila:hasPOS ?y }", "variable", "?x, ?y"),
        ("SELECT ?x { ?x lila:hasPOS ?y FILTER(?z = 1) }", "variable", "use ?z in a pattern"),
        ("SELECT ?x { ?x lila:hasPOS ?y } ORDER BY ?z", "variable", "use ?z in a pattern"),
        (
            f"SELECT ?x {{ ?x ontolex:writtenRep ?w . {FAR} {{ ?e ontolex:canonicalForm [ ontolex:writtenRep ?v ] "
            'FILTER(STR(?v) = STR(?w)) } ?e ontolex:canonicalForm ?x }',
            "variable",
            "move the FILTER",
        ),
    ],
)  # fmt: skip
def test_the_second_level_finds(query: str, code: str, hint: str) -> None:
    report = validate(HEAD + query, LIITA)
    [one] = [problem for problem in report.problems if problem.code == code]
    assert one.level == "L2"
    assert hint in one.hint


def test_a_prefix_with_another_iri_is_found() -> None:
    query = "PREFIX lexinfo: <http://www.lexinfo.net/ontology/2.0/lexinfo#> ASK { ?x lexinfo:gender ?y }"
    problem = validate(query, LIITA).problems[0]
    assert (problem.code, problem.hint) == ("prefix", f"write PREFIX lexinfo: <{LIITA.prefixes['lexinfo']}>")
    assert problems_of("PREFIX lex: <http://www.lexinfo.net/ontology/3.0/lexinfo#> ASK { ?x lex:gender ?y }") == []


def test_names_of_open_vocabularies_and_data_are_not_refused() -> None:
    assert problems_of("ASK { <http://liita.it/data/id/lemma/1> <http://purl.org/dc/terms/subject> ?y }") == []
    assert problems_of("PREFIX ex: <http://e.org/> ASK { ex:a ex:b ex:c }", SMALL) == []


def test_what_may_be_unbound_is_no_problem() -> None:
    body = "?x <x:a> ?y BIND(COALESCE(?z, 1) AS ?v) FILTER(!BOUND(?w))"
    assert problems_of(f"ASK {{ {body} }}", SMALL) == []


def test_what_the_rules_cannot_read_is_told() -> None:
    assert problems_of("ASK { ?x <x:a> ?y LATERAL { SELECT ?z { ?y <x:b> ?z } LIMIT 1 } }", SMALL) == [("L2", "form")]


def test_a_service_that_a_pack_does_not_have_is_refused() -> None:
    assert problems_of("ASK { SERVICE <http://s.org/> { ?x ?y ?z } }", SMALL) == [("L2", "service")]


def test_rows_are_read_of_valid_queries_alone() -> None:
    store = Store()
    store.extend(Quad(NamedNode(f"http://e.org/{n}"), NamedNode("http://e.org/p"), Literal(str(n))) for n in range(9))
    engine = StoreEngine(store)
    query = "PREFIX ex: <http://e.org/> SELECT ?x { ?x ex:p ?y }"
    report = validate(query, SMALL, engine, rows=4)
    assert (report.ok, report.count, report.truncated, report.variables, len(report.rows)) == (True, 4, True, ("x",), 4)
    assert validate("PREFIX ex: <http://e.org/> ASK { ?x ex:q ?y }", SMALL, engine).answer is False
    assert validate("PREFIX ex: <http://e.org/> SELECT ?z { ?x ex:p ?y }", SMALL, engine).count is None
    assert json.loads(json.dumps(report.to_json()))["rows"][0][0].startswith("<http://e.org/")


class Failing:
    """An engine that raises an error."""

    name = "far"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        raise self._error

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "code"),
    [(EngineTimeoutError("slow"), "time"), (SparqlSyntaxError("bad"), "refused"), (QueryRefusedError("no"), "refused")],
)
def test_what_an_engine_says_of_a_query_is_a_problem(error: Exception, code: str) -> None:
    [problem] = validate("ASK { ?x ?y ?z }", SMALL, Failing(error)).problems
    assert (problem.level, problem.code) == ("L3", code)
    assert problem.hint


def test_an_engine_that_is_down_is_no_problem_of_the_query() -> None:
    report = validate("ASK { ?x ?y ?z }", SMALL, Failing(EngineError("far is down")))
    assert (report.ok, report.count, report.failure) == (True, None, "far is down")


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="SELECT?x{}()<>\"'.;:|/^a 1\n#é\\", max_size=40), st.integers(0, 200))
def test_any_text_has_a_report(noise: str, at: int) -> None:
    gold = LIITA.examples[11].sparql
    for text in (noise, gold[:at] + noise + gold[at:]):
        assert isinstance(validate(text, LIITA), ValidationReport)


def test_threads_may_validate_at_once() -> None:
    reports: list[ValidationReport] = []
    threads = [
        threading.Thread(target=lambda one=one: reports.append(validate(one.sparql, LIITA)))
        for one in LIITA.examples[:6]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.ok for report in reports] == [True] * 6


WIKIDATA = load_pack("wikidata")
LABELS = "SERVICE wikibase:label { bd:serviceParam wikibase:language 'en' }"
DECLARED = "".join(f"PREFIX {name}: <{iri}> " for name, iri in WIKIDATA.prefixes.items())


def test_a_service_of_labels_gives_values_to_the_variables_that_it_names() -> None:
    assert problems_of(f"{DECLARED}SELECT ?x ?xLabel {{ ?x wdt:P31 wd:Q146 . {LABELS} }}", WIKIDATA) == []
    asked = f"{DECLARED}SELECT ?xDescription {{ ?x wdt:P31 wd:Q146 . {LABELS} FILTER(STR(?xLabel) = 'a') }}"
    assert problems_of(asked, WIKIDATA) == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?x ?xLabel { ?x wdt:P31 wd:Q146 }",
        f"SELECT ?x ?yLabel {{ ?x wdt:P31 wd:Q146 . {LABELS} }}",
        f"SELECT ?x ?xTitle {{ ?x wdt:P31 wd:Q146 . {LABELS} }}",
    ],
)
def test_it_gives_none_to_others(query: str) -> None:
    assert problems_of(f"{DECLARED}{query}", WIKIDATA) == [("L2", "variable")]


GOOD = "PREFIX elita: <http://w3id.org/elita/> SELECT ?e { ?e elita:HasEmotion elita:Gioia }"
BAD = "PREFIX elita: <http://w3id.org/elita/> SELECT ?e { ?e elita:HasEmotion elita:Joy }"


@pytest.mark.long
def test_a_valid_query_ends_with_0_and_another_with_1(tmp_path: Path) -> None:
    done = run_refactx("validate", GOOD, "--pack", "liita")
    assert (done.returncode, done.stdout) == (0, "valid\n")
    file = tmp_path / "query.rq"
    file.write_text(BAD)
    done = run_refactx("validate", file, "--pack", "liita", "--json")
    assert done.returncode == 1
    assert [one["code"] for one in json.loads(done.stdout)["problems"]] == ["name", "rule.emotions"]
    done = run_refactx("validate", "-", "--pack", "liita", input=BAD)
    assert done.returncode == 1
    assert "L2 name: elita:Joy is unknown" in done.stdout


@pytest.mark.long
def test_mistakes_are_told_in_one_line() -> None:
    assert "nope is no query, and no file" in complains("validate", "nope", "--pack", "liita")
    assert "there is no pack nope" in complains("validate", GOOD, "--pack", "nope")
    assert "nope is no engine" in complains("validate", GOOD, "--pack", "liita", "--run-on", "nope")
    assert "http://127.0.0.1:9" in complains(
        "validate", GOOD, "--pack", "liita", "--run-on", "http://127.0.0.1:9/sparql", "--timeout", "2"
    )


STAFF = """
@prefix : <http://company.example/hr#> . @prefix id: <http://company.example/id/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix schema: <http://schema.org/> .
:Employee rdfs:label "Employee"@en . :reportsTo rdfs:label "direct manager"@en .
id:1 a :Employee ; rdfs:label "Ada Rossi" . id:2 a :Employee ; rdfs:label "Bo Lind"@en ; :reportsTo id:1 .
id:3 a :Employee ; rdfs:label "Cleo Marin" ; :reportsTo id:2 . id:4 rdfs:label "Rossi Bakery", "Panetteria Rossi"@it .
id:italy rdfs:label "Italy" . id:rye rdfs:label "rye bread" . id:tart rdfs:label "plum tart" .
GRAPH :friends { id:5 schema:givenName "Dora" ; schema:familyName "Weiss" }
"""
STAFF_PACK = Pack(
    name="staff",
    title="staff",
    version=1,
    languages=("en", "it"),
    base="",
    prefixes={"": "http://company.example/hr#", "id": "http://company.example/id/"},
    schema={
        one.iri: one
        for one in (
            SchemaTerm(iri="http://company.example/hr#Employee", kind="class", labels={"en": "Employee"}),
            SchemaTerm(iri="http://company.example/hr#reportsTo", kind="property", labels={"en": "direct manager"}),
        )
    },
)
BOSS = PackExample(id="boss", question="Who is Bo Lind's boss?", sparql="SELECT ?x { id:2 :reportsTo ?x }")


def staff() -> StoreEngine:
    store = Store()
    store.load(STAFF, format=RdfFormat.TRIG)
    return StoreEngine(store)


def faults(question: str, query: str, engine: SparqlEngine | None = None, *examples: PackExample) -> list[str]:
    query = with_prefixes(query, STAFF_PACK.prefixes | {"rdfs": "http://www.w3.org/2000/01/rdf-schema#"})
    found = QuestionCheck(question, STAFF_PACK, engine or staff(), examples).problems(query)
    return [problem.text for problem in found]


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("Who is Cleo Marin's boss?", "SELECT ?y { id:3 :reportsTo ?y }"),
        ("Who is Cleo Marin's boss?", "SELECT ?y { ?x rdfs:label 'Cleo Marin'@it ; :reportsTo ?y }"),
        (
            "Who is CLEO MARIN's boss?",
            "SELECT ?y { ?x rdfs:label ?l ; :reportsTo ?y FILTER(CONTAINS(LCASE(?l), 'marin')) }",
        ),
        ("Is Bo Lind an Employee?", "ASK { id:2 a :Employee }"),
        ("Which Employee is a direct manager?", "SELECT ?y { ?x :reportsTo ?y }"),
        ("What does the Rossi Bakery sell?", "SELECT ?x { ?y rdfs:label 'Panetteria Rossi'@it ; ?p ?x }"),
        ("Which Italian employees are there?", "SELECT ?x { ?x ?p id:italy }"),
        ("How much rye bread is sold?", "SELECT ?x { ?x a :Employee }"),  # it may be words
        ("Who knows Dora?", "SELECT ?x { ?x ?p id:5 }"),
        ("Who is Zoe Marin?", "SELECT ?x { id:9 ?p ?x }"),
    ],
)
def test_a_query_with_the_names_of_the_question_has_no_fault(question: str, query: str) -> None:
    assert faults(question, query) == []


@pytest.mark.parametrize(
    ("question", "query", "missed"),
    [
        ("Who is Cleo Marin's boss?", "SELECT ?y { id:2 :reportsTo ?y }", "Cleo Marin"),
        ("Who is the boss of Cleo Marin?", "SELECT ?y { ?x :reportsTo ?y }", "Cleo Marin"),
        ("What does the Rossi Bakery sell?", "SELECT ?x { id:1 ?p ?x }", "Rossi Bakery"),
        ("what is the price of rye bread?", "SELECT ?x { id:tart ?p ?x }", "rye bread"),
        ("who is the boss of cleo marin?", "SELECT ?y { id:2 :reportsTo ?y }", "cleo marin"),
        ("Who knows Dora?", "SELECT ?x { ?x ?p id:1 }", "Dora"),
    ],
)
def test_a_name_of_the_question_that_a_query_does_not_have_is_a_fault(question: str, query: str, missed: str) -> None:
    assert faults(question, query) == [f'the question names "{missed}", and the query does not have it']


def test_a_thing_of_an_example_that_the_question_does_not_name_is_a_fault() -> None:
    boss, copied = "SELECT ?x { id:2 :reportsTo ?x }", "id:2 is a name of an example, and the question does not have it"
    assert faults("Who leads the sales team?", boss, None, BOSS) == [copied]
    assert faults("Who leads Lind?", boss, None, BOSS) == []
    assert faults("Who leads the sales team?", boss, None, replace(BOSS, question="Who is nobody's boss?")) == []
    other = replace(BOSS, variants={"it": ("Chi è il capo?",)})  # a word that the data has in one language
    assert faults("Who leads the sales team?", boss, None, other) == []


def test_an_engine_that_fails_finds_no_names() -> None:
    assert faults("Who is Cleo Marin's boss?", "SELECT ?y { id:2 :reportsTo ?y }", Failing(EngineError("down"))) == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["liita", "wikidata"])
def test_the_examples_of_packs_have_the_names_of_their_questions(name: str) -> None:
    pack = load_pack(name)
    engine = invented_engine(pack)
    for example in pack.examples:
        for one in (engine, None):
            found = QuestionCheck(example.question, pack, one).problems(with_prefixes(example.sparql, pack.prefixes))
            assert list(found) == []


@pytest.mark.long
def test_rows_are_printed_with_what_things_are_called(tmp_path: Path) -> None:
    (tmp_path / "staff.trig").write_text(STAFF)
    (tmp_path / "pack.toml").write_text('version = 1\nname = "staff"\nfile = "staff.trig"\n')
    query = "PREFIX : <http://company.example/hr#> SELECT ?who ?boss { ?who :reportsTo ?boss } ORDER BY ?who"
    place, given = "http://company.example/id/", ("--pack", tmp_path, "--run-on", "pack")
    done = run_refactx("validate", query, *given)
    rows = [f"who{' ' * 37}boss", f"Bo Lind {place}2     Ada Rossi {place}1", f"Cleo Marin {place}3  Bo Lind {place}2"]
    assert done.stdout.splitlines() == ["valid: 2 rows", *(f"  {row}" for row in rows)]
    done = run_refactx("sparql", query, "--run-on", tmp_path / "staff.trig")
    assert done.stdout.splitlines() == rows
    done = run_refactx("validate", query, *given, "--question", "Who is the boss of Dora?")
    assert done.returncode == 1
    assert 'L2 question: the question names "Dora", and the query does not have it' in done.stdout
