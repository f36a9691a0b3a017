"""Walks along facts, cold and warm, against one bare SELECT by primary key on the same server."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median, quantiles
from typing import Any

import psycopg

from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.postgres.catalogue import find_index
from refactx.postgres.database import Database
from refactx.tree.tree import FactTree

FACTS = 300
"""How many facts are walked: enough for a steady median, few enough for a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walks:
    """Figures of walks: times in microseconds, and round trips along a fact."""

    select: float
    cold: float
    children_p50: float
    children_p99: float
    trips_mean: float
    trips_max: int
    trips_warm: int

    def ratios(self) -> dict[str, float]:
        """Return figures by name; times are ratios over the median bare SELECT of the same run."""
        return {
            "round trips of a cold walk, mean": self.trips_mean,
            "round trips of a cold walk, max": self.trips_max,
            "round trips of a warm walk, max": self.trips_warm,
            "cold walk / bare SELECT, p50": self.cold / self.select,
            "warm children() / bare SELECT, p50": self.children_p50 / self.select,
            "warm children() / bare SELECT, p99": self.children_p99 / self.select,
        }


def random_facts(tree: FactTree, count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Return `count` random facts of a uniform distribution: a child is chosen in proportion to its leaves."""
    chance = random.Random(seed)
    facts = []
    for _ in range(count):
        prefix: tuple[int, ...] = ()
        while True:
            below = tree.children(prefix)
            at = chance.randrange(below.total) - below.terminal
            if at < 0:
                break
            token = int(below.tokens[int((below.leaves.cumsum() > at).argmax())])
            prefix = (*prefix, token)
        facts.append(prefix)
    return facts


def measure(database: Database, name: str) -> Walks:
    """Walk `FACTS` random facts of an index, cold walks and bare SELECTs in turn."""
    entry = find_index(database, name)
    facts = random_facts(Index(DatabaseSource(database, entry)), FACTS)
    selects, colds, trips, warm, warm_trips = [], [], [], [], 0
    with psycopg.connect(database.url, autocommit=True) as connection:
        keys = choose_keys(connection, entry.id)
        for number, fact in enumerate(facts):
            cold = Index(DatabaseSource(database, entry))
            # A lookup first, so that no measured walk prepares a statement or opens a connection.
            cold.rows[0].fetch(b"none")
            before = cold.round_trips
            colds.append(microseconds(lambda: walk_fact(cold, fact)))  # noqa: B023  # called at once
            trips.append(cold.round_trips - before)
            selects.append(microseconds(lambda: select_row(connection, keys, number)))  # noqa: B023
            before = cold.round_trips
            for depth in range(len(fact) + 1):
                prefix = fact[:depth]
                warm.append(microseconds(lambda: cold.children(prefix)))  # noqa: B023
            warm_trips = max(warm_trips, cold.round_trips - before)
    percentiles = quantiles(warm, n=100)
    return Walks(
        select=median(selects),
        cold=median(colds),
        children_p50=percentiles[49],
        children_p99=percentiles[98],
        trips_mean=mean(trips),
        trips_max=max(trips),
        trips_warm=warm_trips,
    )


def walk_fact(tree: FactTree, fact: Sequence[int]) -> None:
    for depth in range(len(fact) + 1):
        tree.children(fact[:depth])


def choose_keys(connection: psycopg.Connection[Any], index: int) -> tuple[str, list[bytes]]:
    row = connection.execute("SELECT id FROM refactx.segments WHERE index_id = %s", [index]).fetchone()
    table = f"refactx.pieces_{row[0] if row else 0}"
    rows = connection.execute(f"SELECT key FROM {table} ORDER BY random() LIMIT 500".encode()).fetchall()
    return f"SELECT piece FROM {table} WHERE key = %s", [key for (key,) in rows]


def select_row(connection: psycopg.Connection[Any], keys: tuple[str, list[bytes]], number: int) -> None:
    statement, choices = keys
    key = choices[number % len(choices)]
    connection.execute(statement.encode(), [key], prepare=True, binary=True).fetchone()


def microseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1e6
