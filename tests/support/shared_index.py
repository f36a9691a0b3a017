"""A small index of several levels with names."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refactx.fact import Fact, split_fact
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.ingest.segment.cutting import Shape
from refactx.postgres.database import Database
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import ingest_tiny

ENTITIES = 150


def lines(prefix: str = "Entity") -> list[Line]:
    """A graph whose facts have long and short common beginnings."""
    chance = random.Random(7)
    named: list[Line] = [("label", f"Q{n}", f"{prefix} {n:03}", "en") for n in range(1, ENTITIES)]
    named += [("label", f"P{n}", f"property {n}", "en") for n in range(1, 8)]
    claims: list[Line] = [
        (
            "claim",
            f"Q{chance.randrange(1, ENTITIES)}",
            f"P{chance.randrange(1, 8)}",
            f"Q{chance.randrange(1, ENTITIES)}",
        )
        for _ in range(1500)
    ]
    return named + claims


def build(url: str, folder: Path, name: str = "small", prefix: str = "Entity", replace: bool = False) -> None:
    """Ingest the graph in small pieces, so that the tree has several levels."""
    folder.mkdir(exist_ok=True)
    (folder / "graph.nt").write_text("".join(written(line) + "\n" for line in lines(prefix)))
    shape = Shape(facts=32, inner=32, root=32)
    ingest_tiny(url, folder / "graph.nt", name, replace=replace, shape=shape)


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """Open a database during the block."""
    database = Database(url)
    try:
        yield database
    finally:
        database.close()


def walked(index: Index, facts: int) -> list[object]:
    """The answers of an index along some random facts: children, completions, links."""
    chance, seen = random.Random(0), list[object]()
    for _ in range(facts):
        prefix: list[int] = []
        while True:
            below = index.children(prefix)
            seen.append((below.tokens.tolist(), below.leaves.tolist(), below.terminal))
            at = chance.randrange(below.total) - below.terminal
            if at < 0:
                break
            prefix.append(int(below.tokens[int((below.leaves.cumsum() > at).argmax())]))
        text = index.tokenizer.decode(prefix)
        parts = split_fact(text)
        assert parts is not None
        assert text in index
        seen += [index.links(Fact(*parts, text, (0, 0))), index.complete(f"<{parts[0]}> <")]
    return seen


def answers(url: str, name: str, facts: int = 40) -> list[object]:
    """The answers of an index, given its name, and its figures that do not depend on the server."""
    with open_index(name, url) as index:
        entry = index.entry
        figures = [entry.facts, entry.tokens, entry.segments, entry.levels, entry.cut, entry.source, entry.report]
        return [*figures, index.trigger, index.terminator, index.fingerprint, *walked(index, facts)]
