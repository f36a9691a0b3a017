"""First packs of an endpoint or a file: `refactx pack make`, and the tutorial that makes one."""

import gzip
import json
import os
import re
import shlex
import socket
import string
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Store
from support.command import complains, run_refactx
from support.doc_pages import DOCS, blocks
from support.ingest.living_index import LivingIndex
from support.sparql.endpoint import Canned, Endpoint, running

from refactx.errors import InputError
from refactx.sparql.engines import EndpointEngine, EngineError, Result, Rows, StoreEngine, UnreachableError, open_file
from refactx.sparql.packs.draft import MakeOptions, make_pack, write_pack
from refactx.sparql.packs.invented import engine_for
from refactx.sparql.packs.pack import PackExample, built_in_packs, load_pack
from refactx.sparql.packs.survey import FoundTerm, Survey, survey
from refactx.sparql.packs.validation import check_pack, validate

COMPANY = """
@prefix : <http://company.example/hr#> .
@prefix id: <http://company.example/id/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:Employee rdfs:label "employee"@en, "dipendente"@it ; rdfs:comment "Who works here."@en .
:reportsTo rdfs:label "manager"@en ; rdfs:domain :Employee ; rdfs:range :Employee .
id:sales a :Department ; rdfs:label "Sales" .
id:ada a :Employee ; rdfs:label "Ada Rossi" ; :memberOf id:sales ; :salary 52000 ; :hired "2016-03-01"^^xsd:date .
id:bo a :Employee ; rdfs:label "Bo Lind" ; :memberOf id:sales ; :reportsTo id:ada ; :salary 41000 .
"""
HR, TYPE = "http://company.example/hr#", NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
GROUPED = "COUNT("


def company() -> Store:
    store = Store()
    store.load(COMPANY, format=RdfFormat.TURTLE)
    return store


def test_a_pack_has_what_the_data_has(tmp_path: Path) -> None:
    engine = StoreEngine(company())
    made = make_pack(
        engine, tmp_path / "p", "company", MakeOptions(languages=("en", "it"), endpoint="http://e.org/sparql")
    )
    pack = made.pack
    assert (made.by, made.notes, pack.name, pack.endpoint) == ("sampling", (), "company", "http://e.org/sparql")
    assert {iri for iri, term in pack.schema.items() if term.kind == "class"} == {f"{HR}Employee", f"{HR}Department"}
    employee, manager = pack.schema[f"{HR}Employee"], pack.schema[f"{HR}reportsTo"]
    assert (employee.labels, employee.comment) == ({"en": "employee", "it": "dipendente"}, "Who works here.")
    assert (manager.labels, manager.domain, manager.range) == (
        {"en": "manager"},
        (f"{HR}Employee",),
        (f"{HR}Employee",),
    )
    assert pack.schema[f"{HR}salary"].range == ("http://www.w3.org/2001/XMLSchema#integer",)
    assert pack.schema[f"{HR}memberOf"].labels == {"en": "member of"}
    assert pack.prefixes["hr"] == HR and pack.vocabularies == ("hr",)
    questions = {one.question for one in pack.examples}
    assert {
        "How many employees are there?",
        "What is the manager of 'Bo Lind'?",
        "Which employee has the highest salary?",
    } < questions
    assert any("Quante istanze di «dipendente» ci sono?" in one.variants["it"] for one in pack.examples)
    found = check_pack(pack, engine)
    assert (found.problems, found.ran) == ((), len(pack.examples))


def test_things_without_classes_have_examples_too(tmp_path: Path) -> None:
    store = company()
    for quad in list(store.quads_for_pattern(None, TYPE, None)):
        store.remove(quad)
    engine = StoreEngine(store)
    pack = make_pack(engine, tmp_path, "company").pack
    assert {"What is the manager of 'Bo Lind'?", "Which things have 'Ada Rossi' as manager?"} <= {
        one.question for one in pack.examples
    }
    assert check_pack(pack, engine).problems == ()


def test_made_up_names_are_found_in_queries_by_a_made_pack(tmp_path: Path) -> None:
    pack = make_pack(StoreEngine(company()), tmp_path, "company").pack
    query = f"PREFIX hr: <{HR}> SELECT ?x {{ ?x hr:wage ?y }}"
    assert [one.text for one in validate(query, pack).problems] == ["hr:wage is unknown: company has no such name"]


