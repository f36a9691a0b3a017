"""The work database: DuckDB, which joins and sorts tables in memory and spills to disk what does not fit.

This is the only module that imports DuckDB, and only when a database is opened: a change of few ready-made facts needs
none.

It is the engine of the joins (`refactx.ingest.knowledge.tables`) on one machine.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from numpy.typing import NDArray

from refactx.entity_ids import SQL_MACROS
from refactx.errors import InputError, RefactxError
from refactx.ingest.resources import Resources

if TYPE_CHECKING:
    import duckdb

_MACROS = """
CREATE MACRO cut(part, size) AS
    CASE WHEN length(part) > size THEN rtrim(substr(part, 1, size - 1)) || '…' ELSE part END;
"""


class WorkDatabase:
    """An open work database. Every method raises DuckDB's errors, which `open_work_database` translates."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._connection = connection

    def execute(self, query: str, parameters: Sequence[object] | None = None) -> None:
        """Run one or more statements."""
        self._connection.execute(query, parameters)

    def table(self, name: str, query: str) -> None:
        """Make a table of the rows of a query, in place of one of that name, which the query may read."""
        self.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")

    def view(self, name: str, query: str) -> None:
        """Make a view of a query, in place of one of that name, which the query may not read."""
        self.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")

    def numbered(self, name: str, query: str, number: str) -> None:
        """Make a table of the rows of a query with the column `text`, distinct, after a column `number` INTEGER: from 0,
        in the order of the texts' bytes."""
        self.table("texts", query)  # a statement each: together the two would not fit into memory that either fits into
        self.table(name, f"SELECT CAST(row_number() OVER (ORDER BY text) - 1 AS INTEGER) AS {number}, text FROM texts")
        self.drop("texts")

    def table_of(self, name: str, rows: pa.Table) -> None:
        """Make a table of an Arrow table, in place of one of that name."""
        with self.lend("incoming", rows):
            self.table(name, "SELECT * FROM incoming")

    def drop(self, *names: str) -> None:
        """Remove tables."""
        for name in names:
            self.execute(f"DROP TABLE {name}")

    def rows(self, query: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self._connection.execute(query, parameters).fetchall()

    def number(self, query: str) -> int:
        """Return the one number that a query gives; 0 for NULL (a sum over nothing)."""
        rows = self.rows(query)  # fetches to the end: an open result would hold up other statements
        return int(rows[0][0] or 0) if rows else 0

    def arrays(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query by their names."""
        return self._connection.execute(query).fetchnumpy()

    def batches(self, query: str, size: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches of about `size`; other statements may run in between."""
        with self._connection.cursor() as cursor:
            yield from cursor.sql(query).to_arrow_reader(size)

    @contextmanager
    def lend(self, name: str, table: pa.Table) -> Iterator[None]:
        """Make an Arrow table the view `name` until the end of the block."""
        self._connection.register(name, table)
        try:
            yield
        finally:
            self._connection.unregister(name)

    def insert(self, table: str, rows: pa.Table, columns: str = "*") -> None:
        """Insert rows by the position of their columns, or of the SQL expressions `columns` over them."""
        with self.lend("incoming", rows):
            self.execute(f"INSERT INTO {table} SELECT {columns} FROM incoming")

    def view_parquet(self, name: str, path: Path) -> None:
        """Make a Parquet file a view."""
        self.execute(f"CREATE VIEW {name} AS FROM {_quote(path)}")

    def load_parquet(self, name: str, path: Path) -> None:
        """Read a Parquet file into a table."""
        self.execute(f"CREATE TABLE {name} AS FROM {_quote(path)}")

    def write_parquet(self, query: str, path: Path) -> None:
        """Write the rows of a query to a Parquet file."""
        self.execute(f"COPY ({query}) TO {_quote(path)} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)")


@contextmanager
def open_work_database(
    folder: Path, resources: Resources, *, task: str = "build the knowledge base", in_memory: bool = True
) -> Iterator[WorkDatabase]:
    """Open an empty work database whose files are in `folder` and are removed at the end of the block.

    `task`: its purpose, for error messages. `in_memory`: tables are not compressed, and not written unless memory runs
    out: on the development data the joins, whose tables are needed for one more query, take 1.8 s of a core instead of
    3.2. Otherwise tables are in a file in `folder`, for the sorting of facts, which fills few but large ones.

    Raises:
        InputError: `resources.memory` is not a size.
        RefactxError: DuckDB cannot continue, since the disk is full or the memory too small, for example.
    """
    import duckdb

    work = folder / ".work"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    work.mkdir()
    try:
        connection = duckdb.connect(":memory:" if in_memory else str(work / "work.duckdb"))
        try:
            _configure(connection, work, resources)
            yield WorkDatabase(connection)
        finally:
            connection.close()
    except (duckdb.Error, RuntimeError) as error:
        if "interrupted" in str(error).lower():  # Ctrl-C during a statement
            raise KeyboardInterrupt from error
        if not isinstance(error, duckdb.Error):
            raise
        reason = str(error).partition("\n")[0]
        raise RefactxError(
            f"cannot {task} in {folder}: {reason}: free disk space there, or give more --memory"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _configure(connection: "duckdb.DuckDBPyConnection", work: Path, resources: Resources) -> None:
    import duckdb

    try:
        connection.execute("SET memory_limit = ?", [resources.memory])
    except duckdb.Error:
        raise InputError(f"{resources.memory!r} is not a size of memory: expected one such as 1GB or 512MB") from None
    connection.execute("SET temp_directory = ?", [str(work / "spill")])
    connection.execute("SET threads = ?", [resources.workers])
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(SQL_MACROS + _MACROS)


def _quote(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
