"""An index of a small file for the tiny tokenizer."""

from pathlib import Path
from typing import Any

from refactx.ingest import IngestResult, ingest
from refactx.postgres.database import Database
from support.ingest.quiet import QUIET
from support.tiny_model import tiny_fact_tokenizer


def ingest_tiny(url: str, source: Path, index: str = "default", **options: Any) -> IngestResult:
    """Ingest a file into the database at a URL. Its folder has the temporary files; `options`: those of `ingest`."""
    database = Database(url)
    try:
        return ingest(
            [source],
            database,
            index=index,
            tokenizer=tiny_fact_tokenizer(),
            tokenizer_name="tiny",
            work=source.parent / "work",
            resources=QUIET,
            **options,
        )
    finally:
        database.close()
