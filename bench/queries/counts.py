"""Counts by prefix: how many facts one subject has with one predicate, warm and cold."""

import random
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, TypeVar

from bench.walks import microseconds
from refactx.index.index import Index
from refactx.postgres.catalogue import read_hubs
from refactx.postgres.database import Database
from refactx.walks import TreeFacts, answer_query
from refactx.walks.language import Hop, Query
from refactx.walks.sets import Triple

Value = TypeVar("Value")
Prefix = tuple[str, str]
"""A subject and a predicate."""

WARM, COLD = 1000, 200
"""How many prefixes are counted warm, and each in an index of its own."""


class CountedDatabase(Database):
    """A database that counts its lookups, each of which is one query: those for rows of the tree, hubs and names."""

    lookups = 0

    def retry(self, action: Callable[..., Value], index: str | None = None, **given: Any) -> Value:
        """Run a lookup as `Database.retry` does."""
        self.lookups += 1
        return super().retry(action, index, **given)


def figures(database: CountedDatabase, fresh: Callable[[], Index], facts: Sequence[Triple]) -> dict[str, float]:
    """Return the figures of counts for the prefixes of some facts, and for hubs, if the index has any.

    `fresh`: opens the index again, with its statements prepared.
    """
    with database.connection() as connection:
        hubs = [(hub.object, hub.inverse) for hub in read_hubs(connection, fresh().entry.id)]
    groups = {"prefixes of facts": _some((subject, predicate) for subject, predicate, _ in facts), "hubs": _some(hubs)}
    return {
        f"count, {group}, {what}": value
        for group, prefixes in groups.items()
        if prefixes
        for what, value in _of_group(database, fresh, prefixes).items()
    }


def _some(prefixes: Iterable[Prefix]) -> list[Prefix]:
    distinct = sorted(set(prefixes))
    return random.Random(0).sample(distinct, min(WARM, len(distinct)))


def _of_group(database: CountedDatabase, fresh: Callable[[], Index], prefixes: Sequence[Prefix]) -> dict[str, float]:
    read = TreeFacts(fresh())
    counts = [read.counts([subject], predicate)[0] for subject, predicate in prefixes]
    times = sorted(microseconds(lambda: read.counts([subject], predicate)) for subject, predicate in prefixes)  # noqa: B023
    trips, whole = list[int](), list[int]()
    for subject, predicate in prefixes[:COLD]:
        cold = TreeFacts(fresh())
        before = database.lookups
        cold.counts([subject], predicate)
        trips.append(database.lookups - before)
        cold = TreeFacts(fresh())
        before = database.lookups
        answer_query(Query("count", subject, (Hop(predicate),)), cold)
        whole.append(database.lookups - before)
    return {
        "number of prefixes": len(prefixes),
        "most facts": max(counts),
        "warm, µs, p50": round(median(times), 1),
        "warm, µs, p95": round(times[len(times) * 95 // 100], 1),
        "cold, round trips, mean": sum(trips) / len(trips),
        "cold, round trips, max": max(trips),
        "whole answer, cold, round trips, max": max(whole),
    }
