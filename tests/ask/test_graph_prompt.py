"""The prompt of a graph: its examples are facts of it, in English, the same each time, and stay with the index."""

from pathlib import Path

import pytest
from support.command import run_refactx
from support.ingest.tiny import ingest_tiny

import refactx
from refactx.ask.examples import KEPT, LINES, Examples, graph_examples, is_wikidata, prompt_for
from refactx.ask.prompt import check_prompt, load_prompt
from refactx.english import Relation
from refactx.walks import TreeFacts

ACME = """@prefix : <http://example.org/acme#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:AnnLee rdfs:label "Ann Lee" ; :worksFor :Acme ; :jobTitle "engineer" ; a :Person .
:BoBerg rdfs:label "Bo Berg" ; :worksFor :Acme ; :jobTitle "designer" ; a :Person ; :locatedIn :Graz .
:Acme rdfs:label "Acme Robotics" ; a :Company ; :hasProduct :K7 , :K8 ; :founded 1999 .
:K7 rdfs:label "K7 gripper" . :K8 rdfs:label "K8 arm" . :Graz rdfs:label "Graz" .
"""


@pytest.fixture(scope="module")
def acme(module_url: str, smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("acme") / "acme.ttl"
    file.write_text(ACME)
    done = run_refactx(
        "ingest", file, "--index", "acme", "--inverse", "--tokenizer", smollm2_folder, "--db", module_url
    )
    assert done.returncode == 0, done.stderr
    return module_url


def test_its_examples_are_questions_in_english_about_its_own_facts(acme: str) -> None:
    with refactx.open_index("acme", acme) as index:
        prompt, made = prompt_for(None, index), graph_examples(index)
        assert check_prompt(prompt, index) == []
    lines = [*made["channel"].splitlines(), *prompt.queries.splitlines()]
    for line in (
        "Fact: <Acme Robotics> <works for (inverse)> Question: Who works for Acme Robotics?",
        "Fact: <Acme Robotics> <has product> Question: Which products does Acme Robotics have?",
        "Fact: <Bo Berg> <located in> Question: Where is Bo Berg located?",
        "Query: count <Acme Robotics> <works for (inverse)> Question: How many people work for Acme Robotics?",
        "Query: count <Person> <has instance> which <works for> <Acme Robotics> "
        "Question: How many people work for Acme Robotics?",
    ):
        assert line in lines
    own = load_prompt("domain")
    invented = own.channel.strip().splitlines()  # questions in other words than the relation's come first
    assert prompt.channel.splitlines() == [*invented, *lines[: LINES + 1 - len(invented)]]
    assert prompt.words == own.words
    answers = [example.answer.rpartition("Answer: ")[2] for example in prompt.examples]
    assert {"yes", "2", "I don't know."} <= set(answers)


@pytest.mark.long
def test_they_are_kept_with_the_index_when_it_changes(acme: str, tmp_path: Path) -> None:
    more = tmp_path / "more.nt"
    more.write_text('<http://example.org/acme#Acme> <http://example.org/acme#motto> "grip it" .\n')
    with refactx.open_index("acme", acme) as index:
        kept = index.entry.report[KEPT]
        assert kept == graph_examples(index) == graph_examples(index)
    assert run_refactx("ingest", more, "--append", "--index", "acme", "--inverse", "--db", acme).returncode == 0
    assert run_refactx("index", "compact", "acme", "--db", acme).returncode == 0
    file = tmp_path / "acme.refactx"
    assert run_refactx("index", "export", "acme", file, "--db", acme).returncode == 0
    with refactx.open_index("acme", acme) as index, refactx.open_index(file) as exported:
        assert index.entry.report[KEPT] == exported.entry.report[KEPT] == kept
        assert prompt_for(None, exported) == prompt_for(None, index)


def test_wikidata_keeps_its_prompt(sample_url: str) -> None:
    with refactx.open_index(db=sample_url) as index:
        assert is_wikidata(index)
        assert prompt_for(None, index) == load_prompt() == load_prompt("wikidata")
        assert graph_examples(index) == {}


def test_an_index_of_text_has_the_examples_of_its_file_where_it_has_none_of_its_own(
    module_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "facts.txt"
    file.write_text("<1> <p> <2> .\n")
    ingest_tiny(module_url, file, "codes")
    with refactx.open_index("codes", module_url) as index:
        prompt, own = prompt_for(None, index), load_prompt("domain")
    assert prompt.examples == own.examples
    assert (prompt.channel.split("\n"), prompt.queries) == (own.channel.strip().split("\n"), own.queries.strip())


def test_the_page_asks_the_same_questions(acme: str) -> None:
    with refactx.open_index("acme", acme) as index:
        found = Examples(index, TreeFacts(index))
        asked = {one.question for seed in range(8) for one in found.some(9, seed)}
    assert {"Which company does Bo Berg work for?", "When was Acme Robotics founded?"} <= asked
    assert not any(" works for of " in question or "inverse" in question for question in asked)


@pytest.mark.parametrize(
    ("relation", "question"),
    [
        (Relation(predicate="works for"), "What does A work for?"),
        (Relation(predicate="has topping", many=True), "Which toppings does A have?"),
        (Relation(predicate="founded", is_date=True), "When was A founded?"),
        (Relation(predicate="owned by", things="Person"), "Who is A owned by?"),
        (Relation(predicate="director"), "Who is the director of A?"),
        (Relation(predicate="director of", forwards="director", things="Film"), "Which film has A as director?"),
        (Relation(predicate="located in (inverse)", forwards="located in"), "What is located in A?"),
        (Relation(predicate="has instance"), "Which as are there?"),
        (Relation(predicate="address: postal code"), "What is the address postal code of A?"),
        (Relation(predicate="languages", many=True), "What are the languages of A?"),
    ],
)
def test_questions_know_nouns_from_verbs(relation: Relation, question: str) -> None:
    assert relation.which("A") == question
