"""A session of Spark, its tables and its stages.

A manifest is a folder with one line of JSON: what the stage's files depend on, and its result. It is written last. The
same command finds it and begins with the first stage that has none, or whose dependencies differ.

Spark 4 has functions in SQL, but no release of it plans all nestings of them, so their text takes their place.

The files of Spark do not keep an order by promise. So a row says its place, and whoever reads rows in order looks at it.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from refactx import errors
from refactx.errors import InputError, RefactxError

_RAISED = re.compile(r"[\w.]+(?:Error|Exception): ")
_OURS = re.compile(r"refactx\.errors\.(\w+): (.+)")
DECISIVE = ("refactx", "tokenizers", "zstandard")
"""The version of the project, of what makes ids of texts, and of what compresses rows."""
FORMAT = 1
"""The version of the files that stages leave."""
_MANIFEST = ".txt"
_BODIES = {
    "entity_number": "(CAST(substr({0}, 2) AS BIGINT) * 2 + CAST(startswith({0}, 'P') AS BIGINT))",
    "entity_id": "((CASE WHEN ({0} & 1) = 1 THEN 'P' ELSE 'Q' END) || CAST(shiftright({0}, 1) AS STRING))",
    "is_property": "(({0} & 1) = 1)",
    "fact_number": "CAST(conv(substr(sha2({0}, 256), 1, 15), 16, 10) AS BIGINT)",
    "cut": "(CASE WHEN length({0}) > {1} THEN rtrim(substr({0}, 1, {1} - 1)) || '…' ELSE {0} END)",
    "starts_with": "startswith({0}, {1})",
    "ends_with": "endswith({0}, {1})",
}
_AGGREGATES = {
    r"string_agg\((.+?), ('[^']*') ORDER BY (.+?)\)": r"listagg(\1, \2) WITHIN GROUP (ORDER BY \3)",
    "UTINYINT": "SMALLINT",
}
"""What queries have in DuckDB, and in Spark."""
_TEXT = r"'(?:[^']|'')*'"
_CALL = re.compile(rf"{_TEXT}|\b({'|'.join(_BODIES)})\(")
_ARGUMENT = re.compile(rf"{_TEXT}|[(),]")
SQL_TYPES = {pa.int64(): "BIGINT", pa.int16(): "SMALLINT", pa.string(): "STRING", pa.bool_(): "BOOLEAN"}


@contextmanager
def spark_session(url: str) -> Iterator[Any]:
    """Open a session of the cluster at `url` (`spark://host:7077`, `yarn`, `k8s://...`, `local[2]`, `sc://host:15002`),
    and end it after the block.

    Raises InputError if Spark is not installed, or does not start or connect.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InputError(
            f"--cluster needs pyspark ({error}): pip install 'refactx[cluster]', here and on all machines of the cluster"
        ) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("refactx ingest")
    try:
        if url.startswith("sc://"):
            spark = builder.remote(url).getOrCreate()
        else:
            spark = builder.master(url).config("spark.ui.showConsoleProgress", "false").getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(
            f"no session of Spark at {url}: {reason:.300}: Java 17 is needed here (apt install openjdk-17-jre-headless), and "
            "a cluster at that address"
        ) from error
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Translate the errors of a cluster: one of this project that a task raised is raised again, by its text."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        text = str(error)
        if found := _OURS.search(text):
            kind = getattr(errors, found[1], RefactxError)
            raise (kind if issubclass(kind, RefactxError) else RefactxError)(found[2]) from error
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        of_tasks = [line for line in lines if _RAISED.match(line)]
        reason = [*lines[:1], *of_tasks[:1]][-1] if lines else type(error).__name__
        raise RefactxError(
            f"the cluster stopped the ingest: {reason:.500}: its log has more, and executors need refactx[cluster] in the "
            "Python of PYSPARK_PYTHON; the same command continues after the last finished stage"
        ) from error


Versions = tuple[tuple[str, str], ...]


@cache
def versions_here() -> Versions:
    """Return the names and versions of the decisive packages in this process."""
    return tuple((package, _version(package)) for package in DECISIVE)


def check_versions(driver: Versions) -> None:
    """Raise RefactxError if this process has other versions of the decisive packages than the driver."""
    for (package, here), (_, there) in zip(versions_here(), driver, strict=True):
        if here != there:
            raise RefactxError(
                f"an executor has {package} {here} and the driver {there}: install the same version on both, since it "
                "decides the bytes of an index"
            )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def batches_of(frame: Any) -> Iterator[pa.Table]:
    """Yield the rows of a data frame in its order, and one empty table first, so that the columns are known."""
    schema = frame.limit(0).toArrow().schema
    yield schema.empty_table()
    for row in frame.mapInArrow(_packed, "batch BINARY").toLocalIterator():
        with pa.ipc.open_stream(bytes(row[0])) as reader:
            yield reader.read_all().cast(schema)


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([to_bytes(batch)], pa.binary())], ["batch"])


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a batch as a stream of Arrow's format, which `from_bytes` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


Result = dict[str, Any]


