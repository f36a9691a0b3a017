"""Queries on one store, by the engine of `refactx sparql` and by pyoxigraph alone, in turn.

Seconds are those of the processor, of all threads, so that what else runs on the machine hardly counts.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from pyoxigraph import QueryBoolean, Store

from refactx.sparql.engines import StoreEngine
from refactx.sparql.syntax.prologue import with_declarations

ENOUGH = 0.05
"""Seconds after which a query has been run often enough."""


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of one query: the least of several runs by the engine, and by pyoxigraph alone; its rows."""

    query: str
    engine: float
    alone: float
    rows: int


def measure(queries: Sequence[str], store: Store, runs: int = 5, limit: float = 60.0) -> list[Times]:
    """Run each query in turn by both, several times, and return the least times.

    `runs`: the fewest of each; short queries are run more often. `limit`: as `--timeout` has it. pyoxigraph alone gets
    queries that declare their prefixes, as it needs them.
    """
    engine = StoreEngine(store)
    found = list[Times]()
    for query in queries:
        whole, pairs = with_declarations(query), list[tuple[float, float]]()
        rows, end = alone(whole, store), time.perf_counter() + ENOUGH
        while len(pairs) < runs or (time.perf_counter() < end and len(pairs) < 20 * runs):
            one = _seconds(partial(engine.run, query, seconds=limit))
            pairs.append((one, _seconds(partial(alone, whole, store))))
        found.append(Times(query, min(one for one, _ in pairs), min(two for _, two in pairs), rows))
    engine.close()
    return found


def alone(query: str, store: Store) -> int:
    """Return how many rows pyoxigraph gives for a query, all of which are read, with their terms."""
    found = store.query(query)
    return 1 if isinstance(found, QueryBoolean) else len([tuple(row) for row in found])


def summary(times: Sequence[Times]) -> dict[str, float]:
    """Return the ratio of all times together, the median ratio of single queries, and seconds."""
    return {
        "queries": len(times),
        "rows": sum(one.rows for one in times),
        "seconds alone": sum(one.alone for one in times),
        "seconds by the engine": sum(one.engine for one in times),
        "ratio of all": sum(one.engine for one in times) / sum(one.alone for one in times),
        "median ratio": median(one.engine / one.alone for one in times),
        "median microseconds more": 1e6 * median(one.engine - one.alone for one in times),
    }


def _seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun
