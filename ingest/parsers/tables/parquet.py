"""Parquet as ready-made facts, batch by batch, its values as people write them (`ingest.tables`)."""

import datetime
import operator
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from refactx.errors import InputError

from ...parsers.parsed import Parsed
from ...parsers.tables.columns import facts_of_columns, marked
from ...parsers.values import date, double
from ...sources.source import Source

_BATCH_ROWS = 122_880


def _parquet(path: Path) -> parquet.ParquetFile:
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise InputError(f"{path} is a truncated or corrupt Parquet file ({reason}): write it again") from None


def parquet_names(source: Source) -> tuple[str, ...]:
    """The names of a file's columns. Raises InputError if it can't be read as Parquet."""
    if source.is_standard_input:
        raise InputError("Parquet cannot be read from standard input: give the name of the file")
    with source.path.open("rb") as raw:
        if raw.read(4) != b"PAR1":
            raise InputError(f"{source.name} is Parquet that was compressed once more: decompress it")
    with _parquet(source.path) as file:
        return tuple(file.schema_arrow.names)


def parse_parquet(path: Path, names: Sequence[str], advance: Callable[[int], object]) -> Iterator[Parsed]:
    """The rows of a file, whose columns `names` are subject, predicate and object."""
    size, done, row = path.stat().st_size, 0, 2
    with _parquet(path) as file:
        total = file.metadata.num_rows
        for name in names:
            _check_type(path, name, file.schema_arrow.field(name).type)
        try:
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(names)):
                columns = [_as_text(path, name, batch[name]) for name in names]
                yield facts_of_columns(columns, partial(operator.add, row))
                row += len(batch)
                share = size * (row - 2) // total
                advance(share - done)
                done = share
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{path} is a corrupt Parquet file ({error}): write it again") from None


def _check_type(path: Path, name: str, type_: pa.DataType) -> None:
    if pa.types.is_nested(type_) or pa.types.is_interval(type_):
        raise InputError(
            f"column {name} of {path} has values of type {type_}: expected text, numbers, dates or times: write a row for each"
        )


def _as_text(path: Path, name: str, column: pa.Array) -> pa.Array:
    """A column of any plain type as large_string."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        column, type_ = column.dictionary_decode(), type_.value_type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return column.cast(pa.large_string())
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return pa.array(
            [None if cell is None else marked(cell).decode() for cell in column.to_pylist()], pa.large_string()
        )
    if pa.types.is_timestamp(type_):
        column = column.cast(pa.timestamp("us", type_.tz), safe=False)
    distinct = column.dictionary_encode()
    try:
        written = [_written(value) for value in distinct.dictionary.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"column {name} of {path} has a value out of range ({error}): write the column as text"
        ) from None
    return pa.array(written, pa.large_string()).take(distinct.indices)


def _written(value: object) -> str:
    """A value as people write it; empty for one that is missing.

    >>> [_written(value) for value in (True, 12, 1e6, float("nan"), Decimal("1.500"), datetime.date(1956, 10, 20))]
    ['true', '12', '1000000', '', '1.5', '1956-10-20']
    """
    match value:
        case bool():
            return str(value).lower()
        case float():
            return double(repr(value)) or ""
        case Decimal():
            text = format(value, "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case datetime.datetime():
            return date(value.isoformat()) or ""
        case datetime.date() | datetime.time():
            return value.isoformat()
    return "" if value is None else str(value)
