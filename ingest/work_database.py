"""The work database of an ingest's first stage: a temporary DuckDB file that joins and sorts out of core.

| table | rows |
|---|---|
| `claims` | `subject, property, object BIGINT, text VARCHAR`: the object is an entity or a text |
| `terms` | `entity BIGINT, kind UTINYINT, rank UTINYINT, text`: labels, descriptions, titles (`ingest.wikidata`) |
| `redirects` | `entity, target BIGINT`: what was merged, and into what |
| `left_out` | `property BIGINT, reason VARCHAR`: properties whose claims are dropped, by their datatype |
| `ready` | `subject, predicate, object VARCHAR`: ready-made facts |

An entity is a number here: twice its id's, plus one for a property (`Q42` is 84, `P569` is 1139).
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from refactx.errors import InputError, RefactxError

_SCHEMA = """
CREATE TABLE claims (subject BIGINT, property BIGINT, object BIGINT, text VARCHAR);
CREATE TABLE terms (entity BIGINT, kind UTINYINT, rank UTINYINT, text VARCHAR);
CREATE TABLE redirects (entity BIGINT, target BIGINT);
CREATE TABLE left_out (property BIGINT, reason VARCHAR);
CREATE TABLE ready (subject VARCHAR, predicate VARCHAR, object VARCHAR);
CREATE MACRO entity_number(id) AS CAST(substr(id, 2) AS BIGINT) * 2 + CAST(id[1] = 'P' AS BIGINT);
CREATE MACRO entity_id(number) AS (CASE WHEN number & 1 = 1 THEN 'P' ELSE 'Q' END) || (number >> 1);
CREATE MACRO cut(part, size) AS
    CASE WHEN length(part) > size THEN rtrim(substr(part, 1, size - 1)) || '…' ELSE part END;
"""
_INSERT = {
    "claims": "SELECT entity_number(subject), entity_number(property), entity_number(object), text FROM rows",
    "terms": "SELECT entity_number(entity), kind, rank, text FROM rows",
    "redirects": "SELECT entity_number(entity), entity_number(target) FROM rows",
    "left_out": "SELECT entity_number(property), reason FROM rows",
    "ready": "SELECT subject, predicate, object FROM rows",
}


@contextmanager
def open_work_database(folder: Path, memory: str, workers: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A fresh work database in `folder`, gone without a trace when the block ends, however it ends.

    `memory` bounds DuckDB's memory (`1GB`, `512MB`); what doesn't fit goes to disk, in `folder` too.

    Raises:
        InputError: `memory` is no size.
        RefactxError: DuckDB could not go on: the disk is full, say, or `memory` is too small.
    """
    work = folder / ".work"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    work.mkdir()
    try:
        connection = duckdb.connect(str(work / "work.duckdb"))
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


def insert(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
    """Append rows, in the columns that `ingest.wikidata` and `ingest.ready_made` give, to tables of those names."""
    for name, rows in tables.items():
        if len(rows):
            connection.register("rows", rows)
            connection.execute(f"INSERT INTO {name} {_INSERT[name]}")
            connection.unregister("rows")


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
    connection.execute(_SCHEMA)
