"""A session of Spark on this machine, for all tests of it in one process."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.files.maxPartitionBytes": "60k",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Small splits, batches and shuffles, so that few facts are divided as many are on a cluster."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session in which few facts are divided among many tasks."""
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed: make test-spark installs it")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in SMALL.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def cluster_work(tmp_path: Path) -> Path:
    """The folder of the cluster's storage."""
    return tmp_path / "cluster"
