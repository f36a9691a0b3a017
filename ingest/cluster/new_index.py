"""Building an index on a cluster: its machines read, join, encode, sort and cut; the driver loads the rows."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Unpack

from pyarrow import parquet

from refactx.errors import InputError
from refactx.index.open import database
from refactx.ingest.build import Build, BuildOptions
from refactx.ingest.cluster.facts import (
    ClusterFacts,
    CutTask,
    count_tokens,
    cut_rows,
    cut_runs,
    encode_facts,
    pieces_of,
)
from refactx.ingest.cluster.reading import ClusterFile, files_of, read_lines, view_staged
from refactx.ingest.cluster.session import ClusterTables, Stages, batches_of, cluster_errors, expand, open_sorted
from refactx.ingest.encoding import check_any_left
from refactx.ingest.knowledge.knowledge_base import FILES, KnowledgeBase, join_tables
from refactx.ingest.parsers.formats import RDF_KINDS, LineAccount
from refactx.ingest.profile import WIKIDATA, Profile
from refactx.ingest.publish import IngestResult, hubs_of, name_rows, publish_index
from refactx.ingest.report import Report
from refactx.ingest.segment.builder import Learned
from refactx.ingest.segment.cutting import sample_ranges
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection
from refactx.ingest.work import names_of
from refactx.models import load_tokenizer
from refactx.paths import WORK, refactx_home
from refactx.postgres.database import Database

_ON_CLUSTER = ("units.parquet", "facts.parquet")
"""The files of a knowledge base that stay tables of the cluster, which sorts none of them."""
_ORDERS = {
    "names.parquet": ["name"],
    "ids.parquet": ["entity"],
    "labels.parquet": ["language", "entity"],
    "hubs.parquet": ["object", "predicate", "inverse"],
}


def build_index(
    spark: Any, sources: Sequence[str], database: Database, *, cluster_work: str, **options: Unpack[BuildOptions]
) -> IngestResult:
    """Build an index on a cluster: the same rows, names and account as `refactx.ingest.ingest` on one machine.

    `work`: a folder at the driver. `resources`: threads of the driver, and whether to show progress. The rest, and what
    it raises, is as in `refactx.ingest.cluster.ingest` and `refactx.ingest.ingest`.
    """
    build = Build(**options)
    build.tokenizer.check_text()
    with cluster_errors(), build.new_index(database) as (connection, held):
        files = files_of(spark, sources)
        build = replace(held, selection=_of_wikidata(files, build))
        stages = _Stages(spark, cluster_work, files, build, (*names_of(connection), build.index))
        knowledge = stages.knowledge_base()
        facts = stages.facts()
        check_any_left(build.tokenizer, len(facts))
        facts.keep(sample_ranges(len(facts)))
        task = CutTask(packing=(learned := Learned.of(facts)).packing, shape=build.shape)
        result = publish_index(
            connection,
            build,
            facts,
            knowledge.report.without_changed(len(facts)),
            sources=tuple(file.name for file in files),
            learned=learned,
            cut=pieces_of(cut_rows(spark, stages.cut(facts, task)), facts, task),
            names=lambda: name_rows(knowledge.folder),
            hubs=hubs_of(knowledge),
        )
        stages.release()
        return result


def _of_wikidata(files: Sequence[ClusterFile], build: Build) -> Selection:
    """Return the selection with Wikidata's profile, if a file is RDF. Raises InputError for what a cluster does not read:
    another profile, and dumps of Wikipedia."""
    selection = build.selection
    if build.wikipedia is not None:
        raise InputError("a cluster reads no dumps of Wikipedia: ingest on one machine, without --cluster")
    if selection.profile is not None and selection.profile.name != WIKIDATA:
        raise InputError(
            f"a cluster reads only Wikidata's RDF and lines of facts, not graphs of the profile {selection.profile.name}: "
            "ingest on one machine, without --cluster"
        )
    if any(file.format in RDF_KINDS for file in files):
        return replace(selection, profile=Profile(name=WIKIDATA))
    return selection


class _Stages:
    """The stages of one index in the cluster's storage."""

    def __init__(
        self, spark: Any, cluster_work: str, files: tuple[ClusterFile, ...], build: Build, names: tuple[str, ...]
    ) -> None:
        digest = hashlib.sha256("\0".join(names).encode()).hexdigest()
        self._spark, self._files, self._build = spark, files, build
        self._folder = f"{cluster_work.rstrip('/')}/refactx-{digest[:16]}"
        options = {"selection": build.selection.to_json(), "strict": build.strict}
        identity = {"files": [file.identity() for file in files], **options}
        self._stages = Stages(spark, self._folder, identity)

    def knowledge_base(self) -> KnowledgeBase:
        """Read and join; units and facts become views, and the rest a folder of files here."""
        staged, build = f"{self._folder}/read", self._build
        with build.clock.step("read"):

            def read(place: str) -> dict[str, Any]:
                account = read_lines(self._spark, self._files, build.selection, strict=build.strict, folder=place)
                return account.to_json()

            lines = self._stages.run("read", read)
        with build.clock.step("join"):

            def join(place: str) -> dict[str, Any]:
                tables = ClusterTables(self._spark, f"{place}-tables")
                view_staged(self._spark, tables, staged)
                report = join_tables(tables, LineAccount.from_json(lines), build.selection)
                for name, query in FILES.items():
                    order = query if name not in _ON_CLUSTER else query.partition(" ORDER BY")[0]
                    self._spark.sql(expand(order)).write.mode("overwrite").parquet(f"{place}/{name}")
                return asdict(report)

            report = self._stages.run("join", join)
            place = f"{self._folder}/join"
            for name in FILES:
                table = self._spark.read.parquet(f"{place}/{name}")
                if name in _ON_CLUSTER:
                    table.createOrReplaceTempView(name.removesuffix(".parquet"))
                else:
                    _download(table, name, build.work)
        return KnowledgeBase(build.work, Report.from_json(report))

    def facts(self) -> ClusterFacts:
        tokenizer, trigger = self._build.tokenizer, self._build.trigger

        def encode(place: str) -> dict[str, Any]:
            facts = encode_facts(self._spark, tokenizer, trigger, place)
            return {"tokens": count_tokens(self._spark, facts)}

        with self._build.clock.step("encode"):
            tokens = self._stages.run("encode", encode, tokenizer=tokenizer.fingerprint, trigger=trigger)["tokens"]
            return ClusterFacts(self._spark, open_sorted(self._spark, "ids", f"{self._folder}/encode"), tokens)

    def cut(self, facts: ClusterFacts, task: CutTask) -> str:
        """Cut the facts, and return the folder of what tasks wrote."""

        def cut(place: str) -> dict[str, Any]:
            cut_runs(self._spark, facts.parts, task, place)
            return {}

        with self._build.clock.step("cut"):
            self._stages.run("cut", cut, shape=asdict(task.shape))
        return f"{self._folder}/cut"

    def release(self) -> None:
        self._stages.release("read", "join", "encode", "cut")


