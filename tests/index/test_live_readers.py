"""An open index continues while facts are appended and forgotten, and while its segments are replaced by compaction."""

import random
import threading
from pathlib import Path

import psycopg
import pytest
from support.ingest.living_index import FIRST, MORE, LivingIndex, linked, same, shown
from support.signed_sum import SignedSum

from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.errors import IndexChangedError, IndexNotFoundError
from refactx.index.index import Index
from refactx.postgres.database import Database
from refactx.postgres.writing import drop
from refactx.tree.tree import MemoryTree


@pytest.fixture
def living(db_url: str, tmp_path: Path) -> LivingIndex:
    made = LivingIndex(db_url, tmp_path)
    made.ingest(*FIRST)
    return made


def test_an_open_index_stays_as_it_is_until_it_is_refreshed(living: LivingIndex) -> None:
    with living.open() as index:
        living.append(*MORE)
        living.forget(FIRST[0])
        same(index, living.sequences(FIRST), living.sequences(MORE))
        assert index.refresh()
        same(index, living.sequences([*FIRST[1:], *MORE]), living.sequences(FIRST))
        assert not index.refresh()
        assert len(index) == len(FIRST) + len(MORE) - 1


def test_a_refreshed_index_keeps_the_rows_that_it_has(living: LivingIndex) -> None:
    with living.open() as index:
        same(index, living.sequences(FIRST))
        before = index.round_trips
        living.append(*MORE)
        index.refresh()
        walked = index.round_trips
        assert walked == before, "the count continues"
        same(index, living.sequences(FIRST + MORE))
        assert index.round_trips - walked < before, "only the new segment's rows are fetched"


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_a_reader_continues_by_itself_after_a_compaction(living: LivingIndex, cache_bytes: int) -> None:
    with living.open(cache_bytes=cache_bytes) as index:
        living.append(*MORE)
        living.forget(*FIRST[:3])
        living.compact()
        for prefix in living.sequences(["s5 p1 o1"]):  # none of it was read before
            assert index.children(prefix).terminal == 1
        assert len(index.segments) == 1
        same(index, living.sequences([*FIRST[3:], *MORE]), living.sequences(FIRST))
        assert index.facts == len(FIRST) - 3 + len(MORE)
        assert linked(index, "<s5> <p1> <o1> .") == [None, None, None]


@pytest.mark.long
def test_readers_in_many_threads_see_the_old_or_the_new_index(living: LivingIndex) -> None:
    sequences = living.sequences(FIRST + MORE)
    prefixes = sorted({sequence[:depth] for sequence in sequences for depth in range(len(sequence) + 1)})
    held = [living.sequences(FIRST)]
    allowed = {prefix: [shown(MemoryTree(held[0]).children(prefix))] for prefix in prefixes}
    stop, faults, walked = threading.Event(), [], []

    def read(index: Index, seed: int) -> None:
        chance = random.Random(seed)
        while not stop.is_set() or not walked:
            prefix = chance.choice(prefixes)
            seen = shown(index.children(prefix))
            walked.append(prefix)
            if seen not in allowed[prefix]:
                faults.append((prefix, seen))

    with living.open(cache_bytes=0) as index:
        readers = [threading.Thread(target=read, args=(index, seed)) for seed in range(4)]
        for state in ([*FIRST, *MORE], [*FIRST[2:], *MORE], FIRST[2:]):
            for prefix in prefixes:
                allowed[prefix].append(shown(MemoryTree(living.sequences(state)).children(prefix)))
        for reader in readers:
            reader.start()
        living.append(*MORE)
        living.compact()
        living.forget(*FIRST[:2])
        living.compact()
        living.forget(*MORE)
        living.compact()
        stop.set()
        for reader in readers:
            reader.join(timeout=60)
            assert not reader.is_alive()
        assert faults == []
        same(index, living.sequences(FIRST[2:]), sequences)


def test_a_change_does_not_wait_for_readers_of_compacted_segments(
    living: LivingIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refactx.ingest.compaction.DROP_SECONDS", 0.1)
    with psycopg.connect(living.url) as export:
        export.execute("SELECT count(*) FROM refactx.pieces_1")
        living.forget(*FIRST[:3])
        living.compact()
        with living.open() as index:
            assert living.append(*MORE).facts == len(MORE)
            index.refresh()
            same(index, living.sequences([*FIRST[3:], *MORE]), living.sequences(FIRST))
            assert len(export.execute("SELECT key FROM refactx.pieces_1").fetchall()) > 0, "it continues to read"
    living.forget("not there at")
    with psycopg.connect(living.url) as connection:
        assert connection.execute("SELECT to_regclass('refactx.pieces_1')").fetchone() == (None,), (
            "then the table is dropped"
        )


def test_a_fact_retracted_while_it_is_written_is_an_error(living: LivingIndex) -> None:
    with living.open() as index:
        machine = Machine(index)
        (fact,) = living.sequences(FIRST[:1])
        state = machine.begin(0)
        for position, token in enumerate(fact[:3]):
            state = machine.advance(state, token, position)
        assert isinstance(state, InFact)
        living.forget(*(text for text in FIRST if text.startswith("s0 ")))
        living.compact()
        index.refresh()
        with pytest.raises(IndexChangedError, match="were retracted meanwhile: ask again"):
            machine.advance(state, fact[3], 3)


def test_a_dropped_or_replaced_index_is_reported(living: LivingIndex) -> None:
    with living.open(cache_bytes=0) as index:
        living.ingest(*MORE, replace=True)
        with pytest.raises(IndexNotFoundError, match="dropped or replaced: open it again"):
            index.children(living.sequences(FIRST)[0])
    with living.open(cache_bytes=0) as index:
        database = Database(living.url)
        with database.connection() as connection:
            drop(connection, "default")
        database.close()
        with pytest.raises(IndexNotFoundError, match="dropped or replaced: open it again"):
            index.children([])
        with pytest.raises(IndexNotFoundError, match="dropped or replaced: open it again"):
            index.refresh()


def test_a_warm_walk_of_several_segments_reads_none_of_them(living: LivingIndex) -> None:
    living.append(*MORE)
    living.forget(*FIRST[:3])
    with living.open() as index:
        sequences = living.sequences(FIRST + MORE)
        plain = SignedSum(index.segments)
        for sequence in sequences:
            for depth in range(len(sequence) + 1):
                assert shown(index.children(sequence[:depth])) == shown(plain.children(sequence[:depth]))
        first = [index.children(sequence[:depth]) for sequence in sequences[4:] for depth in range(4)]
        again = [index.children(sequence[:depth]) for sequence in sequences[4:] for depth in range(4)]
        assert all(one is other for one, other in zip(first, again, strict=True)), "cached, not summed again"


def test_small_segments_take_no_round_trips_of_a_walk(living: LivingIndex) -> None:
    living.append(*MORE)
    living.forget(*FIRST[:3])
    with living.open() as index:
        same(index, living.sequences([*FIRST[3:], *MORE]), living.sequences(FIRST))
        first, *rest = index.rows
        assert first.round_trips > 0
        assert [rows.round_trips for rows in rest] == [0, 0]
