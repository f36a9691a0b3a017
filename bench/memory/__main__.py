"""`python -m bench.memory INDEX --encoder ENCODER`: sizes and times of the memory of an index.

The memory is built before, by `refactx memory build`; `--encoder bench.memory.random_encoder:random` takes no model.
Times are medians and 95th percentiles of look-ups one after the other, beside a bare `SELECT 1` of the same run.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median, quantiles
from typing import Any

import click
import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from refactx.index.open import open_index
from refactx.postgres.memory import find_nearest, find_pgvector
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.text import Placeholder
from refactx.sparql.placeholders.vector_memory import VectorMemory

NEAREST = 10
"""The entries of a search: those that a resolver takes as candidates."""


@click.command()
@click.argument("index")
@click.option("--encoder", help="Of the memory; default: the one built last.")
@click.option("--count", default=1000, show_default=True, help="Look-ups of each kind.")
@click.option("--exact", "brute", default=50, show_default=True, help="Searches that are compared with all entries.")
@click.option("--db", help="PostgreSQL; default: $REFACTX_DB or embedded.")
def main(index: str, encoder: str | None, count: int, brute: int, db: str | None) -> None:
    """Print the size of a memory, the times of its look-ups, and how many neighbours the approximate search finds."""
    with open_index(index, db) as opened:
        memory = open_memory(opened, encoder)
        if not isinstance(memory, VectorMemory):
            raise click.ClickException(f"index {index} has no memory: refactx memory build --index {index}")
        with psycopg.connect(opened.database.url, autocommit=True) as connection:
            print_sizes(connection, memory)
            labels = sample_labels(connection, memory, count)
            mentions = [Placeholder("entity", label) for label in labels]
            bare = times(lambda _: opened.database.retry(lambda one: one.execute("SELECT 1").fetchone()), mentions)
            exact = times(lambda mention: memory.exact([mention]), mentions)
            queries = sample_embeddings(connection, memory, count)
            vectors = find_pgvector(connection)
            near = times(lambda one: search(connection, memory, one, vectors), queries)
            print_times({"SELECT 1": bare, "exact label": exact, f"{NEAREST} nearest, HNSW": near})
            print_recall(connection, memory, queries[:brute], vectors)


def times(action: Callable[[Any], object], values: Iterable[Any]) -> list[float]:
    """Return the milliseconds that an action takes for each value, after a tenth of them to warm up."""
    values = list(values)
    for value in values[: max(1, len(values) // 10)]:
        action(value)
    found = []
    for value in values:
        begun = time.perf_counter()
        action(value)
        found.append(1000 * (time.perf_counter() - begun))
    return found


def search(
    connection: psycopg.Connection[Any], memory: VectorMemory, embedding: NDArray[np.float32], vectors: str
) -> list[int]:
    """Return the numbers of the entities nearest to an embedding, float32[width]."""
    rows = find_nearest(connection, memory.record, embedding[None], relations=False, count=NEAREST, vectors=vectors)
    return [row.entry.number for row in rows]


def sample_labels(connection: psycopg.Connection[Any], memory: VectorMemory, count: int) -> list[str]:
    """Return labels and aliases of entities at random."""
    statement = sql.SQL("SELECT label FROM {} WHERE number & 1 = 0").format(memory.record.table)
    labels = [str(row[0]) for row in connection.execute(statement).fetchall()]
    return random.Random(0).sample(labels, min(count, len(labels)))


def sample_embeddings(
    connection: psycopg.Connection[Any], memory: VectorMemory, count: int
) -> list[NDArray[np.float32]]:
    """Return embeddings near those of entities at random, as those of other words for the same are."""
    statement = sql.SQL(
        "SELECT embedding::text FROM {} WHERE embedding IS NOT NULL AND number & 1 = 0 ORDER BY hashint4(entry) LIMIT %s"
    ).format(memory.record.table)
    rows = connection.execute(statement, [count]).fetchall()
    known = np.array([[float(number) for number in row[0][1:-1].split(",")] for row in rows], np.float32)
    noise = np.random.default_rng(0).normal(size=known.shape).astype(np.float32)
    noise *= 0.5 / np.linalg.norm(noise, axis=1, keepdims=True)
    return list(known + noise)


def print_sizes(connection: psycopg.Connection[Any], memory: VectorMemory) -> None:
    """Print the entries of a memory, and its bytes in all and for each embedding."""
    table = memory.record.table.as_string(connection)
    statement = f"SELECT count(*), count(embedding), pg_table_size('{table}'), pg_indexes_size('{table}') FROM {table}"
    ((entries, embeddings, table_bytes, index_bytes),) = connection.execute(statement.encode()).fetchall()
    click.echo(
        f"memory of {memory.record.index} by {memory.record.encoder}: {entries:,} names, {embeddings:,} embeddings of "
        f"{memory.record.width} numbers; table {table_bytes:,} bytes ({table_bytes / entries:.0f} a name), indexes "
        f"{index_bytes:,} ({index_bytes / embeddings:.0f} an embedding)"
    )


def print_times(found: dict[str, list[float]]) -> None:
    """Print the median and the 95th percentile of each look-up, and the median over that of the first."""
    first = median(next(iter(found.values())))
    click.echo(f"{'':22}{'p50 ms':>8}{'p95 ms':>8}{'over the first':>16}")
    for name, some in found.items():
        p95 = quantiles(some, n=20)[-1]
        click.echo(f"{name:22}{median(some):>8.2f}{p95:>8.2f}{median(some) / first:>16.1f}")


def print_recall(
    connection: psycopg.Connection[Any],
    memory: VectorMemory,
    queries: Sequence[NDArray[np.float32]],
    vectors: str,
) -> None:
    """Print the share of the nearest entries that the approximate search finds, and of the very nearest."""
    approximate = [search(connection, memory, one, vectors) for one in queries]
    connection.execute("SET enable_indexscan = off")
    exact = [search(connection, memory, one, vectors) for one in queries]
    connection.execute("RESET enable_indexscan")
    pairs = list(zip(approximate, exact, strict=True))
    shared = sum(len({*some} & {*all_}) for some, all_ in pairs) / sum(len({*all_}) for _, all_ in pairs)
    first = sum(all_[0] in some for some, all_ in pairs) / len(pairs)
    click.echo(
        f"of the {NEAREST} nearest of {len(pairs)} searches: {shared:.3f} found, of the very nearest {first:.3f}"
    )


if __name__ == "__main__":
    main()
