"""The work database of the joins: DuckDB, which joins and sorts staged rows in memory and spills what does not fit.

In memory rather than in a file of its own: on the development data the joins take 1.8 s of a core instead of 3.2, for
tables are neither compressed nor written that live for one query more.

Its views are named as the staged tables are (`ingest.staging`, which says what an entity's number is).
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from refactx.errors import InputError, RefactxError

from .staging import SCHEMAS

_MACROS = """
CREATE MACRO entity_number(id) AS CAST(substr(id, 2) AS BIGINT) * 2 + CAST(id[1] = 'P' AS BIGINT);
CREATE MACRO entity_id(number) AS (CASE WHEN number & 1 = 1 THEN 'P' ELSE 'Q' END) || (number >> 1);
CREATE MACRO cut(part, size) AS
    CASE WHEN length(part) > size THEN rtrim(substr(part, 1, size - 1)) || '…' ELSE part END;
"""


@contextmanager
def open_work_database(folder: Path, staged: Path, memory: str, workers: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A fresh work database over the staged rows, with its files in `folder`, gone without a trace at the end of the block.

    `memory` bounds DuckDB's memory (`1GB`, `512MB`); what doesn't fit goes to disk, in `folder` too.

    Raises:
        InputError: `memory` is no size.
        RefactxError: DuckDB could not go on: the disk is full, say, or `memory` is too small.
    """
    work = folder / ".work"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    work.mkdir()
    try:
        connection = duckdb.connect()
        try:
            _configure(connection, work, memory, workers)
            for table in SCHEMAS:
                path = str(staged / f"{table}.parquet").replace("'", "''")
                connection.execute(f"CREATE VIEW {table} AS FROM '{path}'")
            yield connection
        finally:
            connection.close()
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise RefactxError(
            f"the knowledge base could not be built in {folder}: {reason}: free disk space there or allow more memory"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """The one number that a query gives; 0 for NULL (a sum over nothing)."""
    row = connection.execute(query).fetchone()
    return int(row[0] or 0) if row else 0


def _configure(connection: duckdb.DuckDBPyConnection, work: Path, memory: str, workers: int) -> None:
    try:
        connection.execute("SET memory_limit = ?", [memory])
    except duckdb.Error:
        raise InputError(f"{memory!r} is no size of memory: expected one such as 1GB or 512MB") from None
    connection.execute("SET temp_directory = ?", [str(work / "spill")])
    connection.execute("SET threads = ?", [workers])
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(_MACROS)
