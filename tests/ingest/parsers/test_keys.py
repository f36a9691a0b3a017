"""Keys of tables, to others and to their own: links as a brute-force join has them, and what the report says of the rest."""

import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.ingest.tables import as_csv, built, facts_of, ids_of

from refactx.errors import InputError
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.parsers.records import link_label

FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
STAFF = [("id", "name", "manager_id"), ("1", "Ann", ""), ("2", "Bo", "1"), ("3", "Cy", "2")]
LINKS = {("Bo", "manager", "Ann"), ("Cy", "manager", "Bo")}


def content(rows: list[tuple[str, ...]], form: str) -> str | bytes:
    """Return a table in a format."""
    names, *cells = rows
    if form == "jsonl":
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in cells)
    if form == "parquet":
        file = io.BytesIO()
        columns = [pa.array(column) for column in zip(*cells, strict=True)]
        pq.write_table(pa.Table.from_arrays(columns, names=list(names)), file)
        return file.getvalue()
    return as_csv(rows)


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("options", [{}, {"ids": ["id"]}, {"keys": ["staff.manager_id=staff.id"]}], ids=str)
def test_a_table_has_a_key_to_itself(tmp_path: Path, form: str, options: dict[str, list[str]]) -> None:
    base = built(tmp_path, {f"staff.{form}": content(STAFF, form)}, subjects=["name"], **options)
    assert facts_of(base) == LINKS
    assert ids_of(base)["Bo"] == "2"
    assert any("column manager_id is read as the key of its own table" in note for note in base.report.notes)


@pytest.mark.parametrize("column", ["manager_id", "ReportsTo", "boss", "parent_staff", "Supervisor"])
@pytest.mark.parametrize("ids", [("1", "2", "3"), ("E1", "E2", "E3")])
@pytest.mark.parametrize("id_name", ["id", "EmpNo", "staffId", "pno"])
def test_it_is_found_by_the_names_and_the_cells(
    tmp_path: Path, column: str, ids: tuple[str, ...], id_name: str
) -> None:
    rows = [(id_name, "name", column), (ids[0], "Ann", ""), (ids[1], "Bo", ids[0]), (ids[2], "Cy", ids[1])]
    base = built(tmp_path, {"staff.csv": as_csv(rows)}, subjects=["name"])
    label = link_label(column, "staff")
    links = {(subject, label, object_) for subject, _, object_ in LINKS}
    assert {fact for fact in facts_of(base) if fact[1] == label} == links


@pytest.mark.parametrize("column", ["floor", "reports", "head count", "lead time", "department_id", "rank"])
def test_numbers_that_are_ids_by_chance_are_no_keys(tmp_path: Path, column: str) -> None:
    rows = [("id", "name", column), ("1", "Ann", "2"), ("2", "Bo", "1"), ("3", "Cy", "1")]
    base = built(tmp_path, {"staff.csv": as_csv(rows)}, subjects=["name"])
    assert {object_ for _, predicate, object_ in facts_of(base) if predicate == column.replace("_", " ")} == {"1", "2"}
    assert base.report.notes == ()


def test_names_may_be_the_keys(tmp_path: Path) -> None:
    rows = [("name", "boss"), ("Ann", ""), ("Bo", "Ann"), ("Cy", "Bo")]
    base = built(tmp_path, {"staff.csv": as_csv(rows)}, subjects=["name"], inverse=True)
    assert {("Bo", "boss", "Ann"), ("Ann", "boss of", "Bo")} <= facts_of(base)


def test_the_link_has_its_inverse_and_so_has_one_in_a_second_table(tmp_path: Path) -> None:
    files = {
        "staff.csv": as_csv([("id", "name", "ReportsTo", "DeptId"), ("1", "Ann", "", "1"), ("2", "Bo", "1", "1")]),
        "depts.csv": as_csv([("id", "title"), ("1", "Sales"), ("2", "Law")]),
    }
    base = built(tmp_path, files, subjects=["name", "title"], inverse=True)
    assert {("Bo", "reports to", "Ann"), ("Ann", "reports to (inverse)", "Bo")} <= facts_of(base)
    assert {("Bo", "dept", "Sales"), ("Sales", "dept of", "Ann")} <= facts_of(base)
    assert ids_of(base)["Ann"] == "staff:1"


