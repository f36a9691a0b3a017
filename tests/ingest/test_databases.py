"""Databases, workbooks and folders as a whole: all tables with the keys that they declare, or that options give."""

import csv
import re
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support.files.workbooks import write_ods, write_xlsx
from support.tiny_asker import save_tiny

import refactx
from refactx.errors import InputError
from refactx.postgres.database import Database
from refactx.share.export import export_index

SCHEMA = """
CREATE TABLE Artist (ArtistId INTEGER PRIMARY KEY, Name TEXT);
CREATE TABLE Album (AlbumId INTEGER PRIMARY KEY, Title TEXT, ArtistId INTEGER REFERENCES Artist (ArtistId));
CREATE TABLE Track (TrackId INTEGER PRIMARY KEY, Name TEXT, AlbumId INTEGER REFERENCES Album (AlbumId), Price NUMERIC);
CREATE TABLE Employee (EmployeeId INTEGER PRIMARY KEY, LastName TEXT, FirstName TEXT, Title TEXT,
    ReportsTo INTEGER REFERENCES Employee (EmployeeId));
CREATE TABLE Playlist (PlaylistId INTEGER PRIMARY KEY, Name TEXT);
CREATE TABLE PlaylistTrack (PlaylistId INTEGER REFERENCES Playlist (PlaylistId),
    TrackId INTEGER REFERENCES Track (TrackId), PRIMARY KEY (PlaylistId, TrackId));
CREATE TABLE Invoice (InvoiceId INTEGER PRIMARY KEY, EmployeeId INTEGER REFERENCES Employee (EmployeeId), Total NUMERIC);
CREATE TABLE InvoiceLine (InvoiceId INTEGER REFERENCES Invoice (InvoiceId),
    TrackId INTEGER REFERENCES Track (TrackId), Quantity INTEGER, PRIMARY KEY (InvoiceId, TrackId));
"""
ROWS: dict[str, list[tuple[object, ...]]] = {
    "Artist": [("ArtistId", "Name"), (1, "AC/DC"), (2, "Accept")],
    "Album": [("AlbumId", "Title", "ArtistId"), (1, "For Those", 1), (2, "Balls to the Wall", 2)],
    "Track": [
        ("TrackId", "Name", "AlbumId", "Price"),
        *((1, "Snowballed", 1, 0.99), (2, "Balls to the Wall", 2, 0.99), (3, "Snowballed", 2, 1.5)),
    ],
    "Employee": [
        ("EmployeeId", "LastName", "FirstName", "Title", "ReportsTo"),
        *((1, "Adams", "Andrew", "General Manager", None), (2, "Edwards", "Nancy", "Sales Manager", 1)),
    ],
    "Playlist": [("PlaylistId", "Name"), (1, "Music"), (8, "Rock")],
    "PlaylistTrack": [("PlaylistId", "TrackId"), (1, 1), (1, 2), (8, 1)],
    "Invoice": [("InvoiceId", "EmployeeId", "Total"), (1, 2, 1.98), (2, None, 5)],
    "InvoiceLine": [("InvoiceId", "TrackId", "Quantity"), (1, 1, 2), (1, 2, 3)],
}
FACTS = {
    ("For Those", "artist", "AC/DC"),
    ("Balls to the Wall (Album:2)", "artist", "Accept"),
    ("Snowballed (1)", "album", "For Those"),
    ("Snowballed (1)", "Price", "0.99"),
    ("Snowballed (3)", "album", "Balls to the Wall (Album:2)"),
    ("Snowballed (3)", "Price", "1.5"),
    ("Balls to the Wall (Track:2)", "album", "Balls to the Wall (Album:2)"),
    ("Balls to the Wall (Track:2)", "Price", "0.99"),
    ("Andrew Adams", "Title", "General Manager"),
    ("Andrew Adams", "First Name", "Andrew"),
    ("Andrew Adams", "Last Name", "Adams"),
    ("Nancy Edwards", "Title", "Sales Manager"),
    ("Nancy Edwards", "First Name", "Nancy"),
    ("Nancy Edwards", "Last Name", "Edwards"),
    ("Nancy Edwards", "reports to", "Andrew Adams"),
    ("Music", "track", "Snowballed (1)"),
    ("Music", "track", "Balls to the Wall (Track:2)"),
    ("Rock", "track", "Snowballed (1)"),
    ("invoice 1", "employee", "Nancy Edwards"),
    ("invoice 1", "Total", "1.98"),
    ("invoice 2", "Total", "5"),
    ("invoice 1", "track", "Snowballed (1)"),
    ("invoice 1", "track", "Balls to the Wall (Track:2)"),
}
LINES = {
    ("invoice 1", "track", "Snowballed (1)", (("Quantity", "2"),)),
    ("invoice 1", "track", "Balls to the Wall (Track:2)", (("Quantity", "3"),)),
}
"""The links with other columns, which are their qualifiers."""
UNDECLARED: dict[str, Any] = {
    "key": ["Employee.ReportsTo=Employee.EmployeeId"],
    "id": ["InvoiceLine.InvoiceId+TrackId"],
}
"""The keys that no name says, for what declares none."""


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


