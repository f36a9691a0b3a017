"""Columns of tables that are qualifiers of the row's other facts, from files, databases, workbooks and Python; edges with
properties, which are qualifiers of the edge's fact."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ingest.tables import as_csv, built, lines_of
from support.tiny_asker import save_tiny

import refactx
from refactx.cli.main import cli
from refactx.errors import InputError
from refactx.fact import written_part

FEW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CELLS = st.sampled_from(["", " ", "NULL", "8", "2014-05-11", "a|b", "Köln, am Rhein", "x < y", "Acme"])
PEOPLE = st.sampled_from(["Ann", "Bob", "", "8"])
EMPLOYMENTS = """person,employer,start,end,role
Ann,Acme,2019,2021,engineer
Ann,Acme,2022,,director
Ann,Globex,2021,2022,
Bob,Acme,,,
"""
OF_EMPLOYMENTS = {
    "<Ann> <employer> <Acme>",
    "<Ann> <employer> <Acme> <start> <2019> <end> <2021> <role> <engineer>",
    "<Ann> <employer> <Acme> <start> <2022> <role> <director>",
    "<Ann> <employer> <Globex>",
    "<Ann> <employer> <Globex> <start> <2021> <end> <2022>",
    "<Bob> <employer> <Acme>",
}
JOBS = ["jobs.person_id=persons.id", "jobs.company_id=companies.id"]
QUALIFIERS = ["start", "end", "role"]


def text_of(cell: str) -> str:
    return "" if cell == "NULL" else written_part(cell)


def twin(rows: list[tuple[str, ...]], names: list[str], qualifiers: list[str]) -> set[str]:
    """The facts of a table whose first column names the rows, by the words of the documentation."""
    found = set[str]()
    for row in rows:
        subject, cells = text_of(row[0]), dict(zip(names[1:], map(text_of, row[1:]), strict=True))
        # The names of these columns in the order of facts: times, numbers, roles, the others.
        of_row = [f"<{name}> <{cells[name]}>" for name in names[1:] if name in qualifiers and cells[name]]
        for name, cell in cells.items():
            if subject and cell and name not in qualifiers:
                found |= {f"<{subject}> <{name}> <{cell}>", " ".join([f"<{subject}> <{name}> <{cell}>", *of_row])}
    return found


@pytest.mark.long
@FEW
@given(
    st.lists(st.tuples(PEOPLE, CELLS, CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=6),
    st.sets(st.sampled_from(["since", "until", "number", "wage"]), min_size=1),
    st.sampled_from(["csv", "tsv", "parquet", "jsonl"]),
)
def test_each_fact_of_a_row_has_its_qualifiers(
    tmp_path: Path, rows: list[tuple[str, ...]], qualifiers: set[str], form: str
) -> None:
    names = ["person", "employer", "since", "until", "number", "wage"]
    rows.append(("Zoe", "Zoo", "", "", "", ""))
    content: str | bytes = as_csv([names, *rows], "\t" if form == "tsv" else ",")
    if form == "parquet":
        pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), tmp_path / "t.parquet")
        content = (tmp_path / "t.parquet").read_bytes()
    elif form == "jsonl":
        whole = [[None if cell == "NULL" else cell for cell in row] for row in rows]
        content = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in whole)
    base = built(tmp_path, {f"t.{form}": content}, subjects=["person"], qualifiers=sorted(qualifiers))
    assert lines_of(base) == twin(rows, names, sorted(qualifiers))


def test_rows_of_one_name_are_one_thing_with_several_statements(tmp_path: Path) -> None:
    base = built(tmp_path, {"employments.csv": EMPLOYMENTS}, subjects=["person"], qualifiers=QUALIFIERS)
    assert lines_of(base) == OF_EMPLOYMENTS
    assert base.report.statements == 3
    assert "qualifier of no fact" not in base.report.dropped


def test_a_qualifier_of_a_row_without_facts_is_counted(tmp_path: Path) -> None:
    rows = EMPLOYMENTS + "Cid,,2000,2001,\n"
    base = built(tmp_path, {"employments.csv": rows}, subjects=["person"], qualifiers=QUALIFIERS)
    assert lines_of(base) == OF_EMPLOYMENTS
    assert base.report.dropped["qualifier of no fact"] == 2


def test_a_list_in_a_qualifier_is_several_values_of_it(tmp_path: Path) -> None:
    table = "person,office,with\nAnn,mayor,Bob|Cid\n"
    base = built(tmp_path, {"t.csv": table}, subjects=["person"], qualifiers=["with"], lists=["|"])
    assert "<Ann> <office> <mayor> <with> <Bob> <with> <Cid>" in lines_of(base)


def test_a_key_links_a_fact_and_its_qualifier_to_rows(tmp_path: Path) -> None:
    files = {
        "companies.csv": "id,company,city\n1,Acme,Graz\n2,Globex,Linz\n",
        "jobs.csv": "person,company_id,start,agency\nAnn,1,2019,2\n",
    }
    tables = {"subjects": ["company", "person"], "qualifiers": ["start", "agency"]}
    base = built(tmp_path, files, keys=["jobs.agency=companies.id"], **tables)
    assert lines_of(base) == {
        *("<Acme> <city> <Graz>", "<Globex> <city> <Linz>"),
        *("<Ann> <company> <Acme>", "<Ann> <company> <Acme> <start> <2019> <agency> <Globex>"),
    }


def test_facts_beside_a_table_stay_without_its_qualifiers(tmp_path: Path) -> None:
    files = {"a.csv": "person,employer,start\nAnn,Acme,2019\n", "b.csv": "person,employer\nAnn,Initech\nBob,Acme\n"}
    base = built(tmp_path, files, subjects=["person"], qualifiers=["a.start"])
    plain = {f"<{one}>" for one in ("Ann> <employer> <Acme", "Ann> <employer> <Initech", "Bob> <employer> <Acme")}
    assert lines_of(base) == plain | {"<Ann> <employer> <Acme> <start> <2019>"}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_facts_in_three_columns_have_qualifiers(tmp_path: Path, form: str) -> None:
    names = ["subject", "predicate", "object", "end", "start"]
    rows = [["Ann", "mayor_of", "Graz", "1994", "1990"], ["Ann", "mayor_of", "Linz", "", ""], ["Bob", "", "x", "1", ""]]
    content = as_csv([names, *rows])
    if form == "jsonl":
        content = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    expected = {
        "<Ann> <mayor_of> <Graz>",
        "<Ann> <mayor_of> <Linz>",
        "<Ann> <mayor_of> <Graz> <start> <1990> <end> <1994>",
    }
    assert lines_of(built(tmp_path, {f"t.{form}": content}, qualifiers=["start", "end"])) == expected
    base = built(tmp_path, {f"t.{form}": content}, qualifiers=["start", "end"], edges=True)
    assert lines_of(base) == {line.replace("mayor_of", "mayor of") for line in expected}


EDGES = st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.sampled_from(["KNOWS", "owns"]), CELLS, CELLS)


@pytest.mark.long
@FEW
@given(st.lists(EDGES, min_size=1, max_size=6), st.sampled_from(["Neo4j", "Neptune", "GraphML", "undirected"]))
def test_properties_of_edges_are_qualifiers(tmp_path: Path, edges: list[tuple[str, ...]], form: str) -> None:
    values = [[*one[:3], *(cell if written_part(cell) else "" for cell in one[3:])] for one in edges]
    expected = set[str]()
    for one, other, type_, since, weight in values:
        pairs = [(one, other), (other, one)] if form == "undirected" else [(one, other)]
        has_null = form in ("Neo4j", "Neptune")
        of_edge = [("since", since), ("weight", weight)]
        found = [(name, written_part(cell)) for name, cell in of_edge if cell and not (has_null and cell == "NULL")]
        more = "".join(f" <{name}> <{cell}>" for name, cell in found)
        for subject, object_ in pairs:
            plain = f"<{subject}> <{type_.lower()}> <{object_}>"
            expected |= {plain, plain + more}
    if form in ("Neo4j", "Neptune"):
        heads = [":START_ID", ":END_ID", ":TYPE", "since", "weight:string"]
        if form == "Neptune":
            heads = ["~from", "~to", "~label", "since:Date", "weight:String"]
        files = {"edges.csv": as_csv([heads, *values])}
    else:
        lines = [
            f'<edge source="{one}" target="{other}"><data key="labelE">{type_}</data>'
            f'<data key="since">{escape(since)}</data><data key="weight">{escape(weight)}</data></edge>'
            for one, other, type_, since, weight in values
        ]
        direction = "undirected" if form == "undirected" else "directed"
        graph = f'<graphml><graph edgedefault="{direction}">{"".join(lines)}</graph></graphml>'
        files = {"edges.graphml": graph}
    assert lines_of(built(tmp_path, files)) == expected


def test_links_of_two_keys_have_their_other_columns_as_qualifiers(tmp_path: Path) -> None:
    files = {
        "persons.csv": "id,name\n1,Ann\n2,Bob\n",
        "companies.csv": "id,company\n7,Acme\n",
        "jobs.csv": "person_id,company_id,start,pay\n1,7,2019,\n1,7,2022,9\n2,7,,\n",
    }
    base = built(tmp_path, files, subjects=["persons.name", "companies.company"], keys=JOBS)
    assert lines_of(base) == {
        *("<Ann> <company> <Acme>", "<Bob> <company> <Acme>"),
        *("<Ann> <company> <Acme> <start> <2019>", "<Ann> <company> <Acme> <start> <2022> <pay> <9>"),
    }


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no column from \(--qualifier\): its columns are person, employer"):
        built(tmp_path, {"employments.csv": EMPLOYMENTS}, subjects=["person"], qualifiers=["from"])
    with pytest.raises(InputError, match="column person names the rows"):
        built(tmp_path, {"employments.csv": EMPLOYMENTS}, subjects=["person"], qualifiers=["person"])
    with pytest.raises(InputError, match="--qualifier and --qualifiers none"):
        refactx.build_index("x", EMPLOYMENTS, tokenizer="x", subject="person", qualifier="start", qualifiers="none")


def statements_in(index: str) -> set[str]:
    shown = CliRunner().invoke(cli, ["facts", "--all", "--index", index])
    return {line.removesuffix(" .") for line in shown.output.splitlines()}


@pytest.mark.long
def test_the_command_takes_columns_of_every_kind_of_table(
    module_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFACTX_DB", module_url)
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "home"))
    tiny = str(save_tiny(tmp_path / "tiny"))
    rows = [line.split(",") for line in EMPLOYMENTS.splitlines()]
    (tmp_path / "employments.csv").write_text(EMPLOYMENTS)
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as database:
        database.execute(
            "CREATE TABLE employments (id INTEGER PRIMARY KEY, person TEXT, employer TEXT, start TEXT, end TEXT, role TEXT)"
        )
        values = [[None if cell == "" else cell for cell in row] for row in rows[1:]]
        query = 'INSERT INTO employments (person, employer, start, "end", role) VALUES (?, ?, ?, ?, ?)'
        database.executemany(query, values)
        database.commit()
    given = ["--subject", "person", "--qualifier", "start, end", "--qualifier", "role", "--tokenizer", tiny]
    for file in ("employments.csv", "jobs.sqlite"):
        done = CliRunner().invoke(cli, ["ingest", str(tmp_path / file), *given, "--index", "jobs", "--replace"])
        assert done.exit_code == 0, done.output
        assert statements_in("jobs") == OF_EMPLOYMENTS, file
    (tmp_path / "more.csv").write_text("person,employer,start,end,role\nBob,Acme,1999,2000,\n")
    done = CliRunner().invoke(cli, ["ingest", str(tmp_path / "more.csv"), "--append", "--index", "jobs"])
    assert done.exit_code == 0, done.output
    assert statements_in("jobs") == OF_EMPLOYMENTS | {"<Bob> <employer> <Acme> <start> <1999> <end> <2000>"}
    table = pa.table(dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True)))
    given_ = {"subject": "person", "qualifier": QUALIFIERS, "tokenizer": tiny, "replace": True}
    refactx.build_index("jobs", table, db=module_url, **given_)
    assert statements_in("jobs") == OF_EMPLOYMENTS
