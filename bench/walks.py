"""Walks along facts, cold and warm, against one bare SELECT by primary key on the same server."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median, quantiles
from typing import Any

import psycopg

from refactx.index.index import Index, find_index
from refactx.postgres.database import Database
from refactx.tree.children import FactTree

FACTS = 300
"""Facts walked: enough for a steady median, few enough for a minute."""


@dataclass(frozen=True, slots=True)
class Walks:
    """Times in microseconds; round trips along a fact; ratios are over the median bare SELECT of the same run."""

    select: float
    cold: float
    children_p50: float
    children_p99: float
    trips_mean: float
    trips_max: int
    trips_warm: int

    def ratios(self) -> dict[str, float]:
        """The figures of the issue."""
        return {
            "round trips of a cold walk, mean": self.trips_mean,
            "round trips of a cold walk, max": self.trips_max,
            "round trips of a warm walk, max": self.trips_warm,
            "cold walk / bare SELECT, p50": self.cold / self.select,
            "warm children() / bare SELECT, p50": self.children_p50 / self.select,
            "warm children() / bare SELECT, p99": self.children_p99 / self.select,
        }


def random_facts(tree: FactTree, count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Facts drawn evenly: each step follows a child with the chance of its leaves."""
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
    facts = random_facts(Index(database, entry), FACTS)
    selects, colds, trips, warm, warm_trips = [], [], [], [], 0
    with psycopg.connect(database.url, autocommit=True) as connection:
        keys = _some_keys(connection, entry["id"])
        for number, fact in enumerate(facts):
            cold = Index(database, entry)
            # A lookup first, so that neither side pays for preparing a statement or for a connection.
            cold.rows[0].fetch(b"none")
            before = cold.round_trips
            colds.append(_timed(lambda: _walk(cold, fact)))  # noqa: B023  # called at once
            trips.append(cold.round_trips - before)
            selects.append(_timed(lambda: _select(connection, keys, number)))  # noqa: B023
            before = cold.round_trips
            for depth in range(len(fact) + 1):
                prefix = fact[:depth]
                warm.append(_timed(lambda: cold.children(prefix)))  # noqa: B023
            warm_trips = max(warm_trips, cold.round_trips - before)
    percentiles = quantiles(warm, n=100)
    return Walks(
        *(median(selects), median(colds), percentiles[49], percentiles[98]), mean(trips), max(trips), warm_trips
    )


def _walk(tree: FactTree, fact: Sequence[int]) -> None:
    for depth in range(len(fact) + 1):
        tree.children(fact[:depth])


def _some_keys(connection: psycopg.Connection[Any], index: int) -> tuple[str, list[bytes]]:
    row = connection.execute("SELECT id FROM refactx.segments WHERE index_id = %s", [index]).fetchone()
    table = f"refactx.pieces_{row[0] if row else 0}"
    rows = connection.execute(f"SELECT key FROM {table} ORDER BY random() LIMIT 500".encode()).fetchall()
    return f"SELECT piece FROM {table} WHERE key = %s", [key for (key,) in rows]


def _select(connection: psycopg.Connection[Any], keys: tuple[str, list[bytes]], number: int) -> None:
    statement, choices = keys
    key = choices[number % len(choices)]
    connection.execute(statement.encode(), [key], prepare=True, binary=True).fetchone()


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1e6
