"""An open index continues to answer: after a server's restart, from many threads, after a fork, in bounded memory."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psycopg
import pytest
from support.command import run_refactx
from support.servers import new_home, remove_home

import refactx
from refactx.index.index import Index
from refactx.postgres.database import Database
from refactx.postgres.embedded import server as embedded


def walk(index: Index, texts: list[str]) -> list[tuple[list[int], list[int], int]]:
    """The children of all prefixes of some facts."""
    seen = []
    for text in texts:
        tokens = index.tokenizer.encode_after(index.trigger, " " + text.removesuffix(index.terminator))
        for depth in range(len(tokens) + 1):
            below = index.children(tokens[:depth])
            seen.append((below.tokens.tolist(), below.leaves.tolist(), below.terminal))
    return seen


def kill_server(home: Path, url: str) -> None:
    """Kill an embedded server, and wait until it no longer answers."""
    os.kill(int((home / "embedded/data/postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            return
    raise AssertionError("the killed server still answers")


@pytest.fixture(scope="module")
def some_facts(sample_url: str) -> list[str]:
    """Facts from all parts of the sample."""
    with refactx.open_index(db=sample_url) as index:
        subjects = [subject for subject, _ in index.complete("<", 400)][::20]
        facts = []
        for subject in subjects:
            (predicate, _), *_ = index.complete(subject + " <", 1)
            facts.append(index.complete(predicate + " <", 1)[0][0])
        assert all(fact in index for fact in facts)
    return facts


def test_children_are_arrays_of_the_documented_types(sample_url: str) -> None:
    with refactx.open_index(db=sample_url) as index:
        root = index.children([])
        assert root.tokens.dtype == np.int32
        assert root.leaves.dtype == np.int64
        assert (np.diff(root.tokens) > 0).all()
        assert root.leaves.sum() + root.terminal == index.facts == len(index)
        assert index.children([0, 0, 0]).total == 0


def test_a_cold_walk_takes_a_handful_of_round_trips_and_a_warm_one_none(sample_url: str, some_facts: list[str]) -> None:
    with refactx.open_index(db=sample_url) as index:
        walk(index, some_facts[:1])
        assert 1 <= index.round_trips <= 5
        before = index.round_trips
        walk(index, some_facts[:1])
        assert index.round_trips == before


@pytest.mark.long
def test_a_cache_of_any_size_gives_the_same_answers_within_its_bound(sample_url: str, some_facts: list[str]) -> None:
    with refactx.open_index(db=sample_url) as index:
        expected = walk(index, some_facts)
    for cache_bytes in (0, 20_000, 200_000):
        with refactx.open_index(db=sample_url, cache_bytes=cache_bytes) as index:
            assert walk(index, some_facts) == expected
            assert index.segments[0][1].cached_bytes <= cache_bytes


def test_threads_share_an_index(sample_url: str, some_facts: list[str]) -> None:
    with refactx.open_index(db=sample_url, cache_bytes=50_000) as index, ThreadPoolExecutor(8) as pool:
        expected = [walk(index, [fact]) for fact in some_facts]
        for _ in range(5):
            assert list(pool.map(lambda fact: walk(index, [fact]), some_facts)) == expected


@pytest.mark.long
def test_a_forked_child_makes_its_own_connections(sample_url: str, some_facts: list[str]) -> None:
    with refactx.open_index(db=sample_url, cache_bytes=0) as index:
        expected = walk(index, some_facts)
        child = os.fork()
        if child == 0:  # the child must not raise into pytest
            try:
                os._exit(0 if walk(index, some_facts) == expected else 1)
            except BaseException:
                os._exit(2)
        assert walk(index, some_facts) == expected, "the parent's connections still work"
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.long
def test_no_answer_is_lost_when_the_server_restarts(smollm2_folder: Path, sample: Path) -> None:
    home = new_home()
    try:
        with embedded.start(home) as server:
            done = run_refactx("ingest", sample, "--tokenizer", smollm2_folder, "--db", server.url)
            assert done.returncode == 0, done.stderr
            with refactx.open_index(db=server.url, cache_bytes=0) as index:
                fact = index.complete(index.complete(index.complete("<", 1)[0][0] + " <", 1)[0][0] + " <", 1)[0][0]
                expected = walk(index, [fact])
                kill_server(home, server.url)
                with embedded.start(home):
                    assert walk(index, [fact]) == expected
    finally:
        remove_home(home)


@pytest.mark.long
def test_an_index_that_is_replaced_while_it_is_read_is_an_error(
    db_url: str, smollm2_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "facts.txt"
    file.write_text("<a> <b> <c> .\n")
    command = ("ingest", file, "--tokenizer", smollm2_folder, "--db", db_url)
    assert run_refactx(*command).returncode == 0
    with refactx.open_index(db=db_url, cache_bytes=0) as index:
        assert "<a> <b> <c> ." in index
        assert run_refactx(*command, "--replace").returncode == 0
        with pytest.raises(refactx.RefactxError, match="dropped or replaced: open it again"):
            index.children([])


def test_a_wrong_address_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(refactx.RefactxError, match="cannot reach the database"):
        Database(f"postgresql:///kb?host={tmp_path}")
