"""`refactx extract`, as a user types it. The tiny model has random weights, but names are those of the index."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.ingest.tiny import ingest_tiny

from refactx.ask import extraction
from refactx.cli.main import cli
from refactx.errors import InputError, RefactxError
from refactx.index.open import open_index
from refactx.walks.facts import TreeFacts

TEXT = "The p of Ann is b. The p of Ann is Bo.\n"


def extract(*arguments: object) -> Result:
    """A command without a terminal, in this process."""
    return CliRunner().invoke(cli, ["extract", *map(str, arguments)])


@pytest.fixture(autouse=True)
def _any_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "BACKWARDS", 1e9)


@pytest.fixture
def given(db_url: str, tiny_folder: Path, tmp_path: Path) -> tuple[object, ...]:
    """An index of three facts beside one to write, and a document."""
    for name, facts in (
        ("kb", ["<Ann> <p> <b> .", "<Cy> <p> <Bo> .", "<Bo> <q> <Ann> ."]),
        ("mine", ["<x> <y> <z> ."]),
    ):
        (tmp_path / f"{name}.txt").write_text("".join(f"{fact}\n" for fact in facts))
        ingest_tiny(db_url, tmp_path / f"{name}.txt", name)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(TEXT)
    return "--model", tiny_folder, "--db", db_url, "--min-confidence", -1e9


def test_facts_of_a_folder_are_a_table_with_their_sentences(given: tuple[object, ...], tmp_path: Path) -> None:
    done = extract(tmp_path / "docs", "--index", "kb", *given)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout), delimiter="\t"))
    assert [row["sentence"] for row in rows] == ["The p of Ann is Bo."]
    assert {row["subject"] for row in rows} | {row["object"] for row in rows} == {"Ann", "Bo"}
    assert rows[0]["document"] == str(tmp_path / "docs" / "a.txt")
    assert "(1 document, 2 sentences: 1 fact, " in done.stderr


def test_a_file_is_continued_and_its_format_is_that_of_its_name(given: tuple[object, ...], tmp_path: Path) -> None:
    out = tmp_path / "facts.jsonl"
    command = (tmp_path / "docs", "--index", "kb", "--out", out, *given)
    assert extract(*command).exit_code == 0
    (fact,) = map(json.loads, out.read_text().splitlines())
    assert (fact["text"], fact["new_names"]) == ("The p of Ann is Bo.", [])
    assert "0 documents" in extract(*command).stderr
    (tmp_path / "docs" / "b.txt").write_bytes(b"\xff\xfe")
    done = extract(*command)
    assert (done.exit_code, "b.txt is left out: byte 1 is no UTF-8" in done.stderr) == (1, True)
    assert len(out.read_text().splitlines()) == 1


def test_triples_have_references_that_an_ingest_reads(given: tuple[object, ...], tmp_path: Path, db_url: str) -> None:
    out = tmp_path / "facts.nt"
    assert extract(tmp_path / "docs", "--index", "kb", "--out", out, *given).exit_code == 0
    ingest_tiny(db_url, out, "again")
    with open_index("again", db_url) as index:
        stated = [fact for fact in index.all_facts() if fact.qualifiers]
    assert [dict(one.qualifiers) for one in stated] == [
        {"sentence": "The p of Ann is Bo.", "stated in": str(tmp_path / "docs" / "a.txt")}
    ]


def test_facts_go_to_an_index_with_their_references_beside_the_one_that_is_read(
    given: tuple[object, ...], tmp_path: Path, db_url: str
) -> None:
    command = (tmp_path / "docs", "--index", "kb,mine", "--append", "--writable", "mine", "--also", *given)
    found = next(csv.DictReader(io.StringIO(extract(*command).stdout), delimiter="\t"))
    with open_index("mine", db_url) as index:
        texts = {fact.text for fact in index.all_facts()}
        triple = found["subject"], found["predicate"], found["object"]
        assert "<{}> <{}> <{}> .".format(*triple) in texts
        (reference,) = TreeFacts(index).qualifiers(*triple)
        assert dict(reference) == {"stated in": str(tmp_path / "docs" / "a.txt"), "sentence": "The p of Ann is Bo."}
    assert extract(*command).exit_code == 0
    with open_index("mine", db_url) as index:
        assert {fact.text for fact in index.all_facts()} == texts


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("none.md",), "there is no file none.md"),
        ((__file__,), "is no document that can be read"),
        (("none.md", "--also"), "are about what is written with --append"),
        (("none.md", "--new-names", "typed"), "typed new names have the classes of a schema"),
        (("none.md", "--schema", "none.toml"), "the schema none.toml cannot be read"),
    ],
)
def test_wrong_arguments_are_reported_before_anything_is_opened(arguments: tuple[str, ...], expected: str) -> None:
    done = extract(*arguments, "--model", "demo", "--db", "postgresql://nobody@127.0.0.1:1/none")
    assert isinstance(done.exception, RefactxError)
    assert expected in str(done.exception)
    assert isinstance(done.exception, InputError)
