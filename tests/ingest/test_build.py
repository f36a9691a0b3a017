"""Indexes from Python: files, triples, tables of other libraries, graphs, databases; and back as an Arrow table."""

import datetime
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pyarrow as pa
import pytest
import rdflib
from click.testing import CliRunner
from pyoxigraph import Literal, NamedNode, Quad, Store
from support.sparql.endpoint import HTML, Canned, running
from support.tiny_asker import save_tiny

import refactx
from refactx.cli.main import cli
from refactx.errors import InputError
from refactx.index.verify import verify
from refactx.sparql.engines import EngineError, Rows, open_engine
from refactx.sparql.engines.endpoint import EndpointEngine
from refactx.sparql.store import StoreError

Fact = tuple[str | None, ...]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny model."""
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(autouse=True)
def in_database(module_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands and functions use one database, and a folder of their own."""
    monkeypatch.setenv("REFACTX_DB", module_url)
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    yield


def rows(name: str) -> set[Fact]:
    """The facts of an index with the ids and kinds of their parts."""
    with refactx.open_index(name) as index:
        table = index.to_arrow()
    assert table.schema.names == [
        *("subject", "predicate", "object", "subject_id", "predicate_id", "object_id", "object_kind")
    ]
    return {tuple(row.values()) for row in table.to_pylist()}


def facts(name: str) -> set[Fact]:
    return {row[:3] for row in rows(name)}


def build(name: str, source: object, tiny: Path, **options: Any) -> Any:
    return refactx.build_index(name, source, tokenizer=str(tiny), replace=True, workers=1, **options)


@pytest.mark.long
def test_triples_are_facts_and_are_appended_and_forgotten(tiny: Path) -> None:
    triples = [("Ann", "works for", "Acme"), ("Acme", "founded", 1999), ("Acme", "since", datetime.date(1999, 1, 2))]
    result = build("acme", iter(triples), tiny, inverse=True)
    assert (result.report.claims, result.report.derived) == (3, 1)
    assert refactx.append("acme", [("Bo", "works for", "Bolt"), ("Ann", "works for", "Acme")], inverse=True).facts == 2
    assert refactx.forget("acme", [("Acme", "founded", 1999)]).facts == 1
    assert facts("acme") == {
        *(("Ann", "works for", "Acme"), ("Acme", "works for (inverse)", "Ann")),
        *(("Bo", "works for", "Bolt"), ("Bolt", "works for (inverse)", "Bo")),
        ("Acme", "since", "1999-01-02"),
    }


def test_a_table_without_inverse_facts_is_a_warning_that_says_why(tiny: Path, recwarn: pytest.WarningsRecorder) -> None:
    table = pa.table({"subject": ["Norway"], "predicate": ["capital"], "object": ["Oslo"]})
    build("plain", table, tiny)
    build("plain", [("Ann", "works for", "Acme"), ("Acme", "led by", "Ann")], tiny, inverse=True)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="fewer than half of the objects are subjects: capital"):
        build("plain", table, tiny, inverse=True)


