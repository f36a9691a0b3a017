"""Killed at any moment, a command leaves an index and a store that are both right, or says what to run."""

import fcntl
import shutil
import signal
from itertools import count
from pathlib import Path

import pytest
from support.command import run_refactx
from support.crashes import start, wait_for
from support.ingest.living_index import FIRST, MORE, LivingIndex
from support.sparql.store_kills import is_killed_at
from support.sparql.stores import triples_anew, triples_in

from refactx.index import Index
from refactx.sparql.store import StoreError, build_store, open_store, update_store
from refactx.sparql.store.folder import folder_of

LINES = pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
BEHIND = "the store of index 'default' is behind the index: run `refactx store update default`"
MISSING = (
    "index 'default' has no store: run `refactx store build default`",
    "the store of index 'default' is not complete, since its build was stopped: run `refactx store build default`",
)


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    living = LivingIndex(db_url, tmp_path)
    living.ingest(*FIRST)
    return living


def state(index: Index) -> str:
    """Return how a store opens: `right`, after comparing its triples with those of all facts, or the error."""
    try:
        with open_store(index) as store:
            assert triples_in(store) == triples_anew(index)
            return "right"
    except StoreError as error:
        return str(error)


@pytest.mark.long
@LINES
def test_a_first_build_that_is_killed_leaves_no_store_or_the_right_one(living: LivingIndex, step: int) -> None:
    seen = set[str]()
    with living.open() as index:
        for line in count(1, step):
            was_killed = is_killed_at(line, "build_store", "default", living.url)
            seen.add(state(index))
            update_store(index)
            assert_right(index)
            folder_of(index).drop()
            if not was_killed:
                break
    assert seen == {*MISSING, "right"}


@pytest.mark.long
@LINES
@pytest.mark.parametrize("action", ["update_store", pytest.param("build_store", marks=pytest.mark.slow)])
def test_a_later_one_that_is_killed_leaves_the_store_before_it_or_the_right_one(
    living: LivingIndex, tmp_path: Path, action: str, step: int
) -> None:
    with living.open() as index:
        build_store(index)
    path, before = folder_of(index).path, tmp_path / "before"
    shutil.copytree(path, before)
    living.append(*MORE)
    living.forget(*FIRST[:3])
    seen = list[str]()
    with living.open() as index:
        for line in count(1, step):
            was_killed = is_killed_at(line, action, "default", living.url)
            seen.append(state(index))
            assert update_store(index).change == ("updated" if seen[-1] == BEHIND else "unchanged")
            assert_right(index)
            shutil.rmtree(path)
            shutil.copytree(before, path)
            if not was_killed:
                break
    assert set(seen) == {BEHIND, "right"}
    assert seen == sorted(seen, key="right".__eq__), "it is right from one moment on"


def test_the_lock_of_a_version_that_a_killed_process_removed_goes_with_the_next_one(living: LivingIndex) -> None:
    with living.open() as index:
        build_store(index)
        living.append(*MORE)
        update_store(index)
        (folder_of(index).path / "1.lock").touch()
        assert update_store(index).change == "unchanged"
        assert_right(index)


def assert_right(index: Index) -> None:
    """Check a store and that nothing else is left in its folder."""
    assert state(index) == "right"
    names = sorted(path.name for path in folder_of(index).path.iterdir())
    assert names == [(version := names[0]), f"{version}.lock", "lock"]


@pytest.mark.long
def test_a_command_that_is_killed_or_interrupted_before_it_changes_the_store_leaves_it_as_it_was(
    living: LivingIndex,
) -> None:
    with living.open() as index:
        build_store(index)
        command = ("ingest", living.source(MORE), "--append", "--db", living.url)
        with (folder_of(index).path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as a process that writes the store holds it
            process = start(*command)
            assert process.stderr is not None
            wait_for(index.refresh)
            note = process.stderr.readline()
            assert "another process is writing the store of index 'default': waiting for it" in note
            assert state(index) == BEHIND.replace(
                ": run `refactx store update default`", ", and another process is writing it: wait until that has ended"
            )
            process.kill()
            process.communicate()
            process = start("forget", command[1], "--db", living.url)
            assert process.stderr is not None
            assert process.stderr.readline() == note
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate()
            assert process.returncode == 130
            assert "is as it should be, but its store is not (interrupted): run `refactx store update" in complaint
        assert state(index) == BEHIND
        printed = run_refactx(*command).stdout
        assert "4 facts appended" in printed
        assert "store of default: 8 triples added, 0 removed" in printed
        assert_right(index)
