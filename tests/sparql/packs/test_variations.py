"""More examples of a pack: each is of another value or of two examples, has rows, and names what its query has."""

import json
import re
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

from refactx.cli.main import cli
from refactx.sparql.engines import Rows, SparqlEngine, open_file
from refactx.sparql.packs.invented import invented_engine
from refactx.sparql.packs.pack import Pack, PackExample, load_pack
from refactx.sparql.packs.prompt import with_prefixes
from refactx.sparql.packs.validation import validate
from refactx.sparql.packs.variations import variations

DATA = """@prefix ex: <http://e.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:a a ex:Dog ; ex:name "Rex" ; rdfs:label "Rex"@en ; ex:age 3 .
ex:b a ex:Dog ; ex:name "Bello" ; rdfs:label "Bello"@en .
ex:c a ex:Cat ; ex:name "Mia" ; rdfs:label "Mia"@en .
"""
AGE = 'SELECT ?age { ?x ex:name "Rex" ; ex:age ?age }'
KIND = 'SELECT ?kind { ?x a ?kind ; rdfs:label ?name FILTER(STR(?name) = "Rex") }'
LABELLED = 'SELECT ?kind { ?x a ?kind ; rdfs:label "Rex"@en }'
EXAMPLES = (
    PackExample(id="1", question="How old is 'Rex' (the king)?", sparql=AGE, patterns={"AGE": 1.0}),
    PackExample(id="2", question="What is 'Rex' (the king)?", sparql=KIND, patterns={"KIND": 1.0}),
    PackExample(id="3", question="Of what kind is Rex?", sparql=LABELLED, patterns={"KIND": 0.5}),
    PackExample(id="4", question="Which dogs are there?", sparql="SELECT ?x { ?x a ex:Dog }", patterns={"LIST": 1.0}),
    PackExample(
        id="5", question="What has an age?", sparql="SELECT ?x { ?x ex:age ?age } LIMIT 1", patterns={"HAS": 1.0}
    ),
    PackExample(id="6", question="How many dogs?", sparql="SELECT (COUNT(?x) AS ?n) { ?x a ex:Dog }"),
)


def small_pack() -> Pack:
    prefixes = {"ex": "http://e.org/", "rdfs": "http://www.w3.org/2000/01/rdf-schema#"}
    examples = tuple(replace(one, sparql=with_prefixes(one.sparql, prefixes)) for one in EXAMPLES)
    return Pack(name="x", title="x", version=1, languages=("en",), base="", prefixes=prefixes, examples=examples)


def rows_of(engine: SparqlEngine, sparql: str) -> set[tuple[str, ...]]:
    found = engine.run(sparql)
    assert isinstance(found, Rows)
    return {tuple(map(str, row)) for row in found.rows}


def test_values_are_other_ones_of_the_data_and_pairs_are_what_is_in_both(tmp_path: Path) -> None:
    (tmp_path / "data.ttl").write_text(DATA)
    engine, pack = open_file(tmp_path / "data.ttl"), small_pack()
    made = {one.id: one for seed in range(20) for one in variations(pack, engine, seed=seed)}
    questions = {one.question for one in made.values()}
    assert {f"{begin}{name}{end}" for name in ("Bello", "Mia") for begin, end in (
        ("What is '", "'?"), ("Of what kind is ", "?"),
    )} <= questions  # fmt: skip
    assert not any("How old" in question for question in questions), "no other has an age"
    assert {one.id for one in made.values() if "+" in one.id} <= {"4+5", "5+4", "2+3", "3+2"}
    pair = made.get("4+5") or made["5+4"]
    assert rows_of(engine, pair.sparql) == {("<http://e.org/a>",)}
    assert pair.patterns == {"LIST": 1.0, "HAS": 1.0}
    assert "Which dogs are there?" in pair.question
    engine.close()


def test_each_of_liita_passes_the_checks_and_has_rows() -> None:
    pack = load_pack("liita")
    engine, known = invented_engine(pack), {question for one in pack.examples for question in one.questions}
    made = list(variations(pack, engine, seed=1))
    assert [one.question for one in made] == [one.question for one in variations(pack, engine, seed=1)]
    assert len(made) == len({one.question for one in made}) >= 10
    origins = {one.id: one for one in pack.examples}
    for one in made:
        assert one.question not in known
        assert validate(one.sparql, pack, engine).count
        if "+" not in one.id:
            origin = origins[one.id.rpartition("-")[0]]
            new = {*re.findall(r"\w+", one.question)} - {*re.findall(r"\w+", origin.question)}
            assert new, one.question
            assert all(word in one.sparql for word in new)


def test_the_command_writes_a_file_that_is_read_as_questions(tmp_path: Path) -> None:
    out = tmp_path / "made.jsonl"
    given = ["pack", "examples", "liita", "--run-on", "invented", "--out", str(out), "--limit", "3"]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stdout == f"{out}: 3 examples\n"
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line.keys() >= {"id", "question", "sparql", "patterns"} for line in lines] == [True] * 3
