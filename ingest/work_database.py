"""The work database of the joins: DuckDB, which joins and sorts staged rows in memory and spills what does not fit.

In memory rather than in a file of its own: on the development data the joins take 1.8 s of a core instead of 3.2, for
tables are neither compressed nor written that live for one query more.

`open_staged` gives it the staged tables (`ingest.staging`, which says what an entity's number is) as views.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from refactx.errors import InputError, RefactxError

from .parsers.staging import SCHEMAS
from .small import are_few

if TYPE_CHECKING:
    import duckdb

Work: TypeAlias = "duckdb.DuckDBPyConnection"
"""An open work database. (DuckDB is imported where one is opened: a change of few ready-made facts needs none.)"""

_MACROS = """
CREATE MACRO entity_number(id) AS CAST(substr(id, 2) AS BIGINT) * 2 + CAST(id[1] = 'P' AS BIGINT);
CREATE MACRO entity_id(number) AS (CASE WHEN number & 1 = 1 THEN 'P' ELSE 'Q' END) || (number >> 1);
CREATE MACRO cut(part, size) AS
    CASE WHEN length(part) > size THEN rtrim(substr(part, 1, size - 1)) || '…' ELSE part END;
"""


@contextmanager
def open_work_database(folder: Path, memory: str, workers: int) -> Iterator[Work]:
    """An empty work database with its files in `folder`, gone without a trace at the end of the block.

    `memory` bounds DuckDB's memory (`1GB`, `512MB`); what doesn't fit goes to disk, in `folder` too.

    Raises:
        InputError: `memory` is no size.
        RefactxError: DuckDB could not go on: the disk is full, say, or `memory` is too small.
    """
    import duckdb

    work = folder / ".work"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    work.mkdir()
    try:
        connection = duckdb.connect()
        try:
            _configure(connection, work, memory, workers)
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


def staged_are_few(staged: Path) -> bool:
    """Whether the staged tables in a folder have few rows all together (`ingest.few`)."""
    return are_few([staged / f"{table}.parquet" for table in SCHEMAS])


def open_staged(connection: Work, staged: Path, *, once: bool) -> None:
    """Make the staged tables in a folder views of the database. `once`: read now, for all queries, rather than by each, which
    for few rows takes as long as the query."""
    for table in SCHEMAS:
        path = str(staged / f"{table}.parquet").replace("'", "''")
        source = f"'{path}'"
        if once:
            connection.execute(f"CREATE TABLE staged_{table} AS FROM {source}")
            source = f"staged_{table}"
        connection.execute(f"CREATE VIEW {table} AS FROM {source}")


def number(connection: Work, query: str) -> int:
    """The one number that a query gives; 0 for NULL (a sum over nothing)."""
    rows = connection.execute(query).fetchall()  # to the end, which other ways of asking wait for
    return int(rows[0][0] or 0) if rows else 0


def _configure(connection: Work, work: Path, memory: str, workers: int) -> None:
    import duckdb

    try:
        connection.execute("SET memory_limit = ?", [memory])
    except duckdb.Error:
        raise InputError(f"{memory!r} is no size of memory: expected one such as 1GB or 512MB") from None
    connection.execute("SET temp_directory = ?", [str(work / "spill")])
    connection.execute("SET threads = ?", [workers])
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(_MACROS)
