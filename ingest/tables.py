"""Tables of a graph of one's own, CSV, TSV or Parquet, as ready-made facts: names are names already.

A table has columns `subject`, `predicate` and `object`, in any order and in any case; further ones are ignored, and
`TableForm` names them. Cells are text; in Parquet also numbers, dates, times and truth values, which are read as people
write them. In CSV the delimiter (comma, semicolon, tab or bar) is the one that gives the header these columns, and a cell
in double quotes may hold delimiters, line breaks and doubled quotes. pyarrow reads both, a block at a time.
"""

import csv as csv_module
import datetime
import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from refactx.errors import InputError

from .cleaning import clean_parts, cut_parts
from .parsed import Parsed, fault
from .stream import SourceStream
from .values import date, double

SUFFIXES = (".csv", ".tsv", ".tab", ".parquet", ".pq")
"""The names of tables; CSV and TSV may have `.gz` and its like behind."""
COLUMNS = ("subject", "predicate", "object")
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_CSV_BLOCK_BYTES = 16 << 20
"""The most that a row may have."""
_END = b"\x00end of the table\x00"
"""A row of these is put behind the last: if it does not come out, it is inside a cell whose quotes are not closed."""
_HEADER_BYTES = 1 << 20
_BATCH_ROWS = 122_880


@dataclass(frozen=True, slots=True)
class TableForm:
    """How a table is written.

    `positions` says where subject, predicate and object stand among `names`; `ignored` are the other names. `delimiter` is
    that of CSV, and `header_rows` the lines up to and with its header.
    """

    kind: Literal["CSV", "Parquet"]
    names: tuple[str, ...]
    positions: tuple[int, int, int]
    delimiter: str = ","
    header_rows: int = 1

    @property
    def ignored(self) -> tuple[str, ...]:
        return tuple(name for at, name in enumerate(self.names) if at not in self.positions)


def table_form(path: Path) -> TableForm:
    """What a table looks like, by its content: Parquet by its first bytes, else CSV by its header.

    Raises:
        InputError: a column is missing or there twice, the text is UTF-16, the Parquet file is broken; or as
            `sources.blocks`.
    """
    with SourceStream(path) as stream:
        start = stream.read(_HEADER_BYTES)
    if start.startswith(b"PAR1"):
        with _parquet(path) as file:
            names = tuple(file.schema_arrow.names)
        return TableForm("Parquet", names, _positions(path, names))
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16 text: expected UTF-8: save it as CSV UTF-8")
    lines = start.split(b"\n")
    blank = next((at for at, line in enumerate(lines) if line.strip()), 0)
    header = lines[blank].decode(errors="replace").strip("\r")
    read = {delimiter: _cells(header, delimiter) for delimiter in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda delimiter: len({name.casefold() for name in read[delimiter]} & set(COLUMNS)))
    return TableForm("CSV", read[best], _positions(path, read[best]), best, blank + 1)


def parse_table(path: Path, form: TableForm, advance: Callable[[int], object] = lambda _: None) -> Iterator[Parsed]:
    """The rows of a table as rows of `ready`, clean and cut; `lines` counts rows without the header.

    A row with another number of cells than the header, or one that is not UTF-8, is malformed; its number is that of the row,
    the header being row 1. A row with an empty subject, predicate or object is dropped: `empty part`, or `blank` if all
    three are.

    Raises:
        InputError: CSV with a quote that is never closed, Parquet that is broken or has lists; or as `sources.blocks`.
    """
    read = _csv_batches if form.kind == "CSV" else _parquet_batches
    empty = True
    for parsed in read(path, form, advance):
        yield parsed
        empty = empty and not parsed.statements
    if empty:
        raise InputError(
            f"{path} has no row below its header that is whole: expected subject, predicate and object in each"
        )


def _positions(path: Path, names: tuple[str, ...]) -> tuple[int, int, int]:
    plain = [name.strip().casefold() for name in names]
    found = ", ".join(name[:40] for name in names[:10]) + (", …" if len(names) > 10 else "")
    missing = [column for column in COLUMNS if column not in plain]
    if missing:
        raise InputError(
            f"{path} has no column {', '.join(missing)}: its columns are {found}: "
            "name the columns subject, predicate and object in a first line"
        )
    twice = [column for column in COLUMNS if plain.count(column) > 1]
    if twice:
        raise InputError(f"{path} has column {', '.join(twice)} twice: its columns are {found}: rename one of them")
    return plain.index(COLUMNS[0]), plain.index(COLUMNS[1]), plain.index(COLUMNS[2])