def test_what_a_named_graph_alone_has_is_a_rule(tmp_path: Path) -> None:
    store = company()
    pay = NamedNode("http://company.example/graph/pay")
    for quad in list(store.quads_for_pattern(None, NamedNode(f"{HR}salary"), None)):
        store.remove(quad)
        store.add(Quad(quad.subject, quad.predicate, quad.object, pay))
    pack = make_pack(StoreEngine(store), tmp_path, "company").pack
    assert pack.graphs == {"PAY": pay.value}
    asked = f"PREFIX hr: <{HR}> SELECT ?x {{ %s }}"
    assert [one.code for one in validate(asked % "?x hr:salary ?y", pack).problems] == ["rule.graph-pay"]
    assert validate(asked % f"GRAPH <{pay.value}> {{ ?x hr:salary ?y }}", pack).ok
    assert any(f"GRAPH <{pay.value}>" in one.sparql for one in pack.examples)
    assert check_pack(pack, StoreEngine(store)).problems == ()


CLASSES, PROPERTIES = ["A", "B"], ["p", "q"]
TRIPLES = st.sets(
    st.tuples(
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from([*PROPERTIES, "type"]),
        st.sampled_from(["x", "y", *CLASSES, "1"]),
    ),
    min_size=1,
    max_size=12,
)


def by_hand(triples: set[tuple[str, str, str]]) -> tuple[dict[str, int], dict[str, int], dict[str, set[str]]]:
    """The classes and properties with how often they are there, and the classes of each property's subjects, none if a
    subject has no class."""
    types = {(s, o) for s, p, o in triples if p == "type" and o != "1"}
    classes, properties, domains = defaultdict[str, int](int), defaultdict[str, int](int), dict[str, set[str]]()
    for _, kind in types:
        classes[kind] += 1
    for _, p, _ in triples:
        properties[p] += 1
    for name in properties.keys() - {"type"}:
        subjects = {s for s, p, _ in triples if p == name}
        kinds = [{kind for one, kind in types if one == s} for s in subjects]
        domains[name] = set().union(*kinds) if all(kinds) else set()
    return dict(classes), dict(properties), domains


@settings(max_examples=20)
@given(TRIPLES)
def test_a_survey_counts_as_by_hand(triples: set[tuple[str, str, str]]) -> None:
    def node(name: str) -> NamedNode:
        return TYPE if name == "type" else NamedNode(f"http://e.org/{name}")

    store = Store()
    for s, p, o in triples:
        store.add(Quad(node(s), node(p), Literal(1) if o == "1" else node(o)))
    found = survey(StoreEngine(store))
    classes, properties, domains = by_hand(triples)
    assert {one.iri: one.count for one in found.classes} == {node(name).value: n for name, n in classes.items()}
    assert {one.iri: one.count for one in found.properties} == {node(name).value: n for name, n in properties.items()}
    for one in found.properties:
        if one.iri != TYPE.value:
            expected = {node(name).value for name in domains[one.iri[-1]]}
            assert set(one.domain) == (expected if len(expected) <= 4 else set())


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(
    lambda text: text.strip() == text != ""
)


@settings(max_examples=60)
@given(TEXT, TEXT, st.text(string.printable, max_size=30))
@example("title", "´", "")  # which is a space without its accent
def test_whatever_things_are_called_a_pack_can_be_read(title: str, label: str, comment: str) -> None:
    term = FoundTerm(
        iri="http://e.org/v#A", count=1, places=("http://e.org/g",), labels={"en": label}, comment=comment.strip()
    )
    found = Survey(
        graphs=("http://e.org/g",),
        classes=(term,),
        properties=(),
        whole=True,
        by="sampling",
        namespaces=(),
        label=None,
        notes=(),
    )
    asked = PackExample(id="1", question=label, sparql="ASK { ?s ?p ?o }")
    with TemporaryDirectory() as name:
        write_pack(Path(name), label, found, [asked], title=title, place={}, languages=("en", "it"))
        pack = load_pack(name)
    assert (pack.name, pack.title, pack.examples[0].question) == (label, title, label)
    assert pack.schema[term.iri].labels == {"en": label} and pack.schema[term.iri].comment == comment.strip()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with running(company()) as found:
        yield found


def test_a_pack_by_an_endpoint_is_that_of_its_data(endpoint: Endpoint, tmp_path: Path) -> None:
    by_url = make_pack(EndpointEngine(endpoint.url), tmp_path / "url", "company").pack
    by_store = make_pack(StoreEngine(company()), tmp_path / "store", "company").pack
    assert by_url.fingerprint == by_store.fingerprint


