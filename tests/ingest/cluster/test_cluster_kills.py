"""The command line on clusters whose processes are killed, and through Spark Connect."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command import run_refactx
from support.crashes import kill, start, wait_for
from support.doc_pages import DOCS, blocks
from support.ingest.executors import executors_of
from support.ingest.whole_index import whole_index

pytestmark = pytest.mark.slow

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.maxPartitionBytes": "200k",
    "spark.executor.memory": "512m",
    "spark.sql.codegen.wholeStage": "false",
}
SESSION = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
"""


@pytest.fixture
def spark_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: make test-spark installs it")
    arguments = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items())
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} pyspark-shell")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


@pytest.fixture(scope="module")
def one(module_url: str, smollm2_folder: Path, sample: Path) -> dict[str, Any]:
    """The index that one machine builds."""
    done = run_refactx(
        "ingest", sample, "--tokenizer", smollm2_folder, "--inverse", "--index", "one", "--db", module_url
    )
    assert done.returncode == 0, done.stderr
    return whole_index(module_url, "one")


def command(model: Path, source: Path, url: str, work: Path, cluster: str) -> tuple[object, ...]:
    return (
        *("ingest", source, "--tokenizer", model, "--inverse", "--index", "many", "--db", url),
        *("--cluster", cluster, "--cluster-work", work / "cluster", "--work-dir", work / "work"),
    )


def finish(run: "subprocess.Popen[str]") -> None:
    """Wait for a command, which must end well."""
    _, said = run.communicate(timeout=900)
    assert run.returncode == 0, said


def written(work: Path, pattern: str) -> int:
    return len(list(work.glob(f"cluster/refactx-*/{pattern}")))


@pytest.mark.usefixtures("spark_settings")
def test_executors_that_are_killed_change_nothing(
    one: dict[str, Any], db_url: str, smollm2_folder: Path, sample: Path, tmp_path: Path
) -> None:
    run = start(*command(smollm2_folder, sample, db_url, tmp_path, "local-cluster[2,1,1024]"))
    try:
        for reached in ("join-tables/010-*", "join-tables/030-*"):
            wait_for(lambda reached=reached: written(tmp_path, reached) > 0 and len(executors_of(run.pid)) == 2, 300)
            os.kill(executors_of(run.pid)[0], signal.SIGKILL)
        finish(run)
    finally:
        kill(run)
    assert whole_index(db_url, "many") == one


@pytest.mark.usefixtures("spark_settings")
def test_a_killed_driver_leaves_nothing_visible_and_the_same_command_continues(
    one: dict[str, Any], db_url: str, smollm2_folder: Path, sample: Path, tmp_path: Path
) -> None:
    called = command(smollm2_folder, sample, db_url, tmp_path, "local[2]")
    for reached in ("join-tables/020-*", "encode-units/_SUCCESS"):
        run = start(*called)
        wait_for(lambda reached=reached: written(tmp_path, reached) > 0, 300)
        kill(run)
        listed = run_refactx("index", "list", "--json", "--db", db_url)
        assert json.loads(listed.stdout) == []
    staged = next(tmp_path.glob("cluster/refactx-*/read/_SUCCESS")).stat().st_mtime_ns
    finish(start(*called))
    assert next(tmp_path.glob("cluster/refactx-*/read/_SUCCESS")).stat().st_mtime_ns == staged
    assert whole_index(db_url, "many") == one


@pytest.mark.usefixtures("spark_settings")
def test_the_notebook_of_the_documentation_builds_the_same_index_through_spark_connect(
    one: dict[str, Any], db_url: str, smollm2_folder: Path, sample: Path, tmp_path: Path
) -> None:
    (code,) = blocks(DOCS / "how-to" / "spark.md", "python")
    for given, here in {
        "s3a://dumps/latest-truthy.nt.bz2": sample,
        '"wikidata"': '"many"',
        "Qwen/Qwen3-8B": smollm2_folder,
        "s3a://bucket/tmp": tmp_path,
        "postgresql://writer@db/kb": db_url,
    }.items():
        assert given in code
        code = code.replace(given, str(here))
    done = subprocess.run([sys.executable, "-c", SESSION + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "facts" in done.stdout
    assert whole_index(db_url, "many") == one


def test_options_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    shared = ("ingest", tmp_path / "a.nt", "--tokenizer", "demo", "--cluster", "local[2]")
    assert "--cluster and --cluster-work belong together" in run_refactx(*shared).stderr
    both = run_refactx(*shared, "--cluster-work", tmp_path, "--append")
    assert "leave out --append, --kb, --page and --page-props" in both.stderr


@pytest.mark.usefixtures("spark_settings")
def test_a_cluster_that_is_not_there_is_a_clear_error(db_url: str, smollm2_folder: Path, tmp_path: Path) -> None:
    done = run_refactx(*command(smollm2_folder, tmp_path / "a.nt", db_url, tmp_path, "nowhere"))
    assert done.returncode == 2
    assert "no session of Spark at nowhere: " in done.stderr
    assert "Traceback" not in done.stderr
