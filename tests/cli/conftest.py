"""A tiny model and an index for it, for tests of commands."""

from pathlib import Path

import pytest
from support.ingest.tiny import ingest_tiny
from support.tiny_asker import save_tiny

LONG = 20_000
"""Tokens, which take the tiny model a minute."""


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, with room for long texts."""
    return save_tiny(tmp_path_factory.mktemp("tiny"), LONG + 1000)


@pytest.fixture
def url(db_url: str, tmp_path: Path) -> str:
    """A database with three facts for the tiny model."""
    facts = tmp_path / "facts.txt"
    facts.write_text("<Ann> <p> <b> .\n<Ann> <p> <c> .\n<Bé> <p> <in> .\n")
    ingest_tiny(db_url, facts)
    return db_url
