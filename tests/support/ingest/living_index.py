"""A small index that is changed step by step, with files of ready-made facts as its sources."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from refactx.connect import open_index
from refactx.fact import Fact, split_fact
from refactx.index.index import Index
from refactx.ingest.change import Changed, ChangeOptions, append, forget
from refactx.ingest.compaction import Compacted, CompactOptions, compact
from refactx.ingest.new_index import Options, Result, ingest
from refactx.ingest.retokenisation import ingest_knowledge_base
from refactx.ingest.segment.level_cutter import Shape
from refactx.postgres.database import Database
from refactx.tokenizer import FactTokenizer
from refactx.tree.children import Children, FactTree, MemoryTree
from support.tiny_model import tiny_fact_tokenizer

SMALL = Shape(facts=4, inner=6, root=6)
"""Pieces so small that a handful of facts has several levels."""


@dataclass
class LivingIndex:
    """The changes of one index, by facts such as `a b c` (subject, predicate, object)."""

    url: str
    folder: Path
    name: str = "default"
    shape: Shape = SMALL
    tokenizer: FactTokenizer = field(default_factory=tiny_fact_tokenizer)
    _numbers: "count[int]" = field(default_factory=count)

    def source(self, facts: Iterable[str]) -> Path:
        """A file of ready-made facts."""
        path = self.folder / f"{next(self._numbers)}.txt"
        path.write_text("".join(as_fact(fact) + "\n" for fact in facts))
        return path

    def ingest(self, *facts: str, **options: Any) -> Result:
        return self.ingest_from(self.source(facts), **options)

    def ingest_from(self, *sources: Path, **options: Any) -> Result:
        given = Options(self.name, self.tokenizer, "tiny", shape=self.shape, quiet=True, **options)
        return self._do(lambda database, work: ingest(sources, database, work, given))

    def ingest_knowledge_base(self, base: str) -> Result:
        """From the facts of another index (`ingest --kb`)."""
        given = Options(self.name, self.tokenizer, "tiny", shape=self.shape, quiet=True)
        return self._do(lambda database, work: ingest_knowledge_base(base, database, work, given))

    def append(self, *facts: str) -> Changed:
        return self.append_from(self.source(facts))

    def append_from(self, *sources: Path, **options: Any) -> Changed:
        given = ChangeOptions(self.name, shape=self.shape, quiet=True, **options)
        return self._do(lambda database, work: append(sources, database, work, given))

    def forget(self, *facts: str) -> Changed:
        return self.forget_from(self.source(facts))

    def forget_from(self, *sources: Path, **options: Any) -> Changed:
        given = ChangeOptions(self.name, shape=self.shape, quiet=True, **options)
        return self._do(lambda database, work: forget(sources, database, work, given))

    def compact(self) -> Compacted:
        given = CompactOptions(self.name, shape=self.shape, quiet=True)
        return self._do(lambda database, work: compact(database, work, given))

    def open(self, **options: Any) -> Index:
        return open_index(self.name, self.url, **options)

    def sequences(self, facts: Iterable[str]) -> list[tuple[int, ...]]:
        """The facts as the tree holds them."""
        return [tuple(self.tokenizer.encode_after("Fact:", " " + as_fact(fact).removesuffix(" ."))) for fact in facts]

    def _do(self, action: Any) -> Any:
        database = Database(self.url)
        try:
            return action(database, self.folder / "work")
        finally:
            database.close()


def as_fact(fact: str) -> str:
    """
    >>> as_fact("a b c")
    '<a> <b> <c> .'
    """
    return " ".join(f"<{part}>" for part in fact.split()) + " ."


def same(tree: FactTree, sequences: Iterable[tuple[int, ...]], along: Iterable[tuple[int, ...]] = ()) -> None:
    """A tree answers as one of exactly these sequences, along all of them and along some others."""
    held = set(sequences)
    memory = MemoryTree(held)
    for prefix in sorted({sequence[:depth] for sequence in held | set(along) for depth in range(len(sequence) + 1)}):
        assert shown(tree.children(prefix)) == shown(memory.children(prefix)), prefix


def shown(children: Children) -> tuple[list[int], list[int], int]:
    assert children.tokens.dtype == np.int32
    return children.tokens.tolist(), children.leaves.tolist(), children.terminal


def linked(index: Index, text: str) -> list[str | None]:
    """The ids behind a fact's parts."""
    parts = split_fact(text)
    assert parts is not None
    link = index.links(Fact(*parts, text, (0, 0)))
    return [link.subject.id, link.predicate.id, None if isinstance(link.object, str) else link.object.id]