class _Capsule:
    """A table of a library that only exports Arrow's C stream, as pandas and Polars do."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.long
@pytest.mark.parametrize(
    "wrap", [_Capsule, lambda table: table, lambda table: type("Frame", (), {"to_arrow": lambda _: table})()]
)
def test_a_table_of_another_library_is_read_as_a_file_of_it_is(tiny: Path, wrap: Any) -> None:
    table = pa.table(
        {"code": ["A", "B"], "name": ["Ann", "Bob"], "born": [1980, None], "day": [datetime.date(2000, 1, 2), None]}
    )
    result = build("people", wrap(table), tiny, subject="name", id="code")
    expected: set[Fact] = {
        ("Ann", "code", "A", "A", "code", None, "text"),
        ("Bob", "code", "B", "B", "code", None, "text"),
        ("Ann", "born", "1980", "A", "born", None, "quantity"),
        ("Ann", "day", "2000-01-02", "A", "day", None, "time"),
    }
    assert rows("people") == expected
    assert result.report.dropped == {"empty cell": 2}
    assert refactx.append("people", wrap(table.slice(0, 1).set_column(2, "born", pa.array([1981])))).facts == 1
    assert ("Ann", "born", "1981", "A", "born", None, "quantity") in rows("people")


@pytest.mark.long
def test_rows_in_no_file_are_rows_of_the_index(tiny: Path, tmp_path: Path) -> None:
    of_index = {("Ann", "city", "Graz"), ("Ann", "row of", "the staff"), ("the staff", "has row", "Ann")}
    build("the_staff", pa.table({"name": ["Ann"], "city": ["Graz"]}), tiny, subject="name", inverse=True)
    assert facts("the_staff") == of_index
    with sqlite3.connect(tmp_path / "x.db") as lite:
        lite.execute("CREATE TABLE people AS SELECT 'Ann' AS name, 'Graz' AS city")
    build("the_staff", f"sqlite:///{tmp_path}/x.db", tiny, query="SELECT * FROM people", subject="name", inverse=True)
    assert facts("the_staff") == of_index


@pytest.mark.parametrize("managers", [[None, 1, 2], ["", "1", "2"], [None, 1.0, 2.0]], ids=str)
@pytest.mark.parametrize(
    "key", [[], ["staff.boss=staff.no"], ["chart.boss=chart.no"], ["query.boss=query.no"]], ids=str
)
def test_a_dataframe_has_a_key_to_itself(tiny: Path, managers: list[Any], key: list[str]) -> None:
    table = pd.DataFrame({"no": [1, 2, 3], "name": ["Ann", "Bo", "Cy"], "boss": managers})
    result = build("chart", table, tiny, subject="name", key=key)
    assert facts("chart") == {("Bo", "boss", "Ann"), ("Cy", "boss", "Bo")}
    assert any("column boss is read as the key of its own table" in note for note in result.report.notes)


def test_a_reader_of_batches_is_read_once(tiny: Path) -> None:
    table = pa.table({"id": [1, 2], "name": ["Ann", "Bo"], "boss": [None, 1]})
    build("chart", table.to_reader(), tiny, subject="name", id="id", key=["chart.boss=chart.id"])
    assert facts("chart") == {("Bo", "boss", "Ann")}


def test_a_dataframe_with_two_columns_of_one_name_is_refused_in_one_line(tiny: Path) -> None:
    table = pd.DataFrame([["Ann", "a", "b"]], columns=["name", "tag", "tag"])
    with pytest.raises(InputError, match=r"the table cannot be read: Duplicate column names found: .*'tag'"):
        build("tags", table, tiny, subject="name")


@pytest.mark.long
def test_odd_names_and_ids_are_verified_exported_and_imported(tiny: Path, tmp_path: Path) -> None:
    odd = [
        "\u202e",
        "\x00",
        "a\nb",
        "a\u2028b",
        "<a>",
        "\u200d",
        "\u0301e",
        "a" * 3000,
        "%01",
        "\ud800",
        "_",
        "\ufeffx",
    ]
    rows = [{"key": f"{one}{at}", "name": f"{one}{at}", one: "v"} for at, one in enumerate(odd)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    iris = "".join(
        f"<http://e/\\u{ord(one[0]):04X}> <http://e/p%{at:02X}> <http://e/{at}> .\n" for at, one in enumerate(odd)
    )
    Path("b.nt").write_text(iris.replace("<http://e/\\uD800>", "<http://e/x>"), encoding="utf-8")
    facts_of = [{"subject": f"{one}s", "predicate": f"{one}p", "object": f"{one}o"} for one in odd]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in facts_of), encoding="utf-8")
    Path("c.csv").write_text("id,\u202e,x\n1,2,3\n", encoding="utf-8")
    for source, options in (
        ("a.jsonl", {"subject": "name", "id": "key"}),
        ("b.nt", {}),
        ("c.csv", {"subject": "id"}),
        ("d.jsonl", {}),
    ):
        build("odd", source, tiny, **options)
        with refactx.open_index("odd") as index:
            assert verify(index).faults == []
        expected = facts("odd")
        for command in (
            ["export", "odd", f"{source}.refactx"],
            ["import", f"{source}.refactx", "--index", "again", "--replace"],
        ):
            done = CliRunner().invoke(cli, ["index", *command])
            assert done.exit_code == 0, done.output
        assert facts("again") == expected != set()


def test_a_graph_of_rdflib_is_read_as_its_triples(tiny: Path) -> None:
    graph = rdflib.Graph()
    ann, name = rdflib.URIRef("http://x.org/ann"), rdflib.RDFS.label
    graph.add((ann, name, rdflib.Literal("Ann Lee")))
    graph.add((ann, rdflib.URIRef("http://x.org/worksFor"), rdflib.URIRef("http://x.org/acme")))
    build("graph", graph, tiny)
    one, predicate = "http://x.org/ann", "http://x.org/worksFor"
    assert rows("graph") == {("Ann Lee", "works for", "acme", one, predicate, "http://x.org/acme", "entity")}


@pytest.mark.long
def test_databases_are_read_by_a_query(tiny: Path, module_url: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as lite:
        lite.execute("CREATE TABLE facts (s, p, o)")
        lite.executemany("INSERT INTO facts VALUES (?, ?, ?)", [("a", "b", 1), ("c", "d", b"\xff"), ("e", "f", None)])
    report = build("lite", "sqlite:///x.db", tiny, query="SELECT s, p, o FROM facts").report
    assert facts("lite") == {("a", "b", "1")}
    assert report.dropped == {"empty part": 1, "malformed": 1}
    assert report.malformed[0].startswith("sqlite:///x.db:2: not UTF-8")
    with psycopg.connect(module_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS towns (name text, since date, size numeric)")
        connection.execute("INSERT INTO towns VALUES ('Graz', '1128-01-02', 127.60)")
    build("towns", module_url, tiny, query="SELECT * FROM towns", subject="name")
    assert facts("towns") == {("Graz", "since", "1128-01-02"), ("Graz", "size", "127.6")}


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("sqlite:///x.db", {}, "there is no file x.db"),
        ("sqlite:///no.db", {"query": "SELECT 1"}, "there is no file no.db"),
        ("facts.csv", {"query": "SELECT 1"}, "--query was given without a database"),
        ([("a", "b")], {}, r"triple 1 is \('a', 'b'\): expected three values"),
        ([], {}, "the source has no triples"),
        (7, {}, "a int is no source"),
        ("facts.csv", {"subjects": "a"}, "'subjects' is no option: expected .*subject"),
        ("facts.csv", {}, "facts.csv does not exist"),
        ([("a", " ", "c")], {}, "no fact in 1 line, dropped: 1 empty part"),
    ],
)
def test_what_cannot_be_built_is_an_error_and_leaves_no_index(
    tiny: Path, source: object, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build("none", source, tiny, **options)
    with pytest.raises(refactx.IndexNotFoundError):
        refactx.open_index("none")


def command(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.long
def test_the_command_line_and_its_changes_find_the_options_of_the_ingest(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "products.csv").write_text("id,name,supplier,tags\n11,Chai,1,hot|black\n")
    (tmp_path / "suppliers.csv").write_text("id,name,city\n1,Exotic,London\n2,Nagoya,\n")
    shown = command(
        *("ingest", "products.csv", "suppliers.csv", "--tokenizer", str(tiny), "--index", "shop", "--replace"),
        *("--subject", "name", "--list", "products.tags=|"),
    )
    assert "column supplier is read as the key of table suppliers" in shown
    assert {row[:4] for row in rows("shop")} == {
        ("Chai", "supplier", "Exotic", "products:11"),
        ("Chai", "tags", "hot", "products:11"),
        ("Chai", "tags", "black", "products:11"),
        ("Exotic", "city", "London", "suppliers:1"),
    }
    (tmp_path / "products.csv").write_text("id,name,supplier,tags\n11,Chai,1,hot|green\n12,Chang,1,\n")
    command("ingest", "products.csv", "--append", "--index", "shop")
    assert {("Chang", "supplier", "Exotic"), ("Chai", "tags", "green")} <= facts("shop")
    command("forget", "products.csv", "--index", "shop")
    assert facts("shop") == {("Chai", "tags", "black"), ("Exotic", "city", "London")}


def test_the_rows_of_a_change_are_those_of_the_ingest(tiny: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "companies.csv", tmp_path / "new.csv"
    old.write_text("name,size\nAcme,5\n")
    new.write_text("name,size\nBolt,7\n")
    build("companies", old, tiny, subject="name", inverse=True)
    before = facts("companies")
    assert ("companies", "has row", "Acme") in before
    refactx.append("companies", new, inverse=True)
    assert ("companies", "has row", "Bolt") in facts("companies")
    refactx.forget("companies", new, inverse=True)
    assert facts("companies") == before


@pytest.mark.long
def test_an_edge_list_is_appended_to_with_and_without_labels(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("/m/1\t/film/film/genre\t/m/2\n")
    (tmp_path / "l.txt").write_text("/m/1\tAlien\n/m/2\thorror\n")
    edges = ("--no-header", "--labels", "l.txt")
    command("ingest", "e.txt", "--tokenizer", str(tiny), "--index", "edges", "--replace", *edges)
    (tmp_path / "f.txt").write_text("/m/1\t/film/film/genre\t/m/3\n")
    command("ingest", "f.txt", "--append", "--index", "edges")
    assert rows("edges") == {
        ("Alien", "genre", "horror", "/m/1", "/film/film/genre", "/m/2", "entity"),
        ("Alien", "genre", "/m/3", "/m/1", "/film/film/genre", "/m/3", "entity"),
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("t.csv",), "has no column subject, predicate, object: its columns are name, size: give --subject name"),
        (("t.csv", "--subject", "nmae"), "has no column nmae: its columns are name, size: correct --subject"),
        (("sqlite:///x.db",), "there is no file x.db"),
        (("t.csv", "--delimiter", ";;"), "is not one character"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    tiny: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "t.csv").write_text("name,size\na,1\n")
    done = CliRunner().invoke(cli, ["ingest", *words, "--tokenizer", str(tiny), "--index", "none"])
    assert done.exit_code == 2 or isinstance(done.exception, InputError)
    assert message in (done.output + str(done.exception))


def published() -> Store:
    """People of a company, as an endpoint has them."""
    store, kb = Store(), "https://kb.example/"
    for number in range(25):
        person = NamedNode(f"{kb}person{number}")
        store.add(Quad(person, NamedNode("http://www.w3.org/2000/01/rdf-schema#label"), Literal(f"P {number}")))
        store.add(Quad(person, NamedNode(f"{kb}worksFor"), NamedNode(f"{kb}AcmeRobotics")))
    return store


@pytest.mark.long
def test_a_graph_at_an_endpoint_is_read_page_by_page(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everyone = {(f"P {number}", "works for", "Acme Robotics") for number in range(25)}
    monkeypatch.setattr(EndpointEngine.triples, "__kwdefaults__", {"page": 10, "seconds": None})
    with running(published()) as endpoint:
        build("all", endpoint.url, tiny)
        assert facts("all") == everyone
        assert len(endpoint.requests) == 6, "50 triples in pages of ten, and none on the sixth"
        endpoint.most_triples = 7
        build("limited", endpoint.url, tiny)
        assert facts("limited") == everyone, "a server's own limit loses nothing"
        endpoint.most_triples = None
        query = (
            "CONSTRUCT { ?s <https://kb.example/is-at> ?o } WHERE { ?s <https://kb.example/worksFor> ?o } ORDER BY ?s"
        )
        build("own", endpoint.url, tiny, query=query)
        assert facts("own") == {(f"person{number}", "is at", "Acme Robotics") for number in range(25)}
        endpoint.replies += [Canned(503), *[Canned(500, "text/plain", b"out of order")] * 2]
        with pytest.raises(EngineError, match="HTTP 500"):
            build("own", endpoint.url, tiny)
        assert len(facts("own")) == 25, "an index that was there stays"
        for wrong, message in (
            ("SELECT * { ?s ?p ?o }", "read by a CONSTRUCT query"),
            ("CONSTRUCT WHERE { ?s ?p ?o } LIMIT 9", "leave them out"),
        ):
            with pytest.raises(InputError, match=message):
                build("none", endpoint.url, tiny, query=wrong)
        endpoint.always = HTML
        with pytest.raises(EngineError, match=r"a web page \(HTML\) in place of triples"):
            build("none", endpoint.url, tiny)
    with pytest.raises(EngineError, match="cannot be reached"):
        build("none", endpoint.url, tiny)


def test_a_small_index_has_a_store_that_follows_its_changes(tiny: Path) -> None:
    capital = "SELECT ?x { <urn:refactx:Norway> <urn:refactx:capital> ?x }"

    def found(name: str) -> set[str]:
        with refactx.open_index(name) as index, closing(open_engine(index, "store")) as engine:
            result = engine.run(capital)
            assert isinstance(result, Rows)
            return {str(row[0]) for row in result.rows}

    build("stored", [("Norway", "capital", "Oslo")], tiny)
    assert found("stored") == {"<urn:refactx:Oslo>"}
    refactx.append("stored", [("Norway", "capital", "Bergen")])
    assert found("stored") == {"<urn:refactx:Oslo>", "<urn:refactx:Bergen>"}
    refactx.forget("stored", [("Norway", "capital", "Oslo")])
    assert found("stored") == {"<urn:refactx:Bergen>"}
    build("unstored", [("Norway", "capital", "Oslo")], tiny, store=False)
    with pytest.raises(StoreError, match="has no store"):
        found("unstored")
    refactx.append("unstored", [("Norway", "capital", "Bergen")])
    with pytest.raises(StoreError, match="has no store"):
        found("unstored")


def test_an_index_without_a_store_that_cannot_be_written_is_a_warning(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "stores"
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("in the way")
    with pytest.warns(UserWarning, match="its store for SPARQL is not: cannot"):
        build("warned", [("Norway", "capital", "Oslo")], tiny)
    with pytest.raises(InputError, match="cannot "):
        build("warned", [("Norway", "capital", "Oslo")], tiny, store=True)
