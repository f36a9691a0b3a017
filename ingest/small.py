"""Operations on few rows, in memory: numpy has sorted a day's changes of an index before a database has started."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet

from refactx.tree.arrays import Offsets

_ROWS = 1 << 17
_BYTES = 32 << 20
"""Uncompressed; memory grows by up to ten times as much."""


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a Parquet file as a table (`parquet.read_table` imports `pyarrow.dataset`, which takes longer)."""
    return parquet.ParquetFile(path).read(columns)


def are_few(files: Sequence[Path]) -> bool:
    """Return whether Parquet files have few rows in total."""
    metadata = [parquet.read_metadata(path) for path in files]
    size = sum(one.row_group(group).total_byte_size for one in metadata for group in range(one.num_row_groups))
    return bool(sum(one.num_rows for one in metadata) <= _ROWS and size <= _BYTES)


def ranks_of(keys: pa.Array) -> tuple[NDArray[np.int32], Offsets]:
    """Return the rank of each key among the distinct keys in ascending order, and the first place of each of these.

    >>> [array.tolist() for array in ranks_of(pa.array(["b", "a", "b"]))]
    [[1, 0, 1], [1, 0]]
    """
    ranks = compute.rank(keys, tiebreaker="dense").to_numpy().astype(np.int32) - 1
    first = np.zeros(int(ranks.max(initial=-1)) + 1, np.int64)
    first[ranks[::-1]] = np.arange(len(ranks))[::-1]  # of equal keys the last assignment stays: the first place
    return ranks, first


def distinct_rows(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the distinct rows of a matrix in ascending order.

    >>> distinct_rows(np.array([[2, 1], [1, 7], [2, 1]], np.int32)).tolist()
    [[1, 7], [2, 1]]
    """
    ordered = rows[np.lexsort(rows.T[::-1])]
    distinct: NDArray[np.int32] = ordered[np.append(True, (ordered[1:] != ordered[:-1]).any(1))[: len(rows)]]
    return distinct
