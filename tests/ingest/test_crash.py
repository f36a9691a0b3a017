"""Killed at any moment, an ingest leaves the old index or none, and the same command run again finishes the job."""

import os
import random
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest
from support.command import run_refactx
from support.crashes import kill, start, wait_for
from support.servers import new_home, remove_home


def state_of(url: str) -> str | None:
    """Return the state of the newest index; None if there is none."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('refactx.indexes')").fetchone() == (None,):
            return None
        row = connection.execute("SELECT state FROM refactx.indexes ORDER BY id DESC LIMIT 1").fetchone()
        return row[0] if row else None


def count_tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$'").fetchone()
        return int(row[0]) if row else 0


@pytest.mark.long
def test_killed_while_loading_it_leaves_no_index_and_the_next_run_finishes(
    db_url: str, smollm2_folder: Path, many_facts: Path, session_home: Path
) -> None:
    command = ("ingest", many_facts, "--tokenizer", smollm2_folder, "--db", db_url)
    process = start(*command)
    wait_for(lambda: state_of(db_url) == "building")
    kill(process)
    assert run_refactx("index", "list", "--db", db_url).stdout == ""
    assert "[building]" in run_refactx("index", "list", "--all", "--db", db_url).stdout
    assert "not complete" in run_refactx("facts", "<", "--db", db_url).stderr
    done = run_refactx(*command)
    assert done.returncode == 0, done.stderr
    assert run_refactx("index", "verify", "default", "--db", db_url).returncode == 0
    assert count_tables(db_url) == 2, "what the killed one left is gone"
    assert list((session_home / "work").iterdir()) == []


@pytest.mark.long
def test_what_a_killed_ingest_left_can_be_dropped(db_url: str, smollm2_folder: Path, many_facts: Path) -> None:
    process = start("ingest", many_facts, "--tokenizer", smollm2_folder, "--db", db_url)
    wait_for(lambda: state_of(db_url) == "building")
    kill(process)

    def dropped() -> bool:  # the killed session holds the name until PostgreSQL notices
        return run_refactx("index", "drop", "default", "--db", db_url).returncode == 0

    wait_for(dropped)
    assert count_tables(db_url) == 0


@pytest.mark.long
def test_killed_while_replacing_the_old_index_stays(
    db_url: str, smollm2_folder: Path, many_facts: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old.txt"
    old.write_text("<old> <is> <gold> .\n")
    assert run_refactx("ingest", old, "--tokenizer", smollm2_folder, "--db", db_url).returncode == 0
    process = start("ingest", many_facts, "--tokenizer", smollm2_folder, "--db", db_url, "--replace")
    wait_for(lambda: state_of(db_url) == "building")
    process.send_signal(signal.SIGSTOP)
    assert "<old>" in run_refactx("facts", "<", "--db", db_url).stdout, "readers see the old one meanwhile"
    kill(process)
    assert "<old>" in run_refactx("facts", "<", "--db", db_url).stdout
    wait_for(lambda: run_refactx("index", "drop", "default", "--unfinished", "--db", db_url).returncode == 0)
    assert count_tables(db_url) == 2
    assert "<old>" in run_refactx("facts", "<", "--db", db_url).stdout
    assert (
        "no unfinished index 'default'"
        in run_refactx("index", "drop", "default", "--unfinished", "--db", db_url).stderr
    )


# A commit that takes three seconds and cannot be cancelled, like that of a large index on a slow disk.
SLOW_COMMIT = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    BEGIN PERFORM pg_sleep(3); EXCEPTION WHEN query_canceled THEN NULL; END;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON refactx.indexes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.report IS DISTINCT FROM OLD.report) EXECUTE FUNCTION slow();
"""


def commits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        statement = "SELECT FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'PgSleep'"
        return connection.execute(statement).fetchone() is not None


@pytest.mark.long
def test_interrupted_in_the_commit_of_a_replacement_the_new_index_is_there(
    db_url: str, smollm2_folder: Path, tmp_path: Path
) -> None:
    for name in ("old", "new"):
        (tmp_path / f"{name}.txt").write_text(f"<{name}> <is> <gold> .\n")
    command = ("--tokenizer", smollm2_folder, "--db", db_url, "--replace")
    assert run_refactx("ingest", tmp_path / "old.txt", *command).returncode == 0
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(SLOW_COMMIT)
    process = start("ingest", tmp_path / "new.txt", *command)
    wait_for(lambda: commits(db_url))
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert "<new>" in run_refactx("facts", "<", "--db", db_url).stdout
    assert count_tables(db_url) == 2, "what it replaced is gone"


@pytest.mark.long
def test_of_two_ingests_into_one_name_one_wins_and_the_other_is_an_error(
    db_url: str, smollm2_folder: Path, many_facts: Path
) -> None:
    command = ("ingest", many_facts, "--tokenizer", smollm2_folder, "--db", db_url, "--replace")
    both = [start(*command), start(*command)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert sorted(process.returncode for process in both) == [0, 2]
    loser = next(output for process, output in zip(both, outputs, strict=True) if process.returncode == 2)
    assert "another process is writing index 'default'" in loser[1]
    assert run_refactx("index", "verify", "default", "--db", db_url).returncode == 0


@pytest.mark.long
def test_a_server_killed_under_an_ingest_is_an_error_and_the_next_run_finishes(
    smollm2_folder: Path, many_facts: Path
) -> None:
    from refactx.postgres.embedded import server as embedded

    home = new_home()
    environment = {**os.environ, "REFACTX_HOME": str(home)}
    command = ("ingest", many_facts, "--tokenizer", smollm2_folder)
    try:
        with embedded.start(home) as server:
            process = start(*command, env=environment)
            wait_for(lambda: state_of(server.url) == "building")
            os.kill(int((home / "embedded/data/postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
            _, said = process.communicate(timeout=120)
        assert process.returncode == 2
        assert len(said.strip().splitlines()) == 1, said
        assert "Traceback" not in said
        done = run_refactx(*command, env=environment)
        assert done.returncode == 0, done.stderr
        assert run_refactx("index", "verify", "default", env=environment).returncode == 0
    finally:
        remove_home(home)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_killed_at_any_moment(db_url: str, smollm2_folder: Path, many_facts: Path, seed: int) -> None:
    command = ("ingest", many_facts, "--tokenizer", smollm2_folder, "--db", db_url, "--replace")
    process = start(*command)
    try:
        process.communicate(timeout=random.Random(seed).uniform(0.3, 6))
    except subprocess.TimeoutExpired:
        kill(process)
    assert state_of(db_url) in (None, "building", "ready")
    if state_of(db_url) == "ready":
        assert run_refactx("index", "verify", "default", "--db", db_url).returncode == 0

    def finished() -> bool:
        return run_refactx(*command).returncode == 0

    wait_for(finished, 120)
    assert count_tables(db_url) == 2
    assert run_refactx("index", "verify", "default", "--db", db_url).returncode == 0