@pytest.mark.parametrize("options", [{}, {"ids": ["id"], "keys": ["staff.manager_id=staff.id"]}], ids=str)
@pytest.mark.parametrize("whole", ["2", "2.0"])
def test_keys_that_became_fractions_are_whole_numbers(
    tmp_path: Path, whole: str, options: dict[str, list[str]]
) -> None:
    rows = [*STAFF[:2], (whole, "Bo", "1.0"), ("3", "Cy", "2.0"), ("4", "Di", "3.0")]
    base = built(tmp_path, {"staff.csv": as_csv(rows)}, subjects=["name"], **options)
    assert facts_of(base) == {*LINKS, ("Di", "manager", "Cy")}


@pytest.mark.long
@FEW
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["", ".0"])), min_size=1, max_size=6), st.booleans())
@example([(1, ".0")], False)
@example([(1, ".0"), (2, "")], False)
def test_links_are_those_of_a_join(tmp_path: Path, managers: list[tuple[int, str]], is_given: bool) -> None:
    cells = [f"{manager}{end}" if manager else "" for manager, end in managers]
    rows = [("id", "name", "manager_id"), *((str(at), f"n{at}", cell) for at, cell in enumerate(cells, 1))]
    expected = {(at, manager) for at, (manager, _) in enumerate(managers, 1) if 0 < manager <= len(cells)}
    missing = sum(manager > len(cells) for manager, _ in managers)
    own = all(manager in (0, at) for at, (manager, _) in enumerate(managers, 1))
    key = {"keys": ["staff.manager_id=staff.id"]} if is_given else {}
    files = {"staff.csv": as_csv(rows), "others.csv": "id,name,size\n1,o,5\n"}
    if is_given and not expected and missing:
        with pytest.raises(InputError, match="no cell of the first column"):
            built(tmp_path, files, subjects=["name"], **key)
        return
    base = built(tmp_path, files, subjects=["name"], **key)
    found = {(s, o) for s, p, o in facts_of(base) if p == "manager"}
    is_linked = is_given or (not missing and not (own and "" not in cells))
    assert found == ({(f"n{one}", f"n{other}") for one, other in expected} if is_linked else set())
    if missing and (is_given or 2 * missing <= len(list(filter(None, cells)))):
        note = next(note for note in base.report.notes if " no key" in note)
        assert f"{missing} of " in note
        assert ("--key staff.manager_id=staff.id" in note) != is_given


def test_columns_that_are_nearly_keys_are_told(tmp_path: Path) -> None:
    files = {
        "orders.csv": as_csv([("name", "product ID"), ("o1", "1"), ("o2", "2"), ("o3", "9")]),
        "products.csv": as_csv([("id", "name", "price"), ("1", "Chai", "18"), ("2", "Tofu", "20")]),
    }
    base = built(tmp_path, files, subjects=["name"])
    assert ("o1", "product ID", "1") in facts_of(base)
    said = "1 of 3 cells of column product ID (such as 9) is no key of table products: give --key"
    assert any(said in note for note in base.report.notes)
    base = built(tmp_path, files, subjects=["name"], keys=["orders.product ID=products.id"])
    assert ("o1", "product", "Chai") in facts_of(base)
    assert any("(such as 9) is no key of table products" in note for note in base.report.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": ["stuff.manager_id=stuff.id"]}, "there is no table stuff: there is staff"),
        ({"keys": ["staff.manager=staff.id"]}, "table staff has no such column: it has id, name, manager_id"),
        ({"keys": ["staff.manager_id=staff.id"], "ids": ["name"]}, r"in column name \(--id\): name the same column"),
        ({"keys": ["staff.name=staff.id"]}, "no cell of the first column"),
    ],
    ids=str,
)
def test_a_key_that_cannot_join_is_one_line(tmp_path: Path, options: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        built(tmp_path, {"staff.csv": as_csv(STAFF)}, subjects=["name"], **options)


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_rows_of_one_name_are_kept_apart_by_their_ids(tmp_path: Path, form: str) -> None:
    rows = [("TrackId", "Name", "Artist"), ("1", "Intro", "Foxes"), ("2", "Intro", "Ann"), ("3", "Home", "Ann")]
    base = built(tmp_path, {f"Track.{form}": content(rows, form)}, subjects=["Name"])
    assert facts_of(base) == {
        ("Intro (1)", "Artist", "Foxes"),
        ("Intro (2)", "Artist", "Ann"),
        ("Home", "Artist", "Ann"),
    }
    (note,) = base.report.notes
    assert "1 row has the name of another row (such as Intro): column TrackId is read as the id" in note


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("61", "Foxes"), ("95", "Ann"), ("201", "Ann")], "give --id seconds, whose cells differ"),
        ([("61", "Foxes"), ("61", "Ann"), ("201", "Ann")], "add a column of numbers"),
    ],
)
def test_or_the_report_says_how_many_are_one_thing(tmp_path: Path, rows: list[tuple[str, str]], said: str) -> None:
    names = ["Intro", "Intro", "Home"]
    table = [("track", "seconds", "artist"), *((name, *row) for name, row in zip(names, rows, strict=True))]
    base = built(tmp_path, {"t.csv": as_csv(table)}, subjects=["track"])
    assert {("Intro", "artist", "Foxes"), ("Intro", "artist", "Ann")} <= facts_of(base)
    (note,) = base.report.notes
    assert "1 row has the name of another row (such as Intro), and their facts are of one thing" in note
    assert said in note


