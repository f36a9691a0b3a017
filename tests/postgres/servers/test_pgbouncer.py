"""Readers through PgBouncer in transaction mode: right answers, and nothing left in sessions that others get.

They need PgBouncer: `apt-get install pgbouncer`. REFACTX_PGBOUNCER and REFACTX_PGBOUNCER_NEW name programs, the second of
version 1.21 or newer, which can keep the names of prepared statements.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from support.command import run_refactx
from support.complaints import complains
from support.ingest.living_index import FIRST, MORE, LivingIndex, linked, same
from support.postgres.pgbouncer import pgbouncer, program, version
from support.postgres.replicas import Replicated

import refactx
from refactx.errors import DatabaseError
from refactx.postgres.database import Database
from refactx.postgres.entry import Limits

pytestmark = pytest.mark.slow
POOLERS = [("REFACTX_PGBOUNCER", 0), ("REFACTX_PGBOUNCER_NEW", 0), ("REFACTX_PGBOUNCER_NEW", 100)]


@pytest.fixture(scope="module", params=POOLERS, ids=["PgBouncer", "new PgBouncer", "new PgBouncer that keeps names"])
def pooled(request: pytest.FixtureRequest, pair: Replicated) -> Iterator[str]:
    """The address of a PgBouncer in front of the primary server, with two sessions for all clients."""
    variable, kept = request.param
    path = program(variable)
    if path is None:
        pytest.skip("there is no PgBouncer: apt-get install pgbouncer")
    if variable.endswith("NEW") and version(path) < (1, 21):
        pytest.skip("REFACTX_PGBOUNCER_NEW names no PgBouncer of version 1.21 or newer")
    more = f"max_prepared_statements = {kept}" if version(path) >= (1, 21) else ""
    with pgbouncer(path, pair.primary.host, pool_size=2, more=more) as url:
        yield url


def left_in_sessions(url: str) -> set[tuple[object, ...]]:
    """Return the limits, paths, locks and transactions that other clients of a pooler find."""
    found = set[tuple[object, ...]]()
    for _ in range(8):
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT current_setting('statement_timeout'), current_setting('search_path'), current_user,"
                " current_setting('transaction_timeout'), current_setting('default_transaction_read_only'),"
                " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
            ).fetchone()
            assert row is not None
            found.add(row)
    return found


def test_many_threads_read_right_and_leave_nothing(pooled: str, living: LivingIndex) -> None:
    before = left_in_sessions(pooled)
    assert len(before) == 1

    def read(_: int) -> None:
        for _ in range(3):
            with refactx.open_index(db=pooled, cache_bytes=0, limits=Limits(lookup=5)) as index:
                same(index, living.sequences([*FIRST, *MORE]))
                assert linked(index, "<s5> <p1> <o1> .") == [None, None, None]
                assert index.hubs(["o1"]) == {}

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))
    assert left_in_sessions(pooled) == before


def test_a_reader_follows_a_compaction_and_a_replacement(pooled: str, living: LivingIndex) -> None:
    with refactx.open_index(db=pooled, cache_bytes=0) as index:
        living.forget(*FIRST[:3])
        living.compact()
        same(index, living.sequences([*FIRST[3:], *MORE]), living.sequences(FIRST))
        living.ingest(*FIRST, replace=True)
        with pytest.raises(refactx.IndexNotFoundError, match="dropped or replaced: open it again"):
            index.children([])


def test_names_of_statements_are_given_up_if_they_are_forgotten(pooled: str, living: LivingIndex) -> None:
    with (
        refactx.open_index(db=pooled, cache_bytes=0) as index,
        psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as other,
    ):
        for prefix in living.sequences(FIRST):
            index.children(prefix)
            other.execute("BEGIN")  # it holds the session that was used last, so that the reader gets the other one
            index.children(prefix)
            other.execute("ROLLBACK")
        with index.database._own_pool().connection() as connection:
            assert connection.statements.forgotten <= 2
            assert connection.prepare_threshold is None


def test_commands_that_read_work(pooled: str, living: LivingIndex, tmp_path: Path) -> None:
    living.compact()
    for command in (
        ["index", "list"],
        ["index", "show", "default"],
        ["index", "verify", "default"],
        ["index", "export", "default", tmp_path / "index.refactx"],
        ["facts", "<s1"],
    ):
        done = run_refactx(*command, "--db", pooled)
        assert done.returncode == 0, (command, done.stderr)
    same(refactx.open_index(tmp_path / "index.refactx"), living.sequences([*FIRST, *MORE]))


def test_writers_are_told_to_use_the_address_of_the_server(pooled: str, living: LivingIndex, tmp_path: Path) -> None:
    before = left_in_sessions(pooled)
    for command in (["index", "drop", "default"], ["index", "compact", "default"], ["index", "migrate"]):
        assert "give the server's own address with --db" in complains(pooled, *command)
    with pytest.raises(DatabaseError, match="a pooler or proxy is between"):
        LivingIndex(pooled, tmp_path).append("new new new")
    assert left_in_sessions(pooled) == before


def test_a_lookup_that_takes_too_long_is_cancelled_by_its_client(
    pooled: str, pair: Replicated, living: LivingIndex
) -> None:
    with (
        refactx.open_index(db=pooled, cache_bytes=0, limits=Limits(lookup=0.3)) as index,
        psycopg.connect(pair.primary.url) as locking,
    ):
        locking.execute("LOCK TABLE refactx.segments IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DatabaseError, match=r"stopped a lookup in index 'default' after 0\.\d s"):
            index.children([])
        locking.rollback()
        assert index.children([]).total == len(FIRST) + len(MORE)


def test_options_of_the_address_are_explained(pooled: str, living: LivingIndex) -> None:
    with pytest.raises(DatabaseError, match="leave `options` out, and set the limit of a lookup"):
        Database(pooled + "&options=-c%20statement_timeout%3D60s")


def test_a_restarted_server_behind_the_pooler_is_waited_for(pooled: str, pair: Replicated, living: LivingIndex) -> None:
    with refactx.open_index(db=pooled, cache_bytes=0) as index:
        same(index, living.sequences([*FIRST, *MORE]))
        pair.primary.stop()
        threading.Timer(1, pair.primary.start).start()
        same(index, living.sequences([*FIRST, *MORE]))
