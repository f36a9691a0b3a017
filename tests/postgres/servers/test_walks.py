"""Thousands of walks through several servers and through poolers, while the index is changed: none is wrong or fails.

`make test-cluster` prints the counts. REFACTX_WALKS: the walks of each test.
"""

import os
from pathlib import Path

import pytest
from support.ingest.living_index import LivingIndex
from support.postgres.pgbouncer import pgbouncer, program, version
from support.postgres.replicas import Replicated, replicated
from support.postgres.walks import STATES, Walker, change_all, count_walks

pytestmark = pytest.mark.slow
WALKS = int(os.environ.get("REFACTX_WALKS", "2000"))


def test_walks_through_two_servers_of_which_one_lags(tmp_path: Path) -> None:
    with replicated() as pair:
        living = begin(pair, tmp_path)
        walker = Walker(pair.url, WALKS // 4)

        def change(_: int) -> None:
            pair.pause()
            change_all(living, walker, pair.catch_up)

        report("two servers, the standby lags", *count_walks(walker, 4, change))


@pytest.mark.parametrize(
    ("variable", "kept"), [("REFACTX_PGBOUNCER", 0), ("REFACTX_PGBOUNCER_NEW", 0), ("REFACTX_PGBOUNCER_NEW", 100)]
)
def test_walks_of_twenty_readers_through_a_pooler(variable: str, kept: int, tmp_path: Path) -> None:
    path = program(variable)
    if path is None:
        pytest.skip("there is no PgBouncer: apt-get install pgbouncer")
    number = version(path)
    if variable.endswith("NEW") and number < (1, 21):
        pytest.skip("REFACTX_PGBOUNCER_NEW names no PgBouncer of version 1.21 or newer")
    more = f"max_prepared_statements = {kept}" if number >= (1, 21) else ""
    with replicated() as pair, pgbouncer(path, pair.primary.host, pool_size=8, more=more) as url:
        living = begin(pair, tmp_path)
        walker = Walker(url, 2 * WALKS // 20)
        counted = count_walks(walker, 20, lambda _: change_all(living, walker, lambda: None))
        report(f"PgBouncer {number[0]}.{number[1]}, {more or 'no prepared statements'}", *counted)


def test_walks_through_a_pooler_of_two_servers_of_which_one_lags(tmp_path: Path) -> None:
    path = program("REFACTX_PGBOUNCER")
    if path is None:
        pytest.skip("there is no PgBouncer: apt-get install pgbouncer")
    with replicated() as pair, pgbouncer(path, f"{pair.primary.host},{pair.standby.host}", pool_size=8) as url:
        living = begin(pair, tmp_path)
        walker = Walker(url, WALKS // 4)

        def change(_: int) -> None:
            change_all(living, walker, pair.catch_up)

        report("PgBouncer in front of two servers", *count_walks(walker, 4, change))


def begin(pair: Replicated, folder: Path) -> LivingIndex:
    """Make the index in its first state, on both servers."""
    living = LivingIndex(pair.primary.url, folder)
    living.ingest(*STATES[0])
    pair.catch_up()
    return living


def report(where: str, counts: dict[str, int], faults: list[str]) -> None:
    """Print the counts, and fail if there is a fault."""
    shown = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    print(f"\n{where}: wrong or failed {len(faults)} of {counts['walks']:,} walks ({shown})")
    assert faults[:5] == []
