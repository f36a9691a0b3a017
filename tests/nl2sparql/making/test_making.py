"""First packs: what a survey finds is what is there, the files that are written can be read, and failures are borne."""

import string
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Store
from support.sparql.endpoint import Canned, Endpoint, running

from refactx.errors import InputError
from refactx.nl2sparql.draft import MakeOptions, make_pack, write_pack
from refactx.nl2sparql.pack import Example, load_pack
from refactx.nl2sparql.survey import FoundTerm, Survey, survey
from refactx.nl2sparql.validation import check_pack, validate
from refactx.sparql.engines import EndpointEngine, StoreEngine, open_file

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
    asked = Example(id="1", question=label, sparql="ASK { ?s ?p ?o }")
    with TemporaryDirectory() as name:
        write_pack(Path(name), label, found, [asked], title=title, endpoint=None, languages=("en", "it"))
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
        ("a.doc", "", "no ending of RDF"),
        ("a.ttl", "<a> <b>", "cannot be read"),
        ("b.ttl", None, "cannot be read"),
    ):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=reason):
            open_file(tmp_path / name)
