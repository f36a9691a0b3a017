"""An export or import that was stopped continues where it was."""

from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from support.command import run_refactx
from support.share.transfers import count_tables, export_small, index_states, kill_transfer
from support.shared_index import BLOCK_BYTES, answers, blocks, changed, opened

from refactx.errors import DatabaseError, IndexNotFoundError, InputError
from refactx.index.file.format import TruncatedFileError
from refactx.index.open import open_index
from refactx.index.verify import verify
from refactx.share.export import export_index
from refactx.share.importing import import_index


@pytest.mark.parametrize("calls", [1, 2, 25])
def test_a_killed_export_leaves_no_file_and_continues_where_it_was(
    source_url: str, export_file: Path, tmp_path: Path, calls: int
) -> None:
    path = tmp_path / "out"
    kill_transfer("export", source_url, path, calls)
    part = tmp_path / "out.part"
    assert [found.name for found in tmp_path.iterdir()] == [part.name]
    with part.open("ab") as out:
        out.write(b"the beginning of a block that did not get to the disk")
    done = export_small(source_url, path)
    assert done.resumed > 0
    assert path.read_bytes() == export_file.read_bytes()
    assert not part.exists()


@pytest.mark.parametrize("calls", [1, 2, 25])
def test_ctrl_c_ends_an_export_at_once(source_url: str, export_file: Path, tmp_path: Path, calls: int) -> None:
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
    assert [found.name for found in tmp_path.iterdir()] == ["out.part"]
    assert export_small(source_url, tmp_path / "out").resumed > 0
    assert (tmp_path / "out").read_bytes() == export_file.read_bytes()


def test_an_export_continues_before_the_damage(source_url: str, export_file: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "out", export_file.read_bytes()
    middle = len(whole) // 2
    (tmp_path / "out.part").write_bytes(whole[:middle] + b"\xff" + whole[middle + 1 :])
    done = export_small(source_url, path)
    assert 0 < done.resumed < middle
    assert "damaged" in str(done.note)
    assert path.read_bytes() == whole


def test_an_export_that_was_complete_is_only_renamed(source_url: str, export_file: Path, tmp_path: Path) -> None:
    (tmp_path / "out.part").write_bytes(export_file.read_bytes())
    assert export_small(source_url, tmp_path / "out").resumed == export_file.stat().st_size
    assert (tmp_path / "out").read_bytes() == export_file.read_bytes()


def test_an_export_of_an_index_that_was_replaced_meanwhile_starts_again_and_reports_that(
    db_url: str, export_file: Path, tmp_path: Path
) -> None:
    with opened(db_url) as database:
        import_index(database, export_file)
    (tmp_path / "out.part").write_bytes(export_file.read_bytes()[:-1000])
    done = export_small(db_url, tmp_path / "out")
    assert done.resumed == 0
    assert "the export starts again" in str(done.note)
    with opened(db_url) as database:
        import_index(database, tmp_path / "out", replace=True)
    assert answers(db_url, "small")


@pytest.mark.parametrize("calls", [2, 25])
def test_a_killed_import_shows_no_index_and_continues_where_it_was(
    source_url: str, db_url: str, export_file: Path, calls: int
) -> None:
    kill_transfer("import", db_url, export_file, calls)
    assert index_states(db_url) == [("small", "building")]
    with pytest.raises(IndexNotFoundError, match="not complete"):
        open_index("small", db_url)
    with opened(db_url) as database:
        assert (import_index(database, export_file).resumed > 0) == (calls > 2)
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
    header = blocks(export_file.read_bytes())[0].payload.replace(b'"created": "20', b'"created": "19')
    (tmp_path / "other").write_bytes(changed(export_file.read_bytes(), {0: [("header", 0, header)]}))
    with opened(db_url) as database:
        assert import_index(database, tmp_path / "other").resumed == 0
    assert count_tables(db_url) == 2


@pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
def test_a_truncated_file_is_an_error_and_the_whole_file_continues_the_import(
    source_url: str, db_url: str, export_file: Path, tmp_path: Path, share: float
) -> None:
    part, whole = tmp_path / "part", export_file.read_bytes()
    part.write_bytes(whole[: int(share * len(whole))])
    with opened(db_url) as database:
        with pytest.raises(TruncatedFileError, match=r"truncated.*the whole file"):
            import_index(database, part, step_bytes=1)
        assert index_states(db_url) == [("small", "building")][: share > 0.1]
        part.write_bytes(whole)
        assert (import_index(database, part).resumed > 0) == (share > 0.1)
    assert answers(db_url, "small") == answers(source_url, "small")


@pytest.mark.parametrize("stuck", [False, True])
def test_an_import_that_was_cut_in_its_first_step_continues_with_the_whole_file(
    source_url: str, db_url: str, export_file: Path, tmp_path: Path, stuck: bool
) -> None:
    part, whole = tmp_path / "part", export_file.read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    with opened(db_url) as database:
        with pytest.raises(TruncatedFileError, match="the whole file"):
            import_index(database, part)
        if stuck:  # as earlier versions of this program left it
            with psycopg.connect(db_url, autocommit=True) as connection:
                connection.execute("UPDATE refactx.indexes SET report = jsonb_set(report, '{import,counted}', '[]')")
        assert import_index(database, export_file).resumed == 0
    assert answers(db_url, "small") == answers(source_url, "small")


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
        assert done.resumed == done.size
    assert answers(db_url, "small") == answers(source_url, "small")


def test_another_file_with_the_same_header_does_not_continue_an_import(
    db_url: str, export_file: Path, source_url: str, tmp_path: Path
) -> None:
    kill_transfer("import", db_url, export_file, 20)
    with opened(source_url) as database:
        export_index(database, "small", tmp_path / "other", block_bytes=2 * BLOCK_BYTES)
    with opened(db_url) as database:
        with pytest.raises(InputError, match="not the file of the unfinished import"):
            import_index(database, tmp_path / "other")
        assert index_states(db_url) == []
        import_index(database, tmp_path / "other")
    assert answers(db_url, "small") == answers(source_url, "small")
