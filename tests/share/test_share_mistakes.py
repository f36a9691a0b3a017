"""A mistake in an export or import is one error, and does not harm other files, indexes, readers or writers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import run_refactx
from support.ingest.living_index import LivingIndex, same
from support.share.transfers import count_tables, export_small, index_states
from support.shared_index import opened

from refactx.errors import DatabaseError, InputError, RefactxError
from refactx.postgres.writing import drop
from refactx.share.export import export_index
from refactx.share.importing import import_index


def test_an_existing_file_is_replaced_only_with_force(source_url: str, export_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("dear diary")
    with pytest.raises(InputError, match="--force"):
        export_small(source_url, path)
    assert path.read_text() == "dear diary"
    export_small(source_url, path, force=True)
    assert path.read_bytes() == export_file.read_bytes()


def test_a_file_that_is_made_during_the_export_stays(source_url: str, export_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "out"

    def write_diary(done: int, total: int) -> None:
        path.write_text("dear diary")

    with opened(source_url) as database, pytest.raises(InputError, match="--force"):
        export_index(database, "small", path, progress=write_diary)
    assert path.read_text() == "dear diary"
    export_small(source_url, path, force=True)
    assert path.read_bytes() == export_file.read_bytes()


def test_another_file_named_like_the_part_stays(source_url: str, tmp_path: Path) -> None:
    part = tmp_path / "out.part"
    part.write_text("dear diary")
    with pytest.raises(InputError, match=r"out\.part exists and is not an unfinished export"):
        export_small(source_url, tmp_path / "out")
    assert part.read_text() == "dear diary"


def test_mistakes_are_errors_and_leave_nothing(source_url: str, db_url: str, export_file: Path, tmp_path: Path) -> None:
    with opened(source_url) as source, opened(db_url) as target:
        for name, path, message in (
            ("none", tmp_path / "out", r"there is no index 'none' in this database \(there are: small\)"),
            ("small", tmp_path, "it is not a regular file"),
            ("small", Path("/dev/null"), "it is not a regular file"),
            ("small", tmp_path / "no" / "out", "its folder does not exist"),
            ("small", Path("/proc/out"), r"cannot write /proc/out\.part"),
        ):
            with pytest.raises(RefactxError, match=message):
                export_index(source, name, path, force=True)
        for path, index, message in (
            (tmp_path / "none", None, "cannot read"),
            (tmp_path, None, "cannot read"),
            (export_file, " ", "is not a valid name"),
        ):
            with pytest.raises(InputError, match=message):
                import_index(target, path, index)
    done = run_refactx("index", "import", __file__, "--db", db_url)
    assert done.returncode == 2
    assert "is not a file of `refactx index export`" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    assert index_states(db_url) == []


def test_a_full_disk_or_a_broken_pipe_is_one_line(source_url: str) -> None:
    for command in ("refactx index export small - > /dev/full", "refactx index export small - | true"):
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            env={**os.environ, "REFACTX_DB": source_url, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("refactx: cannot write the index to standard output")
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.long
def test_no_reader_or_writer_waits_for_an_export(db_url: str, tmp_path: Path) -> None:
    living = LivingIndex(db_url, tmp_path)
    living.ingest("a b c", "d e f")
    file, drops = tmp_path / "living.refactx", list[str]()

    def meanwhile(done: int, total: int) -> None:
        if drops:
            return
        with opened(db_url) as database, database.connection() as connection:
            with pytest.raises(
                DatabaseError, match=r"not dropped: its tables are being read, .*\(process \d+ of the ser"
            ):
                drop(connection, "default", patience=0.2)
            drops.append("tried")
        living.ingest("g h i", replace=True)

    with opened(db_url) as database:
        assert export_index(database, "default", file, progress=meanwhile).facts == 2, (
            "the facts at the start of the export"
        )
        assert index_states(db_url) == [("default", "building"), ("default", "ready")]
        with living.open() as index:
            same(index, living.sequences(["g h i"]))
        living.ingest("j k l", replace=True)
        assert index_states(db_url) == [("default", "ready")], "the next ingest drops the tables that were being read"
        import_index(database, file, "default", replace=True)
    with living.open() as index:
        same(index, living.sequences(["a b c", "d e f"]))
    assert count_tables(db_url) == 2
