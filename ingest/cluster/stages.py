"""The stages of an ingest on a cluster, each done once: its files in the cluster's storage, and a manifest of them.

A manifest is a folder with one line of JSON: what the stage's files depend on, and its result. It is written last. The
same command finds it and begins with the first stage that has none, or whose dependencies differ.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import pyarrow as pa

FORMAT = 1
"""The version of the files that stages leave."""

Result = dict[str, Any]
_MANIFEST = ".txt"


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