def _download(table: Any, name: str, folder: Path) -> None:
    """Write the rows of a table of the cluster to a file here, in the order of a knowledge base's file."""
    batches = batches_of(table.orderBy(*_ORDERS[name]))
    with parquet.ParquetWriter(folder / name, next(batches).schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_table(batch)


def ingest(
    spark: Any,
    sources: Sequence[str],
    *,
    index: str,
    tokenizer: str,
    cluster_work: str,
    db: str | None = None,
    work: Path | None = None,
    selection: Selection = DEFAULT_SELECTION,
    strict: bool = False,
    replace: bool = False,
) -> IngestResult:
    """Build an index on a cluster of Spark: row for row the one that a single machine builds.

    If an ingest was stopped, a call with the same arguments continues after the last finished stage. Readers see the
    index only when it is complete.

    Args:
        spark: a session of Spark 4, classic or Connect. Temporary views of the names that the joins use are replaced.
        sources: paths or URIs that all machines can read, of N-Triples, lines of Wikidata's JSON or of facts; also
            folders and patterns.
        tokenizer: a model whose tokenizer the index is for: a Hugging Face id, a folder, or a GGUF file.
        cluster_work: a folder in the storage of the cluster, for what stages leave: a path on a shared disk, or a URI.
        db: the libpq URL of the database; by default what `refactx ingest` takes.
        work: a folder at the driver, for names and the upper levels of the tree; by default in `$REFACTX_HOME`.

    The others are those of `refactx.ingest.ingest`, and so are the errors. Raises RefactxError if the cluster stopped a
    stage, does not sort, or has other versions of packages than the driver.

        files = ["s3a://dumps/truthy.nt.bz2"]
        ingest(spark, files, index="wikidata", tokenizer="Qwen/Qwen3-8B", cluster_work="s3a://bucket/tmp")
    """
    loaded, name = load_tokenizer(tokenizer)
    with database(db) as opened:
        return build_index(
            spark,
            sources,
            opened,
            index=index,
            tokenizer=loaded,
            tokenizer_name=name,
            cluster_work=cluster_work,
            work=work or refactx_home() / WORK,
            selection=selection,
            strict=strict,
            replace=replace,
        )
