"""Tables in ascending order of a column: rows are sorted in parts, and each row gets its place in its part.

The files of Spark do not keep an order by promise. So a row says its place, and whoever reads rows in order looks at it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from refactx.errors import RefactxError
from refactx.ingest.cluster.versions import Versions, check_versions, versions_here


@dataclass(frozen=True, slots=True)
class SortedParts:
    """A sorted table in a folder: columns `part INT, at BIGINT`, and the one that it is sorted by.

    `counts`: the number of rows by part, ascending; a part without rows is missing.
    """

    folder: str
    counts: dict[int, int]

    @property
    def starts(self) -> dict[int, int]:
        """How many rows of the table come before each part."""
        starts, total = {}, 0
        for part, count in self.counts.items():
            starts[part] = total
            total += count
        return starts

    def __len__(self) -> int:
        return sum(self.counts.values())


def write_sorted(spark: Any, frame: Any, column: str, folder: str) -> SortedParts:
    """Write the rows of a data frame with one column of distinct texts or binary values, in ascending order.

    Raises RefactxError if the cluster does not sort them.
    """
    kind = frame.schema[column].dataType.simpleString()
    ordered = frame.repartitionByRange(column).sortWithinPartitions(column)
    numbered = ordered.mapInArrow(partial(_with_places, versions_here()), f"part INT, at BIGINT, {column} {kind}")
    numbered.write.mode("overwrite").parquet(folder)
    return open_sorted(spark, column, folder)


def open_sorted(spark: Any, column: str, folder: str) -> SortedParts:
    """Return a sorted table that was written. Raises RefactxError if its parts do not ascend."""
    found = (
        spark.read.parquet(folder)
        .groupBy("part")
        .agg(*(spark_function(f"{name}({of})") for name, of in (("count", "*"), ("min", column), ("max", column))))
    )
    parts = sorted(map(tuple, found.collect()))
    for (_, _, _, last), (_, _, first, _) in pairwise(parts):
        if not last < first:
            raise unsorted(f"a part ends with {last!r:.60}, and the next begins with {first!r:.60}")
    return SortedParts(folder, {part: count for part, count, _, _ in parts})


def spark_function(expression: str) -> Any:
    """Return an expression of SQL as a column."""
    from pyspark.sql.functions import expr

    return expr(expression)


def unsorted(what: str) -> RefactxError:
    """Return the error for rows that the cluster did not sort."""
    return RefactxError(
        f"the cluster did not sort rows as it was told: {what}. This engine cannot build an index: use Apache Spark 4, or "
        "ingest without --cluster"
    )


def _with_places(driver: Versions, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield sorted values with the number of this task's part and their places in it."""
    from pyspark import TaskContext

    check_versions(driver)
    context = TaskContext.get()
    part, at, last = (0 if context is None else context.partitionId()), 0, None
    for batch in batches:
        values = batch.column(0)
        if not len(values):
            continue
        if not pc.all(pc.less(values[:-1], values[1:])).as_py() or (last is not None and not last < values[0].as_py()):
            raise unsorted(f"values of part {part} do not ascend")
        last = values[len(values) - 1].as_py()
        places = pa.array(range(at, at + len(values)), pa.int64())
        at += len(values)
        yield pa.RecordBatch.from_arrays(
            [pa.array([part] * len(values), pa.int32()), places, values], ["part", "at", batch.schema.names[0]]
        )
