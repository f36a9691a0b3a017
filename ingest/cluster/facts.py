"""Sorted facts on a cluster, as the driver reads them: by position, a few at a time."""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from refactx.ingest.cluster.sorting import SortedParts, unsorted
from refactx.ingest.encoding.encoded import SortedFacts
from refactx.ingest.encoding.words import from_keys
from refactx.tree.arrays import Offsets
from refactx.tree.children import Tokens

_FOUND = """
SELECT start + at AS position, ids FROM fact_rows JOIN fact_starts USING (part)
JOIN fact_ranges ON start + at >= low AND start + at < high ORDER BY position
"""


class PlacedFacts(SortedFacts, Protocol):
    """Sorted facts in parts."""

    def start_of(self, part: int) -> int:
        """Return the position of the first fact of a part."""
        ...


class ClusterFacts:
    """Sorted facts (`refactx.ingest.encoding.EncodedFacts`) in the storage of a cluster, each with all its tokens.

    `read_tokens` asks the cluster, which takes a second or so, except for ranges that `keep` has read.
    """

    def __init__(self, spark: Any, parts: SortedParts, tokens: int) -> None:
        self._spark, self._parts, self._tokens = spark, parts, tokens
        self._starts = parts.starts
        self._kept: dict[tuple[int, int], tuple[Tokens, Offsets]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def token_count(self) -> int:
        return self._tokens

    @property
    def parts(self) -> SortedParts:
        """The parts of the sorted table."""
        return self._parts

    def start_of(self, part: int) -> int:
        """Return the position of the first fact of a part."""
        return self._starts[part]

    def keep(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read ranges of facts (low to high - 1) in one query, in place of those that were kept."""
        wanted = list(ranges)
        self._kept = dict(zip(wanted, self._read(wanted), strict=True))

    def read_tokens(self, low: int, high: int) -> tuple[Tokens, Offsets]:
        kept = self._kept.get((low, high))
        return self._read([(low, high)])[0] if kept is None else kept

    def _read(self, ranges: list[tuple[int, int]]) -> list[tuple[Tokens, Offsets]]:
        starts = self._starts
        lows, highs = map(list, zip(*ranges, strict=True))
        self._spark.createDataFrame(
            pa.table({"part": list(starts), "start": list(starts.values())})
        ).createOrReplaceTempView("fact_starts")
        self._spark.createDataFrame(pa.table({"low": lows, "high": highs})).createOrReplaceTempView("fact_ranges")
        self._spark.read.parquet(self._parts.folder).createOrReplaceTempView("fact_rows")
        found = self._spark.sql(_FOUND).distinct().toArrow().sort_by("position")
        positions, ids = found["position"].to_numpy(), found["ids"].combine_chunks()
        read = []
        for low, high in ranges:
            at = int(np.searchsorted(positions, low))
            if not np.array_equal(positions[at : at + high - low], np.arange(low, high)):
                raise unsorted(f"facts {low:,} to {high - 1:,} are not where they were written")
            read.append(from_keys(ids[at : at + high - low]))
        return read