def _cells(line: str, delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(next(csv_module.reader([line], delimiter=delimiter), ()))
    except csv_module.Error:
        return (line,)


def _csv_batches(path: Path, form: TableForm, advance: Callable[[int], object]) -> Iterator[Parsed]:
    skipped: list[csv.InvalidRow] = []

    def skip(row: csv.InvalidRow) -> str:
        skipped.append(row)
        return "skip"

    columns = [str(at) for at in range(len(form.names))]
    wanted = [columns[at] for at in form.positions]
    end = form.delimiter.encode().join([_END] * len(columns))
    good, told, ended = 0, 0, False
    with SourceStream(path, advance, end) as stream:
        try:
            reader = csv.open_csv(
                stream,
                csv.ReadOptions(
                    use_threads=False, block_size=_CSV_BLOCK_BYTES, column_names=columns, skip_rows=form.header_rows
                ),
                csv.ParseOptions(
                    delimiter=form.delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=skip,
                ),
                csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.large_binary())),
            )
            for batch in reader:
                ended = bool(len(batch)) and batch[0][-1].as_py() == _END
                rows = batch.slice(0, len(batch) - ended)
                first = partial(_row_number, form.header_rows + 1, good, skipped)
                parsed = _facts(list(rows.columns), first)
                _add_skipped(parsed, skipped[told:], len(columns))
                good, told = good + len(rows), len(skipped)
                yield parsed
        except pa.ArrowInvalid as error:
            if stream.error is not None:
                raise stream.error from None
            reason = str(error).partition("(")[0].strip()
            raise InputError(
                f"{path} cannot be read behind row {good + len(skipped) + form.header_rows}: {reason}: "
                "look for a quotation mark that is never closed"
            ) from None
    if not ended:
        raise InputError(
            f"row {good + len(skipped) + form.header_rows} of {path} opens a quotation mark that is never closed, and all that "
            "follows would be one cell: close it, or write it twice within quotes"
        )


def _row_number(first: int, good: int, skipped: list[csv.InvalidRow], at: int) -> int:
    """The number of the row that has `good + at` well-formed ones ahead of it; `first` is that of the first row."""
    ahead = [row.number - first - place for place, row in enumerate(skipped)]
    return first + good + at + bisect_right(ahead, good + at)


def _add_skipped(parsed: Parsed, rows: list[csv.InvalidRow], expected: int) -> None:
    parsed.lines += len(rows)
    for row in rows:
        parsed.faults.append((row.number, fault(f"{row.actual_columns} cells instead of {expected}", row.text)))


def _parquet(path: Path) -> parquet.ParquetFile:
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise InputError(f"{path} is a truncated or corrupt Parquet file ({reason}): write it again") from None


def _parquet_batches(path: Path, form: TableForm, advance: Callable[[int], object]) -> Iterator[Parsed]:
    size, done, row = path.stat().st_size, 0, 2
    with _parquet(path) as file:
        total = file.metadata.num_rows
        names = [form.names[at] for at in form.positions]
        for name in names:
            _check_type(path, name, file.schema_arrow.field(name).type)
        try:
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                columns = [_as_text(path, name, batch[name]) for name in names]
                yield _facts(columns, partial(operator.add, row))
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
    """A column of any plain type as large_string, or as large_binary where it is bytes."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        column, type_ = column.dictionary_decode(), type_.value_type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return column.cast(pa.large_string())
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return column.cast(pa.large_binary())
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


def _facts(columns: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Three columns of text or bytes as facts; `row_number` gives the number of a row by its place in them."""
    count = len(columns[0])
    result = Parsed(count)
    try:
        texts = [column.cast(pa.large_string()) for column in columns]
    except pa.ArrowInvalid:  # it looks at whether bytes are UTF-8
        whole = []
        for at, cells in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
            if all(_is_utf8(cell) for cell in cells):
                whole.append(at)
            else:
                start = b" ".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells)
                result.faults.append((row_number(at), fault("not UTF-8", start.decode(errors="replace"))))
        texts = [column.take(pa.array(whole, pa.int64())).cast(pa.large_string()) for column in columns]
    result.statements = len(texts[0])
    parts = [clean_parts(column) for column in texts]
    empty = pc.or_(pc.or_(pc.equal(parts[0], ""), pc.equal(parts[1], "")), pc.equal(parts[2], ""))
    if dropped := pc.sum(empty).as_py():
        blank = pc.sum(pc.and_(pc.and_(*(pc.equal(part, "") for part in parts[:2])), pc.equal(parts[2], ""))).as_py()
        result.dropped += Counter({"empty part": dropped - blank, "blank": blank})
        parts = [column.filter(pc.invert(empty)) for column in parts]
    facts = {}
    for name, column in zip(COLUMNS, parts, strict=True):
        facts[name], long = cut_parts(column)
        result.cut += pc.sum(long).as_py() or 0
    result.tables["ready"] = pa.table(facts)
    return result


def _is_utf8(cell: bytes | str | None) -> bool:
    try:
        if isinstance(cell, bytes):
            cell.decode()
    except UnicodeDecodeError:
        return False
    return True
