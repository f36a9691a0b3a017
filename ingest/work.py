"""The work of an ingest: its folder, its disk space, its limits, and its database (DuckDB), which joins and sorts.

It is the engine of the joins (`refactx.ingest.work`) on one machine. This is the only module that imports
DuckDB, and only when a database is opened.

The SQL may use the macros of `refactx.entity_ids`, `cut(part, size)`, which shortens a part as `refactx.fact.cut_part`
does, and `starts_with` and `ends_with`. Everything else in it is SQL that DuckDB and Spark share.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from numpy.typing import NDArray

from refactx.entity_ids import SQL_MACROS
from refactx.errors import IndexExistsError, InputError, RefactxError
from refactx.locking import lock_file
from refactx.postgres.locks import Connection

if TYPE_CHECKING:
    import duckdb

_MACROS = """
CREATE MACRO cut(part, size) AS
    CASE WHEN length(part) > size THEN rtrim(substr(part, 1, size - 1)) || '…' ELSE part END;
"""
MOST_PARTS = 16
"""In how many parts distinct texts are found, one after another, if memory is short: each reads all of them again."""


def names_of(connection: Connection) -> tuple[str, str, str]:
    """Return what identifies a connection's database: host, port and name."""
    info = connection.info
    return info.host, str(info.port), info.dbname


@contextmanager
def work_folder(parent: Path, *names: str) -> Iterator[Path]:
    """Open the folder in `parent` (made if missing) of the ingest with these names: of its database and index, say.

    It is removed if the block ends without an error. After an error it is removed if it has no manifest
    (`refactx.ingest.new_index`); otherwise, and after a kill, it stays for the next ingest with these names.

    Raises:
        InputError: it cannot be made.
        IndexExistsError: another process is using it.
    """
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()
    folder = parent / f"ingest-{digest[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
    except OSError as error:
        raise InputError(f"cannot work in {parent} ({error}): give --work-dir a folder that you can write to") from None
    try:
        lock_file(lock)  # held until this process ends, however it ends
    except BlockingIOError:
        os.close(lock)
        raise IndexExistsError(
            f"another process is using {folder}: wait until it ends, or give another --work-dir"
        ) from None
    try:
        yield folder
    except BaseException:
        if not any(folder.glob("*.json")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of memory and threads, and whether to show progress.

    `memory`: the limit of DuckDB's memory, which is the larger part of an ingest's (`1GB`, `512MB`); what does not fit
    spills to disk. A text that is not a size raises InputError when DuckDB is opened. `workers`: threads that
    decompress, parse, join, sort and pack, and processes that cut what is large. `progress`: show progress bars
    on standard error, if that is a terminal.

    >>> Resources(memory="4GB", workers=8)
    Resources(memory='4GB', workers=8, progress=True)
    """

    memory: str = "1GB"
    workers: int = 2
    progress: bool = True


DEFAULT_RESOURCES = Resources()


class WorkDatabase:
    """An open work database: `Tables`, and more. Every method raises DuckDB's errors, which `open_work_database` translates."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._connection = connection

    def execute(self, query: str, parameters: Sequence[object] | None = None) -> None:
        self._connection.execute(query, parameters)

    def table(self, name: str, query: str) -> None:
        self.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")

    def view(self, name: str, query: str) -> None:
        self.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")

    def numbered(self, name: str, query: str, number: str) -> None:
        # A statement each: together the two would not fit into memory that either fits into.
        self._distinct("texts", query)
        self.table(name, f"SELECT CAST(row_number() OVER (ORDER BY text) - 1 AS INTEGER) AS {number}, text FROM texts")
        self.drop("texts")

    def _distinct(self, name: str, query: str) -> None:
        """Make a table of the distinct texts of a query, all at once, or else a part of them after another."""
        import duckdb

        for parts in (1, 4, MOST_PARTS):
            self.table(name, f"SELECT text FROM ({query}) LIMIT 0")
            try:
                for part in range(parts):
                    of_part = f"WHERE hash(text) % {parts} = {part}" if parts > 1 else ""
                    self.execute(f"INSERT INTO {name} SELECT DISTINCT text FROM ({query}) {of_part}")
                return
            except duckdb.OutOfMemoryException:
                if parts == MOST_PARTS:
                    raise

    def table_of(self, name: str, rows: pa.Table) -> None:
        with self.lend("incoming", rows):
            self.table(name, "SELECT * FROM incoming")

    def drop(self, *names: str) -> None:
        for name in names:
            self.execute(f"DROP TABLE {name}")

    def rows(self, query: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, parameters).fetchall()

    def number(self, query: str) -> int:
        rows = self.rows(query)  # fetches to the end: an open result would hold up other statements
        return int(rows[0][0] or 0) if rows else 0

    def has_rows(self, name: str) -> bool:
        return bool(self.rows(f"SELECT 1 FROM {name} LIMIT 1"))

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
        self.execute(f"CREATE VIEW {name} AS FROM {_quote(path)}")

    def write_parquet(self, query: str, path: Path) -> None:
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
            f"cannot {task} in {folder}: {reason}: free disk space there", command=", or give more --memory"
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


class Tables(Protocol):
    """Named tables and views in an engine of SQL. Every method raises the engine's errors."""

    def table(self, name: str, query: str) -> None:
        """Make a table of the rows of a query, in place of one of that name, which the query may read."""

    def view(self, name: str, query: str) -> None:
        """Make a view of a query, in place of one of that name, which the query may not read."""

    def numbered(self, name: str, query: str, number: str) -> None:
        """Make a table of the distinct rows of a query with the column `text`, after a column `number` INTEGER: from 0, in the
        order of the texts' bytes."""

    def table_of(self, name: str, rows: pa.Table) -> None:
        """Make a table of an Arrow table, in place of one of that name."""

    def insert(self, name: str, rows: pa.Table) -> None:
        """Add rows to a table, by the position of their columns."""

    def drop(self, *names: str) -> None:
        """Remove tables."""

    def has_rows(self, name: str) -> bool:
        """Return whether a table has a row."""

    def batches(self, query: str, size: int) -> Iterable[pa.RecordBatch | pa.Table]:
        """Return the rows of a query in batches of about `size`, which an engine may choose otherwise."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""

    def number(self, query: str) -> int:
        """Return the one number that a query gives; 0 for NULL (a sum over nothing)."""
