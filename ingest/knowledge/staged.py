"""The staged rows of an ingest as views of its work database."""

from pathlib import Path

from refactx.ingest.parsers.staging import SCHEMAS
from refactx.ingest.small import are_few
from refactx.ingest.work_database import WorkDatabase


def staged_are_few(staged: Path) -> bool:
    """Return whether the staged tables in a folder have few rows in all (`refactx.ingest.small`)."""
    return are_few([staged / f"{table}.parquet" for table in SCHEMAS])


def open_staged(database: WorkDatabase, staged: Path, *, once: bool) -> None:
    """Make the staged tables in a folder views of the database.

    `once`: read the files now instead of in each query, since reading few rows takes as long as a query of them.
    """
    for table in SCHEMAS:
        path = staged / f"{table}.parquet"
        if once:
            database.load_parquet(f"staged_{table}", path)
            database.execute(f"CREATE VIEW {table} AS FROM staged_{table}")
        else:
            database.view_parquet(table, path)
