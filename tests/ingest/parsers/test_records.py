"""Tables about entities, edge lists, graphs of properties and JSON lines → facts and ids, and an account of every cell."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingest.tables import Fact, as_csv, built, facts_of, ids_of, lines_of

from refactx.errors import InputError
from refactx.fact import written_part
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.parsers.records import EntityRows
from refactx.ingest.source_options import Selection, TableOptions

FEW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CELLS = st.sampled_from(["", " ", "NA", "8", "008", "2014-05-11", "a|b", "a| |c", 'say "x"', "Köln, am Rhein", "x < y"])


def kinds_of(base: KnowledgeBase) -> dict[str, str]:
    rows = pq.read_table(base.folder / "names.parquet").to_pylist()
    return {row["name"]: row["object_kind"] for row in rows if row["object_kind"]}


def values(cell: str, delimiter: str | None = None) -> list[str]:
    """The values in a cell, by the words of the documentation."""
    return [written_part(one) for one in (cell.split(delimiter) if delimiter else [cell]) if written_part(one)]


@pytest.mark.long
@FEW
@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6),
    st.sampled_from([None, "|"]),
    st.booleans(),
    st.sampled_from(["csv", "parquet", "parquet of lists", "jsonl"]),
)
def test_a_wide_table_says_a_fact_for_each_value_of_each_cell(
    tmp_path: Path, rows: list[tuple[str, str, str]], delimiter: str | None, with_ids: bool, form: str
) -> None:
    names = ["key" if with_ids else "part", "name", "official_name", "size", "tag"]
    table = [(f"k{at}", f"n{at // 2 if not with_ids else at}", *row) for at, row in enumerate(rows)]
    expected = {
        (row[1], column, value)
        for row in table
        for column, cell in zip([names[0], "official name", "size", "tag"], [row[0], *row[2:]], strict=True)
        for value in values(cell, delimiter)
    }
    content: str | bytes = as_csv([names, *table])
    has_lists = delimiter is not None and form in ("parquet of lists", "jsonl")
    if form.startswith("parquet"):
        columns = dict(zip(names, map(list, zip(*table, strict=True)), strict=True))
        if has_lists:
            columns |= {name: [cell.split("|") for cell in columns[name]] for name in names[2:]}
        form = "parquet"
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        content = (tmp_path / "t.parquet").read_bytes()
    elif form == "jsonl":
        split = {True: lambda cell: cell.split("|"), False: lambda cell: cell}[delimiter is not None]
        content = "".join(
            json.dumps(
                {name: cell if name in names[:2] else split(cell) for name, cell in zip(names, row, strict=True)}
            )
            + "\n"
            for row in table
        )
    lists = [delimiter] if delimiter and not has_lists else []
    if form == "jsonl" and with_ids:  # the field of the id is no fact
        expected = {fact for fact in expected if fact[1] != "key"}
    given = {"subjects": ["name"], "ids": ["key"] if with_ids else [], "lists": lists}
    if not expected:
        with pytest.raises(InputError, match="no fact in"):
            built(tmp_path, {f"t.{form}": content}, **given)
        return
    base = built(tmp_path, {f"t.{form}": content}, **given)
    assert facts_of(base) == expected
    of_rows = {name: id_ for name, id_ in ids_of(base).items() if name.startswith("n")}
    assert of_rows.items() <= {(row[1], row[0] if with_ids else row[1]) for row in table}


def test_lists_of_columns_have_several_values(tmp_path: Path) -> None:
    columns = {
        "name": ["Graz", "Linz", "Wels"],
        "years": pa.array([[1128, None, 1379], [799], []], pa.list_(pa.int32())),
        "point": pa.array([[1.5, 2.0], None, [0.0, 7.25]], pa.list_(pa.float64(), 2)),
        "also": [["Gratz", "a\ue000b"], ["Lentia"], None],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    options = {"subjects": ["name"], "aliases": ["also"]}
    base = built(tmp_path, {"t.parquet": (tmp_path / "t.parquet").read_bytes()}, **options)
    assert facts_of(base) == {
        *(("Graz", "years", year) for year in ("1128", "1379")),
        ("Linz", "years", "799"),
        *(("Graz", "point", value) for value in ("1.5", "2")),
        *(("Wels", "point", value) for value in ("0", "7.25")),
        *((f"{name} (alias)", "alias of", of) for name, of in (("Gratz", "Graz"), ("a b", "Graz"), ("Lentia", "Linz"))),
    }
    for changed, subject, message in (
        ({"years": [[["x"]]] * 3}, "name", r"column years of .* has values of type list<"),
        ({}, "also", r"column also of .* has values of type list<"),
    ):
        pq.write_table(pa.table(columns | changed), tmp_path / "t.parquet")
        with pytest.raises(InputError, match=message):
            built(tmp_path, {"t.parquet": (tmp_path / "t.parquet").read_bytes()}, subjects=[subject])


def test_kinds_are_found_by_values_and_codes_are_text(tmp_path: Path) -> None:
    rows = [["name", "founded", "area", "code", "day", "open"], ["Graz", "1128", "127.6", "008", "2014-05-11", "NA"]]
    base = built(tmp_path, {"t.csv": as_csv(rows)}, subjects=["name"])
    kinds = {"founded": "quantity", "area": "quantity", "code": "text", "day": "time", "open": "text"}
    assert kinds_of(base) == kinds
    assert built(tmp_path, {"u.csv": "name,x\na,1\nb,two\n"}, subjects=["name"]).report.facts == 2
    assert kinds_of(KnowledgeBase(tmp_path / "kb", base.report)) == {"x": "literal"}


def test_descriptions_aliases_and_rows_without_a_name(tmp_path: Path) -> None:
    rows = [
        ["code", "name", "about", "also", "size"],
        ["1", "Springfield", "a city in Ohio", "Spring|The Field", "5"],
        ["2", "Springfield", "a city in Maine", "", " "],
        ["3", "", "nothing", "x", "7"],
        ["", "Lima", "", "", "9"],
    ]
    tables = {"subjects": ["2"], "ids": ["code"], "descriptions": ["about"], "aliases": ["also"], "lists": ["also=|"]}
    base = built(tmp_path, {"t.tsv": as_csv(rows, "\t")}, **tables)
    one, other = "Springfield (a city in Ohio)", "Springfield (a city in Maine)"
    assert facts_of(base) == {
        *((one, "size", "5"), ("Lima", "size", "9")),
        *((one, "description", "a city in Ohio"), (other, "description", "a city in Maine")),
        *(("Spring (alias)", "alias of", one), ("The Field (alias)", "alias of", one)),
    }
    assert {name: ids_of(base)[name] for name in (one, other, "Lima")} == {one: "1", other: "2", "Lima": "Lima"}
    assert base.report.dropped == {"empty cell": 5, "key": 2, "no subject": 1}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_with_inverse_facts_a_row_is_one_of_its_file(tmp_path: Path, form: str) -> None:
    files = {
        "companies.csv": {"csv": "name,size\nAcme,5\n", "jsonl": '{"name": "Acme", "size": 5}\n'}[form],
        "people.csv": "person,age\nAnn,40\n",
    }
    files = {name.replace("companies.csv", f"companies.{form}"): text for name, text in files.items()}
    plain = {("Acme", "size", "5"), ("Ann", "age", "40")}
    assert facts_of(built(tmp_path, files, subjects=["name", "person"])) == plain
    base = built(tmp_path, files, inverse=True, subjects=["name", "person"])
    of_files = {("Acme", "row of", "companies"), ("Ann", "row of", "people")}
    assert facts_of(base) == plain | of_files | {(file, "has row", row) for row, _, file in of_files}


def test_a_row_and_a_column_of_one_id_are_two_things(tmp_path: Path) -> None:
    base = built(tmp_path, {"t.csv": "id,name,1990\n1990,Ann,5\n"}, subjects=["name"], ids=["id"])
    assert facts_of(base) == {("Ann", "1990", "5")}
    assert ids_of(base) == {"Ann": "1990", "1990": "1990"}


@pytest.mark.long
@FEW
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=8), st.booleans())
def test_keys_join_tables_and_one_that_is_missing_drops_its_cell(
    tmp_path: Path, products: list[tuple[int, int]], is_named: bool
) -> None:
    suppliers = {1: "Exotic", 2: "New Orleans", 3: "Nagoya"}
    column = "vendor" if is_named else "supplier_id"
    rows = [(str(at), f"product {at}", str(supplier), str(price)) for at, (supplier, price) in enumerate(products, 1)]
    files = {
        "products.csv": as_csv([("id", "name", column, "price"), *rows]),
        "suppliers.csv": as_csv([("number", "company"), *((str(key), name) for key, name in suppliers.items())]),
    }
    is_whole = all(supplier in suppliers for supplier, _ in products)
    if is_named and not any(supplier in suppliers for supplier, _ in products):
        with pytest.raises(InputError, match="no cell of the first column"):
            built(tmp_path, files, subjects=["name", "company"], keys=["products.vendor=suppliers.number"])
        return
    keys = {"keys": ["products.vendor=suppliers.number"]} if is_named else {"ids": ["suppliers.number"]}
    base = built(tmp_path, files, subjects=["name", "suppliers.company"], **keys)
    joined = is_named or is_whole
    expected = {(name, "price", price) for _, name, _, price in rows}
    label = "vendor" if is_named else "supplier" if joined else "supplier id"
    for _, name, supplier, _ in rows:
        if not joined:
            expected |= {(name, label, supplier), (name, "id", name.removeprefix("product "))}
        elif int(supplier) in suppliers:
            expected.add((name, label, suppliers[int(supplier)]))
    assert facts_of(base) == expected
    assert base.report.dropped.get("object has no label", 0) == (
        sum(supplier not in suppliers for supplier, _ in products) if joined else 0
    )
    assert ids_of(base)["product 1"] == ("products:1" if joined else "product 1")
    assert any("is read as the key of table suppliers" in note for note in base.report.notes) == joined


@pytest.mark.long
@FEW
@given(
    st.lists(st.tuples(*[st.sampled_from(["uk", "usa", "Re:Zero", "a/b", "x|y"])] * 3), min_size=1, max_size=8),
    st.sampled_from(["\t", ",", "|", ";"]),
    st.booleans(),
)
def test_both_ends_of_an_edge_are_entities_with_their_texts_as_ids(
    tmp_path: Path, rows: list[Fact], delimiter: str, with_labels: bool
) -> None:
    rows = [(s, f"rel_{len(p)}", o) for s, p, o in rows]
    labels = {"uk": "Britain", "a/b": "A or B"} if with_labels else {}
    (tmp_path / "labels.tsv").write_text(
        "".join(f"{id_}\t{label}\tsaid\n" for id_, label in labels.items()) or "q\tq\n"
    )
    options = {"labels": [str(tmp_path / "labels.tsv")]} if with_labels else {"edges": True}
    base = built(tmp_path, {"e.txt": as_csv(rows, delimiter)}, header=False, delimiter=delimiter, **options)
    names = {one: labels.get(one, one) for row in rows for one in row}
    expected = {(names[s], names[p].replace("_", " "), names[o]) for s, p, o in rows}
    used = {one for s, _, o in rows for one in (s, o)}
    expected |= {(label, "description", "said") for id_, label in labels.items()}
    assert facts_of(base) == expected
    assert {names[one]: one for one in used}.items() <= ids_of(base).items()


NODES = [
    ("1", "Arsenal", "Team", {"founded": "1886"}),
    ("2", "Liverpool", "Team", {"founded": "1892"}),
    ("3", "Liverpool", "City", {}),
]
EDGES: list[tuple[str, str, str, dict[str, str]]] = [
    ("1", "2", "played", {"result": "2-0", "date": "2 Nov 2013"}),
    ("2", "1", "played", {"result": "5-1", "date": "8 Feb 2014"}),
    ("2", "3", "based", {}),
]
GRAPH = {
    *(("Arsenal", "founded", "1886"), ("Liverpool (Team)", "founded", "1892")),
    *(("Arsenal", "instance of", "Team"), ("Liverpool (Team)", "instance of", "Team")),
    *(("Liverpool (City)", "instance of", "City"), ("Liverpool (Team)", "based", "Liverpool (City)")),
    *(("Arsenal", "played", "Liverpool (Team)"), ("Liverpool (Team)", "played", "Arsenal")),
    *(
        (game, predicate, object_)
        for game, one, other, date, result in [
            ("Arsenal – Liverpool (played, 2 Nov 2013)", "Arsenal", "Liverpool (Team)", "2 Nov 2013", "2-0"),
            ("Liverpool – Arsenal (played, 8 Feb 2014)", "Liverpool (Team)", "Arsenal", "8 Feb 2014", "5-1"),
        ]
        for predicate, object_ in [
            *(("from", one), ("to", other), ("edge type", "played"), ("date", date), ("result", result)),
        ]
    ),
}


def graphml() -> str:
    keys = "".join(
        f'<key id="d{name}" for="all" attr.name="{name}" attr.type="string"/>' for name in ("name", "founded")
    )
    keys += "".join(f'<key id="d{n}" for="all" attr.name="{n}"/>' for n in ("labelV", "labelE", "date", "result"))

    def data(values: Mapping[str, str]) -> str:
        return "".join(f'<data key="d{name}">{value}</data>' for name, value in values.items())

    nodes = "".join(
        f'<node id="{id_}">{data({"labelV": type_, "name": name, **rest})}</node>' for id_, name, type_, rest in NODES
    )
    edges = "".join(
        f'<edge id="e{at}" source="{one}" target="{other}">{data({"labelE": type_, **rest})}</edge>'
        for at, (one, other, type_, rest) in enumerate(EDGES)
    )
    graph = f'<graph edgedefault="directed">{edges}{nodes}</graph>'
    return f'<?xml version="1.0"?><g:graphml xmlns:g="x">{keys}{graph}</g:graphml>'


def neo4j() -> dict[str, str]:
    nodes = [
        [":ID", "name", "founded:int", ":LABEL"],
        *([id_, name, r.get("founded", ""), t] for id_, name, t, r in NODES),
    ]
    edges = [[":START_ID", "date", "result", ":END_ID", ":TYPE"]]
    edges += [[one, rest.get("date", ""), rest.get("result", ""), other, type_] for one, other, type_, rest in EDGES]
    return {"edges.csv": as_csv(edges), "nodes.csv": as_csv(nodes)}


def neptune() -> dict[str, str]:
    nodes = [
        ["~id", "name:String", "founded:Int", "~label"],
        *([i, n, r.get("founded", ""), t] for i, n, t, r in NODES),
    ]
    edges = [["~id", "~from", "~to", "~label", "date:String", "result:String"]]
    for at, (one, other, type_, rest) in enumerate(EDGES):
        edges.append([f"e{at}", one, other, type_, rest.get("date", ""), rest.get("result", "")])
    return {"nodes.txt": as_csv(nodes), "edges.txt": as_csv(edges)}


@pytest.mark.parametrize(
    "files", [{"g.xml": graphml()}, {"g.graphml.gz": gzip.compress(graphml().encode())}, neo4j(), neptune()]
)
def test_a_graph_of_properties_is_the_same_in_every_format(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    with_things = built(tmp_path, files, kept=())
    assert facts_of(with_things) == GRAPH
    base = built(tmp_path, files)
    plain = {f"<{'> <'.join(fact)}>" for fact in GRAPH if "–" not in fact[0]}
    assert lines_of(base) == plain | {
        "<Arsenal> <played> <Liverpool (Team)> <date> <2 Nov 2013> <result> <2-0>",
        "<Liverpool (Team)> <played> <Arsenal> <date> <8 Feb 2014> <result> <5-1>",
    }
    of_time = built(tmp_path, files, kept=("time",))
    assert "<Arsenal> <played> <Liverpool (Team)> <date> <2 Nov 2013>" in lines_of(of_time)
    assert of_time.report.dropped["other qualifier"] == 2
    assert {"1": "Arsenal", "3": "Liverpool (City)"}.items() <= {
        id_: name for name, id_ in ids_of(base).items()
    }.items()


def test_objects_in_objects_are_paths_and_lists_are_several_values(tmp_path: Path) -> None:
    lines = [
        {
            "name": "Acme",
            "address": {"city": "Graz", "geo": {"lat": 47.07}},
            "tags": ["a", ["b"]],
            "open": True,
            "x": None,
        },
        {"name": "", "size": 4},
        {"name": "Bolt", "staff": [{"who": "Ann"}, {"who": "Bob"}]},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "\nnot json\n[1]\n"
    base = built(tmp_path, {"t.ndjson": text}, subjects=["name"])
    assert facts_of(base) == {
        *(("Acme", "address: city", "Graz"), ("Acme", "address: geo: lat", "47.07"), ("Acme", "open", "true")),
        *(("Acme", "tags", "a"), ("Acme", "tags", "b"), ("Bolt", "staff: who", "Ann"), ("Bolt", "staff: who", "Bob")),
    }
    assert base.report.dropped == {"blank": 1, "empty cell": 1, "malformed": 2, "no subject": 1, "structure": 4}
    assert base.report.malformed[0].startswith(f"{tmp_path}/t.ndjson:5: not JSON")
    array = built(tmp_path, {"t.json": json.dumps(lines)}, subjects=["name"])
    assert facts_of(array) == facts_of(base)


def test_lines_of_subject_predicate_and_object_are_facts(tmp_path: Path) -> None:
    line = json.dumps({"subject": "Ann", "predicate": "age", "object": 7, "since": 1}) + "\n"
    base = built(tmp_path, {"t.jsonl": line})
    assert facts_of(base) == {("Ann", "age", "7")}
    assert not ids_of(base)


@pytest.mark.parametrize(
    ("content", "options", "fact"),
    [
        ("a|b_c|d\n", {"header": False}, ("a", "b_c", "d")),
        ("x,a,y,b,c\n", {"header": False, "columns": ["2", "4", "5"]}, ("a", "b", "c")),
        ("head;rel;tail\na;b;c\n", {"columns": ["head", "rel", "tail"]}, ("a", "b", "c")),
        ("head^rel^tail\na^b^c\n", {"columns": ["1", "2", "3"], "delimiter": "^"}, ("a", "b", "c")),
        ("sep=^\nt^h^r\nc^a^b\n", {"columns": ["h", "r", "t"]}, ("a", "b", "c")),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_the_columns_of_facts_are_given_by_name_or_number(
    tmp_path: Path, content: str, options: dict[str, Any], fact: Fact, encoding: str
) -> None:
    content, fact = (
        content.replace("c", "café €"),
        (fact[0], fact[1].replace("c", "café €"), "café €" if fact[2] == "c" else "d"),
    )
    files = {"t.txt": content.encode(encoding)}
    options = {
        key: [one.replace("c", "café €") for one in value] if isinstance(value, list) else value
        for key, value in options.items()
    }
    assert facts_of(built(tmp_path, files, encoding=encoding, **options)) == {fact}


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("t.csv", "name,size\na,1\n", {"subjects": ["nam"]}, "no column nam: its columns are name, size: correct --subject"),
        ("t.csv", "name,size\na,1\n", {"subjects": ["name"], "ids": ["key"]}, r"no column key \(--id\): its columns are name"),
        ("t.csv", "name,size\na,1\n", {"subjects": ["name"], "lists": ["x=,"]}, r"no column x \(--list\)"),
        ("t.csv", "name,size\na,1\n", {}, "its columns are name, size: give --subject name .* or --columns SUBJECT,PREDICATE"),
        ("t.csv", "key,size,full_name\n1,5,x\n2,5,y\n", {}, r"--subject full_name \(its cells differ, and none is empty\)"),
        ("t.csv", "kind,title,code,size\n1,,x,5\n1,b,y,6\n", {}, "give --subject code "),
        ("t.csv", "kind,title\n1,\n1,b\n", {}, "give --subject COLUMN, the one that names the rows, if"),
        ("t.csv", "a,b,c\n", {}, "give --no-header if this line is a fact, else --columns 1,2,3, or --subject a"),
        ("kb.txt", "a|b|c\n", {}, "give --no-header if this line is a fact"),
        ("t.csv", "name,size\nM\xfcller,1\n".encode("latin-1"), {"subjects": ["name"]}, "csv:2: not UTF-8.*--encoding latin-1"),
        ("t.csv", "name,size\na,1\n", {"subjects": ["name"], "encoding": "utf-16"}, "is not utf-16"),
        ("t.csv", "name,size\n,1\n", {"subjects": ["name"]}, "dropped: 1 no subject; expected rows with a name"),
        ("t.xlsx", b"PK\x03\x04" + bytes(26) + b"xl/workbook.xml", {"subjects": ["name"]}, "is a workbook of Excel"),
        ("t.csv", ":LABEL,~to\nx,y\n", {}, "neither an id of nodes nor both ends of edges: its columns are :LABEL, ~to"),
        ("t.jsonl", '{"a": 1}\n', {}, "has the fields a: expected subject, predicate and object, or --subject FIELD"),
        ("t.json", "[{]", {"subjects": ["a"]}, "is not JSON"),
        ("t.graphml", "<graphml><graph>", {}, "t.graphml:1:16: this is not XML: no element found"),
        ("t.graphml", '<!DOCTYPE g [<!ENTITY a "b">]><graphml/>', {}, "has a document type .* leave it out"),
        ("t.graphml", "<graphml/>", {}, "is not GraphML"),
        ("t.txt", "\n", {"header": False}, "has only blank lines"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_that_says_what_to_do(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        built(tmp_path, {name: content}, **options)
    assert not list((tmp_path / "kb").glob("*.parquet"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ("a", "b")}, "names 2 columns: expected three"),
        ({"columns": ("1", "2", "3"), "subjects": ("a",)}, "choose facts of three columns, or one subject a row"),
        ({"delimiter": "ab"}, "not one character"),
        ({"encoding": "latin1000"}, "is not known"),
        ({"keys": ("a=b",)}, "not of the form products.supplier=suppliers.id"),
        ({"lists": ("a=",)}, "has no delimiter"),
    ],
)
def test_an_option_that_cannot_be_used_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TableOptions(**options)


def test_options_of_tables_go_through_json() -> None:
    options = TableOptions(subjects=("name",), header=False, lists=("|",), query="SELECT 1")
    assert TableOptions.from_json(json.loads(json.dumps(options.to_json()))) == options
    assert Selection().to_json()["tables"] == {}


def test_every_statement_is_a_line() -> None:
    statements = EntityRows()
    entity = statements.entity("1")
    statements.claim(entity, statements.property("p"), text=" ")
    statements.term(entity, 0, "Ann")
    parsed = statements.parsed()
    assert (parsed.lines, parsed.dropped) == (2, {"empty cell": 1})


def test_ready_made_facts_have_inverses_if_their_objects_are_subjects(tmp_path: Path) -> None:
    facts = "<Ann> <knows> <Bob> .\n<Bob> <knows> <Cy> .\n<Bob> <age> <4> .\n<Ann> <city> <Graz> .\n"
    base = built(tmp_path, {"f.txt": facts}, inverse=True)
    inverse = {("Bob", "knows (inverse)", "Ann"), ("Cy", "knows (inverse)", "Bob")}
    assert {fact for fact in facts_of(base) if fact[1] == "knows (inverse)"} == inverse
    assert len(facts_of(base)) == 6
    one, other = base.report.notes
    assert "1 predicate of tables and lines has inverse facts, such as knows" in one
    assert "2 predicates of tables and lines have none" in other and "age (0 of 1), city (0 of 1)" in other


@pytest.mark.parametrize(
    ("name", "content", "subjects", "says"),
    [
        ("t.csv", b"name,size\na,1\n", (), "give the column that names the rows, such as name "),
        ("t.csv", b"name,size\na,1\n", ("nam",), "give one of these as that which names the rows"),
        ("t.csv", b"a,b,c\n1,2,3\n", (), "or call three columns subject, predicate and object"),
        ("t.csv", b"subject,predicate,object,object\na,1,2,3\n", (), "rename one of them"),
        ("t.csv", b"name,size\nM\xfc,1\n", ("name",), ":2: not UTF-8, perhaps Latin-1: save the file in UTF-8"),
        ("t.csv", "name,size\na,1\n".encode("utf-16"), ("name",), "is UTF-16: save the file in UTF-8"),
        ("t.txt", b"<M\xfc> <a> <b>\n", (), "save the file in UTF-8"),
        ("t.txt", b"a|b|c\n", (), "a first line with the names of its columns"),
        ("t.jsonl", b'{"a": 1}\n', (), "given as the column that names the rows"),
    ],
)
def test_clients_of_a_server_are_told_what_to_do_with_the_file(
    tmp_path: Path, name: str, content: bytes, subjects: tuple[str, ...], says: str
) -> None:
    with pytest.raises(InputError) as error:
        built(tmp_path, {name: content}, subjects=subjects)
    assert says in error.value.for_clients
    assert "--" not in error.value.for_clients
    assert "--" in str(error.value)


def test_null_cells_are_no_values_and_are_counted(tmp_path: Path) -> None:
    """Nor are they keys that do not fit; `NA` is a value."""
    rows = "id,name,boss_id,region,code\n1,Ann,NULL,NULL,NA\n2,Bob,1,\\N,NULL\n3,NULL,1,x,y\n"
    keys = ("people.boss_id=people.id",)
    base = built(tmp_path, {"people.csv": rows}, subjects=("name",), ids=("id",), keys=keys)
    assert facts_of(base) == {("Ann", "code", "NA"), ("Bob", "boss", "Ann")}
    assert (base.report.dropped["NULL cell"], base.report.dropped["no subject"]) == (4, 1)


@pytest.mark.parametrize("given", ["last_name", "First Name+last_name"])
def test_a_persons_name_in_two_columns_names_the_row(tmp_path: Path, given: str) -> None:
    rows = "id,last_name,First Name,title\n1,Lee,Ann,CEO\n2,Lee,Bo,Agent\n"
    base = built(tmp_path, {"people.csv": rows}, subjects=(given,), ids=("id",))
    assert {(one, value) for one, predicate, value in facts_of(base) if predicate == "title"} == {
        ("Ann Lee", "CEO"), ("Bo Lee", "Agent"),
    }  # fmt: skip
    told = any(note.endswith("named by columns First Name and last_name together") for note in base.report.notes)
    assert told == (given == "last_name")
    with pytest.raises(
        InputError, match=r"give --subject 'First Name\+last_name' \(the given name and the family name\)"
    ):
        built(tmp_path, {"people.csv": rows})


def test_nodes_without_a_name_are_named_by_what_describes_them(tmp_path: Path) -> None:
    rows = "~id,~label,code,desc\n1,airport,BRN,Bern Belp Airport\n"
    assert ("Bern Belp Airport", "code", "BRN") in facts_of(built(tmp_path, {"nodes.csv": rows}))