def test_an_endpoint_that_cannot_count_is_sampled(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries that count without a sample are too much for it."""
    reply = endpoint.reply
    too_much = Canned(400, "text/plain", b"too expensive")
    monkeypatch.setattr(
        endpoint,
        "reply",
        lambda request: (
            too_much
            if GROUPED in request.query and "LIMIT" not in request.query.partition("GROUP BY")[0]
            else reply(request)
        ),
    )
    made = make_pack(EndpointEngine(endpoint.url), tmp_path, "company")
    assert {term.rpartition("#")[2] for term in made.pack.schema} >= {"Employee", "Department", "salary", "reportsTo"}
    assert made.pack.vocabularies == ()  # a sample may lack names
    assert any("too expensive" in note for note in made.notes)


def test_an_endpoint_that_describes_itself_is_believed(tmp_path: Path) -> None:
    store = company()
    store.load(
        f"""@prefix void: <http://rdfs.org/ns/void#> . <http://e.org/d> a void:Dataset ;
        void:classPartition [ void:class <{HR}Employee> ; void:entities 2 ] ;
        void:propertyPartition [ void:property <{HR}salary> ; void:triples 2 ] .""",
        format=RdfFormat.TURTLE,
    )
    made = make_pack(StoreEngine(store), tmp_path, "company")
    assert made.by == "VoID"
    assert set(made.pack.schema) == {f"{HR}Employee", f"{HR}salary"}


def test_the_number_of_queries_is_bounded(endpoint: Endpoint, tmp_path: Path) -> None:
    made = make_pack(EndpointEngine(endpoint.url), tmp_path, "company", MakeOptions(queries=8))
    assert len(endpoint.requests) <= 16
    assert any("number of queries is used up" in note for note in made.notes)


def test_an_endpoint_without_data_and_one_that_fails_are_said(endpoint: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no class and no property was found at store"):
        make_pack(StoreEngine(Store()), tmp_path, "x")
    endpoint.always = Canned(403, "text/plain", b"members only")
    with pytest.raises(InputError, match="refuses access"):
        make_pack(EndpointEngine(endpoint.url), tmp_path, "x")
    assert list(tmp_path.iterdir()) == []


def test_a_pack_is_not_overwritten(tmp_path: Path) -> None:
    make_pack(StoreEngine(company()), tmp_path, "one")
    with pytest.raises(InputError, match="has a pack already"):
        make_pack(StoreEngine(company()), tmp_path, "two")
    assert load_pack(tmp_path).name == "one"


def test_files_that_are_no_rdf(tmp_path: Path) -> None:
    for name, text, reason in (
        ("a.doc", "", "is empty"),
        ("a.ttl", "<a> <b>", "is not Turtle"),
        ("b.ttl", None, "does not exist"),
        ("c.csv", "a,b\n1,2\n", "expected RDF"),
    ):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=reason):
            open_file(tmp_path / name)


TURTLE = """@prefix : <http://zoo.example/v#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<http://zoo.example/leo> a :Lion ; rdfs:label "Leo" ; :eats "meat" ; :weight 190 .
"""


def test_the_packs_that_come_with_refactx() -> None:
    assert [one["name"] for one in json.loads(run_refactx("pack", "list", "--json").stdout)] == list(built_in_packs())
    shown = run_refactx("pack", "show", "liita").stdout
    assert "endpoint     https://liita.it/sparql" in shown and "examples     139" in shown


def test_examples_for_a_question_with_the_parts_of_their_scores() -> None:
    done = run_refactx("pack", "retrieve", "Quali lemmi esprimono 'tristezza'?", "--pack", "liita", "--top", "2")
    assert done.stderr == "no encoder (--encoder): BM25 has 0.50 of the score, patterns 0.50\n"
    patterns, titles, *rows = done.stdout.splitlines()
    assert patterns == "patterns: EMOTION_LEXICON 1.00 (lemmi esprimono)"
    assert titles.split() == ["score", "bm25", "pattern", "example"]
    assert len(rows) == 2 and rows[0].endswith("125: Quali parole sono associate all'emozione 'paura'?")
    score, words, pattern = map(float, rows[0].split()[:3])
    assert score == pytest.approx((words + pattern) / 2, abs=0.001)


def test_an_encoder_of_ones_own_and_weights() -> None:
    question = ["pack", "retrieve", "How many senses does 'x' have?", "--pack", "liita", "--json", "--top", "1"]
    encoder = ["--encoder", "support.translate.word_encoder:WordEncoder", "--weights", "1,0,0"]
    tests = Path(__file__).parents[2]
    done = run_refactx(*question, *encoder, env={"PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"})
    (best,) = json.loads(done.stdout)["examples"]
    assert best["id"] in ("68", "123") and best["score"] == pytest.approx(best["dense"], abs=0.001)


def test_a_pack_of_a_file_is_made_checked_and_asked(tmp_path: Path) -> None:
    (tmp_path / "zoo.ttl").write_text(TURTLE)
    made = run_refactx("pack", "make", "zoo", "--file", "zoo.ttl", "--title", "The zoo", cwd=tmp_path)
    assert made.stdout.startswith("pack zoo in zoo (by sampling): 5 classes and properties, 0 graphs, ")
    checked = run_refactx("pack", "check", "./zoo", "--run-on", "pack", "--json", cwd=tmp_path)
    assert (checked.returncode, json.loads(checked.stdout)["problems"]) == (0, [])
    assert json.loads(checked.stdout)["ran"] >= 4
    asked = run_refactx(
        "pack", "retrieve", "How heavy is 'Leo', what is its weight?", "--pack", "zoo", "--sparql", cwd=tmp_path
    )
    assert "v:weight" in asked.stdout


@pytest.mark.long
def test_a_pack_of_an_index_is_made_of_its_store_and_runs_there(
    stored: LivingIndex, people: LivingIndex, tmp_path: Path
) -> None:
    made = run_refactx("pack", "make", "people", "--index", "stored", "--db", stored.url, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    pack = load_pack(tmp_path / "people")
    assert (pack.index, pack.place, pack.endpoint) == ("stored", "stored", None)
    (child,) = (term.iri for term in pack.schema.values() if term.labels == {"en": "child"})
    for where in ("pack", "stored"):
        checked = run_refactx("pack", "check", "people", "--run-on", where, "--db", stored.url, cwd=tmp_path)
        assert checked.stdout.endswith(f"{len(pack.examples)} of them with rows, 0 problems\n"), checked.stderr
    asked = run_refactx(
        "validate", f"ASK {{ ?x <{child}> ?y }}", "--pack", tmp_path / "people", "--run-on", "pack", "--db", stored.url
    )
    assert asked.stdout == "valid: yes\n"
    refused = complains("pack", "make", "other", "--index", "people", "--db", people.url)
    assert refused == "refactx: index 'people' has no store: run `refactx store build people`"


def test_a_pack_of_a_compressed_file_is_moved_with_it(tmp_path: Path) -> None:
    home, there = tmp_path / "home", tmp_path / "there"
    home.mkdir()
    (home / "zoo.data.gz").write_bytes(gzip.compress(TURTLE.encode()))
    make_pack(open_file(home / "zoo.data.gz"), home / "packs" / "zoo", "zoo", MakeOptions(file=home / "zoo.data.gz"))
    home.rename(there)
    pack = load_pack(there / "packs" / "zoo")
    assert pack.file == there / "zoo.data.gz"
    engine = engine_for(pack, None, lambda _: pytest.fail("no index is needed"))
    assert engine is not None
    assert check_pack(pack, engine).problems == ()
    made = make_pack(
        engine, tmp_path / "at", "zoo", MakeOptions(file=tmp_path / "x.ttl", endpoint="http://e.org/s", index="i")
    )
    assert (made.pack.place, made.pack.file, made.pack.index) == ("http://e.org/s", None, None)


def test_a_pack_with_a_wrong_example_fails_its_check(tmp_path: Path) -> None:
    (tmp_path / "zoo.ttl").write_text(TURTLE)
    run_refactx("pack", "make", "zoo", "--file", "zoo.ttl", cwd=tmp_path)
    wrong = {
        "id": "w",
        "question": "How long is its mane?",
        "sparql": "PREFIX v: <http://zoo.example/v#> SELECT ?x { ?y v:mane ?x }",
    }
    with (tmp_path / "zoo" / "examples.jsonl").open("a") as file:
        file.write(json.dumps(wrong) + "\n")
    done = run_refactx("pack", "check", "zoo", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("example w: v:mane is unknown: zoo has no such name")


class Failing:
    """An engine that answers the first queries with errors."""

    name = "http://x.example/sparql"

    def __init__(self, *errors: EngineError) -> None:
        self.errors, self.asked = list(errors), 0

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return Rows((), [])

    def close(self) -> None: ...


def test_an_endpoint_that_answers_no_query_is_asked_once_and_the_rest_is_told_once() -> None:
    pack = load_pack("liita")
    first, second, *_ = pack.examples
    engine = Failing(EngineError("it broke"), UnreachableError("nobody there"))
    assert check_pack(pack, engine).problems == (
        f"example {first.id}: it broke",
        f"example {second.id}: nobody there",
        f"http://x.example/sparql was not asked for the last {len(pack.examples) - 2} examples",
    )
    assert engine.asked == 2


def write_plain_pack(folder: Path) -> Path:
    """A pack that does not say where its queries run."""
    folder.mkdir()
    (folder / "pack.toml").write_text('version = 1\nname = "wiki"\n', encoding="utf-8")
    return folder


@pytest.mark.long
def test_mistakes_are_said_in_one_line(tmp_path: Path) -> None:
    assert "the pack wiki has no endpoint, file or index" in complains(
        "pack", "check", write_plain_pack(tmp_path / "wiki"), "--run-on", "pack"
    )
    assert "there is no pack nope" in complains("pack", "show", "nope")
    assert "the question is empty" in complains("pack", "retrieve", " ", "--pack", "liita")
    assert "Give --endpoint URL, --index NAME or --file FILE" in complains("pack", "make", "zoo")
    assert "does not exist" in complains("pack", "make", "zoo", "--file", tmp_path / "zoo.doc")
    assert "begins with http" in complains("pack", "make", "zoo", "--endpoint", "zoo")
    assert "exclude each other" in complains("pack", "make", "zoo", "--index", "zoo", "--file", "x.ttl")
    assert "three numbers" in complains("pack", "retrieve", "q", "--pack", "liita", "--weights", "1")


PAGE = DOCS / "tutorials" / "your-own-endpoint.md"
SERVER = Path(sys.executable).with_name("oxigraph")
ADDRESS = "127.0.0.1:7878"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run the page's server on a free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    for words in (shlex.split(line[2:]) for line in blocks(PAGE, "")[0].splitlines() if line.startswith("$ oxigraph")):
        command = [str(SERVER), *[address if word == ADDRESS else word for word in words[1:]]]
        if "serve" not in command[1]:
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        assert any("Listening" in line for line in server.stderr)
        yield address
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "company.ttl").write_text(blocks(PAGE, "turtle")[0], encoding="utf-8")
    return tmp_path


def steps() -> tuple[str, str, str]:
    """Return the page's blocks: a pack of the endpoint; the check of one's example; a question."""
    making, checking, asking = [block for block in blocks(PAGE, "") if "$ refactx" in block]
    return making, checking, asking


def add_example(folder: Path) -> None:
    with (folder / "company" / "examples.jsonl").open("a", encoding="utf-8") as file:
        file.write(blocks(PAGE, "json")[0])


@pytest.mark.long
@pytest.mark.skipif(not SERVER.exists(), reason="oxigraph is not installed")
def test_the_tutorial_with_a_server_does_what_it_says(folder: Path, smollm2_folder: Path) -> None:
    making, checking, asking = steps()
    with served(folder) as address:
        follow(making.replace(ADDRESS, address), folder)
        add_example(folder)
        shown = follow(checking, folder)
        follow(asking.replace("--model demo", f"--model {smollm2_folder}"), folder)
    assert re.search(r"^0\.\d+ .* boss: Who is Bo Lind's boss\?$", shown.splitlines()[2])


@pytest.mark.long
def test_the_tutorial_without_a_server_does_what_it_says(folder: Path, smollm2_folder: Path) -> None:
    making, checking, asking = steps()
    endpoint = f"--endpoint http://{ADDRESS}/query"
    assert endpoint in making
    follow(making.replace(endpoint, "--file company.ttl"), folder)
    add_example(folder)
    follow(checking, folder)
    follow(asking.replace("--model demo", f"--model {smollm2_folder}"), folder)


def follow(block: str, folder: Path) -> str:
    """Run the commands of a block; each prints what the block shows after it. Returns what the last one printed."""
    printed = ""
    for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, expected = command.partition("\n")
        done = run_refactx(*shlex.split(line)[1:], cwd=folder)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
        kept = [one for one in printed.splitlines() if not one.startswith("note: ")]
        if expected.strip():
            assert kept == expected.strip().splitlines()
    return printed
