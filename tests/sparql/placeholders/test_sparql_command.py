"""`refactx sparql to-pgmr` and `from-pgmr`, as a user types them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.command import complains, run_refactx
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import ingest_tiny

from refactx.cli.main import cli
from refactx.errors import InputError

LINES: list[Line] = [
    ("label", "Q1", "Ann", "en"),
    ("description", "Q1", "a girl", "en"),
    ("label", "Q2", "Ann", "en"),
    ("description", "Q2", "a town", "en"),
    ("label", "Q3", "Bob", "en"),
    ("label", "P1", "child", "en"),
    *(("claim", subject, "P1", object_) for subject, object_ in (("Q1", "Q2"), ("Q2", "Q3"), ("Q3", "Q1"))),
]
SPARQL = "PREFIX wd: <http://www.wikidata.org/entity/>\nSELECT ?x # the children of Ann\n{ wd:Q1 wdt:P1 ?x }"
BLOCK = "entity1 = [ENT] Ann [/ENT] a girl"
CHILD = "relation1 = [REL] child [/REL]"


@pytest.fixture(scope="module")
def url(module_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("people") / "graph.nt"
    path.write_text("".join(written(line) + "\n" for line in LINES))
    ingest_tiny(module_url, path)
    return module_url


def run(command: str, *arguments: object, text: str = "", url: str) -> Result:
    """The command in this process, with a text as standard input."""
    given = ["sparql", command, *map(str, arguments), "--db", url]
    return CliRunner().invoke(cli, given, input=text, catch_exceptions=True)


def printed(command: str, *arguments: object, text: str = "", url: str) -> str:
    done = run(command, *arguments, text=text, url=url)
    assert done.exit_code == 0, done.output
    return done.stdout


def documents(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_query_in_a_file_becomes_pgmr_text_and_the_same_query_again(url: str, tmp_path: Path) -> None:
    (tmp_path / "query.rq").write_text(SPARQL)
    done = run_refactx("sparql", "to-pgmr", tmp_path / "query.rq", "--whole", "--db", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{SPARQL.replace('Q1', 'entity1').replace('P1', 'relation1')}\n{BLOCK}\n{CHILD}\n"
    again = run_refactx("sparql", "from-pgmr", "--whole", "--db", url, input=done.stdout)
    assert (again.returncode, again.stderr, again.stdout) == (0, "", f"{SPARQL}\n")


def test_each_line_of_a_file_is_a_query(url: str) -> None:
    text = "ASK { wd:Q1 wdt:P1 wd:Q3 }\n\nASK { wd:Q2 ?p 'wd:Q1' }\n"
    pgmr = printed("to-pgmr", text=text, url=url)
    assert pgmr.splitlines() == [
        f"ASK {{ wd:entity1 wdt:relation1 wd:entity2 }} {BLOCK} entity2 = [ENT] Bob [/ENT] {CHILD}",
        "",
        "ASK { wd:entity1 ?p 'wd:Q1' } entity1 = [ENT] Ann [/ENT] a town",
    ]
    assert printed("from-pgmr", text=pgmr, url=url) == text


def test_json_lines_have_a_field_more(url: str) -> None:
    rows = [{"id": 7, "sparql": SPARQL, "question": "whose child?"}, {"id": 8, "sparql": "ASK { wd:Q3 wdt:P1 [] }"}]
    found = [json.loads(line) for line in printed("to-pgmr", text=documents(rows), url=url).splitlines()]
    assert [list(row) for row in found] == [[*row, "pgmr"] for row in rows]
    assert found[0]["pgmr"].endswith(f"?x }}\n{BLOCK}\n{CHILD}")
    back = [{"id": row["id"], "pgmr": row["pgmr"]} for row in found]
    again = printed("from-pgmr", "--to", "query", text=documents(back), url=url)
    assert [json.loads(line)["query"] for line in again.splitlines()] == [row["sparql"] for row in rows]


def test_the_styles_of_the_paper_are_options(url: str) -> None:
    options = ["--lower", "--no-prefixes", "--one-line", "--whole"]
    block = printed("to-pgmr", *options, text=SPARQL, url=url)
    assert (
        block
        == "select ?x { wd:entity1 wdt:relation1 ?x } entity1 = [ent] ann [/ent] a girl relation1 = [rel] child [/rel]\n"
    )
    inline = printed("to-pgmr", "--dialect", "inline", *options, text=SPARQL.replace("Q1", "Q3"), url=url)
    assert inline == "select ?x { wd:starturi bob enduri wdt:starturi child enduri ?x }\n"
    assert printed("from-pgmr", "--ignore-case", text=block, url=url) == "select ?x { wd:Q1 wdt:P1 ?x }\n"
    assert printed("from-pgmr", "--ignore-case", text=inline, url=url) == "select ?x { wd:Q3 wdt:P1 ?x }\n"
    declared = printed("from-pgmr", "--ignore-case", "--prefixes", text=inline, url=url)
    assert declared.startswith("PREFIX wd: <http://www.wikidata.org/entity/> PREFIX wdt: <http")


def test_what_is_not_converted_is_told_by_line_and_the_rest_is_converted(url: str) -> None:
    text = "ASK { wd:Q1 wdt:P1 ?x }\nASK { wd:Q404 ?p ?x }\nSELECT\n"
    done = run("to-pgmr", text=text, url=url)
    assert done.stdout.splitlines() == [f"ASK {{ wd:entity1 wdt:relation1 ?x }} {BLOCK} {CHILD}", "", ""]
    errors = done.stderr.splitlines()
    assert errors[0] == "refactx: line 2: Q404 has no name"
    assert errors[1].startswith("refactx: line 3: this is not SPARQL: line 1, column 7, at the end: expected a query")
    assert isinstance(done.exception, InputError)
    assert str(done.exception).startswith("2 of 3 queries are not converted, the first on line 2")


def test_a_document_that_is_not_converted_has_the_error(url: str) -> None:
    rows = [{"pgmr": "ASK { wd:entity1 ?p ?x } entity1 = [ENT] Ann [/ENT]"}, {"text": "?"}]
    done = run("from-pgmr", text=documents(rows) + "{\n", url=url)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert "2 entities of the index are called <Ann>: <Ann (a girl)>, <Ann (a town)>" in found[0]["error"]
    assert found[1] == {"text": "?", "error": "the document has no text pgmr: name its field with --from"}
    assert found[2]["error"].startswith("this is no line of JSON: ")
    assert str(done.exception) == "3 of 3 queries are not converted, the first on line 1"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\n \n", "has no query: expected one on each line, or JSON lines with the field sparql"),
        (b"\xff\xfe", "is not text in UTF-8"),
        (b'[{"sparql": "ASK {}"}]', "is one array of JSON: expected a document on each line"),
        (b'{"sparql": "ASK {}", "pgmr": ""}', "line 1: the document has a field pgmr already: name another with --to"),
    ],
)
def test_a_file_without_queries_is_one_clear_error(content: bytes, complaint: str, url: str, tmp_path: Path) -> None:
    (tmp_path / "queries").write_bytes(content)
    done = run("to-pgmr", tmp_path / "queries", url=url)
    assert isinstance(done.exception, InputError)
    assert complaint in str(done.exception)
    assert done.stdout == ""


@pytest.mark.long
def test_mistakes_as_typed_are_one_line(url: str, tmp_path: Path) -> None:
    assert "No such file or directory" in complains("sparql", "to-pgmr", tmp_path / "none", "--db", url)
    (tmp_path / "query.rq").write_text(SPARQL)
    error = complains("sparql", "from-pgmr", tmp_path / "query.rq", "--whole", "--db", url)
    assert error.startswith("refactx: wd:Q1 is an id, for which PGMR has a placeholder")
    assert "there is no index 'other'" in complains(
        "sparql", "to-pgmr", tmp_path / "query.rq", "--index", "other", "--db", url
    )
