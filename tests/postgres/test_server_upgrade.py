"""Data of PostgreSQL 16 is upgraded to the 18 of the same wheel completely, or is unchanged."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.postgres.embedded_server import ingest_facts, kill_server
from support.servers import new_home, remove_home

import refactx
from refactx.errors import DatabaseError
from refactx.postgres.embedded.cluster import Cluster, account_for, carried_versions, processes_in, programs_of
from refactx.postgres.embedded.server import start, wait_until_stopped

OLD, NEW = 16, 18
FACTS = [f"<Ann> <p> <{n}> ." for n in range(700)]


def make_old_home(home: Path) -> None:
    """Make a home with data of the old version and an index, whose server was killed, not stopped."""
    cluster = Cluster(home / "embedded")
    cluster.folder.mkdir(mode=0o711)
    account = account_for(cluster.data)
    programs = programs_of(OLD, home, account)
    cluster.create(programs, account)
    cluster.start(programs, account)
    ingest_facts(cluster.url, home, FACTS)
    kill_server(home)


@pytest.fixture(scope="module")
def prepared_old_home() -> Iterator[Path]:
    """Such a home, to be copied."""
    folder = new_home()
    make_old_home(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def old_home(prepared_old_home: Path) -> Iterator[Path]:
    """A copy of it."""
    folder = new_home()
    subprocess.run(["cp", "-a", *prepared_old_home.iterdir(), folder], check=True)
    yield folder
    remove_home(folder)


def version_of(folder: Path) -> str:
    return (folder / "PG_VERSION").read_text().strip()


def check_facts(url: str) -> None:
    with refactx.open_index(db=url) as index:
        assert len(index) == len(FACTS)
        assert all(fact in index for fact in FACTS)


def test_the_wheel_has_both_versions() -> None:
    assert {OLD, NEW} <= carried_versions().keys()


def test_data_of_a_killed_old_server_is_upgraded_and_the_old_data_stays(
    old_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = old_home / "embedded"
    with start(old_home) as server:
        with psycopg.connect(server.url) as connection:
            assert connection.info.server_version // 10_000 == NEW
        check_facts(server.url)
    assert version_of(folder / "data") == str(NEW)
    assert version_of(folder / "data-16") == str(OLD)
    assert str(folder / "data-16") in caplog.text
    assert not list(folder.glob("*unfinished*"))
    assert not (folder / "data" / "delete_old_cluster.sh").exists()
    wait_until_stopped(old_home)
    (folder / "data").rename(folder / "data.upgraded")  # the state after a kill before the last rename
    with start(old_home) as server:
        check_facts(server.url)


def test_data_that_cannot_be_upgraded_is_unchanged_and_the_error_has_the_reason(old_home: Path) -> None:
    cluster = Cluster(old_home / "embedded")
    account = account_for(cluster.data)
    programs = programs_of(OLD, old_home, account)
    cluster.start(programs, account)
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shut ALLOW_CONNECTIONS false")
    cluster.stop(programs, account)
    with pytest.raises(DatabaseError, match=r"stays with PostgreSQL 16.*datallowconn") as caught:
        start(old_home)
    assert "\n" not in str(caught.value)
    assert [path.name for path in cluster.folder.glob("data*")] == ["data"]
    cluster.start(programs, account)
    check_facts(cluster.url)
    cluster.stop(programs, account)
    # Too little free space is an error before anything is done. A sparse file takes no space.
    with (cluster.data / "large").open("wb") as file:
        file.truncate(shutil.disk_usage(old_home).free)
    with pytest.raises(DatabaseError, match="free disk space"):
        start(old_home)
    assert version_of(cluster.data) == str(OLD)


@pytest.mark.slow
def test_after_a_kill_before_the_renames_the_old_data_is_upgraded_again(old_home: Path) -> None:
    folder = old_home / "embedded"
    for times in ("", ".1"):
        with start(old_home) as server:
            check_facts(server.url)
        wait_until_stopped(old_home)
        assert version_of(folder / f"data-16{times}") == str(OLD)
        (folder / "data").rename(folder / "data.upgraded")
        subprocess.run(["cp", "-a", folder / "data-16", folder / "data"], check=True)
        (folder / "data.upgraded" / "PG_VERSION").write_text("never read\n")


def test_an_old_server_that_a_killed_upgrade_was_starting_is_stopped(old_home: Path) -> None:
    cluster = Cluster(old_home / "embedded")
    account = account_for(cluster.data)
    programs = programs_of(OLD, old_home, account)
    begun = f"sleep 1; exec {programs}/postgres -D {cluster.data} -k {cluster.data} -c listen_addresses="
    server = threading.Thread(target=account.run, args=(["sh", "-c", begun], "", cluster.data))
    server.start()
    while not processes_in(cluster.data):
        time.sleep(0.01)
    cluster.stop_orphan(programs, account)
    assert not processes_in(cluster.data)
    server.join()
    with start(old_home) as running:
        check_facts(running.url)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("19", r"made by PostgreSQL 19.*has PostgreSQL 18 at most, and a downgrade is not possible"),
        ("9.6", r"made by PostgreSQL 9, and an upgrade to PostgreSQL 18.*install PostgreSQL 9"),
        ("x", "not a data folder of PostgreSQL"),
    ],
)
def test_data_without_programs_of_its_version_is_an_error_and_is_unchanged(version: str, message: str) -> None:
    home = new_home()
    data = home / "embedded" / "data"
    data.parent.mkdir(mode=0o711)
    account_for(data).make_folder(data)
    (data / "PG_VERSION").write_text(f"{version}\n")
    with pytest.raises(DatabaseError, match=message):
        start(home)
    assert version_of(data) == version
    assert [path.name for path in data.parent.glob("data*")] == ["data"]
    shutil.rmtree(home)


@pytest.mark.slow
def test_after_a_kill_at_any_moment_of_an_upgrade_the_next_start_succeeds(old_home: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from refactx.postgres.embedded.server import start; "
        "start(Path(sys.argv[1]))"
    )
    for tenths in range(2, 100, 7):
        process = subprocess.Popen([sys.executable, "-c", program, str(old_home)], start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(tenths / 10)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with start(old_home) as server:
        check_facts(server.url)
