"""Ingest from a notebook: with the session that is there, and names instead of opened things."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refactx.connect import database
from refactx.ingest.cluster.new_index import build_index
from refactx.ingest.publish import IngestResult
from refactx.ingest.selection import DEFAULT_SELECTION, Selection
from refactx.models import load_tokenizer
from refactx.paths import refactx_home


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
        sources: paths or URIs that all machines can read, of N-Triples or lines of facts; also folders and patterns.
        index: its name.
        tokenizer: a model whose tokenizer the index is for: a Hugging Face id, a folder, or a GGUF file.
        cluster_work: a folder in the storage of the cluster, for what stages leave: a path on a shared disk, or a URI.
        db: the libpq URL of the database; by default what `refactx ingest` takes.
        work: a folder at the driver, for names and the upper levels of the tree; by default in `$REFACTX_HOME`.
        selection: which facts of the sources the index gets.
        strict: raise an error for the first malformed line instead of counting it.
        replace: replace an index of the same name.

    Raises:
        InputError: a source cannot be read or is not what its name says, or all together have no fact.
        IndexExistsError: an index of this name exists and `replace` is not set, or another process is writing it.
        DatabaseError: the database cannot be reached, or refused a statement.
        RefactxError: the cluster stopped a stage, does not sort, or has other versions of packages than the driver.

    >>> result = ingest(  # doctest: +SKIP
    ...     spark,
    ...     ["s3a://dumps/truthy.nt.bz2"],
    ...     index="wikidata",
    ...     tokenizer="Qwen/Qwen3-8B",
    ...     cluster_work="s3a://bucket/tmp",
    ... )
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
            work=work or refactx_home() / "work",
            selection=selection,
            strict=strict,
            replace=replace,
        )
