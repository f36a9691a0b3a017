"""So few rows that numpy has sorted them before a database has started: a day's changes of a large index."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet

from refactx.tree.arrays import Offsets

_ROWS = 1 << 17
_BYTES = 32 << 20
"""Not compressed; memory goes up to some ten times as much."""


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file whole (`parquet.read_table`, but without `pyarrow.dataset`, which takes longer to import)."""
    return parquet.ParquetFile(path).read(columns)


def are_few(files: Sequence[Path]) -> bool:
    """Whether Parquet files have few rows all together."""
    metadata = [parquet.read_metadata(path) for path in files]
    size = sum(one.row_group(group).total_byte_size for one in metadata for group in range(one.num_row_groups))
    return bool(sum(one.num_rows for one in metadata) <= _ROWS and size <= _BYTES)


def ranks_of(keys: pa.Array) -> tuple[NDArray[np.int32], Offsets]:
    """The place of each key among the distinct ones in ascending order, and where each of these stands first.

    >>> [array.tolist() for array in ranks_of(pa.array(["b", "a", "b"]))]
    [[1, 0, 1], [1, 0]]
    """
    ranks = compute.rank(keys, tiebreaker="dense").to_numpy().astype(np.int32) - 1
    first = np.zeros(int(ranks.max(initial=-1)) + 1, np.int64)
    first[ranks[::-1]] = np.arange(len(ranks))[::-1]  # of those that fall together the last is kept
    return ranks, first


def distinct_rows(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """The distinct rows of a matrix in ascending order.

    >>> distinct_rows(np.array([[2, 1], [1, 7], [2, 1]], np.int32)).tolist()
    [[1, 7], [2, 1]]
    """
    ordered = rows[np.lexsort(rows.T[::-1])]
    distinct: NDArray[np.int32] = ordered[np.append(True, (ordered[1:] != ordered[:-1]).any(1))[: len(rows)]]
    return distinct
