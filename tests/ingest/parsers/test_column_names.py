"""The names of columns, fields and things, whatever characters they have: as facts have them, in each format alike."""

import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingest.tables import as_csv, built, facts_of, ids_of

from refactx.errors import InputError
from refactx.fact import is_written_part, written_part
from refactx.index.names import is_written_id
from refactx.ingest.databases import query_source
from refactx.ingest.parsers.columns import table_form
from refactx.ingest.source_options import Selection, TableOptions

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD = "\x00\x01\t\n\r\x1f\x7f\x85\u200b\u200d\u202e\u2028\u2066\ufeff<>/:#%_|\u0301 "
NAMES = st.text(st.sampled_from(ODD) | st.characters(codec="utf-8") | st.sampled_from("abC1"), max_size=6)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("begin", ["", "\ufeff", "\n\n"])
def test_a_cell_of_the_header_may_have_lines(tmp_path: Path, delimiter: str, end: str, begin: str) -> None:
    rows = ['name,"job', 'title","a ""b"", ', "", 'c"', "Ann,poet,x", '"Bo', 'Lee",,y', ""]
    text = begin + end.join(rows).replace(",", delimiter)
    base = built(tmp_path, {"t.csv": text}, subjects=["name"])
    quoted = f'a "b"{delimiter} c'.replace("\t", " ").replace("  ", " ")
    assert facts_of(base) == {("Ann", "job title", "poet"), ("Ann", quoted, "x"), ("Bo Lee", quoted, "y")}


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "json"])
def test_a_name_over_two_lines_is_one_name_in_each_format(tmp_path: Path, form: str) -> None:
    names, row = ["full\nname", "job\r\ntitle", "city"], ["Ann", "poet", "Graz"]
    content: str | bytes = as_csv([names, row])
    if form == "parquet":
        pq.write_table(pa.table({name: [cell] for name, cell in zip(names, row, strict=True)}), tmp_path / "t.parquet")
        content = (tmp_path / "t.parquet").read_bytes()
    elif form != "csv":
        text = json.dumps(dict(zip(names, row, strict=True)))
        content = f"[{text}]" if form == "json" else text
    base = built(tmp_path, {f"t.{form}": content}, subjects=["full name"])
    assert facts_of(base) == {("Ann", "job title", "poet"), ("Ann", "city", "Graz")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('name,"job title,city\nAnn,poet,Graz\n', "t.csv:1 opens a quotation mark that is never closed"),
        (b'name,"job\nti\xe9tle"\nAnn,poet\n', "t.csv:2: not UTF-8"),
        (",".join(map(str, range(20_001))) + "\n1\n", "has 20,001 columns, of which at most 20,000 are read"),
    ],
    ids=["open", "latin-1", "wide"],
)
def test_a_header_that_cannot_be_read_is_one_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        built(tmp_path, {"t.csv": content}, subjects=["name", "1"])


@pytest.mark.parametrize("names", [["name", "tag", "tag"], ["name", "tag", " tag\n"], ["name", "tag", "tag\u200b"]])
@pytest.mark.parametrize("form", ["csv", "parquet", "rows", "jsonl"])
def test_two_columns_of_one_name_are_two_values(tmp_path: Path, names: list[str], form: str) -> None:
    rows = [("Ann", "a", "b"), ("Bo", "c", "")]
    content: str | bytes = as_csv([names, *rows])
    if form == "rows":
        with sqlite3.connect(tmp_path / "t.db") as database:
            database.execute("CREATE TABLE t (x, y, z)")
            database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        query = (
            "SELECT "
            + ", ".join(f'{column} AS "{name}"' for column, name in zip("xyz", names, strict=True))
            + " FROM t"
        )
        source = query_source(f"sqlite:///{tmp_path}/t.db", query)
        form_ = table_form(source, Selection(tables=TableOptions(subjects=("name",))))
        assert form_.header.names == ("name", "tag", "tag")
        return
    if form == "parquet":
        pq.write_table(
            pa.Table.from_arrays(list(map(pa.array, zip(*rows, strict=True))), names=names), tmp_path / "t.parquet"
        )
        content = (tmp_path / "t.parquet").read_bytes()
    elif form == "jsonl":
        fields = (
            ", ".join(f"{json.dumps(n)}: {json.dumps(c)}" for n, c in zip(names, row, strict=True)) for row in rows
        )
        content = "".join(f"{{{one}}}\n" for one in fields)
    base = built(tmp_path, {f"t.{form}": content}, subjects=["name"])
    assert facts_of(base) == {("Ann", "tag", "a"), ("Ann", "tag", "b"), ("Bo", "tag", "c")}


