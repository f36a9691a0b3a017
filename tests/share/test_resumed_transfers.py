"""An export that was stopped leaves nothing, an import that was stopped continues where it was."""

import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from support.command import run_refactx
from support.share.forged_files import changed_header, contents, edited, forge
from support.share.transfers import count_tables, export_small, index_states, kill_transfer
from support.shared_index import answers, opened

from refactx.errors import DatabaseError, IndexNotFoundError, InputError
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.share.importing import import_index


@pytest.mark.parametrize("calls", [1, 2, 25])
def test_a_killed_export_leaves_no_file_and_the_next_one_replaces_its_part(
    source_url: str, export_file: Path, tmp_path: Path, calls: int
) -> None:
    path = tmp_path / "out"
    kill_transfer("export", source_url, path, calls)
    part = tmp_path / "out.part"
    assert [found.name for found in tmp_path.iterdir()] == [part.name]
    export_small(source_url, path)
    assert path.read_bytes() == export_file.read_bytes()
    assert not part.exists()


@pytest.mark.parametrize("calls", [1, 2, 25])
def test_ctrl_c_ends_an_export_at_once_and_leaves_nothing(source_url: str, tmp_path: Path, calls: int) -> None:
    """Also while rows are copied: the connection must not wait for a copy that nobody reads."""
    ended, left = Event(), count(1)

    def progress(done: int, total: int) -> None:
        if next(left) == calls:
            raise KeyboardInterrupt

    def export() -> None:
        with suppress(KeyboardInterrupt):
            export_small(source_url, tmp_path / "out", progress=progress)
        ended.set()

    Thread(target=export, daemon=True).start()
    assert ended.wait(timeout=30)
    assert list(tmp_path.iterdir()) == []


def test_two_exports_do_not_write_one_file(source_url: str, export_file: Path, tmp_path: Path) -> None:
    path, errors = tmp_path / "out", list[str]()

    def another(done: int, total: int) -> None:
        if not errors:
            with pytest.raises(InputError, match="another process is writing") as caught:
                export_small(source_url, path)
            errors.append(str(caught.value))

    export_small(source_url, path, progress=another)
    assert len(errors) == 1
    assert path.read_bytes() == export_file.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_nothing(source_url: str, tmp_path: Path) -> None:
    """A limit on the size of files ends a write as a full disk does."""
    code = """
import resource, signal, sys
from refactx.cli.main import cli
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
cli(sys.argv[1:], prog_name="refactx")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "index", "export", "small", tmp_path / "out", "--db", source_url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    assert f"cannot write {tmp_path / 'out.part'}" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("calls", [2, 25])
def test_a_killed_import_shows_no_index_and_continues_where_it_was(
    source_url: str, db_url: str, export_file: Path, calls: int
) -> None:
    kill_transfer("import", db_url, export_file, calls)
    assert index_states(db_url) == [("small", "building")]
    with pytest.raises(IndexNotFoundError, match="not complete"):
        open_index("small", db_url)
    with opened(db_url) as database:
        assert import_index(database, export_file).resumed == calls
    assert answers(db_url, "small") == answers(source_url, "small")
    with open_index("small", db_url) as index:
        assert verify(index).sound
    assert count_tables(db_url) == 2


def test_the_remains_of_a_killed_import_can_be_dropped_or_replaced(
    db_url: str, export_file: Path, tmp_path: Path
) -> None:
    kill_transfer("import", db_url, export_file, 20)
    assert "[building]" in run_refactx("index", "list", "--all", "--db", db_url).stdout
    assert run_refactx("index", "drop", "small", "--db", db_url).returncode == 0
    assert (index_states(db_url), count_tables(db_url)) == ([], 0)
    kill_transfer("import", db_url, export_file, 20)
    made = contents(export_file)
    later = changed_header(made, lambda header: header.update(created="2000-01-01T00:00:00+00:00"))
    with opened(db_url) as database:
        assert import_index(database, forge(tmp_path / "other", later)).resumed == 0
    assert count_tables(db_url) == 2


def test_if_postgresql_refuses_the_last_step_only_that_is_done_again(
    source_url: str, db_url: str, export_file: Path
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
        with pytest.raises(DatabaseError, match=r"no more B-trees.*The same command continues"):
            import_index(database, export_file, progress=refuse)
        assert index_states(db_url) == [("small", "building")]
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute("DROP EVENT TRIGGER refuse")
        done = import_index(database, export_file)
        assert done.resumed == done.rows
    assert answers(db_url, "small") == answers(source_url, "small")


def test_a_file_that_is_damaged_after_what_was_stored_leaves_nothing(
    db_url: str, export_file: Path, tmp_path: Path
) -> None:
    kill_transfer("import", db_url, export_file, 20)
    path = tmp_path / "file"
    path.write_bytes(export_file.read_bytes())
    edited(path, "UPDATE names_0 SET value = x'00'")
    with opened(db_url) as database:
        with pytest.raises(InputError, match="names 0"):
            import_index(database, path)
        assert index_states(db_url) == []
