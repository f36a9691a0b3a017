"""An index moves as one file, and answers the same in another database."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from itertools import count
from pathlib import Path

import psycopg
import pytest
from support.command import run_refactx
from support.ingest.living_index import LivingIndex, same
from support.servers import new_home
from support.share.transfers import count_tables, export_small
from support.shared_index import answers, build, opened

from refactx.errors import CorruptIndexError, IndexExistsError
from refactx.index.file import IndexFile
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.postgres.embedded.cluster import Cluster
from refactx.postgres.embedded.programs import account_for, programs_of
from refactx.share.export import export_index, export_stream
from refactx.share.importing import import_index


@pytest.fixture(scope="module")
def server_16() -> Iterator[str]:
    """The URL of a server of PostgreSQL 16, which the wheel has besides 18."""
    home = new_home()
    cluster = Cluster(home / "embedded")
    cluster.folder.mkdir()
    account = account_for(cluster.data)
    programs = programs_of(16, home, account)
    cluster.create(programs, account)
    cluster.start(programs, account)
    yield cluster.url
    account.run([programs / "pg_ctl", "stop", "-D", cluster.data, "-m", "fast", "-w"])
    shutil.rmtree(home)


@pytest.mark.long
def test_an_index_moves_between_databases_by_the_command_line(sample_url: str, db_url: str, tmp_path: Path) -> None:
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
        # An ingest fills a table in one step, an import in several, which may take a few more pages.
        sizes = [(index.entry.table_bytes, index.entry.index_bytes) for index in (here, there)]
        assert sizes[1] == pytest.approx(sizes[0], rel=0.2)


def test_an_index_moves_through_a_pipe(source_url: str, db_url: str, export_file: Path) -> None:
    command = Path(sys.executable).with_name("refactx")
    with subprocess.Popen(
        [command, "index", "export", "small", "-", "--db", source_url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as source:
        done = run_refactx("index", "import", "-", "--index", "piped", "--db", db_url, "--json", stdin=source.stdout)
        assert source.stderr is not None
        assert b"exported small to -" in source.stderr.read()
    assert source.returncode == 0
    assert done.returncode == 0, done.stderr
    assert answers(db_url, "piped") == answers(source_url, "small")


def test_two_exports_of_an_index_are_the_same_file(source_url: str, export_file: Path) -> None:
    stream = BytesIO()
    with opened(source_url) as database:
        done = export_stream(database, "small", stream)
    assert stream.getvalue() == export_file.read_bytes()
    assert done.size == export_file.stat().st_size
    with closing(IndexFile(export_file)) as file:
        assert file.checksum == done.checksum


def test_an_index_moves_between_postgresql_16_and_18(
    source_url: str, db_url: str, export_file: Path, server_16: str, tmp_path: Path
) -> None:
    with psycopg.connect(server_16) as old, psycopg.connect(db_url) as new:
        assert (old.info.server_version // 10_000, new.info.server_version // 10_000) == (16, 18)
    with opened(server_16) as database:
        import_index(database, export_file)
    assert answers(server_16, "small") == answers(source_url, "small")
    back = tmp_path / "back.refactx"
    export_small(server_16, back)
    with opened(db_url) as database:
        import_index(database, back, "back")
    assert answers(db_url, "back") == answers(source_url, "small")


def test_an_export_needs_select_and_no_other_right(source_url: str, export_file: Path, tmp_path: Path) -> None:
    role = f"reader_{os.getpid()}"
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA refactx TO {role}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA refactx TO {role}".encode())
        user = connection.info.user
        try:
            export_small(source_url.replace(f"user={user}", f"user={role}"), tmp_path / "out")
        finally:
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())
    assert (tmp_path / "out").read_bytes() == export_file.read_bytes()


def test_a_name_that_is_taken_needs_replace_and_readers_see_the_old_index_until_the_end(
    db_url: str, export_file: Path, tmp_path: Path
) -> None:
    build(db_url, tmp_path, prefix="Another")
    before = answers(db_url, "small")
    with opened(db_url) as database:
        with pytest.raises(IndexExistsError, match="--replace"):
            import_index(database, export_file)
        seen: list[bool] = []

        calls = count()

        def progress(done: int, total: int) -> None:
            if next(calls) % 20 == 0:
                with open_index("small", db_url) as index:
                    seen.append("Another" in index.complete("<")[0][0])

        import_index(database, export_file, replace=True, progress=progress)
        assert len(seen) > 1
        assert all(seen)
        assert answers(db_url, "small") != before
        assert import_index(database, export_file, replace=True).resumed == 0
    assert count_tables(db_url) == 2, "what was replaced is gone"


def test_an_import_has_its_own_names(db_url: str, export_file: Path) -> None:
    with opened(db_url) as database:
        import_index(database, export_file, "one")
        import_index(database, export_file, "two")
    before = answers(db_url, "one")
    assert run_refactx("index", "drop", "two", "--db", db_url).returncode == 0
    assert answers(db_url, "one") == before


@pytest.mark.long
def test_a_changed_index_moves_with_all_its_segments_and_can_be_changed_again(db_url: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("table", ["segments", "name_tables"])
def test_an_export_of_a_damaged_row_is_an_error(table: str, db_url: str, tmp_path: Path) -> None:
    """A row of each kind and level: facts, the pieces above them, and names."""
    build(db_url, tmp_path)
    kind, column = ("pieces", "piece") if table == "segments" else ("names", "block")
    with psycopg.connect(db_url, autocommit=True) as connection, opened(db_url) as database:
        for (number,) in connection.execute(f"SELECT id FROM refactx.{table}".encode()).fetchall():
            of = f"refactx.{kind}_{number}"
            firsts = f"SELECT DISTINCT ON (get_byte(key, 0)) key, {column} FROM {of} ORDER BY get_byte(key, 0), key"
            for key, row in connection.execute(firsts.encode()).fetchall():
                damaged = bytearray(row)
                damaged[len(row) // 2] ^= 4
                update = f"UPDATE {of} SET {column} = %s WHERE key = %s".encode()
                connection.execute(update, [bytes(damaged), key])
                with pytest.raises(CorruptIndexError, match="damaged"):
                    export_index(database, "small", tmp_path / "out")
                assert not list(tmp_path.glob("out*"))
                connection.execute(update, [row, key])
        export_index(database, "small", tmp_path / "out")
