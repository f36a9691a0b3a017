"""The joins of a few ready-made facts and nothing else, without a work database: there is nothing to name."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from refactx.ingest.knowledge.account import JoinAccount
from refactx.ingest.parsers.staging import SCHEMAS
from refactx.ingest.selection import Selection
from refactx.ingest.small import are_few, distinct_rows, ranks_of, read_parquet

_NAMES = pa.schema([(name, pa.string()) for name in ("name", "id", "object_kind")])
_IDS = pa.schema({"entity": pa.int64(), "name": pa.string()})
_HUBS = pa.schema({"object": pa.string(), "predicate": pa.string(), "inverse": pa.string(), "subjects": pa.int64()})


def are_few_ready_made(staged: Path, selection: Selection) -> bool:
    """Return whether the staged rows are a few ready-made facts and nothing else."""
    others = [staged / f"{table}.parquet" for table in SCHEMAS if table != "ready"]
    return (
        not selection.inverse
        and selection.limit is None
        and not any(parquet.read_metadata(path).num_rows for path in others)
        and are_few([staged / "ready.parquet"])
    )


def join_few_ready_made(staged: Path) -> tuple[dict[str, pa.Table], JoinAccount]:
    """Return the tables of a knowledge base, by the names of its files, and the account."""
    ready = read_parquet(staged / "ready.parquet")
    parts = pa.chunked_array([chunk for column in ready.columns for chunk in column.chunks], pa.large_string())
    texts = parts.combine_chunks().dictionary_encode()
    ranks, first = ranks_of(texts.dictionary)
    facts = distinct_rows(ranks[texts.indices.to_numpy()].reshape(3, -1).T)
    units = texts.dictionary.take(pa.array(first)).cast(pa.string())
    columns = dict(zip(("subject", "predicate", "object"), facts.T.copy(), strict=True))
    tables = {
        "units.parquet": pa.table({"unit": np.arange(len(units), dtype=np.int32), "text": units}),
        "facts.parquet": pa.table(columns),
        "names.parquet": _NAMES.empty_table(),
        "ids.parquet": _IDS.empty_table(),
        "hubs.parquet": _HUBS.empty_table(),
    }
    dropped = Counter(duplicate=len(ready) - len(facts))
    return tables, JoinAccount(
        claims=len(facts),
        descriptions=0,
        aliases=0,
        derived=0,
        kept=len(facts),
        dropped=dropped,
        cut=0,
        entities=0,
        names={},
        not_inverted={},
        hubs=0,
    )
