"""Readers in processes that walk through an index while it is changed, and what they have seen by brute force."""

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import refactx
from refactx.errors import IndexNotFoundError, RefactxError
from refactx.index.index import Index
from refactx.postgres.entry import Limits
from refactx.tree.tree import MemoryTree
from support.ingest.living_index import FIRST, MORE, LivingIndex, linked, shown

Walk = tuple[int, ...]
STATES = ([*FIRST], [*FIRST, *MORE], [*FIRST[3:], *MORE])
"""The facts that the index has in turn."""
WALKS_OF_A_READER = 10
"""Then it closes the index, and a fresh reader opens it, at a server that libpq chooses."""
WALKS_OF_A_CHANGE = 25
"""How many walks there are between two changes."""


@dataclass
class Removals:
    """How often an index was replaced or dropped: begun, and known to all servers."""

    begun: Any = field(default_factory=lambda: multiprocessing.Value("i", 0))
    settled: Any = field(default_factory=lambda: multiprocessing.Value("i", 0))

    @contextmanager
    def one(self, settle: Callable[[], object]) -> Iterator[None]:
        """Replace or drop an index in the block; `settle` returns when all servers know of it."""
        self.begun.value += 1
        yield
        settle()
        self.settled.value = self.begun.value


@dataclass(frozen=True)
class Walker:
    """Readers of one process. They make `walks` in all, and each answer must be that of one of the states."""

    url: str
    walks: int
    removals: Removals = field(default_factory=Removals)
    walked: Any = field(default_factory=lambda: multiprocessing.Value("i", 0))

    def pace(self) -> None:
        """Wait until the readers have walked on, or are done."""
        before, deadline = self.walked.value, time.monotonic() + 5
        while self.walked.value < before + WALKS_OF_A_CHANGE and time.monotonic() < deadline:
            time.sleep(0.01)

    def run(self, seed: int, seen: Any) -> None:
        """Walk, and put the counts of what was seen into a queue, and then the faults."""
        counts, faults = Counter[str](), list[str]()
        chance, living = random.Random(seed), LivingIndex("", None)  # type: ignore[arg-type]
        facts = sorted({fact for state in STATES for fact in state})
        walks = dict(zip(facts, living.sequences(facts), strict=True))
        allowed = _answers(list(walks.values()), [living.sequences(state) for state in STATES])
        while counts["walks"] < self.walks:
            settled, cache_bytes = self.removals.settled.value, chance.choice([0, 1 << 20])
            try:
                with refactx.open_index(db=self.url, cache_bytes=cache_bytes, limits=Limits(outage=60)) as index:
                    for _ in range(WALKS_OF_A_READER):
                        fact = chance.choice(facts)
                        faults += _wrong(index, fact, walks[fact], allowed)
                        counts["walks"] += 1
                        with self.walked.get_lock():
                            self.walked.value += 1
                counts["readers"] += 1
            except IndexNotFoundError as error:
                if self.removals.begun.value > settled:
                    counts["readers that were told of a replaced or dropped index"] += 1
                else:
                    faults.append(f"{type(error).__name__}: {error}")
                    counts["walks"] += 1
            except RefactxError as error:
                faults.append(f"{type(error).__name__}: {error}")
                counts["walks"] += 1
        seen.put((counts, faults))


def _wrong(index: Index, fact: str, walk: Walk, allowed: dict[Walk, list[Any]]) -> Iterator[str]:
    """Walk along a fact, and yield what no state of the index would answer."""
    for depth in range(len(walk) + 1):
        answer = shown(index.children(walk[:depth]))
        if answer not in allowed[walk[:depth]]:
            yield f"{fact}, {depth} tokens: {answer}"
    if linked(index, f"<{fact.replace(' ', '> <')}> .") != [None, None, None]:
        yield f"{fact}: it has links"


def _answers(walks: list[Walk], states: list[list[Walk]]) -> dict[Walk, list[Any]]:
    trees = [MemoryTree(state) for state in states]
    prefixes = {walk[:depth] for walk in walks for depth in range(len(walk) + 1)}
    return {prefix: [shown(tree.children(prefix)) for tree in trees] for prefix in prefixes}


def change_all(living: LivingIndex, walker: Walker, settle: Callable[[], object]) -> None:
    """Make each change of an index, from its first state to its first state."""
    changes: list[Callable[[], object]] = [
        lambda: living.append(*MORE),
        living.compact,
        lambda: living.forget(*FIRST[:3]),
        living.compact,
    ]
    for change in changes:
        change()
        walker.pace()
    with walker.removals.one(settle):
        living.ingest(*FIRST, replace=True)
    walker.pace()
    for change in changes[:2]:
        change()
        walker.pace()
    with walker.removals.one(settle):
        living.drop()
        living.ingest(*FIRST)
    walker.pace()


def count_walks(
    walker: Walker, processes: int, change: Callable[[int], object], seconds: float = 3000
) -> tuple[Counter[str], list[str]]:
    """Walk in processes, and change the index with `change(round)` until all are done. Return counts and faults."""
    context = multiprocessing.get_context("fork")
    seen = context.Queue()
    running = [context.Process(target=walker.run, args=(seed, seen)) for seed in range(processes)]
    for process in running:
        process.start()
    rounds, results = 0, list[tuple[Counter[str], list[str]]]()
    deadline = time.monotonic() + seconds
    try:
        while len(results) < processes:
            change(rounds)
            rounds += 1
            while not seen.empty():
                results.append(seen.get())
            assert time.monotonic() < deadline
            assert all(process.exitcode in (None, 0) for process in running)
    finally:
        for process in running:
            process.kill()
            process.join()
    counts = sum((count for count, _ in results), Counter({"rounds of changes": rounds}))
    return counts, [fault for _, faults in results for fault in faults]
