"""A small graph of named things, some of which share a name, as an index; and its memory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg

from refactx.ingest.source_options import Selection
from refactx.postgres.database import Database
from refactx.ranking.encoders import Encoder
from refactx.sparql.placeholders.vector_memory import BuildResult, build_memory
from support.ingest.graph_twin import Line, written
from support.ingest.living_index import LivingIndex

NAMED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "Q1": ("Louisiana", "state of the United States", ("Pelican State", "LA")),
    "Q2": ("Louisiana", "colony of France", ()),
    "Q3": ("Texas", "state of the United States", ("Lone Star State",)),
    "Q4": ("Paris", "capital of France", ("City of Light",)),
    "Q5": ("Paris", "prince of Troy", ("Alexandros",)),
    "Q6": ("France", "country in Europe", ("French Republic",)),
    "Q7": ("Helen", "queen of Sparta", ()),
    "Q8": ("Adams", "", ()),
    "P1": ("nickname", "informal name", ()),
    "P2": ("capital", "seat of government", ()),
    "P3": ("spouse", "husband or wife", ()),
    "P4": ("country", "sovereign state", ()),
}
"""Labels, descriptions and aliases."""
CLAIMS: list[Line] = [
    ("literal", "Q1", "P1", "Sugar State", "en"),
    ("literal", "Q3", "P1", "Cowboy State", "en"),
    ("claim", "Q6", "P2", "Q4"),
    ("claim", "Q5", "P3", "Q7"),
    *(("claim", entity, "P4", "Q6") for entity in ("Q2", "Q4", "Q8")),
]


def lines_of(ids: Iterable[str]) -> list[Line]:
    """Return the labels, descriptions and aliases of ids."""
    found: list[Line] = []
    for id_ in ids:
        label, description, aliases = NAMED[id_]
        found += [("label", id_, label, "en"), *([("description", id_, description, "en")] if description else [])]
        found += [("alias", id_, alias, "en") for alias in aliases]
    return found


def source(folder: Path, name: str, lines: Iterable[Line]) -> Path:
    path = folder / name
    path.write_text("".join(written(line) + "\n" for line in lines))
    return path


def ingest_named(url: str, folder: Path, name: str = "default", lines: Iterable[Line] | None = None) -> LivingIndex:
    """Ingest the graph, or other lines, with inverse facts and aliases."""
    living = LivingIndex(url, folder, name)
    path = source(folder, f"{name}.nt", [*lines_of(NAMED), *CLAIMS] if lines is None else lines)
    living.ingest_from(path, selection=Selection(inverse=True, aliases=True))
    return living


def build(living: LivingIndex, encoder: Encoder, **options: Any) -> BuildResult:
    """Build the memory of an index."""
    database = Database(living.url)
    try:
        return build_memory(database, encoder, index=living.name, **options)
    finally:
        database.close()


def stored_entries(url: str, encoder: str, index: str = "default") -> set[tuple[int, str, str, bool, bool]]:
    """Return the entries of a memory: number, label, description, whether it is an alias, and has an embedding."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT m.id FROM refactx.memories AS m JOIN refactx.indexes AS i ON i.id = m.index_id "
            "WHERE m.encoder = %s AND i.name = %s",
            [encoder, index],
        ).fetchone()
        assert row is not None
        statement = f"SELECT number, label, description, is_alias, embedding IS NOT NULL FROM refactx.memory_{row[0]}"
        rows = connection.execute(statement.encode()).fetchall()
    assert len(set(rows)) == len(rows)
    return set(rows)
