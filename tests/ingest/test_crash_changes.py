"""Killed at any moment, a change leaves the index as it was or as it should be, and the next change cleans up."""

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.command import run_refactx
from support.crashes import kill, start, wait_for
from support.servers import DatabaseServer, database

from refactx.index.open import open_index
from refactx.index.verify import verify

FACTS = 60_000
FIRST, MORE = 3 * FACTS // 4, FACTS


def fact(number: int) -> str:
    return f"<subject {number // 3}> <property {number % 3}> <value {number * 7 % 1000}> ."


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file of first facts, and one of more facts, some of which are in the first."""
    folder = tmp_path_factory.mktemp("changes")
    for name, facts in (("first.txt", range(FIRST)), ("more.txt", range(FIRST - 1000, MORE))):
        (folder / name).write_text("".join(fact(number) + "\n" for number in facts))
    return folder / "first.txt", folder / "more.txt"


@pytest.fixture
def url(
    database_server: DatabaseServer, smollm2_folder: Path, sources: tuple[Path, Path], tmp_path: Path
) -> Iterator[str]:
    """A database with the first facts as index `default`."""
    with database(database_server, f"refactx_{tmp_path.name}".replace("-", "_")[:60]) as address:
        done = run_refactx("ingest", sources[0], "--tokenizer", smollm2_folder, "--db", address)
        assert done.returncode == 0, done.stderr
        yield address


def query_number(url: str, statement: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return int(row[0]) if row else 0


def count_unfinished(url: str) -> int:
    return query_number(url, "SELECT count(*) FROM refactx.segments WHERE NOT ready")


def count_tables(url: str) -> int:
    return query_number(url, "SELECT count(*) FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$'")


def count_facts(url: str) -> int:
    """Return how many facts the index has, after verifying it."""
    with open_index("default", url) as index:
        assert verify(index).faults == []
        return len(index)


def kill_when_it_writes(url: str, process: "subprocess.Popen[str]") -> None:
    wait_for(lambda: count_unfinished(url) > 0 or process.poll() is not None)
    kill(process)


@pytest.mark.long
def test_a_killed_append_leaves_nothing_that_readers_see_and_the_next_one_finishes(
    url: str, sources: tuple[Path, Path], session_home: Path
) -> None:
    command = ("ingest", sources[1], "--append", "--db", url)
    kill_when_it_writes(url, start(*command))
    assert count_unfinished(url) == 1, "it was killed in time"
    assert count_facts(url) == FIRST
    assert "[a change is running, or was killed]" in run_refactx("index", "list", "--all", "--db", url).stdout

    def finished() -> bool:  # the killed session holds the name until PostgreSQL notices
        return run_refactx(*command).returncode == 0

    wait_for(finished)
    assert count_facts(url) == MORE
    assert count_unfinished(url) == 0
    assert count_tables(url) == 3, "what the killed one left is gone"
    assert list((session_home / "work").iterdir()) == []


@pytest.mark.slow  # the same code cleans up after a killed append, above
def test_a_killed_compaction_leaves_the_segments_and_the_next_one_finishes(
    url: str, sources: tuple[Path, Path]
) -> None:
    assert "were already there" in run_refactx("ingest", sources[1], "--append", "--db", url).stdout
    assert run_refactx("forget", sources[0], "--db", url).returncode == 0
    kill_when_it_writes(url, start("index", "compact", "default", "--db", url))
    assert count_facts(url) == MORE - FIRST

    def finished() -> bool:
        return run_refactx("index", "compact", "default", "--db", url).returncode == 0

    wait_for(finished)
    assert count_facts(url) == MORE - FIRST
    assert (count_tables(url), count_unfinished(url)) == (2, 0)


@pytest.mark.long
def test_a_killed_rename_leaves_the_old_name_or_the_new_one_in_all_facts(url: str, sources: tuple[Path, Path]) -> None:
    command = ("rename", "value 7", "another name", "--db", url)

    def facts_of(name: str) -> int:
        with open_index("default", url) as index:
            assert verify(index).faults == []
            return sum(fact.object == name for fact in index.all_facts())

    before = facts_of("value 7")
    assert before > 1
    kill_when_it_writes(url, start(*command))
    assert (facts_of("value 7"), facts_of("another name")) in ((before, 0), (0, before))

    def finished() -> bool:  # or it was finished when it was killed, and has no such thing
        done = run_refactx(*command)
        return done.returncode == 0 or "value 7" in done.stderr

    wait_for(finished)
    assert (facts_of("value 7"), facts_of("another name"), count_unfinished(url)) == (0, before, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_any_moment(url: str, sources: tuple[Path, Path], seed: int) -> None:
    chance = random.Random(seed)
    for command, before, after in (
        (("ingest", sources[1], "--append", "--db", url), FIRST, MORE),
        (("forget", sources[0], "--db", url), MORE, MORE - FIRST),
        (("index", "compact", "default", "--db", url), MORE - FIRST, MORE - FIRST),
    ):
        process = start(*command)
        try:
            process.communicate(timeout=chance.uniform(0.5, 4))
        except subprocess.TimeoutExpired:
            kill(process)
        assert count_facts(url) in (before, after)
        deadline = time.monotonic() + 60
        while (done := run_refactx(*command)).returncode:
            assert "another process is writing" in done.stderr
            assert time.monotonic() < deadline
        assert count_facts(url) == after
    assert (count_tables(url), count_unfinished(url)) == (2, 0)
