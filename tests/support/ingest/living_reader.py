"""A reader of an index that changes, and what it has to see, by brute force."""

from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import psycopg

from refactx.index.index import Index
from refactx.tree.tree import MemoryTree
from support.ingest.graph_twin import Fact
from support.ingest.living_index import LivingIndex, as_fact, linked, shown
from support.ingest.living_steps import EVERY, LABELS, Moment, text_of

Facts = frozenset[Fact]
Prefix = tuple[int, ...]


@cache
def sequence(fact: Fact) -> Prefix:
    """Return the token ids of a fact in the tree."""
    (tokens,) = LivingIndex("", Path()).sequences([text_of(fact)])
    return tokens


@lru_cache(maxsize=64)
def children(facts: Facts) -> dict[Prefix, tuple[list[int], list[int], int]]:
    """Return the children of each prefix of every possible fact, in a tree of some facts."""
    tree, every = MemoryTree(map(sequence, facts)), map(sequence, EVERY)
    return {prefix: shown(tree.children(prefix)) for one in every for prefix in (one[:n] for n in range(len(one) + 1))}


@dataclass
class Reader:
    """An open index, and the moment of it that the reader sees."""

    index: Index
    moment: Moment

    def check(self, now: Moment) -> None:
        """Check that it answers as of its moment, or, if its tables are gone, as of now.

        Raises IndexNotFoundError if the index does not exist any more.
        """
        for prefix in children(self.moment.facts):
            rows = self.index.rows
            seen = shown(self.index.children(prefix))
            if self.index.rows != rows:
                assert now.built == self.moment.built
                assert now.compacted > self.moment.compacted, "only a compaction removes tables"
                self.moment = now
            assert seen == children(self.moment.facts)[prefix], prefix
        assert len(self.index) == self.index.facts == len(self.moment.facts)
        assert self.index.tokens == sum(map(len, map(sequence, self.moment.facts)))

    def check_texts(self) -> None:
        """Check that facts, their links, and names by id are those of its moment."""
        facts, index = self.moment.facts, self.index
        assert index.ids_of([*LABELS.values(), "1"]) == self.moment.named
        assert index.names_of([*LABELS, "Q9"]) == {named.id: name for name, named in self.moment.named.items()}
        for fact in EVERY:
            text = as_fact(text_of(fact))
            assert (text in index) == (fact in facts)
            if fact in facts:
                assert linked(index, text) == [part if part in LABELS else None for part in fact]
        assert dict(index.complete("<")) == Counter(f"<{LABELS[fact[0]]}>" for fact in facts)


def shown_tables(url: str, name: str) -> list[object]:
    """Return the number of an index and those of the segments that readers see."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT i.id, s.id FROM refactx.indexes AS i LEFT JOIN refactx.segments AS s ON s.index_id = i.id AND s.ready"
            " WHERE i.name = %s AND i.state = 'ready' ORDER BY s.id",
            [name],
        ).fetchall()


def count_unfinished(url: str) -> int:
    """Return how many segments and name tables of ready indexes readers do not see."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM refactx.indexes AS i JOIN refactx.segments AS s ON s.index_id = i.id"
            " WHERE i.state = 'ready' AND NOT s.ready) + (SELECT count(*) FROM refactx.indexes AS i"
            " JOIN refactx.name_tables AS n USING (knowledge_base) WHERE i.state = 'ready' AND NOT n.ready)"
        ).fetchone()
    assert row is not None
    return int(row[0])


def count_tables(url: str) -> tuple[int, int]:
    """Return how many tables there are, and how many of them readers see."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM pg_class WHERE relname ~ '^(pieces|names)_[0-9]+$'),"
            " (SELECT count(*) FROM refactx.segments WHERE ready) + (SELECT count(*) FROM refactx.name_tables WHERE ready)"
        ).fetchone()
    assert row is not None
    return row[0], row[1]