def build(source: object, tiny: Path, **options: Any) -> Any:
    options = {"replace": True, "workers": 1, **options}
    return refactx.build_index("whole", source, tokenizer=str(tiny), **options).report


def rows(name: str = "whole") -> set[tuple[str | None, ...]]:
    with refactx.open_index(name) as index:
        return {tuple(row.values()) for row in index.to_arrow().to_pylist()}


def facts(name: str = "whole") -> set[tuple[str | None, ...]]:
    return {row[:3] for row in rows(name)}


def statements(name: str = "whole") -> set[tuple[object, ...]]:
    with refactx.open_index(name) as index:
        return {(one.subject, one.predicate, one.object, one.qualifiers) for one in index.all_facts() if one.qualifiers}


def sqlite(path: Path, *more: str) -> Path:
    with sqlite3.connect(path) as lite:
        lite.executescript(SCHEMA)
        for table, (_, *values) in ROWS.items():
            lite.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values[0]))})", values)
        for statement in more:
            lite.execute(statement)
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    for table, cells in ROWS.items():
        with (path / f"{table}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(cells)
    (path / "README.md").write_text("no table")
    return path


def test_a_database_of_sqlite_is_read_whole_whatever_its_name(tiny: Path, tmp_path: Path) -> None:
    path = sqlite(
        tmp_path / "music.bin", "CREATE VIEW Dear AS SELECT Name, Price FROM Track", "CREATE TABLE Nobody (Name)"
    )
    report = build(path, tiny)
    assert (facts(), statements()) == (FACTS, LINES)
    notes = "\n".join(report.notes)
    assert "table Employee: its rows are named by column FirstName+LastName" in notes
    assert "table PlaylistTrack: its rows are links from Playlist to Track (track)" in notes
    assert "table Nobody: it has no complete row" in notes
    assert "views of the database are left out, unless an option names them: Dear" in notes
    ids = {row[0]: row[3] for row in rows()}
    assert (ids["Nancy Edwards"], ids["invoice 1"]) == ("Employee:2", "Invoice:1")
    build(f"sqlite:///{path}", tiny, subject="Dear.Name")
    assert ("Snowballed (Dear)", "Price", "1.5") in facts() or any(row[3] == "Dear:Snowballed" for row in rows())
    build(path, tiny, query="SELECT Name, 'is', 'here' FROM Artist")
    assert facts() == {("AC/DC", "is", "here"), ("Accept", "is", "here")}


@pytest.mark.long
@pytest.mark.parametrize("inverse", [True, False])
def test_a_database_a_workbook_and_a_folder_say_the_same(
    tiny: Path, tmp_path: Path, module_url: str, inverse: bool
) -> None:
    build(sqlite(tmp_path / "music.sqlite"), tiny, inverse=inverse)
    expected = rows()
    assert {row[:3] for row in expected} >= FACTS
    assert statements() == LINES
    assert (("Music", "row of", "Playlist") in facts()) == inverse
    for source in (
        write_xlsx(tmp_path / "music.xlsx", ROWS),
        write_ods(tmp_path / "music.ods", ROWS),
        folder(tmp_path / "music"),
    ):
        build(source, tiny, inverse=inverse, **UNDECLARED)
        assert rows() == expected, source
        assert statements() == LINES, source


@pytest.mark.long
@pytest.mark.parametrize("schema", ["public", "music"])
def test_a_database_of_postgresql_says_the_same(tiny: Path, db_url: str, tmp_path: Path, schema: str) -> None:
    lower = {table.lower() for table in ROWS}
    with psycopg.connect(db_url, autocommit=True) as connection:
        if schema != "public":
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path = {schema}".encode())
        quoted = SCHEMA
        for name in sorted({*ROWS, *(column for cells in ROWS.values() for column in cells[0])}, key=str):
            quoted = quoted.replace(f" {name} ", f' "{name}" ').replace(f"({name} ", f'("{name}" ')
            quoted = quoted.replace(f"({name})", f'("{name}")').replace(f"({name},", f'("{name}",')
            quoted = quoted.replace(f" {name})", f' "{name}")')
        connection.execute(quoted.encode())
        for table, (_, *values) in ROWS.items():
            with connection.cursor() as cursor:
                cursor.executemany(f'INSERT INTO "{table}" VALUES ({", ".join(["%s"] * len(values[0]))})', values)
        connection.execute("CREATE VIEW dear AS SELECT 1 AS name")
        connection.execute("CREATE TABLE picture (id int PRIMARY KEY, name text, body bytea, tags text[], more jsonb)")
        connection.execute("INSERT INTO picture VALUES (1, 'Sunset', '\\xff', '{a,b}', '{\"x\": 1}')")
    report = build(db_url, tiny)
    pictures = {("Sunset", "tags", "a, b"), ("Sunset", "more", '{"x": 1}')}
    assert (facts(), statements()) == (FACTS | pictures, LINES)
    assert any("column body has bytes" in note for note in report.notes), lower


@pytest.mark.long
def test_a_change_reads_a_table_of_a_database_as_the_ingest_did(tiny: Path, tmp_path: Path) -> None:
    build(sqlite(tmp_path / "music.sqlite"), tiny)
    (tmp_path / "Track.csv").write_text("TrackId,Name,AlbumId,Price\n2,Balls,1,0.99\n4,New,2,2\n")
    done = refactx.update("whole", "Track.csv")
    assert (done.things, done.new) == (2, 1)
    assert {("Balls", "album", "For Those"), ("New", "album", "Balls to the Wall (Album:2)")} <= facts()
    assert {("Music", "track", "Balls"), ("invoice 1", "track", "Balls")} <= facts()
    assert not any("Balls to the Wall (Track:2)" in row[:3] for row in (*rows(), *statements()))
    assert ("invoice 1", "track", "Balls", (("Quantity", "3"),)) in statements()
    (tmp_path / "PlaylistTrack.csv").write_text("PlaylistId,TrackId\n8,4\n")
    assert refactx.append("whole", "PlaylistTrack.csv").facts == 1
    assert ("Rock", "track", "New") in facts()


def test_composite_keys_and_keys_of_other_columns_lead_to_their_rows(tiny: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as lite:
        lite.executescript("""
            CREATE TABLE countries (id INTEGER PRIMARY KEY, code TEXT UNIQUE, name TEXT);
            CREATE TABLE cities (country TEXT REFERENCES countries (code), number INTEGER, name TEXT,
                PRIMARY KEY (country, number));
            CREATE TABLE persons (id INTEGER PRIMARY KEY, label TEXT, country TEXT, city INTEGER,
                FOREIGN KEY (city, country) REFERENCES cities (number, country));
            CREATE TABLE "odd.name" (code TEXT, note TEXT);
            INSERT INTO countries VALUES (7, 'NO', 'Norway');
            INSERT INTO cities VALUES ('NO', 1, 'Oslo'), ('NO', 2, 'Bergen');
            INSERT INTO persons VALUES (1, 'Ann', 'NO', 2), (2, 'Bo', NULL, 2);
            INSERT INTO "odd.name" VALUES ('x', 'y');
        """)
    build("x.db", tiny)
    assert {
        *(("Oslo", "country id", "Norway"), ("Bergen", "country id", "Norway")),
        *(("Ann", "city", "Bergen"), ("x", "note", "y")),
    } <= facts()
    assert not any(row[:2] == ("Bo", "city") and row[5] for row in rows())


def test_names_with_the_characters_of_options_are_names(tiny: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as lite:
        lite.executescript("""
            CREATE TABLE "v1.a=b+c" ("id+x" INTEGER PRIMARY KEY, name TEXT, "p=q" TEXT);
            CREATE TABLE "V1_a_b_c" (id INTEGER PRIMARY KEY, name TEXT, size INTEGER);
            CREATE TABLE child (id INTEGER PRIMARY KEY, name TEXT, "to=it" INTEGER REFERENCES "v1.a=b+c" ("id+x"));
            INSERT INTO "v1.a=b+c" VALUES (1, 'Ann', 'x');
            INSERT INTO "V1_a_b_c" VALUES (1, 'Bo', 7);
            INSERT INTO child VALUES (1, 'Cy', 1);
        """)
    build("x.db", tiny)
    assert facts() == {("Ann", "p=q", "x"), ("Bo", "size", "7"), ("Cy", "to it", "Ann")}
    sheets = {"v1.0": [("name", "x"), ("Ann", 1)], "V1_0": [("name", "y"), ("Bo", 2)]}
    build(write_xlsx(tmp_path / "x.xlsx", sheets), tiny)
    assert facts() == {("Ann", "x", "1"), ("Bo", "y", "2")}


def test_a_database_that_another_program_writes_is_told(tiny: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(sqlite(tmp_path / "x.db"), isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match=r"x\.db is being written by another program .*: try again"):
            build("x.db", tiny)


def test_what_postgresql_cannot_compute_is_told_and_dates_without_end_are_text(tiny: Path, db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA s")
        connection.execute('CREATE TABLE "s.u" (id int PRIMARY KEY, name text, at date, till timestamptz)')
        connection.execute("INSERT INTO \"s.u\" VALUES (1, 'Ann', '0044-03-15 BC', 'infinity')")
        connection.execute('CREATE TABLE "S.U" (id int PRIMARY KEY, name text, at timestamp)')
        connection.execute("INSERT INTO \"S.U\" VALUES (1, 'Bo', '2020-01-02')")
        connection.execute("CREATE TABLE secret (name text, x int)")
        connection.execute("DROP ROLE IF EXISTS reads_some")
        connection.execute("CREATE ROLE reads_some LOGIN")
        connection.execute('GRANT SELECT ON "s.u", "S.U" TO reads_some')
    build(db_url, tiny)
    seen = facts()
    assert seen >= {("Ann", "at", "0044-03-15 BC"), ("Ann", "till", "infinity")}
    assert {row[2] for row in seen if row[0] == "Bo"} == {"2020-01-02"}
    build(re.sub(r"user=\w+", "user=reads_some", db_url), tiny)
    assert facts() == seen, "what the role may not read is left out"
    with pytest.raises(InputError, match="does not answer the query: division by zero"):
        build(db_url, tiny, query="SELECT 'a', 'b', 1 / (x - 5000) FROM generate_series(1, 9000) AS x")
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY reads_some; DROP ROLE reads_some")


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE VIEW v AS SELECT 1 AS name"], "has no table: its views are read if an option names them"),
        ([], "has no table"),
    ],
)
def test_a_database_without_tables_is_an_error(tiny: Path, tmp_path: Path, statements: list[str], message: str) -> None:
    with sqlite3.connect(tmp_path / "x.db") as lite:
        lite.execute("PRAGMA user_version = 1")
        for statement in statements:
            lite.execute(statement)
    with pytest.raises(InputError, match=message):
        build("x.db", tiny)


def test_what_is_damaged_or_no_table_is_one_line(tiny: Path, tmp_path: Path) -> None:
    path = sqlite(tmp_path / "x.db")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(InputError, match=r"x\.db cannot be read"):
        build("x.db", tiny)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty is a folder without tables"):
        build("empty", tiny)
    with pytest.raises(InputError, match=r"x.xlsx is a workbook whose sheets are empty"):
        build(write_xlsx(tmp_path / "x.xlsx", {"a": [], "b": [("name",)]}), tiny)
    whole = write_xlsx(tmp_path / "cut.xlsx", ROWS).read_bytes()
    (tmp_path / "cut.xlsx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut.xlsx is no workbook that can be read"):
        build("cut.xlsx", tiny)


def test_a_workbook_of_more_cells_than_fit_ends_with_a_line(tiny: Path, tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "bomb.xlsx", {"a": [("name", "x"), ("Ann", 1)]})
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    parts["xl/worksheets/1.xml"] = parts["xl/worksheets/1.xml"].replace(b"<c><v>1", b'<c r="XFD1048576"><v>1')
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    with pytest.raises(InputError, match=r"bomb\.xlsx is a workbook that is damaged, or whose sheets have more cells"):
        build(path, tiny)


def test_an_exported_index_is_no_source(tiny: Path, tmp_path: Path, module_url: str) -> None:
    build([("a", "b", "c")], tiny)
    database = Database(module_url)
    try:
        export_index(database, "whole", tmp_path / "whole.db")
    finally:
        database.close()
    with pytest.raises(
        InputError, match=r"whole\.db is an exported index, no source: add it with `refactx index import`"
    ):
        build("whole.db", tiny)
