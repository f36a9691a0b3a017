"""Rows that are updated, and things that are forgotten: the index is what one of the final tables is."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.broken_writes import Break, breaking, prepare
from support.tiny_asker import save_tiny

import refactx
from refactx.errors import InputError, RefactxError
from refactx.index.verify import verify

Row = dict[str, str]
Tables = dict[str, dict[str, Row]]
"""The rows of each table by their ids."""
OPTIONS: dict[str, Any] = {
    "subject": ["people.name", "teams.name"],
    "id": ["people.id", "teams.id"],
    "key": ["people.team=teams.id"],
    "description": ["people.note"],
    "alias": ["people.nick"],
    "list": ["people.skills=|"],
    "workers": 1,
}
COLUMNS = {"people": ("id", "name", "age", "team", "skills", "note", "nick"), "teams": ("id", "name", "city")}
NAMES = {table: [f"{table[0]}{number} name{copy}" for number in range(4) for copy in range(2)] for table in COLUMNS}


def row_of(table: str, id_: str) -> st.SearchStrategy[Row]:
    """A row: its name is one of two that no other row has, and each other cell may be empty."""
    texts = {
        "name": st.sampled_from([name for name in NAMES[table] if name[1] == id_]),
        "age": st.sampled_from(["", "7", "70"]),
        "team": st.sampled_from(["", "0", "1"]),
        "skills": st.sampled_from(["", "law", "law|art", "art|Graz"]),
        "note": st.sampled_from(["", "tall"]),
        "nick": st.sampled_from(["", "Bo", "Al"]),
        "city": st.sampled_from(["Graz", "Linz"]),
    }
    return st.fixed_dictionaries({name: texts.get(name, st.just(id_)) for name in COLUMNS[table]})


def rows_of(table: str, ids: str) -> st.SearchStrategy[dict[str, Row]]:
    return st.fixed_dictionaries({id_: row_of(table, id_) for id_ in ids})


TABLES = st.fixed_dictionaries({"people": rows_of("people", "01"), "teams": rows_of("teams", "01")})
UPDATES = st.lists(
    st.one_of(
        st.tuples(
            st.just("people"), st.sampled_from(["0", "12", "23", "0123"]).flatmap(lambda ids: rows_of("people", ids))
        ),
        st.tuples(st.just("teams"), st.sampled_from(["0", "1", "01", "12"]).flatmap(lambda ids: rows_of("teams", ids))),
    ),
    min_size=1,
    max_size=2,
)


def write(folder: Path, tables: Tables) -> list[str]:
    folder.mkdir(exist_ok=True)
    for table, rows in tables.items():
        lines = [",".join(COLUMNS[table]), *(",".join(row[one] for one in COLUMNS[table]) for row in rows.values())]
        (folder / f"{table}.csv").write_text("\n".join(lines) + "\n")
    return [str(folder / f"{table}.csv") for table in tables]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny model."""
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(autouse=True)
def in_database(module_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("REFACTX_DB", module_url)
    monkeypatch.setenv("REFACTX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    yield


def rows(name: str) -> set[tuple[str | None, ...]]:
    """The facts of an index with the ids and kinds of their parts, after it is verified."""
    with refactx.open_index(name) as index:
        assert verify(index).faults == []
        return {tuple(row.values()) for row in index.to_arrow().to_pylist()}


def named(name: str, names: set[str]) -> dict[str, str]:
    """The ids of those of some names that an index has, which it has by id too."""
    with refactx.open_index(name) as index:
        found = {one: entity.id for one, entity in index.ids_of(names).items()}
        assert index.names_of(found.values()) == {id_: one for one, id_ in found.items()}
    return found


def gone_names(tables: Tables) -> set[str]:
    """The other names that rows of some tables could have."""
    now = {row["name"] for table in tables.values() for row in table.values()}
    return {name for table, names in NAMES.items() for name in names if name[1] in tables[table]} - now


@pytest.mark.long
@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(tables=TABLES, updates=UPDATES)
def test_an_updated_index_is_that_of_the_final_tables(
    tiny: Path, tmp_path: Path, tables: Tables, updates: list[tuple[str, dict[str, Row]]]
) -> None:
    options = {**OPTIONS, "tokenizer": str(tiny), "inverse": True, "replace": True}
    refactx.build_index("updated", write(tmp_path / "t", tables), **options)
    for table, changed in updates:
        before = rows("updated")
        done = refactx.update("updated", write(tmp_path / "t", {table: changed}))
        tables = {**tables, table: {**tables[table], **changed}}
        assert (done.things, done.total) == (len(changed), len(rows("updated")))
        assert done.facts - done.removed == len(rows("updated")) - len(before)
        again = refactx.update("updated", write(tmp_path / "t", {table: changed}))
        assert (again.facts, again.removed, again.new) == (0, 0, 0)
    refactx.build_index("anew", write(tmp_path / "t", tables), **options)
    assert rows("updated") == rows("anew")
    in_facts = {row[0] for row in rows("anew")} & {name for some in NAMES.values() for name in some}
    assert named("updated", in_facts) == named("anew", in_facts)
    assert not named("updated", gone_names(tables))


@pytest.mark.parametrize("inverse", [True, False])
def test_everything_about_a_thing_goes_and_its_name(tiny: Path, tmp_path: Path, inverse: bool) -> None:
    person = {"age": "7", "team": "0", "skills": "law", "note": "tall", "nick": "Bo"}
    tables: Tables = {
        "people": {"0": {"id": "0", "name": "p0", **person}, "1": {"id": "1", "name": "p1", **person, "team": "1"}},
        "teams": {"0": {"id": "0", "name": "t0", "city": "Graz"}, "1": {"id": "1", "name": "t1", "city": "p0"}},
    }
    options = {**OPTIONS, "tokenizer": str(tiny), "inverse": inverse, "replace": True}
    refactx.build_index("whole", write(tmp_path / "t", tables), **options)
    done = refactx.forget("whole", subject=["teams:0", "p0"])
    assert done.things == 2
    del tables["people"]["0"], tables["teams"]["0"]
    refactx.build_index("anew", write(tmp_path / "t", tables), **options)
    assert rows("whole") == rows("anew")
    with refactx.open_index("whole") as index:
        assert set(index.ids_of(["p0", "p1", "t0", "t1"])) == {"p1", "t1"}
    with pytest.raises(InputError, match="has no thing with the name or id 'p0'"):
        refactx.forget("whole", subject="p0")
    with pytest.raises(InputError, match="nothing to forget was given"):
        refactx.forget("whole")


def test_it_is_told_which_things_a_name_may_mean(tiny: Path, tmp_path: Path) -> None:
    person = {"age": "7", "team": "", "skills": "", "note": "", "nick": ""}
    people = {id_: {"id": id_, "name": "Ann", **person} for id_ in "01"} | {"2": {"id": "2", "name": "Bo", **person}}
    tables = {"people": people, "teams": {"2": {"id": "2", "name": "t", "city": "x"}}}
    refactx.build_index("twice", write(tmp_path / "t", tables), **OPTIONS, tokenizer=str(tiny), replace=True)
    both = r"no thing is called 'Ann', but Ann \(0\) \(people:0\) or Ann \(1\) \(people:1\): give one of these"
    with pytest.raises(InputError, match=both):
        refactx.forget("twice", subject="Ann")
    with pytest.raises(InputError, match=r"'2', but Bo \(people:2\) or t \(teams:2\)"):
        refactx.forget("twice", subject="2")
    assert refactx.forget("twice", subject="Ann (0)").facts == 1
    assert {row[:3] for row in rows("twice")} == {("Ann (1)", "age", "7"), ("Bo", "age", "7"), ("t", "city", "x")}


def test_facts_without_ids_are_updated_and_forgotten_by_their_subjects(tiny: Path) -> None:
    triples = [("Ann", "likes", "Bo"), ("Bo", "likes", "tea"), ("Cy", "likes", "Ann")]
    refactx.build_index("plain", triples, tokenizer=str(tiny), replace=True)
    done = refactx.update("plain", [("Ann", "likes", "Cy"), ("Di", "likes", "Bo")])
    assert (done.facts, done.removed, done.things) == (2, 1, 2)
    expected = {("Ann", "likes", "Cy"), ("Di", "likes", "Bo"), ("Bo", "likes", "tea"), ("Cy", "likes", "Ann")}
    assert {row[:3] for row in rows("plain")} == expected
    assert refactx.forget("plain", subject="Ann").facts == 2
    assert {row[:3] for row in rows("plain")} == {("Di", "likes", "Bo"), ("Bo", "likes", "tea")}


def test_inverse_facts_of_given_names_go_with_their_claims(tiny: Path) -> None:
    triples, given = [("Ann", "likes", "Soup"), ("Bo", "likes", "Soup")], {"likes": "liked by"}
    options: Any = {"tokenizer": str(tiny), "inverse": True, "inverse_names": given, "replace": True}
    refactx.build_index("given", triples, **options)
    refactx.update("given", [("Bo", "likes", "Tea")])
    kept = {("Ann", "likes", "Soup"), ("Soup", "liked by", "Ann")}
    assert {row[:3] for row in rows("given")} == kept | {("Bo", "likes", "Tea"), ("Tea", "liked by", "Bo")}
    refactx.forget("given", subject="Bo")
    assert {row[:3] for row in rows("given")} == kept


@pytest.mark.parametrize("inverse", [True, False])
def test_a_row_stays_a_row_until_its_last_cell_is_forgotten(tiny: Path, tmp_path: Path, inverse: bool) -> None:
    source = tmp_path / "staff.csv"
    source.write_text("code,name,city,age\nA1,Ann,Graz,7\nB1,Bo,Linz,8\n")
    options: dict[str, Any] = {"subject": "name", "id": "code", "inverse": inverse}
    refactx.build_index("cells", str(source), **options, tokenizer=str(tiny), replace=True)
    before = rows("cells")
    assert refactx.update("cells", str(source), id="code").facts == 0, "the subject is that of the ingest"
    source.write_text("code,name,city\nA1,Ann,Graz\n")
    done = refactx.forget("cells", str(source), **options)
    assert {row[:3] for row in before - rows("cells")} == {("Ann", "city", "Graz")}
    assert (done.facts, done.report.dropped.get("text changed by the tokenizer")) == (1, None)
    source.write_text("code,name,age\nA1,Ann,7\n")
    refactx.forget("cells", str(source), **options)
    assert {row[0] for row in rows("cells")} == ({"Bo", "staff"} if inverse else {"Bo"})
    assert not any("Ann" in row for row in rows("cells"))


@pytest.mark.long
def test_an_update_that_fails_at_any_write_leaves_the_index_old_or_new(
    tiny: Path, tmp_path: Path, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFACTX_DB", db_url)
    person = {"age": "7", "team": "0", "skills": "law", "note": "tall", "nick": "Bo"}
    tables: Tables = {
        "people": {id_: {"id": id_, "name": f"p{id_}", **person} for id_ in "01"},
        "teams": {"0": {"id": "0", "name": "t0", "city": "Graz"}},
    }
    options = {**OPTIONS, "tokenizer": str(tiny), "inverse": True}
    refactx.build_index("held", write(tmp_path / "t", tables), **options)
    prepare(db_url)
    before = rows("held")
    renamed = write(tmp_path / "t", {"teams": {"0": {"id": "0", "name": "t0 new", "city": "Linz"}}})
    named_anew = {tuple(part and part.replace("t0", "t0 new") for part in row) for row in before}
    city = ("t0 new", "city", "Linz", "teams:0", "city", None, "text")
    after = named_anew - {(*city[:2], "Graz", *city[3:])} | {city}
    seen = [before]
    for at in count(1):
        try:
            with breaking(db_url, Break(at, "lost" if at % 2 else "refused")):
                refactx.update("held", renamed)
            break
        except RefactxError:
            assert rows("held") in (before, after)
            seen.append(rows("held"))
    assert seen == sorted(seen, key=lambda one: one == after), "it does not go back"
    assert at > 8
    assert rows("held") == after


def test_the_rows_of_another_table_that_is_added_are_its_own(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "products.csv").write_text("id,name\nP1,Screw\nP2,Nut\n")
    (tmp_path / "orders.csv").write_text("id,title,total\nO1,first,7\n")
    (tmp_path / "fixes.csv").write_text("id,name\nP1,Screw\nP3,Bolt\n")
    options: dict[str, Any] = {"subject": "name", "id": "id", "inverse": True}
    refactx.build_index("shop", "products.csv", **options, tokenizer=str(tiny), replace=True)
    refactx.append("shop", "orders.csv", **{**options, "subject": "title"})
    refactx.update("shop", "fixes.csv", id="id")
    (tmp_path / "orders.csv").write_text("id,title,total\nO1,first,8\nO2,second,9\n")
    refactx.update("shop", "orders.csv", subject="title", id="id")
    members = {row[0]: row[2] for row in rows("shop") if row[1] == "row of"}
    products = dict.fromkeys(("Screw", "Nut", "Bolt"), "products")
    assert members == products | dict.fromkeys(("first", "second"), "orders")
    refactx.forget("shop", "orders.csv", **{**options, "subject": "title"})
    assert {row[0]: row[2] for row in rows("shop") if row[1] == "row of"} == products


@pytest.mark.parametrize("option", ["id", "description", "alias", "list"])
def test_a_column_of_some_of_several_tables_is_that_of_those(tiny: Path, tmp_path: Path, option: str) -> None:
    (tmp_path / "people.csv").write_text("name,code,age\nAnn,A1|B1,7\n")
    (tmp_path / "towns.csv").write_text("name,size\nGraz,9\n")
    value = "{}=|" if option == "list" else "{}"
    options: dict[str, Any] = {"subject": "name", "tokenizer": str(tiny), "replace": True, "aliases": True}
    refactx.build_index("some", ["people.csv", "towns.csv"], **options, **{option: value.format("people.code")})
    expected = rows("some")
    refactx.build_index("some", ["people.csv", "towns.csv"], **options, **{option: value.format("code")})
    assert rows("some") == expected
    assert refactx.update("some", "towns.csv").facts == 0, "it needs no column of the other table"
    for wrong in ("color", "people.color", "persons.code"):
        with pytest.raises(
            InputError, match=rf"no table has the column {wrong} \(--{option}\): people has .*; towns has "
        ):
            refactx.build_index("wrong", ["people.csv", "towns.csv"], **options, **{option: value.format(wrong)})


def test_rows_that_named_a_new_row_are_linked_when_they_are_updated_too(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,title,product\n1,first,P1\n2,second,P2\n")
    (tmp_path / "products.csv").write_text("id,name\nP1,Screw\n")
    options: dict[str, Any] = {
        "key": "orders.product=products.id",
        "inverse": True,
        "tokenizer": str(tiny),
        "replace": True,
    }
    options["subject"] = ["orders.title", "products.name"]
    refactx.build_index("late", ["orders.csv", "products.csv"], **options)
    (tmp_path / "products.csv").write_text("id,name\nP2,Nut\n")
    done = refactx.update("late", "products.csv")
    assert "rows that named them before, by column orders.product, do not lead to them: update these rows" in done.note
    (tmp_path / "orders.csv").write_text("id,title,product\n2,second,P2\n")
    assert refactx.update("late", "orders.csv").note == ""
    updated = rows("late")
    (tmp_path / "orders.csv").write_text("id,title,product\n1,first,P1\n2,second,P2\n")
    (tmp_path / "products.csv").write_text("id,name\nP1,Screw\nP2,Nut\n")
    refactx.build_index("anew", ["orders.csv", "products.csv"], **options)
    assert updated == rows("anew")


def test_a_part_of_a_table_that_refers_to_itself_is_updated(tiny: Path, tmp_path: Path) -> None:
    staff = tmp_path / "staff.csv"
    staff.write_text("id,name,boss\n1,Ann,2\n2,Bo,\n3,Cy,2\n")
    options: dict[str, Any] = {"subject": "name", "id": "id", "key": "staff.boss=staff.id", "inverse": True}
    refactx.build_index("own", "staff.csv", **options, tokenizer=str(tiny), replace=True)
    staff.write_text("id,name,boss\n1,Ann,3\n")
    assert refactx.update("own", "staff.csv").note == ""
    updated = rows("own")
    staff.write_text("id,name,boss\n1,Ann,3\n2,Bo,\n3,Cy,2\n")
    refactx.build_index("own", "staff.csv", **options, tokenizer=str(tiny), replace=True)
    assert updated == rows("own")
