"""A session of Spark, from a URL; and the errors of a cluster, as errors of this project."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from refactx import errors
from refactx.errors import InputError, RefactxError

_RAISED = re.compile(r"[\w.]+(?:Error|Exception): ")
_OURS = re.compile(r"refactx\.errors\.(\w+): (.+)")


@contextmanager
def session(url: str) -> Iterator[Any]:
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
