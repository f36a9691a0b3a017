"""`refactx pack` as it is typed."""

import json
from pathlib import Path

import pytest
from support.command import complains, run_refactx

from refactx.nl2sparql.pack import built_in_packs, load_pack
from refactx.nl2sparql.validation import check_pack
from refactx.sparql.engines import EngineError, Result, Rows, UnreachableError

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
    encoder = ["--encoder", "support.nl2sparql.word_encoder:WordEncoder", "--weights", "1,0,0"]
    done = run_refactx(*question, *encoder, env={"PYTHONPATH": str(Path(__file__).parents[2])})
    (best,) = json.loads(done.stdout)["examples"]
    assert best["id"] in ("68", "123") and best["score"] == pytest.approx(best["dense"], abs=0.001)


def test_a_pack_of_a_file_is_made_checked_and_asked(tmp_path: Path) -> None:
    (tmp_path / "zoo.ttl").write_text(TURTLE)
    made = run_refactx("pack", "make", "zoo", "--file", "zoo.ttl", "--title", "The zoo", cwd=tmp_path)
    assert made.stdout.startswith("pack zoo in zoo (by sampling): 5 classes and properties, 0 graphs, ")
    checked = run_refactx("pack", "check", "./zoo", "--file", "zoo.ttl", "--json", cwd=tmp_path)
    assert (checked.returncode, json.loads(checked.stdout)["problems"]) == (0, [])
    assert json.loads(checked.stdout)["ran"] >= 4
    asked = run_refactx(
        "pack", "retrieve", "How heavy is 'Leo', what is its weight?", "--pack", "zoo", "--sparql", cwd=tmp_path
    )
    assert "v:weight" in asked.stdout


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


def test_mistakes_are_said_in_one_line(tmp_path: Path) -> None:
    assert "there is no pack nope" in complains("pack", "show", "nope")
    assert "the question is empty" in complains("pack", "retrieve", " ", "--pack", "liita")
    assert "Give --endpoint URL, or --file FILE" in complains("pack", "make", "zoo")
    assert "has no ending of RDF" in complains("pack", "make", "zoo", "--file", tmp_path / "zoo.doc")
    assert "begins with http" in complains("pack", "make", "zoo", "--endpoint", "zoo")
    assert "exclude each other" in complains("pack", "check", "liita", "--endpoint", "pack", "--file", "x.ttl")
    assert "three numbers" in complains("pack", "retrieve", "q", "--pack", "liita", "--weights", "1")
