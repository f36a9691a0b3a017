"""An index of a small file for the tiny tokenizer."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from refactx.index.index import Index
from refactx.index.open import open_index
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


@contextmanager
def opened_tiny(url: str, source: Path, lines: Iterable[str], **options: Any) -> Iterator[Index]:
    """Write the lines of a file, ingest it and open the index. `options`: those of `ingest`."""
    source.write_text("".join(f"{line}\n" for line in lines))
    ingest_tiny(url, source, **options)
    with open_index(db=url) as index:
        yield index
