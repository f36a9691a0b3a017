"""The rows of a cluster's table at the driver, batch by batch: as bytes of Arrow, which a row of Python objects is not."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def batches_of(frame: Any) -> Iterator[pa.Table]:
    """Yield the rows of a data frame in its order, and one empty table first, so that the columns are known."""
    schema = frame.limit(0).toArrow().schema
    yield schema.empty_table()
    for row in frame.mapInArrow(_packed, "batch BINARY").toLocalIterator():
        with pa.ipc.open_stream(bytes(row[0])) as reader:
            yield reader.read_all().cast(schema)


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([to_bytes(batch)], pa.binary())], ["batch"])


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a batch as a stream of Arrow's format, which `from_bytes` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
