"""The parser of Parquet tables, batch by batch, with values as people write them."""

import datetime
import operator
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from refactx.errors import InputError
from refactx.ingest.parsers.parsed import Parsed
from refactx.ingest.parsers.tables.columns import facts_of_columns, mark_invalid_bytes
from refactx.ingest.parsers.values import format_date, format_double
from refactx.ingest.sources.source import Source

_BATCH_ROWS = 122_880
_NOT_UTF8 = "not UTF-8, perhaps Latin-1: write the column as text in UTF-8"


_ARE_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def _open(path: Path) -> parquet.ParquetFile:
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise InputError(f"{path} is a truncated or corrupt Parquet file ({reason}): write it again") from None


def parquet_names(source: Source) -> tuple[str, ...]:
    """Return the names of a file's columns. Raise InputError if it cannot be read as Parquet."""
    if source.is_standard_input:
        raise InputError("Parquet cannot be read from standard input: give the name of the file")
    with source.path.open("rb") as raw:
        if raw.read(4) != b"PAR1":
            raise InputError(f"{source.name} is a compressed Parquet file, which cannot be read: decompress it")
    with _open(source.path) as file:
        return tuple(file.schema_arrow.names)


def parse_parquet(path: Path, names: Sequence[str], advance: Callable[[int], object]) -> Iterator[Parsed]:
    """Yield the rows of a file, whose columns `names` are subject, predicate and object; the first has number 1."""
    size, done, row = path.stat().st_size, 0, 1
    with _open(path) as file:
        total = file.metadata.num_rows
        for name in names:
            _check_type(path, name, file.schema_arrow.field(name).type)
        try:
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(names)):
                columns = [_as_text(path, name, batch[name]) for name in names]
                yield facts_of_columns(columns, partial(operator.add, row), _NOT_UTF8)
                row += len(batch)
                share = size * (row - 1) // total
                advance(share - done)
                done = share
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is a corrupt Parquet file ({error}): write it again") from None


def _check_type(path: Path, name: str, type_: pa.DataType) -> None:
    type_ = getattr(type_, "storage_type", type_)
    if pa.types.is_nested(type_) or pa.types.is_interval(type_):
        raise InputError(
            f"column {name} of {path} has values of type {type_}, expected text, numbers, dates or times: "
            "write one row for each value"
        )


def _as_text(path: Path, name: str, column: pa.Array) -> pa.Array:
    """Return a column of any type that is not nested as large_string."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        column, type_ = column.dictionary_decode(), type_.value_type
    if isinstance(column, pa.ExtensionArray):  # UUIDs, JSON
        if type_.extension_name == "arrow.uuid":
            return pa.array([None if cell is None else str(cell) for cell in column.to_pylist()], pa.large_string())
        column, type_ = column.storage, type_.storage_type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        column = column.cast(pa.large_binary())
        try:
            return column.cast(pa.large_string())  # checks the bytes, which nothing has done so far
        except pa.ArrowInvalid:
            type_ = column.type
    if any(is_bytes(type_) for is_bytes in _ARE_BYTES):
        return pa.array(
            [None if cell is None else mark_invalid_bytes(cell).decode() for cell in column.to_pylist()],
            pa.large_string(),
        )
    if pa.types.is_timestamp(type_):
        column = column.cast(pa.timestamp("us", type_.tz), safe=False)
    distinct = column.dictionary_encode()
    try:
        written = [_format_value(value) for value in distinct.dictionary.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"column {name} of {path} has a value out of range ({error}): write the column as text"
        ) from None
    return pa.array(written, pa.large_string()).take(distinct.indices)


def _format_value(value: object) -> str:
    """Return a value as people write it; empty if it is missing.

    >>> [_format_value(value) for value in (True, 12, 1e6, float("nan"), Decimal("1.500"), datetime.date(1956, 10, 20))]
    ['true', '12', '1000000', '', '1.5', '1956-10-20']
    """
    match value:
        case bool():
            return str(value).lower()
        case float():
            return format_double(repr(value)) or ""
        case Decimal():
            text = format(value, "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case datetime.datetime():
            return format_date(value.isoformat()) or ""
        case datetime.date() | datetime.time():
            return value.isoformat()
    return "" if value is None else str(value)
