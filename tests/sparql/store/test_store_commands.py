"""`refactx store`, and the commands that change an index and bring its store along, as a user types them."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.command import run_refactx
from support.ingest.living_index import FIRST, MORE, LivingIndex
from support.sparql.stores import triples_anew, triples_in

from refactx.sparql.store import open_store
from refactx.sparql.store.folder import folder_of

TABLE = "subject,predicate,object\n" + "".join(f"{','.join(fact.split())}\n" for fact in FIRST)


class Typed:
    """Commands on one index of a database."""

    def __init__(self, living: LivingIndex) -> None:
        self.living = living

    def __call__(self, *words: object) -> str:
        done = run_refactx(*words, "--db", self.living.url)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    def json(self, *words: object) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self(*words, "--json"))
        return document

    def check(self) -> int:
        """Check that the store has what the index has; return the number of its triples."""
        with self.living.open() as index, open_store(index) as store:
            assert triples_in(store) == triples_anew(index)
            return len(triples_in(store))


@pytest.fixture
def typed(db_url: str, tmp_path: Path) -> Typed:
    return Typed(LivingIndex(db_url, tmp_path))


@pytest.mark.long
def test_a_store_follows_every_command_that_changes_its_index(
    typed: Typed, tmp_path: Path, smollm2_folder: Path
) -> None:
    table, more = tmp_path / "table.csv", typed.living.source(MORE)
    table.write_text(TABLE)
    ingest = ("ingest", table, "--tokenizer", smollm2_folder)
    assert "store of default: built of 27 facts" in typed(*ingest, "--store")
    triples = typed.check()

    appended = typed("ingest", more, "--append")
    assert "index default: 4 facts appended" in appended
    assert f"added, 0 removed; it has {typed.check()} triples" in appended
    exported = tmp_path / "default.refactx"
    typed("index", "export", "default", exported)

    forgotten = typed.json("forget", more)["store"]
    assert (forgotten["change"], forgotten["added"], forgotten["triples"]) == ("updated", 0, triples)
    typed.check()
    assert typed.json("index", "compact", "default")["store"]["triples"] == typed.check() == triples

    assert "it was that of another index" in typed.json("index", "import", exported, "--replace")["store"]["why"]
    assert typed.check() == triples + forgotten["removed"]
    replaced = typed.json(*ingest, "--replace")["store"]
    assert (replaced["change"], replaced["triples"]) == ("built", typed.check())
    assert typed("index", "drop", "default") == "dropped default and its store\n"


def test_a_small_index_has_a_store_from_its_ingest_or_import(
    typed: Typed, tmp_path: Path, smollm2_folder: Path
) -> None:
    table, exported = tmp_path / "table.csv", tmp_path / "default.refactx"
    table.write_text("subject,predicate,object\nNorway,capital,Oslo\n")
    ingest = ("ingest", table, "--tokenizer", smollm2_folder, "--replace")
    query = ("sparql", "SELECT ?x { <Norway> <capital> ?x }")
    assert "store" not in typed(*ingest)
    typed.check()
    assert typed(*query) == "x\nOslo\n"
    typed("index", "export", "default", exported)
    typed("index", "drop", "default")
    assert typed.json("index", "import", exported)["store"]["change"] == "built"
    assert typed(*query) == "x\nOslo\n"
    typed("store", "drop", "default")
    assert "store" not in typed.json(*ingest, "--no-store")
    with typed.living.open() as index:
        assert not folder_of(index).path.exists()


def test_an_index_stays_without_a_store_if_none_can_be_written(
    typed: Typed, tmp_path: Path, smollm2_folder: Path
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("subject,predicate,object\nNorway,capital,Oslo\n")
    ingest = ("ingest", table, "--tokenizer", smollm2_folder, "--replace", "--db", typed.living.url)
    typed(*ingest[:-2])
    with typed.living.open() as index:
        folder = folder_of(index).path
    typed("store", "drop", "default")
    folder.write_text("in the way")
    try:
        done = run_refactx(*ingest)
        assert done.returncode == 0
        assert "is as it should be, but its store is not (" in done.stderr
        assert run_refactx(*ingest, "--store").returncode == 2
    finally:
        folder.unlink()


@pytest.mark.long
def test_an_index_without_a_store_has_none_after_a_change(typed: Typed) -> None:
    typed.living.ingest(*FIRST)
    assert "store" not in typed.json("ingest", typed.living.source(MORE), "--append")
    with typed.living.open() as index:
        assert not folder_of(index).path.exists()


@pytest.mark.long
def test_a_store_is_built_shown_updated_and_dropped(typed: Typed) -> None:
    typed.living.ingest(*FIRST)
    built = typed.json("store", "build", "default")
    assert (built["change"], built["facts"], built["triples"]) == ("built", 27, typed.check())
    shown = typed.json("store", "show", "default")
    assert {name: shown[name] for name in ("current", "problem", "triples", "facts", "bytes", "folder")} == {
        "current": True,
        "problem": None,
        **{name: built[name] for name in ("triples", "facts", "bytes", "folder")},
    }
    typed.living.append(*MORE)
    assert "the store of index 'default' is behind the index: run `refactx store update" in typed(
        "store", "show", "default"
    )
    assert "triples added, 0 removed" in typed("store", "update", "default")
    assert "nothing to do" in typed("store", "update", "default")
    assert typed.check() > built["triples"]
    assert typed("store", "drop", "default") == "dropped the store of default\n"
    assert not Path(built["folder"]).exists()


@pytest.mark.long
def test_the_change_is_reported_even_if_the_store_cannot_follow(typed: Typed) -> None:
    typed.living.ingest(*FIRST)
    folder = Path(typed.json("store", "build", "default")["folder"])
    (folder / "lock").unlink()
    (folder / "lock").mkdir()
    done = run_refactx("ingest", typed.living.source(MORE), "--append", "--json", "--db", typed.living.url)
    assert json.loads(done.stdout)["facts"] == len(MORE)
    assert done.returncode == 2
    assert done.stderr == (
        "refactx: index 'default' is as it should be, but its store is not (cannot write the store in "
        f"{folder} (Is a directory): make room or get the rights, or set REFACTX_HOME to another folder): "
        "run `refactx store update default`\n"
    )
    (folder / "lock").rmdir()
    typed("store", "update", "default")
    typed.check()


@pytest.mark.long
def test_dates_that_are_none_are_named(typed: Typed, tmp_path: Path, smollm2_folder: Path) -> None:
    days = ["1942-02-29", "1940-02-29", "1956", "44-03-15 BCE", "1956-10-20"]
    table, more = tmp_path / "table.csv", tmp_path / "more.txt"
    table.write_text("subject,predicate,object\n" + "".join(f"a,born,{day}\n" for day in days))
    more.write_text("<b> <born> <1585-02-30> .\n")
    built = typed("ingest", table, "--tokenizer", smollm2_folder, "--store")
    assert "dates such as 1942-02-29 of <urn:refactx:born> are no xsd:dateTime: comparisons leave them out\n" in built
    appended = typed("ingest", more, "--append")
    assert "dates such as 1585-02-30 of <urn:refactx:born> are no xsd:dateTime" in appended
    assert typed.json("store", "build", "default")["odd_dates"] == {"urn:refactx:born": "1942-02-29"}
    odd = {"a": ["1942-02-29", "1956"], "b": ["1585-02-30"]}
    for name, day in [(name, day) for name, days in odd.items() for day in tuple(days)]:
        odd[name].remove(day)
        left = [one for days in odd.values() for one in days]
        more.write_text(f"<{name}> <born> <{day}> .\n")
        typed("forget", more)
        done = run_refactx(
            *("sparql", "SELECT * { ?x <urn:refactx:born> ?d FILTER(YEAR(?d) > 1900) }", "--engine", "store"),
            *("--index", "default", "--db", typed.living.url),
        )
        assert ("such as" in done.stderr) == bool(left), done.stderr
        assert any(f"such as {one} are" in done.stderr for one in left) == bool(left), done.stderr


VALUES = """@prefix : <http://e.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:a :code "007"^^xsd:integer, 12 ; :change "-3"^^xsd:negativeInteger ; :price 1.50 ; :name "007", "x"@en ; :at <#b> .
"""


def test_what_a_store_changes_of_a_published_graph_is_told(typed: Typed, tmp_path: Path, smollm2_folder: Path) -> None:
    graph = tmp_path / "values.ttl"
    graph.write_text(VALUES)
    typed("ingest", graph, "--tokenizer", smollm2_folder, "--base", "http://e.org/base")
    said = typed("store", "build", "default", "--published", graph)
    assert "3 published literals got another spelling or datatype of the same value, such as " in said
    assert "it has 0 triples of facts and 6 labels of names, which the files do not have" in said
    told = typed.json("store", "build", "default", "--published", graph)["published"]
    assert (told["rewritten"], told["labels"], told["added"]) == (3, 6, 0)
    with typed.living.open() as index, open_store(index) as store:
        rows = store.query("SELECT ?o { <http://e.org/a> <http://e.org/at> ?o }")
        assert [row[0].value for row in rows] == ["http://e.org/base#b"]  # the same base as in the ingest


def test_a_percent_sign_that_is_no_escape_is_in_index_and_store(
    typed: Typed, tmp_path: Path, smollm2_folder: Path
) -> None:
    lines = [
        "<http://e.org/100%> <http://e.org/p%q> <http://e.org/%zz> .",
        '<http://e.org/[b> <http://e.org/a##b> "y" .',
    ]
    (tmp_path / "odd.nt").write_text("\n".join(lines))
    assert "store of default: built of 2 facts" in typed(
        "ingest", tmp_path / "odd.nt", "--tokenizer", smollm2_folder, "--store"
    )
    typed.check()
    with typed.living.open() as index, open_store(index) as store:
        found = {tuple(map(str, row)) for row in store.query("SELECT ?s ?p ?o { ?s ?p ?o }")}
    assert {tuple(line.removesuffix(" .").split()) for line in lines} <= found