def test_rows_of_one_given_id_are_told(tmp_path: Path) -> None:
    base = built(tmp_path, {"t.csv": "id,name,size\n1,a,5\n1,a,6\n2,b,7\n"}, subjects=["name"], ids=["id"])
    assert any(
        "1 row has the id of another row (such as 1): their facts are of one thing" in n for n in base.report.notes
    )


PRODUCTS = [("Product ID", "name", "Supplier No"), ("P1", "Chai", "S1"), ("P2", "Tofu", "S2"), ("P3", "Tea", "S9")]
SUPPLIERS = [("Supplier No", "company"), ("S1", "Exotic Liquids"), ("S2", "New Orleans Delights")]
ORDERS = [("order", "Product ID", "seller"), ("first", "P1", "S1"), ("second", "P2", "S2"), ("third", "P7", "S8")]


def shop(tmp_path: Path, **options: list[str]) -> KnowledgeBase:
    files = {"products.csv": as_csv(PRODUCTS), "suppliers.csv": as_csv(SUPPLIERS), "orders.csv": as_csv(ORDERS)}
    return built(tmp_path, files, subjects=["name", "company", "order"], **options)


def test_a_key_that_nearly_fits_is_told_with_the_option_that_links_it(tmp_path: Path) -> None:
    notes = shop(tmp_path).report.notes
    for left, right in (
        ("products.Supplier No", "suppliers.Supplier No"),  # called as a key
        ("orders.Product ID", "products.Product ID"),
        ("orders.seller", "suppliers.Supplier No"),  # codes
    ):
        assert any(f": give --key '{left}={right}' to link" in note for note in notes), notes


def test_a_link_is_called_by_its_thing_though_the_key_that_it_leads_to_has_its_name(tmp_path: Path) -> None:
    base = shop(tmp_path, keys=["orders.Product ID=products.Product ID", "products.Supplier No=suppliers.Supplier No"])
    assert {
        ("first", "product", "Chai"),
        ("Chai", "Product ID", "P1"),
        ("Chai", "supplier", "Exotic Liquids"),
        ("Exotic Liquids", "Supplier No", "S1"),
    } <= facts_of(base)


def test_numbers_that_fit_by_chance_are_not_told(tmp_path: Path) -> None:
    files = {
        "shops.csv": as_csv([("name", "rank"), ("North", "1"), ("South", "2")]),
        "towns.csv": as_csv([("id", "town"), ("1", "Graz"), ("2", "Linz")]),
    }
    assert built(tmp_path, files, subjects=["name", "town"]).report.notes == ()


def test_one_message_names_the_rows_of_all_tables(tmp_path: Path) -> None:
    files = {"goods.csv": as_csv(PRODUCTS), "firms.csv": as_csv([("no", "firm"), ("1", "Acme"), ("2", "Ajax")])}
    proposed = re.escape("tables goods, firms: give --subject goods.name --subject firms.firm if")
    for subjects in ([], ["others.name"]):
        with pytest.raises(InputError, match=proposed):
            built(tmp_path, files, subjects=subjects)
