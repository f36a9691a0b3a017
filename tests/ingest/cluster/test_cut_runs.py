"""Facts that tasks cut in runs, however a cluster divides them, give the rows of one machine."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored_trees import ListedFacts, random_sequences

from refactx.ingest.cluster.facts import CutRow, CutTask, cut_task, pieces_of
from refactx.ingest.encoding import as_keys
from refactx.ingest.segment.builder import SegmentBuilder
from refactx.ingest.segment.cutting import KeyedRow, Packing, Shape, learn
from refactx.tree.codes import RowCodec

Sequences = Sequence[tuple[int, ...]]


class PartedFacts(ListedFacts):
    """Listed facts whose parts begin at given positions; counts what the driver had to ask for."""

    def __init__(self, sequences: Sequences, starts: Sequence[int]) -> None:
        super().__init__(list(sequences))
        self.starts, self.asked = starts, 0

    def start_of(self, part: int) -> int:
        return self.starts[part]

    def read_tokens(self, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        self.asked += 1
        return super().read_tokens(low, high)


def rows_of(facts: ListedFacts, packing: Packing, shape: Shape, cut: object = None) -> list[KeyedRow]:
    with TemporaryDirectory() as work:
        builder = SegmentBuilder(facts, packing, work=Path(work), shape=shape, workers=1, cut=cut)  # type: ignore[arg-type]
        return list(builder.rows())


def batches_of(facts: ListedFacts, part: int, start: int, low: int, high: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield facts low to high - 1 of a part that begins at `start`, `size` at a time."""
    for first in range(low, high, size):
        last = min(high, first + size)
        tokens, offsets = ListedFacts.read_tokens(facts, first, last)
        keys = as_keys(tokens, np.diff(offsets)).cast(pa.binary())
        places = pa.array(range(first - start, last - start), pa.int64())
        columns = [pa.array([part] * (last - first), pa.int32()), places, keys]
        yield pa.RecordBatch.from_arrays(columns, ["part", "at", "ids"])


def on_cluster(
    sequences: Sequences, packing: Packing, shape: Shape, parts: Sequence[int], files: Sequence[int], at_a_time: int
) -> tuple[list[KeyedRow], int]:
    """Return the rows of facts that are sorted into `parts` and read in runs that end at `files`; and how often the
    driver asked the cluster for facts. Two runs at a time are in one task."""
    starts = [0, *sorted(parts)]
    facts = PartedFacts(sequences, starts)
    task = CutTask(packing=packing, shape=shape, facts_at_a_time=at_a_time)
    bounds = sorted({*starts, *files, len(facts)})
    tasks = [list[pa.RecordBatch]() for _ in range(2)]
    for number, (low, high) in enumerate(pairwise(bounds)):
        part = max(at for at, start in enumerate(starts) if start <= low)
        tasks[number % 2] += batches_of(facts, part, starts[part], low, high, 5)
    found = list[CutRow]()
    for batches in tasks:
        for batch in cut_task(task, iter(batches)):
            found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    facts.asked = 0
    rows = rows_of(facts, packing, shape, pieces_of(sorted(found), facts, task))
    return rows, facts.asked


def packing_of(facts: ListedFacts) -> Packing:
    codes, dictionary = learn(facts, 9)
    return Packing(codes, RowCodec(dictionary, 9, 7))


def stars(count: int) -> list[tuple[int, ...]]:
    draw = random.Random(count)
    return [(one, 1, draw.randrange(900), 2) for one in range(count) for _ in range(draw.choice([1, 1, 1, 200]))]


def chains(count: int) -> list[tuple[int, ...]]:
    return [tuple(range(length)) for length in range(1, count)] + [(9000 + n, 1) for n in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("sequences", [random_sequences(6000, 1), stars(40), chains(150)])
@pytest.mark.parametrize("capacity", [1, 2, 7, 64])
def test_the_rows_are_those_of_one_machine(sequences: Sequences, capacity: int) -> None:
    facts, draw = ListedFacts(list(sequences)), random.Random(capacity)
    shape, packing = Shape(facts=capacity, inner=64, root=128, code_bytes=400), packing_of(facts)
    expected = rows_of(facts, packing, shape)
    for parts, files, at_a_time in ((0, 0, 100), (2, 1, 1000), (5, 20, 17)):
        places = [sorted(draw.choices(range(len(facts)), k=count)) for count in (parts, files)]
        rows, _ = on_cluster(sorted(sequences), packing, shape, *places, at_a_time)
        assert rows == expected


def test_the_driver_has_the_facts_that_it_needs_from_the_tasks() -> None:
    sequences = random_sequences(20_000, 5)
    facts, shape = ListedFacts(list(sequences)), Shape(facts=8, inner=64, root=128)
    packing = packing_of(facts)
    rows, asked = on_cluster(sorted(sequences), packing, shape, [7000, 15_000], [4000, 11_000], 500)
    assert rows == rows_of(facts, packing, shape)
    assert asked == 0


@settings(max_examples=60)
@given(
    sequences=st.sets(st.lists(st.integers(0, 4), min_size=1, max_size=6).map(tuple), min_size=3, max_size=80),
    capacity=st.integers(1, 4),
    code_bytes=st.sampled_from([1, 9, 1000]),
    parts=st.lists(st.floats(0, 0.99), max_size=3),
    files=st.lists(st.floats(0, 0.99), max_size=3),
    at_a_time=st.integers(1, 30),
)
def test_any_facts_in_any_parts(
    sequences: set[tuple[int, ...]],
    capacity: int,
    code_bytes: int,
    parts: list[float],
    files: list[float],
    at_a_time: int,
) -> None:
    facts = ListedFacts(list(sequences))
    shape, packing = Shape(facts=capacity, inner=4, root=4, code_bytes=code_bytes), packing_of(facts)
    places = [sorted({int(place * len(facts)) for place in some}) for some in (parts, files)]
    rows, _ = on_cluster(sorted(sequences), packing, shape, *places, at_a_time)
    assert rows == rows_of(facts, packing, shape)
