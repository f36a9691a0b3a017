"""Readers whose address leads to several servers read one of them, and never one that is behind what they have read."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.complaints import complains
from support.ingest.living_index import FIRST, MORE, LivingIndex, linked, same
from support.postgres.embedded_server import execute, select
from support.postgres.front import balancer
from support.postgres.replicas import Replicated, Server, address

import refactx
from refactx.errors import IndexNotFoundError

STATE = [*FIRST[3:], *MORE]
"""The facts after the changes of `change`."""


def change(living: LivingIndex) -> None:
    """Give the index facts and tables that a paused standby does not have."""
    living.forget(*FIRST[:3])
    living.compact()


def readers_at(server: Server, name: str) -> object:
    """Return how many sessions of some name a server has."""
    return select(server.url, f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'")


def test_all_connections_of_a_process_are_to_one_server(pair: Replicated, living: LivingIndex) -> None:
    prefixes = living.sequences(FIRST)
    chosen = set[bool]()
    for number in range(20):
        name = f"reader {number}"
        url = address(
            pair.primary, pair.standby, load_balance_hosts="random", application_name=name.replace(" ", "%20")
        )
        with refactx.open_index(db=url, cache_bytes=0) as index:
            with ThreadPoolExecutor(6) as pool:
                list(pool.map(lambda _, opened: [opened.children(p) for p in prefixes], range(6), [index] * 6))
            at = [readers_at(server, name) for server in (pair.primary, pair.standby)]
        assert 0 in at
        assert at != [0, 0]
        chosen.add(at[0] == 0)
        if len(chosen) == 2:
            break
    assert chosen == {False, True}, "libpq chooses a server for each process"


@pytest.mark.long
def test_a_lagging_standby_shows_the_index_as_it_was(pair: Replicated, living: LivingIndex) -> None:
    pair.pause()
    change(living)
    seen = set[int]()
    while len(seen) < 2:
        with refactx.open_index(db=pair.url, cache_bytes=0) as index:
            state = STATE if len(index.segments) == 1 else [*FIRST, *MORE]
            same(index, living.sequences(state), living.sequences([*FIRST, *MORE]))
            assert linked(index, "<s5> <p1> <o1> .") == [None, None, None]
            seen.add(len(index.segments))
    assert seen == {1, 2}
    pair.catch_up()
    with refactx.open_index(db=pair.standby.url) as index:
        same(index, living.sequences(STATE), living.sequences(FIRST))


@pytest.mark.long
def test_a_reader_of_a_standby_continues_when_it_catches_up(pair: Replicated, living: LivingIndex) -> None:
    pair.pause()
    change(living)
    with refactx.open_index(db=pair.standby.url, cache_bytes=0) as index:
        same(index, living.sequences([*FIRST, *MORE]))
        pair.catch_up()
        same(index, living.sequences(STATE), living.sequences(FIRST))
        living.ingest(*FIRST, replace=True)
        pair.catch_up()
        with pytest.raises(IndexNotFoundError, match="dropped or replaced: open it again"):
            index.children([])


@pytest.mark.long
def test_a_balancer_that_one_name_hides_leads_a_process_to_one_server(pair: Replicated, living: LivingIndex) -> None:
    pair.pause()
    change(living)
    facts = living.sequences([*FIRST, *MORE])
    with balancer([pair.primary.host, pair.standby.host]) as url, refactx.open_index(db=url, cache_bytes=0) as index:
        state = STATE if len(index.segments) == 1 else [*FIRST, *MORE]

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda _: same(index, living.sequences(state), facts), range(6)))
    pair.catch_up()


def test_writers_need_the_primary_server(pair: Replicated, living: LivingIndex, tmp_path: Path) -> None:
    said = complains(pair.standby.url, "index", "drop", "default")
    assert "is a standby, which can only be read" in said
    assert "target_session_attrs=primary" in said
    both = address(pair.standby, pair.primary, target_session_attrs="primary")
    LivingIndex(both, tmp_path).append("new new new")
    with living.open() as index:
        assert "<new> <new> <new> ." in index


@pytest.mark.long
def test_a_restarted_server_is_read_anew(pair: Replicated, living: LivingIndex) -> None:
    with refactx.open_index(db=pair.primary.url, cache_bytes=0) as index:
        same(index, living.sequences([*FIRST, *MORE]))
        for _ in range(2):
            pair.primary.stop()
            pair.primary.start()
            same(index, living.sequences([*FIRST, *MORE]))
        execute(pair.primary.url, "UPDATE refactx.indexes SET state = 'building'")
        assert index.children([]).total == len(FIRST) + len(MORE), "a snapshot stays"
        pair.primary.stop()
        pair.primary.start()
        with pytest.raises(IndexNotFoundError, match="dropped or replaced"):
            index.children([])
