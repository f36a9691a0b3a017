"""`python -m bench.breakdown [INDEX]`: the time of each step of a cold walk, in microseconds, and of a bare SELECT.

Each of 60 random facts is walked five times, cold; the fastest walk counts; figures are medians over the facts. Steps
nest (`_descend` and `_inner_node` are within `_step`), and the measurement itself adds to them.
"""

import functools
import sys
import time
from collections import defaultdict
from statistics import median
from typing import Any

import click
import psycopg

from bench.walks import choose_keys, microseconds, random_facts, select_row, walk_fact
from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.index.open import database
from refactx.postgres.catalogue import find_index
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.segments import SegmentRows
from refactx.tree import piece as piece_members
from refactx.tree import stored as stored_tree
from refactx.tree.codes import RowCodec

STEPS = (
    (SegmentRows, "fetch"),
    (RowCodec, "unpack"),
    (piece_members, "from_members"),
    (stored_tree.StoredTree, "_path"),
    (stored_tree.StoredTree, "_inner_node"),
    (stored_tree.StoredTree, "_descend"),
    (stored_tree.StoredTree, "_step"),
)


def main(name: str = "default") -> None:
    """Print the median time of each step."""
    spent: defaultdict[str, float] = defaultdict(float)
    for owner, step in STEPS:
        setattr(owner, step, _clock(getattr(owner, step), step, spent))
    with database() as opened, psycopg.connect(opened.url, autocommit=True) as connection:
        entry = find_index(opened, name)
        walks = []
        for fact in random_facts(Index(DatabaseSource(opened, entry)), 60):
            walks.append(min((_walk_cold(opened, entry, fact, spent) for _ in range(5)), key=lambda walk: walk["walk"]))
        keys = choose_keys(connection, entry.id)
        selects = [min(microseconds(lambda n=n: select_row(connection, keys, n)) for _ in range(5)) for n in range(60)]
    for step in ("walk", *(step for _, step in STEPS)):
        click.echo(f"{step:<14} {median(walk[step] for walk in walks):>8.0f}")
    click.echo(f"{'bare SELECT':<14} {median(selects):>8.0f}")


def _walk_cold(
    opened: Database, entry: CatalogueEntry, fact: tuple[int, ...], spent: defaultdict[str, float]
) -> dict[str, float]:
    index = Index(DatabaseSource(opened, entry))
    index.rows[0].fetch(b"none")  # prepares the statement
    spent.clear()
    total = microseconds(lambda: walk_fact(index, fact))
    return dict.fromkeys((step for _, step in STEPS), 0.0) | spent | {"walk": total}


def _clock(function: Any, step: str, spent: defaultdict[str, float]) -> Any:
    @functools.wraps(function)
    def clocked(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[step] += (time.perf_counter() - start) * 1e6

    return clocked


if __name__ == "__main__":
    main(*sys.argv[1:])
