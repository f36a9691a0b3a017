"""Data of PostgreSQL 16, taken over by the 18 of the same wheel: whole, or left alone."""

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
from conftest import new_home, remove_home
from support.tiny_model import tiny_tokenizer

import refactx
from refactx.errors import DatabaseError
from refactx.ingest.new_index import Options, ingest
from refactx.postgres.database import Database
from refactx.postgres.embedded.account import account_for
from refactx.postgres.embedded.binaries import carried_versions, programs_of
from refactx.postgres.embedded.cluster import Cluster, _working_in
from refactx.postgres.embedded.server import start, wait_until_stopped
from refactx.tokenizer import FactTokenizer

OLD, NEW = 16, 18
FACTS = [f"<Ann> <p> <{n}> ." for n in range(700)]


def made_by_the_old_one(home: Path) -> None:
    """A home whose server is the old version's, with an index in it; the server was killed, not stopped."""
    cluster = Cluster(home / "embedded")
    cluster.folder.mkdir(mode=0o711)
    account = account_for(cluster.data)
    programs = programs_of(OLD, home, account)
    cluster.create(programs, account)
    cluster.start(programs, account)
    (home / "facts.txt").write_text("\n".join(FACTS))
    opened = Database(cluster.url)
    options = Options("default", FactTokenizer.from_transformers(tiny_tokenizer()), "tiny", quiet=True)
    ingest([home / "facts.txt"], opened, home / "work", options)
    opened.close()
    kill(cluster)


def kill(cluster: Cluster) -> None:
    os.kill(int((cluster.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while cluster.is_ready():
        assert time.monotonic() < deadline


@pytest.fixture(scope="module")
def old_home() -> Iterator[Path]:
    """Such a home, to be copied."""
    folder = new_home()
    made_by_the_old_one(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def home(old_home: Path) -> Iterator[Path]:
    """A copy of it."""
    folder = new_home()
    subprocess.run(["cp", "-a", *old_home.iterdir(), folder], check=True)
    yield folder
    remove_home(folder)


def version_of(folder: Path) -> str:
    return (folder / "PG_VERSION").read_text().strip()


def check_facts(url: str) -> None:
    with refactx.open_index(db=url) as index:
        assert len(index) == len(FACTS)
        assert all(fact in index for fact in FACTS)


def test_the_wheel_carries_both() -> None:
    assert {OLD, NEW} <= carried_versions().keys()


def test_data_of_a_killed_old_server_is_upgraded_and_the_old_data_stays(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = home / "embedded"
    with start(home) as server:
        with psycopg.connect(server.url) as connection:
            assert connection.info.server_version // 10_000 == NEW
        check_facts(server.url)
    assert version_of(folder / "data") == str(NEW)
    assert version_of(folder / "data-16") == str(OLD)
    assert str(folder / "data-16") in caplog.text
    assert not list(folder.glob("*unfinished*"))
    assert not (folder / "data" / "delete_old_cluster.sh").exists()
    wait_until_stopped(home)
    (folder / "data").rename(folder / "data.upgraded")  # as a kill in front of the last rename leaves it
    with start(home) as server:
        check_facts(server.url)


def test_what_cannot_be_upgraded_stays_as_it_was_and_says_why(home: Path) -> None:
    cluster = Cluster(home / "embedded")
    account = account_for(cluster.data)
    programs = programs_of(OLD, home, account)
    cluster.start(programs, account)
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shut ALLOW_CONNECTIONS false")
    cluster.stop(programs, account)
    with pytest.raises(DatabaseError, match=r"stays with PostgreSQL 16.*datallowconn") as caught:
        start(home)
    assert "\n" not in str(caught.value)
    assert [path.name for path in cluster.folder.glob("data*")] == ["data"]
    cluster.start(programs, account)
    check_facts(cluster.url)
    cluster.stop(programs, account)
    # Too little room is told before anything is done; a sparse file takes none.
    with (cluster.data / "large").open("wb") as file:
        file.truncate(shutil.disk_usage(home).free)
    with pytest.raises(DatabaseError, match="make room"):
        start(home)
    assert version_of(cluster.data) == str(OLD)


@pytest.mark.slow
def test_killed_in_front_of_the_renames_the_old_data_is_upgraded_anew_as_often_as_it_takes(home: Path) -> None:
    folder = home / "embedded"
    for times in ("", ".1"):
        with start(home) as server:
            check_facts(server.url)
        wait_until_stopped(home)
        assert version_of(folder / f"data-16{times}") == str(OLD)
        (folder / "data").rename(folder / "data.upgraded")
        subprocess.run(["cp", "-a", folder / "data-16", folder / "data"], check=True)
        (folder / "data.upgraded" / "PG_VERSION").write_text("never read\n")


def test_an_old_server_that_a_killed_upgrade_was_about_to_start_is_waited_for_and_stopped(home: Path) -> None:
    cluster = Cluster(home / "embedded")
    account = account_for(cluster.data)
    programs = programs_of(OLD, home, account)
    begun = f"sleep 1; exec {programs}/postgres -D {cluster.data} -k {cluster.data} -c listen_addresses="
    server = threading.Thread(target=account.run, args=(["sh", "-c", begun], "", cluster.data))
    server.start()
    while not _working_in(cluster.data):
        time.sleep(0.01)
    cluster.stop_orphan(programs, account)
    assert not _working_in(cluster.data)
    server.join()
    with start(home) as running:
        check_facts(running.url)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("19", r"made by PostgreSQL 19.*carries PostgreSQL 18 at most: data cannot go back"),
        ("9.6", r"made by PostgreSQL 9 and this is PostgreSQL 18.*install PostgreSQL 9"),
        ("x", "no data folder of PostgreSQL's"),
    ],
)
def test_data_that_there_are_no_programs_for_is_an_error_and_stays(version: str, message: str) -> None:
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
def test_killed_at_any_moment_of_an_upgrade_the_next_start_succeeds(home: Path) -> None:
    program = "import sys; from pathlib import Path; from refactx.postgres.embedded.server import start; start(Path(sys.argv[1]))"
    for tenths in range(2, 100, 7):
        process = subprocess.Popen([sys.executable, "-c", program, str(home)], start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(tenths / 10)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with start(home) as server:
        check_facts(server.url)
