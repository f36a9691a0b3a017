"""The files that an ingest on a cluster reads: lines in the cluster's storage, in formats that can be split anywhere."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from refactx.errors import InputError
from refactx.ingest.parsers.formats import BLOCK_PARSERS
from refactx.ingest.parsers.recognition import recognise_format
from refactx.ingest.sources.source import Format, format_by_name

_FIRST_LINES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """A file of a source. `name`: the source as it was given, or the path of one of its files. `key`: a number for the
    file, in rows; `bytes`, `changed`: its size, and when it was written."""

    name: str
    path: str
    key: int
    format: Format
    bytes: int
    changed: str

    def identity(self) -> dict[str, Any]:
        """Return what distinguishes this file from others, and from itself after a change."""
        return {name: value for name, value in asdict(self).items() if name != "key"}


def files_of(spark: Any, sources: Sequence[str]) -> tuple[ClusterFile, ...]:
    """Return the files of sources (paths or URIs of files, folders, or patterns such as `part-*.nt.bz2`), in order.

    Raises InputError if there is none, or one cannot be read on a cluster.
    """
    if not sources:
        raise InputError("no source was given: expected at least one file, such as s3a://bucket/truthy.nt.bz2")
    files = [file for source in sources for file in _files_of(spark, source)]
    seen = set[str]()
    for file in files:
        if file.path in seen:
            raise InputError(f"{file.path} is given more than once: name it once")
        seen.add(file.path)
    return tuple(files)


def _files_of(spark: Any, source: str) -> list[ClusterFile]:
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import expr

    columns = "_metadata.file_path AS path", "_metadata.file_size", "_metadata.file_modification_time"
    try:
        listed = spark.read.format("binaryFile").load(source).select(*map(expr, columns))
        rows = sorted(map(tuple, listed.select("*", expr("xxhash64(path)")).collect()))
    except PySparkException as error:
        raise InputError(
            f"{source} cannot be read by the cluster: {str(error).splitlines()[0]:.300}: give a path or URI that all its "
            "machines can read"
        ) from error
    if not rows:
        raise InputError(f"{source} has no file: check its name")
    return [
        ClusterFile(
            name=source if len(rows) == 1 else path,
            path=path,
            key=key,
            format=_format_of(spark, source, path),
            bytes=size,
            changed=str(changed),
        )
        for path, size, changed, key in rows
    ]


def _format_of(spark: Any, source: str, path: str) -> Format:
    named = format_by_name(path.rpartition("/")[2])
    start = b""
    if named in (None, "ready-made facts", "N3"):
        lines = spark.read.text(path).limit(_FIRST_LINES).collect()
        start = "\n".join(row[0] for row in lines).encode()
    found = recognise_format(path, named, start)
    if found not in BLOCK_PARSERS:
        raise InputError(
            f"{source} is {found}, which a cluster does not read: give N-Triples or lines of facts, or ingest without "
            "--cluster"
        )
    return found