def test_names_that_differ_by_case_are_two(tmp_path: Path) -> None:
    base = built(tmp_path, {"t.csv": "Name,name,Tag,tag\nx,Ann,a,b\n"}, subjects=["name"])
    assert facts_of(base) == {("Ann", "Name", "x"), ("Ann", "Tag", "a"), ("Ann", "tag", "b")}


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "graphml"])
def test_a_column_whose_name_has_nothing_visible_says_nothing(tmp_path: Path, form: str) -> None:
    names, row = ["name", "\u202e", "x"], ["Ann", "2", "3"]
    content: str | bytes = as_csv([names, row])
    if form == "parquet":
        pq.write_table(pa.table({name: [cell] for name, cell in zip(names, row, strict=True)}), tmp_path / "t.parquet")
        content = (tmp_path / "t.parquet").read_bytes()
    elif form == "jsonl":
        content = json.dumps(dict(zip(names, row, strict=True)))
    elif form == "graphml":
        keys = "".join(f'<key id="d{at}" for="node" attr.name="{name}"/>' for at, name in enumerate(names))
        data = "".join(f'<data key="d{at}">{cell}</data>' for at, cell in enumerate(row))
        content = f'<graphml>{keys}<graph><node id="n">{data}</node></graph></graphml>'
    assert facts_of(built(tmp_path, {f"t.{form}": content}, subjects=["name"])) == {("Ann", "x", "3")}


@pytest.mark.parametrize("begin, end", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_json_is_read_as_deep_as_files_are(tmp_path: Path, begin: str, end: str) -> None:
    content = '{"name": "Ann", "x": 1}\n{"name": "Bo", "x": ' + begin * 240 + "2" + end * 240 + "}\n"
    assert ("Ann", "x", "1") in facts_of(built(tmp_path, {"t.jsonl": content}, subjects=["name"]))


@pytest.mark.long
@FEW
@given(
    st.lists(NAMES, min_size=1, max_size=4, unique_by=written_part),
    st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4),
    st.sampled_from(["csv", "jsonl", "nt"]),
)
def test_any_names_and_ids_make_names_and_ids_that_an_index_can_hold(
    tmp_path: Path, columns: list[str], rows: list[tuple[str, str]], form: str
) -> None:
    columns = [*(one for one in columns if written_part(one) not in ("key", "the name", "size")), "size"]
    table = [("key", "the name", *columns), *((key, name, *(["v"] * len(columns))) for key, name in rows)]
    table.append(("k", "n", *(["v"] * len(columns))))
    if form == "csv":
        content = as_csv(table)
    elif form == "jsonl":
        content = "".join(json.dumps(dict(zip(table[0], row, strict=True))) + "\n" for row in table[1:])
    else:

        def iri(text: str) -> str:
            return "<http://e.org/" + "".join(f"\\u{ord(one):04X}" for one in text if ord(one) < 0x10000) + ">"

        content = "".join(f"{iri(key)} {iri(name)} {iri(column)} .\n" for key, name, *_ in table for column in columns)
    options = {} if form == "nt" else {"subjects": ["the name"], "ids": ["key"]}
    base = built(tmp_path, {f"t.{form}": content}, **options)
    assert all(map(is_written_part, ids_of(base)))
    assert all(map(is_written_id, ids_of(base).values()))
    assert all(is_written_part(part) and part == written_part(part) for fact in facts_of(base) for part in fact)
