"""A small graph with ids, slices of which change an index."""

from pathlib import Path

import click.testing
import psycopg

from refactx.cli.main import cli
from refactx.postgres.catalogue import list_indexes
from refactx.postgres.entry import CatalogueEntry
from support.ingest.graph_twin import Line, written
from support.ingest.living_index import LivingIndex

LABELS: list[Line] = [
    *(("label", f"Q{number}", name, "en") for number, name in ((1, "Ann"), (2, "Bob"), (3, "Cid"))),
    *(("label", f"P{number}", name, "en") for number, name in ((40, "child"), (50, "born"))),
]
CLAIMS: list[Line] = [("claim", "Q1", "P40", "Q2"), ("literal", "Q1", "P50", "1950", None)]


def graph(living: LivingIndex, name: str, lines: list[Line]) -> Path:
    """Write a file of N-Triples and return its path."""
    path = living.folder / name
    path.write_text("".join(written(line) + "\n" for line in lines))
    return path


def command(living: LivingIndex, *arguments: object) -> click.testing.Result:
    """Run a command as a user types it."""
    given = [*map(str, arguments), "--db", living.url, "--work-dir", str(living.folder / "work")]
    return click.testing.CliRunner().invoke(cli, given, catch_exceptions=False)


def entry(url: str, name: str = "default") -> CatalogueEntry:
    """Return the catalogue entry of an index."""
    with psycopg.connect(url) as connection:
        (found,) = list_indexes(connection, name)
    return found
