"""An embedded server runs while a process uses it, even if processes end, are killed or start meanwhile."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psycopg
import pytest
from support.postgres.embedded_server import (
    FORKING_USER,
    end_user,
    eventually,
    execute,
    is_stopped,
    kill_server,
    postmaster_pid,
    read_url,
    select,
    start_user,
    watchdog_pids,
)
from support.servers import new_home, remove_home

from refactx.postgres.connections import open_session
from refactx.postgres.database import Database
from refactx.postgres.embedded import watchdog as embedded_watchdog
from refactx.postgres.embedded.cluster import Cluster
from refactx.postgres.embedded.server import start


@pytest.mark.long
def test_two_processes_share_one_server_and_it_outlives_the_first(home: Path) -> None:
    first, second = start_user(home), start_user(home)
    url = read_url(first)
    assert read_url(second) == url
    server = postmaster_pid(home)
    end_user(first)
    assert select(url, "SELECT 1") == 1
    assert postmaster_pid(home) == server
    end_user(second)
    assert eventually(lambda: is_stopped(home))


@pytest.mark.long
def test_after_a_kill_of_the_last_process_the_server_shuts_down_and_the_data_stays(home: Path) -> None:
    last = start_user(home)
    execute(read_url(last), "CREATE TABLE kept AS SELECT 42 AS answer")
    end_user(last, signal.SIGKILL)
    assert eventually(lambda: is_stopped(home) and not watchdog_pids(home))
    assert "database system is shut down" in Cluster(home / "embedded").log.read_text()
    with start(home) as server:
        assert select(server.url, "SELECT answer FROM kept") == 42


def test_processes_that_start_at_once_get_one_server(homes: list[Path]) -> None:
    home = new_home()
    homes.append(home)
    users = [start_user(home) for _ in range(4)]
    assert len({read_url(process) for process in users}) == 1
    assert len(watchdog_pids(home)) == 1
    starts = Cluster(home / "embedded").log.read_text().count("starting PostgreSQL")
    for process in users:
        end_user(process)
    assert starts == 1


def test_closing_ends_one_use_and_can_be_repeated(home: Path) -> None:
    one, other = start(home), start(home)
    one.close()
    one.close()
    assert select(other.url, "SELECT 1") == 1
    other.close()


@pytest.mark.long
def test_a_killed_watchdog_is_replaced_by_the_next_start(home: Path) -> None:
    with start(home):
        (watchdog,) = watchdog_pids(home)
        os.kill(watchdog, signal.SIGKILL)
        assert eventually(lambda: not watchdog_pids(home))
        with start(home):
            assert len(watchdog_pids(home)) == 1
    assert eventually(lambda: is_stopped(home))


@pytest.mark.long
def test_a_server_that_recovers_when_its_last_user_has_ended_is_stopped(home: Path) -> None:
    """Its processes are killed for longer than the watchdog waits, which thus finds it in recovery."""
    with start(home) as server:
        url = server.url
    until = time.monotonic() + embedded_watchdog.GRACE_SECONDS + 1.5
    while time.monotonic() < until:
        gone = (psycopg.OperationalError, ProcessLookupError)  # the backend may have ended with an earlier one
        with contextlib.suppress(*gone), psycopg.connect(url) as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)
    assert eventually(lambda: is_stopped(home) and not watchdog_pids(home))
    with start(home) as again:
        assert select(again.url, "SELECT 1") == 1


def test_a_connection_waits_while_the_server_recovers(home: Path) -> None:
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


def test_a_killed_server_is_started_again_with_every_commit(home: Path) -> None:
    with start(home) as server:
        execute(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
        kill_server(home)
        with start(home) as again:
            assert select(again.url, "SELECT answer FROM kept") == 42


@pytest.mark.long
def test_a_stale_postmaster_pid_with_the_number_of_another_process_does_not_stop_the_start(home: Path) -> None:
    data = Cluster(home / "embedded").data
    with start(home):
        killed = kill_server(home)
    # A process of the server's own user: PostgreSQL itself ignores a process of another user.
    other = subprocess.Popen(["sleep", "600"], user=data.stat().st_uid if os.geteuid() == 0 else None)
    with (data / "postmaster.pid").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.truncate()
        file.write(text.replace(str(killed), str(other.pid), 1))
    try:
        with start(home) as server:
            assert select(server.url, "SELECT 1") == 1
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.slow
def test_a_forked_child_keeps_the_server_until_it_ends(home: Path) -> None:
    parent = start_user(home, FORKING_USER)
    url = read_url(parent)
    parent.wait()
    time.sleep(5)  # longer than the watchdog waits: nothing must happen
    assert select(url, "SELECT 1") == 1
    end_user(parent)
    assert eventually(lambda: is_stopped(home))


@pytest.mark.slow
def test_kills_at_any_moment_of_the_start_leave_no_process_and_a_usable_home() -> None:
    home = new_home()
    for hundredths in range(0, 240, 12):
        process = start_user(home)
        time.sleep(hundredths / 100)
        end_user(process, signal.SIGKILL)
    assert eventually(lambda: not watchdog_pids(home) and is_stopped(home), 60)
    with start(home) as server:
        assert select(server.url, "SELECT 1") == 1
    remove_home(home)


@pytest.mark.slow
def test_users_that_start_while_the_server_stops_always_get_one(home: Path) -> None:
    for tenths in range(18, 26):
        with start(home) as server:
            assert select(server.url, "SELECT 1") == 1
        time.sleep(tenths / 10)  # around the moment at which the watchdog stops the server
    assert eventually(lambda: is_stopped(home))
