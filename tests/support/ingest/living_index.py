"""A small index that is changed step by step, with files of ready-made facts as its sources."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from refactx.fact import Fact, split_fact
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.ingest import append, compact, forget, ingest, retokenise
from refactx.ingest.change import ChangeResult
from refactx.ingest.compaction import CompactResult
from refactx.ingest.publish import IngestResult
from refactx.ingest.segment.cutting import Shape
from refactx.postgres.database import Database
from refactx.postgres.writing import drop
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import Children, FactTree, MemoryTree
from support.ingest.quiet import QUIET
from support.tiny_model import tiny_fact_tokenizer

SMALL = Shape(facts=4, inner=6, root=6)
"""Pieces so small that a few facts have several levels."""


@dataclass
class LivingIndex:
    """An index and its changes, given by facts such as `a b c` (subject, predicate, object)."""

    url: str
    folder: Path
    name: str = "default"
    shape: Shape = SMALL
    tokenizer: FactTokenizer = field(default_factory=tiny_fact_tokenizer)
    _numbers: "count[int]" = field(default_factory=count)

    def source(self, facts: Iterable[str]) -> Path:
        """Write a file of ready-made facts and return its path."""
        path = self.folder / f"{next(self._numbers)}.txt"
        path.write_text("".join(as_fact(fact) + "\n" for fact in facts))
        return path

    def ingest(self, *facts: str, **options: Any) -> IngestResult:
        return self.ingest_from(self.source(facts), **options)

    def ingest_from(self, *sources: Path, **options: Any) -> IngestResult:
        return self._do(ingest, sources, tokenizer=self.tokenizer, tokenizer_name="tiny", **options)

    def retokenise(self, base: str) -> IngestResult:
        """Build the index from the facts of another one (`ingest --kb`)."""
        return self._do(retokenise, base, tokenizer=self.tokenizer, tokenizer_name="tiny")

    def append(self, *facts: str) -> ChangeResult:
        return self.append_from(self.source(facts))

    def append_from(self, *sources: Path, **options: Any) -> ChangeResult:
        return self._do(append, sources, **options)

    def forget(self, *facts: str) -> ChangeResult:
        return self.forget_from(self.source(facts))

    def forget_from(self, *sources: Path, **options: Any) -> ChangeResult:
        return self._do(forget, sources, **options)

    def compact(self) -> CompactResult:
        return self._do(compact)

    def drop(self) -> None:
        database = Database(self.url)
        try:
            with database.connection() as connection:
                drop(connection, self.name)
        finally:
            database.close()

    def open(self, **options: Any) -> Index:
        return open_index(self.name, self.url, **options)

    def sequences(self, facts: Iterable[str]) -> list[tuple[int, ...]]:
        """Return the token ids of facts in the tree."""
        return [tuple(self.tokenizer.encode_after("Fact:", " " + as_fact(fact).removesuffix(" ."))) for fact in facts]

    def _do(self, action: Any, *source: Any, **options: Any) -> Any:
        given = {"index": self.name, "work": self.folder / "work", "shape": self.shape, "resources": QUIET, **options}
        database = Database(self.url)
        try:
            return action(*source, database, **given)
        finally:
            database.close()


def as_fact(fact: str) -> str:
    """Return a fact of three words as a ready-made fact.

    >>> as_fact("a b c")
    '<a> <b> <c> .'
    """
    return " ".join(f"<{part}>" for part in fact.split()) + " ."


def same(tree: FactTree, sequences: Iterable[tuple[int, ...]], along: Iterable[tuple[int, ...]] = ()) -> None:
    """Check that a tree has exactly these sequences, along all of them and along some others."""
    held = set(sequences)
    memory = MemoryTree(held)
    for prefix in sorted({sequence[:depth] for sequence in held | set(along) for depth in range(len(sequence) + 1)}):
        assert shown(tree.children(prefix)) == shown(memory.children(prefix)), prefix


def shown(children: Children) -> tuple[list[int], list[int], int]:
    """Return children as values that can be compared: tokens, leaves and terminal."""
    assert children.tokens.dtype == np.int32
    return children.tokens.tolist(), children.leaves.tolist(), children.terminal


def linked(index: Index, text: str) -> list[str | None]:
    """Return the ids of a fact's parts; None for a part without one."""
    parts = split_fact(text)
    assert parts is not None
    link = index.links(Fact(*parts, text, (0, 0)))
    return [link.subject.id, link.predicate.id, None if isinstance(link.object, str) else link.object.id]


FIRST = [f"s{subject} p{predicate} o{subject % 4}" for subject in range(9) for predicate in range(3)]


MORE = ["s1 p1 new", "s1 p9 new", "t1 p1 o1", "a a a"]


def rows_of(url: str) -> list[tuple[Any, ...]]:
    """Return what the rows of the only segment of the only index share, and these rows."""
    with psycopg.connect(url) as connection:
        (shared,) = connection.execute(
            "SELECT id, levels, cut, facts, tokens, codes, dictionary FROM refactx.segments"
        ).fetchall()
        pieces = connection.execute(
            f"SELECT key, piece FROM refactx.pieces_{shared[0]} ORDER BY key".encode()
        ).fetchall()
    return [shared[1:], *pieces]
