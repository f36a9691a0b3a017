"""Training data for PGMR: published formats, splits, what is left out, and scores of what a model wrote."""

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.doc_pages import DOCS, blocks
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import ingest_tiny
from support.query.pgmr import MadeNames

from bench.pgmr.__main__ import main
from bench.pgmr.examples import Example, read_examples
from bench.pgmr.prepare import prepared
from bench.pgmr.split import split_examples
from refactx.errors import InputError
from refactx.eval.sparql import ids_of
from refactx.sparql.placeholders.text import Style

QUERY = "SELECT ?x { wd:Q1 wdt:P1 ?x }"
LCQUAD = [
    {
        "uid": 7,
        "question": "Whose\n child?",
        "paraphrased_question": "?",
        "sparql_wikidata": f" {QUERY} ",
        "answer": [],
    },
    {"uid": 8, "question": "n/a", "paraphrased_question": "Who is it?", "sparql_wikidata": QUERY},
    {"uid": 9, "question": None, "paraphrased_question": [], "sparql_wikidata": QUERY},
]
QALD = {
    "dataset": {"id": "qald-10"},
    "questions": [
        {
            "id": "1",
            "question": [{"language": "de", "string": "Wer?"}, {"language": "en", "string": "Who?"}],
            "query": {"sparql": QUERY},
            "answers": [],
        }
    ],
}
OWN = [{"id": "a", "question": "Who?", "sparql": QUERY, "kind": "single"}]
LINES: list[Line] = [
    *(("label", f"Q{number}", f"Name {number}", "en") for number in range(1, 9)),
    ("label", "P1", "child", "en"),
    *(("claim", f"Q{number}", "P1", f"Q{number + 1}") for number in range(1, 8)),
]
EXAMPLES = st.lists(
    st.lists(st.sampled_from(["Q1", "Q2", "Q3", "Q4", "P1", "P2"]), max_size=3).map(
        lambda ids: Example("", "?", "ASK { " + " ".join(f"wd:{id_} ?p ?x ." for id_ in ids) + " }")
    ),
    max_size=12,
)


def saved(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_published_formats_are_read(tmp_path: Path) -> None:
    found = read_examples(saved(tmp_path / "lcquad.json", LCQUAD))
    assert found == [Example("7", "Whose child?", QUERY), Example("8", "Who is it?", QUERY), Example("9", "", QUERY)]
    assert read_examples(saved(tmp_path / "qald.json", QALD)) == [Example("1", "Who?", QUERY)]
    lines = tmp_path / "own.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in OWN * 2))
    assert read_examples(lines) == [Example("a", "Who?", QUERY)] * 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("who?", "cannot be read as JSON or JSON lines"),
        ("[]", "has no questions"),
        ('[{"a": 1}]', r"record 1 has a: expected LC-QuAD 2.0 \(sparql_wikidata\), QALD \(query\), or"),
        ("[7]", "record 1 has int"),
    ],
)
def test_other_files_are_one_clear_error(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_examples(tmp_path / "file")


@given(EXAMPLES, st.floats(0, 1), st.integers(0, 5))
def test_each_test_question_of_unknown_uris_has_one_that_training_has_not(
    examples: list[Example], share: float, seed: int
) -> None:
    training, testing = split_examples(examples, "unknown-uri", share, seed)
    known = frozenset[str]().union(*(ids_of(example.sparql).all for example in training))
    assert all(ids_of(example.sparql).all - known for example in testing)
    assert len(testing) <= round(share * len(examples))
    assert Counter([*training, *testing]) == Counter(examples)


@given(EXAMPLES, st.floats(0, 1), st.integers(0, 5))
def test_a_random_split_has_its_share_and_is_the_same_again(examples: list[Example], share: float, seed: int) -> None:
    training, testing = split_examples(examples, "random", share, seed)
    assert len(testing) == round(share * len(examples))
    assert Counter([*training, *testing]) == Counter(examples)
    assert split_examples(examples, "random", share, seed) == (training, testing)


def test_what_is_left_out_is_counted_by_reason() -> None:
    left_out = Counter[str]()
    queries = [QUERY, "", "who?", "ASK { wd:q1 ?p ?x }"]
    examples = [Example("1", "Who?", query) for query in queries] + [Example("2", "", QUERY)]
    rows = prepared(examples, MadeNames(), Style(), left_out)
    assert [row["sparql"] for row in rows] == [QUERY]
    assert rows[0]["pgmr"].startswith("SELECT ?x { wd:entity1 wdt:relation1 ?x }\nentity1 = [ENT] Name of Q1 [/ENT]")
    assert left_out == {
        "there is no query": 1,
        "the query is not SPARQL": 1,
        "an id is misspelt": 1,
        "there is no question": 1,
    }


@pytest.fixture(scope="module")
def url(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("people") / "graph.nt"
    path.write_text("".join(written(line) + "\n" for line in LINES))
    ingest_tiny(module_url, path)
    return module_url


def test_data_is_prepared_and_what_a_model_wrote_is_scored_by_names_of_an_index(url: str, tmp_path: Path) -> None:
    def run(*arguments: object) -> str:
        done = CliRunner().invoke(main, [*map(str, arguments), "--db", url], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    questions = [
        {"id": str(n), "question": f"{n}?", "sparql": f"ASK {{ wd:Q{n} wdt:P1 wd:Q{n + 1} }}"} for n in range(1, 9)
    ]
    source = saved(tmp_path / "questions.json", questions)
    shown = run("prepare", source, "--split", "unknown-uri", "--share", 0.5, "--out", tmp_path / "data")
    assert "left out: 1 because an id has no name in the index" in shown
    test, train = rows_of(tmp_path / "data" / "test.jsonl"), rows_of(tmp_path / "data" / "train.jsonl")
    assert len(test) + len(train) == 7
    assert run("round-trip", source).splitlines()[:2] == ["block: 7 of 8 are the same query again", "  1: not written"]

    texts = [row["pgmr"] for row in train]
    texts[0] = texts[0].replace("[ENT] Name", "[ENT] No name", 1)  # refused
    texts[1] = texts[1].replace("}", "")  # no SPARQL
    file = tmp_path / "written.jsonl"
    rows = [row | {"written": text} for row, text in zip(train, texts, strict=True)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = json.loads(run("evaluate", file, "--out", tmp_path / "resolved.jsonl"))
    right = round((len(train) - 2) / len(train), 4)
    assert (scores["sqm_strict"], scores["qid_em"], scores["hallucinated"]) == (right, right, 0)
    assert (scores["is_pgmr"], scores["refused"]) == (round(1 - 1 / len(train), 4), round(1 / len(train), 4))
    resolved = rows_of(tmp_path / "resolved.jsonl")
    assert "no entity of the index is called <No name" in resolved[0]["error"]
    assert resolved[2]["resolved"] == train[2]["sparql"]


def test_the_commands_of_the_recipe_and_their_options_exist() -> None:
    text = "\n".join(blocks(DOCS / "how-to" / "fine-tune.md", "")).replace("\\\n", " ")
    lines = [shlex.split(line)[4:] for line in text.splitlines() if line.startswith("$ python -m bench.pgmr ")]
    assert {name for name, *_ in lines} == set(main.commands)
    for name, *words in lines:
        known = {option for parameter in main.commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known
