"""The tables of the joins on a cluster: Parquet in the cluster's storage, read by the SQL that DuckDB runs too."""

from typing import Any

import pyarrow as pa

from refactx.ingest.cluster.macros import expand
from refactx.ingest.cluster.sorting import write_sorted

_TYPES = {pa.int64(): "BIGINT", pa.int16(): "SMALLINT", pa.string(): "STRING", pa.bool_(): "BOOLEAN"}


class ClusterTables:
    """Tables (`refactx.ingest.knowledge.tables.Tables`) as Parquet in folders below `folder`, and views in a session.

    Each table is written before the next statement runs, so that no query is computed twice.
    """

    def __init__(self, spark: Any, folder: str) -> None:
        self._spark, self._folder = spark, folder
        self._written = 0

    def table(self, name: str, query: str) -> None:
        self.write(name, self._spark.sql(expand(query)))

    def view(self, name: str, query: str) -> None:
        self._spark.sql(expand(query)).createOrReplaceTempView(name)

    def numbered(self, name: str, query: str, number: str) -> None:
        # One window over all rows would sort them in one task.
        ordered = write_sorted(self._spark, self._spark.sql(expand(query)), "text", self._place(f"{name}-sorted"))
        starts = pa.table({"part": list(ordered.starts), "start": list(ordered.starts.values())})
        self._spark.createDataFrame(starts).createOrReplaceTempView(f"{name}_starts")
        self._spark.read.parquet(ordered.folder).createOrReplaceTempView(f"{name}_sorted")
        self.table(
            name,
            f"SELECT CAST(start + at AS INT) AS {number}, text FROM {name}_sorted JOIN {name}_starts USING (part)",
        )

    def table_of(self, name: str, rows: pa.Table) -> None:
        self.write(name, self._frame(rows))

    def insert(self, name: str, rows: pa.Table) -> None:
        self.write(name, self._spark.table(name).unionAll(self._frame(rows)))

    def drop(self, *names: str) -> None:
        for name in names:
            self._spark.catalog.dropTempView(name)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._spark.sql(expand(query)).collect()]

    def number(self, query: str) -> int:
        rows = self.rows(query)
        return int(rows[0][0] or 0) if rows else 0

    def write(self, name: str, frame: Any) -> None:
        """Write the rows of a data frame as a table."""
        place = self._place(name)
        frame.write.mode("overwrite").parquet(place)
        self._spark.read.parquet(place).createOrReplaceTempView(name)

    def _frame(self, rows: pa.Table) -> Any:
        """Return an Arrow table as a data frame."""
        if len(rows):
            return self._spark.createDataFrame(rows)
        columns = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in rows.schema)
        return self._spark.createDataFrame([], columns)  # Spark Connect takes no empty Arrow table

    def _place(self, name: str) -> str:
        """Return a new folder: a table may be made from the one whose place it takes."""
        self._written += 1
        return f"{self._folder}/{self._written:03}-{name}"