class Stages:
    """The stages in a folder of the cluster's storage, in the order in which they are run.

    `dependencies`: what the first one depends on; each later one depends on all before it too.
    """

    def __init__(self, spark: Any, folder: str, dependencies: Result) -> None:
        self._spark, self._folder = spark, folder
        self._write("begun", {})  # so that the folder exists
        self._found = self._read()
        self._dependencies = {"format": FORMAT, "version": version("refactx"), **dependencies}
        self._continues = True

    def run(self, name: str, make: Callable[[str], Result], **options: Any) -> Result:
        """Return the result of a stage: that of an earlier run, or what `make` returns for the folder of its files.

        `options`: what else its files depend on.
        """
        self._dependencies = json.loads(json.dumps({**self._dependencies, **options}))
        found = self._found.get(name, {}) if self._continues else {}
        if found.get("dependencies") == self._dependencies:
            result: Result = found["result"]
            return result
        self._continues = False
        self._write(name, {})
        result = json.loads(json.dumps(make(f"{self._folder}/{name}")))
        self._write(name, {"dependencies": self._dependencies, "result": result})
        return result

    def release(self, *names: str) -> None:
        """Give up the manifests of stages, whose index is complete: their files are of no more use."""
        for name in names:
            self._write(name, {})

    def _read(self) -> dict[str, Result]:
        """Return the manifests that are there, by the names of their stages. (A missing folder would be an error.)"""
        found = self._spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        files = found.option("pathGlobFilter", f"*{_MANIFEST}").load(self._folder).select("path", "content").collect()
        manifests = dict[str, Result]()
        for path, content in files:
            stage = path.split("/")[-2].removesuffix("-done")
            with suppress(ValueError):  # it is not whole
                document = json.loads(bytes(content))
                manifests[stage] = document if isinstance(document, dict) else {}
        return manifests

    def _write(self, name: str, document: Result) -> None:
        line = self._spark.createDataFrame(pa.table({"value": [json.dumps(document)]}))
        line.coalesce(1).write.mode("overwrite").text(f"{self._folder}/{name}-done")


def expand(query: str) -> str:
    """Return a query without macros.

    >>> expand("SELECT entity_id(abs(entity)) FROM named WHERE ends_with(name, ' (inverse of')")
    "SELECT ((CASE WHEN ((abs(entity)) & 1) = 1 THEN 'P' ELSE 'Q' END) || CAST(shiftright((abs(entity)), 1) AS STRING)) \
FROM named WHERE endswith((name), (' (inverse of'))"
    """
    parts, at = list[str](), 0
    while found := _CALL.search(query, at):
        if found[1] is None:  # a text
            parts.append(query[at : found.end()])
            at = found.end()
            continue
        arguments, end = _arguments(query, found.end())
        parts.append(query[at : found.start()])
        parts.append(_BODIES[found[1]].format(*(f"({expand(argument)})" for argument in arguments)))
        at = end
    whole = "".join(parts) + query[at:]
    for ours, of_spark in _AGGREGATES.items():
        whole = re.sub(ours, of_spark, whole)
    return whole


def _arguments(query: str, start: int) -> tuple[list[str], int]:
    """Return the arguments of a call, which begin at `start`, and where the query goes on behind it."""
    arguments, depth, begin, at = list[str](), 0, start, start
    while found := _ARGUMENT.search(query, at):
        at = found.end()
        if found[0] == "(":
            depth += 1
        elif found[0] == ")":
            if depth == 0:
                return [*arguments, query[begin : found.start()].strip()], at
            depth -= 1
        elif found[0] == "," and depth == 0:
            arguments.append(query[begin : found.start()].strip())
            begin = at
    raise ValueError(f"a call of a macro does not end: {query[start:]!r:.100}")


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


class ClusterTables:
    """Tables (`refactx.ingest.work.Tables`) as Parquet in folders below `folder`, and views in a session.

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
        ordered = write_sorted(
            self._spark, self._spark.sql(expand(query)).distinct(), "text", self._place(f"{name}-sorted")
        )
        starts = pa.table({"part": list(ordered.starts), "start": list(ordered.starts.values())})
        self._spark.createDataFrame(starts).createOrReplaceTempView(f"{name}_starts")
        self._spark.read.parquet(ordered.folder).createOrReplaceTempView(f"{name}_sorted")
        self.table(
            name, f"SELECT CAST(start + at AS INT) AS {number}, text FROM {name}_sorted JOIN {name}_starts USING (part)"
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

    def has_rows(self, name: str) -> bool:
        return bool(self.rows(f"SELECT 1 FROM {name} LIMIT 1"))

    def batches(self, query: str, size: int) -> Iterator[pa.Table]:
        """Yield the rows of a query in batches that Spark makes, whatever the `size`."""
        return batches_of(self._spark.sql(expand(query)))

    def write(self, name: str, frame: Any) -> None:
        place = self._place(name)
        frame.write.mode("overwrite").parquet(place)
        self._spark.read.parquet(place).createOrReplaceTempView(name)

    def _frame(self, rows: pa.Table) -> Any:
        """Return an Arrow table as a data frame."""
        if len(rows):
            return self._spark.createDataFrame(rows)
        columns = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in rows.schema)
        return self._spark.createDataFrame([], columns)  # Spark Connect takes no empty Arrow table

    def _place(self, name: str) -> str:
        """Return a new folder: a table may be made from the one whose place it takes."""
        self._written += 1
        return f"{self._folder}/{self._written:03}-{name}"
