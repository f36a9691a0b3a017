"""Facts that are cut in ranges, wherever these begin, give the bytes that one cutter gives."""

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored_trees import ListedFacts, random_sequences

from refactx.errors import RefactxError
from refactx.ingest.parallel import in_processes
from refactx.ingest.segment import builder as building
from refactx.ingest.segment.builder import SegmentBuilder, cut_bounds, cut_range, joined, ranges_of
from refactx.ingest.segment.cutting import (
    CollectedEntries,
    FactEntries,
    KeyedRow,
    LevelCutter,
    Lifted,
    Packing,
    Shape,
    learn,
    packed,
)
from refactx.tree.codes import RowCodec

Sequences = Sequence[tuple[int, ...]]


def packing_of(facts: ListedFacts) -> Packing:
    codes, dictionary = learn(facts, 9)
    return Packing(codes, RowCodec(dictionary, 9, 7))


def by_one_cutter(facts: ListedFacts, packing: Packing, shape: Shape) -> tuple[list[KeyedRow], Lifted]:
    above = CollectedEntries()
    cutter = LevelCutter(
        level=0,
        entries=FactEntries(facts),
        capacity=shape.facts,
        code_bytes=shape.code_bytes,
        is_root=False,
        codes=packing.codes,
        above=above,
    )
    return [packed(packing, piece) for batch in cutter.batches() for piece in batch.pieces], above.lifted()


def in_ranges(
    facts: ListedFacts, packing: Packing, shape: Shape, bounds: Sequence[int]
) -> tuple[list[KeyedRow], Lifted]:
    entries, above = FactEntries(facts), CollectedEntries()
    ends = [0, *sorted(bounds), len(facts)]
    cut = (cut_range(entries, *one, packing, shape) for one in pairwise(ends))
    rows = []
    for part in joined(cut, entries, packing, shape):
        rows += part.rows
        above.append(part.lifted)
    return rows, above.lifted()


def assert_same(found: tuple[list[KeyedRow], Lifted], expected: tuple[list[KeyedRow], Lifted]) -> None:
    assert found[0] == expected[0]
    for name in Lifted.__slots__:
        assert getattr(found[1], name).tolist() == getattr(expected[1], name).tolist(), name


def stars(count: int) -> list[tuple[int, ...]]:
    """Subjects with very many facts beside those with one."""
    draw = random.Random(count)
    return [
        (subject, 1, draw.randrange(900), 2) for subject in range(count) for _ in range(draw.choice([1, 1, 1, 200]))
    ]


def chains(count: int) -> list[tuple[int, ...]]:
    """Facts that begin further facts, which are lifted one by one."""
    return [tuple(range(length)) for length in range(1, count)] + [(9000 + n, 1) for n in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("sequences", [random_sequences(6000, 1), stars(40), chains(150)])
@pytest.mark.parametrize("capacity", [1, 2, 7, 64])
def test_the_bytes_are_those_of_one_cutter(sequences: Sequences, capacity: int) -> None:
    facts, shape, draw = ListedFacts(list(sequences)), Shape(facts=capacity, code_bytes=400), random.Random(capacity)
    packing = packing_of(facts)
    expected = by_one_cutter(facts, packing, shape)
    for count in (1, 3, 40):
        assert_same(in_ranges(facts, packing, shape, draw.choices(range(len(facts) + 1), k=count)), expected)


@settings(max_examples=60)
@given(
    sequences=st.sets(st.lists(st.integers(0, 4), min_size=1, max_size=6).map(tuple), min_size=3, max_size=60),
    capacity=st.integers(1, 5),
    code_bytes=st.sampled_from([1, 9, 1000]),
    places=st.lists(st.floats(0, 1), max_size=4),
)
def test_any_facts_and_any_borders(
    sequences: set[tuple[int, ...]], capacity: int, code_bytes: int, places: list[float]
) -> None:
    facts, shape = ListedFacts(list(sequences)), Shape(facts=capacity, code_bytes=code_bytes)
    if len(facts) <= capacity:
        return
    packing = packing_of(facts)
    bounds = [int(place * len(facts)) for place in places]
    assert_same(in_ranges(facts, packing, shape, bounds), by_one_cutter(facts, packing, shape))


@pytest.mark.long
def test_processes_cut_ranges_side_by_side_and_facts_of_files_are_read_there(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = ListedFacts(random_sequences(9000, 3))
    packing, shape = packing_of(facts), Shape(facts=16, inner=32, root=64)
    with TemporaryDirectory() as work:
        one = list(SegmentBuilder(facts, packing, work=Path(work), shape=shape, workers=1).rows())
        monkeypatch.setattr(building, "LEAST_IN_PROCESSES", 1)
        monkeypatch.setattr(building, "RANGE", 1000)
        done = list[int]()
        builder = SegmentBuilder(facts, packing, work=Path(work), shape=shape, workers=2, advance=done.append)
        assert list(builder.rows()) == one
        assert sum(done) == len(facts)
        assert builder.levels > 2


class Deadly(ListedFacts):
    """Facts whose reader is killed, as by a machine without memory; or that cannot be read."""

    def __init__(self, sequences: Sequences, is_killed: bool) -> None:
        super().__init__(list(sequences))
        self.is_killed = is_killed

    def read_tokens(self, low: int, high: int):  # type: ignore[no-untyped-def]
        import os
        import signal

        if self.is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("the disk is gone")


@pytest.mark.long
@pytest.mark.parametrize(
    ("is_killed", "error", "confidence"),
    [(True, RefactxError, "was killed by SIGKILL: if memory is short"), (False, OSError, "the disk is gone")],
)
def test_what_ends_a_process_ends_the_ingest(is_killed: bool, error: type[Exception], confidence: str) -> None:
    sound = ListedFacts(random_sequences(900, 3))
    facts = FactEntries(Deadly(sound.sequences, is_killed))
    with pytest.raises(error, match=confidence):
        list(in_processes(cut_bounds, (facts, packing_of(sound), Shape(facts=16)), ranges_of(900, 300), 2))


def test_ranges_are_neighbours() -> None:
    for count, size in [(1, 5), (10, 3), (1_000_001, 1_000_000)]:
        found = ranges_of(count, size)
        assert found[0][0] == 0
        assert found[-1][1] == count
        assert all(one[1] == other[0] for one, other in pairwise(found))
        assert max(np.diff(found).ravel()) <= size
