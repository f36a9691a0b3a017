"""A lookup takes no longer than its limit, even if the server is frozen, locked or killed."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from support.postgres.embedded_server import FACTS, kill_server

import refactx
from refactx.errors import DatabaseError, InputError
from refactx.fact import Fact
from refactx.postgres.connections import open_session
from refactx.postgres.database import Database
from refactx.postgres.entry import Limits, limits_of_environment


def test_an_embedded_server_that_was_killed_is_started_by_its_reader(
    indexed_home: Path, indexed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFACTX_HOME", str(indexed_home))
    monkeypatch.delenv("REFACTX_DB", raising=False)
    with refactx.open_index(cache_bytes=0) as index:
        before = index.children([]).leaves.sum()
        kill_server(indexed_home)
        assert index.children([]).leaves.sum() == before


def count_facts(index: refactx.Index) -> int:
    return int(index.children([]).total)


@pytest.mark.long
def test_a_frozen_server_process_counts_as_gone(indexed_url: str) -> None:
    with refactx.open_index(db=indexed_url, cache_bytes=0, limits=Limits(lookup=0.1, outage=30)) as index:
        named = Fact("Ann", "p", "0", "<Ann> <p> <0> .", (0, 1))
        before = count_facts(index), index.links(named)
        for look in (partial(count_facts, index), partial(index.links, named)):
            with open_session(indexed_url) as other:
                others = (
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                frozen = [row[0] for row in other.execute(others).fetchall()]
            for process in frozen:
                os.kill(process, signal.SIGSTOP)
            try:
                assert look() in before
            finally:
                for process in frozen:
                    os.kill(process, signal.SIGCONT)


def test_a_lookup_that_takes_too_long_is_an_error_with_the_index_and_the_remedy(indexed_url: str) -> None:
    limited = make_conninfo(indexed_url, options="-c statement_timeout=100")
    for address, limits in ((indexed_url, Limits(lookup=0.1)), (limited, Limits(lookup=60))):
        with refactx.open_index(db=address, cache_bytes=0, limits=limits) as index, open_session(indexed_url) as other:
            (table,) = other.execute("SELECT 'refactx.pieces_' || id FROM refactx.segments").fetchone() or ("",)
            with other.transaction():
                other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
                with pytest.raises(
                    DatabaseError, match=r"a lookup in index 'default' after 0\.\d s.*REFACTX_LOOKUP_SECONDS"
                ):
                    index.children([])
            assert index.children([]).total == len(FACTS)


@pytest.mark.parametrize(
    ("in_address", "given", "of_role", "expected"),
    [
        (None, None, None, 10.0),
        (None, 3.0, None, 3.0),
        (None, 0.0, 5, 0.0),
        (None, None, 5, 5.0),
        (None, 3.0, 5, 3.0),
        (7, 3.0, 5, 7.0),
        (0, 3.0, 5, 0.0),
    ],
)
def test_the_precedence_of_the_limits_of_a_lookup(
    indexed_url: str, in_address: int | None, given: float | None, of_role: int | None, expected: float
) -> None:
    with open_session(indexed_url) as connection:
        connection.execute("DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN")
        if of_role is not None:
            connection.execute(f"ALTER ROLE limited SET statement_timeout = '{of_role}s'".encode())
    options = "" if in_address is None else f"-c statement_timeout={in_address}s"
    database = Database(make_conninfo(indexed_url, user="limited", options=options), Limits(lookup=given))
    shown = database.retry(lambda connection: connection.execute("SHOW statement_timeout").fetchone())
    assert shown == (f"{expected:g}s" if expected else "0",)
    database.close()


def test_the_limit_of_lookups_does_not_apply_to_whole_tables(indexed_url: str) -> None:
    database = Database(indexed_url, Limits(lookup=0.1))
    slow = "SELECT 1 FROM pg_sleep(0.3)"
    with pytest.raises(DatabaseError, match="stopped a lookup in the index after"):
        database.retry(lambda connection: connection.execute(slow.encode()).fetchone())
    assert database.retry_unlimited(lambda connection: connection.execute(slow.encode()).fetchone()) == (1,)
    with database.connection() as connection:
        assert connection.execute(slow.encode()).fetchone() == (1,)
    database.close()


def test_a_connection_prepares_its_statements_again_after_deallocate_all(indexed_url: str) -> None:
    with refactx.open_index(db=indexed_url, cache_bytes=0) as index:
        before = index.children([]).leaves.sum()
        index.database.retry(lambda connection: connection.execute("DEALLOCATE ALL"))
        assert index.children([]).leaves.sum() == before


def test_limits_are_numbers_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFACTX_LOOKUP_SECONDS", "2.5")
    monkeypatch.setenv("REFACTX_OUTAGE_SECONDS", "0")
    assert limits_of_environment() == Limits(2.5, 0.0)
    for wrong in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("REFACTX_OUTAGE_SECONDS", wrong)
        with pytest.raises(InputError, match="REFACTX_OUTAGE_SECONDS"):
            limits_of_environment()
    with pytest.raises(InputError, match="not a limit for lookup"):
        Limits(lookup=-1)
