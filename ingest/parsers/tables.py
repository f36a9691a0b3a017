"""The reader of tables: CSV, TSV, Parquet, queries of a database, and rows of a program, as columns of text.

What a row says is left to `refactx.ingest.parsers.records`. Cells are text, in all but CSV also numbers, dates, times
and booleans, which are converted to text as people write them. The delimiter of CSV (comma, semicolon, tab or bar, or
another one in a first line `sep=` for Excel) is the one with which the header has the wanted columns; a cell in double
quotes may contain delimiters, line breaks and doubled quotes. pyarrow reads both, a block at a time.
"""

import csv
import datetime
import operator
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from refactx.errors import InputError
from refactx.fact import counted, written_part
from refactx.ingest.parsers.parsed import (
    Parsed,
    RowParser,
    fault,
    mark_invalid_bytes,
    not_utf8,
    unreadable,
    utf8_blocks,
)
from refactx.ingest.parsers.values import format_date, format_double
from refactx.ingest.source_options import TableOptions
from refactx.ingest.sources import BatchSource, BlockStream, Source

SEPARATOR = re.compile(rb'\s*"?sep=([^"\\\x80-\xff])"?\s*', re.IGNORECASE)
"""The first line with which Excel reads and writes the delimiter of a file."""
_BLOCK_BYTES = 16 << 20
"""Also the size of the largest possible row."""
_ESCAPED = re.compile(rb'\\(["\\])')
_END = "\x00end of the table\x00"
"""The cells of a row added after the last one: if it is not read, it is inside a cell whose quotes are not closed."""
_BATCH_ROWS = 122_880
_ARE_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
BETWEEN = "\ue000"
"""What is between the values of a list when it is text: a character that Unicode leaves for private use."""
_DELIMITERS = (",", ";", "\t", "|")


def parse_csv(
    source: Source, header: "Header", positions: Sequence[int], make: RowParser, advance: Callable[[int], object]
) -> Iterator[Parsed]:
    """Yield what `make` does of the rows of a CSV file, given the columns at `positions`. Lines that begin with
    `header.comment` are dropped."""
    delimiter, header_rows, width = header.delimiter, header.header_rows, len(header.names)
    skipped: list[arrow_csv.InvalidRow] = []  # since the last block
    before: list[int] = []  # for each skipped row, how many well-formed rows are before it

    def skip(row: arrow_csv.InvalidRow) -> str:
        before.append(row.number - header_rows - 1 - len(before))
        skipped.append(row)
        return "skip"

    columns = [str(at) for at in range(width)]
    wanted = [columns[at] for at in positions]
    end = delimiter.encode().join([_END.encode()] * width)
    good, ended = 0, False
    comments = None if header.comment is None else Comments(header.comment, delimiter)
    with BlockStream(_readable_blocks(source, advance, delimiter, end, comments)) as stream:
        try:
            reader = arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK_BYTES, column_names=columns, skip_rows=header_rows
                ),
                arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=skip
                ),
                arrow_csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.large_string())),
            )
            for batch in reader:
                ended = bool(len(batch)) and batch[0][-1].as_py() == _END
                rows = batch.slice(0, len(batch) - ended)
                parsed = make(
                    list(rows.columns),
                    lambda at: header_rows + 1 + good + at + bisect_right(before, good + at),  # noqa: B023  # called at once
                )
                good += len(rows)
                _add_skipped(parsed, skipped, width)
                if comments is not None:
                    comments.add_to(parsed)
                yield parsed
        except pa.ArrowInvalid as error:
            if stream.error is not None:
                raise stream.error from None
            reason = str(error).partition("(")[0].strip()
            raise InputError(
                f"{source.name} cannot be read after row {good + len(before) + header_rows}: {reason}: "
                "look for a quotation mark that is never closed"
            ) from None
    if not ended:
        raise InputError(
            f"row {good + len(before) + header_rows} of {source.name} opens a quotation mark that is never closed, so "
            "that all that follows would be one cell: close it, or write it twice within quotes"
        )


class Comments:
    """The lines of CSV that begin with a text, outside quotation marks; `count`: how many were removed
    and are in no account."""

    def __init__(self, begin: str, delimiter: str | None) -> None:
        between = "[,;\t|]" if delimiter is None else re.escape(delimiter)
        cell, line = rb'"(?:[^"]|"")*+("|\Z)', rb"^%b[^\n]*\n?" % re.escape(begin.encode())
        self._found = re.compile(rb"(?:^|(?<=%b))%b|%b" % (between.encode(), cell, line), re.MULTILINE)
        self._within = False
        self.count = 0

    def remove(self, block: bytes) -> bytes:
        """Return a block of whole lines, which follows the one before, without these lines."""
        head = b""
        if self._within:  # a cell of several lines goes on
            rest = re.match(rb'(?:[^"]|"")*+("|\Z)', block)
            head, block = (rest[0], block[rest.end() :]) if rest is not None else (b"", block)
            self._within = rest is not None and not rest[1]
        return head + self._found.sub(self._kept, block)

    def add_to(self, parsed: Parsed) -> None:
        """Add those that were removed since the last call to an account."""
        parsed.lines += self.count
        parsed.dropped += Counter(comment=self.count)
        self.count = 0

    def _kept(self, found: re.Match[bytes]) -> bytes:
        if found[0].startswith(b'"'):
            self._within = not found[1]
            return found[0]
        self.count += 1
        return b""


def _readable_blocks(
    source: Source, advance: Callable[[int], object], delimiter: str, end: bytes, comments: Comments | None
) -> Generator[bytes, None, None]:
    """Yield the blocks of a file, without comments, and one more line, `end`.

    Bytes that are not UTF-8 are an error, since pyarrow does not report them. In a cell that can only be read so,
    backslashes before quotes (`"a \\"b\\" c"`) are taken for escapes, as many programs write them.
    """
    # A cell whose first quote after a backslash cannot end it, as what follows shows; else one that ends on its line.
    cell = re.compile(
        rb"""((?:^|D)")((?:[^"\\]|\\[^"]|"")*+\\"(?![D"\n])(?:[^"\\]|\\[\s\S]|"")*+
        |(?:[^"\\\n]|\\[^"\n]|"")*+\\"(?:[^"\\\n]|\\.|"")*+)("(?=D|$))""".replace(b"D", re.escape(delimiter.encode())),
        re.MULTILINE | re.VERBOSE,
    )
    last = b""
    for block in utf8_blocks(source, advance):
        last = block[-1:]
        if b'\\"' in block:
            block = cell.sub(lambda found: found[1] + _ESCAPED.sub(_unescape, found[2]) + found[3], block)  # noqa: PLW2901
        yield block if comments is None else comments.remove(block)
    yield end if last == b"\n" else b"\n" + end


def _unescape(escape: re.Match[bytes]) -> bytes:
    return b'""' if escape[1] == b'"' else escape[1]


def _add_skipped(parsed: Parsed, rows: list[arrow_csv.InvalidRow], expected: int) -> None:
    """Add the rows skipped so far as faults; pyarrow may be adding further ones meanwhile."""
    count = len(rows)
    parsed.lines += count
    for row in rows[:count]:
        what = f"{counted(row.actual_columns, 'cell')} instead of {expected}"
        parsed.faults.append((row.number, fault(what, row.text)))
    del rows[:count]


def _open(path: Path) -> parquet.ParquetFile:
    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise InputError(f"{path} is a truncated or corrupt Parquet file ({reason}): write it again") from None


def parquet_schema(source: Source) -> pa.Schema:
    """Return the schema of a file. Raise InputError if it cannot be read as Parquet."""
    if source.is_standard_input:
        raise InputError("Parquet cannot be read from standard input: give the name of the file")
    with source.path.open("rb") as raw:
        if raw.read(4) != b"PAR1":
            raise InputError(f"{source.name} is a compressed Parquet file, which cannot be read: decompress it")
    with _open(source.path) as file:
        return file.schema_arrow


def parse_parquet(
    path: Path, positions: Sequence[int], make: RowParser, advance: Callable[[int], object]
) -> Iterator[Parsed]:
    """Yield what `make` does of the rows of a file, given the columns at `positions`; the first has number 1."""
    size, done, row = path.stat().st_size, 0, 1
    with _open(path) as file:
        total = file.metadata.num_rows
        fields = [file.schema_arrow.field(at) for at in positions]
        for field in fields:
            check_type(str(path), field)
        names: list[str] | None = [field.name for field in fields]
        places: Sequence[int] = range(len(fields))
        if len(set(file.schema_arrow.names)) < len(file.schema_arrow.names):
            names, places = None, positions  # two have one name, by which pyarrow finds neither
        try:
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                columns = [
                    as_text(str(path), field.name, batch.column(at)) for field, at in zip(fields, places, strict=True)
                ]
                yield make(columns, partial(operator.add, row))
                row += len(batch)
                share = size * (row - 1) // total
                advance(share - done)
                done = share
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is a corrupt Parquet file ({error}): write it again") from None


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def check_type(source: str, field: pa.Field, *, may_be_list: bool = True) -> None:
    type_ = getattr(field.type, "storage_type", field.type)
    inner = type_.value_type if may_be_list and _is_list(type_) else type_
    if pa.types.is_nested(inner) or pa.types.is_interval(inner):
        raise InputError(
            f"column {field.name} of {source} has values of type {type_}, expected text, numbers, dates or times: "
            "write one row for each value"
        )


def as_text(source: str, name: str, column: pa.Array) -> pa.Array:
    """Return a column of any type as large_string; values of lists may not be lists."""
    type_ = column.type
    if _is_list(type_):  # `BETWEEN` is put between the values
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        values = pc.replace_substring(pc.fill_null(as_text(source, name, column.flatten()), ""), BETWEEN, " ")
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
        return pc.binary_join(pa.LargeListArray.from_arrays(offsets, values), pa.scalar(BETWEEN, pa.large_string()))
    if pa.types.is_dictionary(type_):
        return as_text(source, name, column.dictionary).take(column.indices)
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
        written = [format_value(value) for value in distinct.dictionary.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"column {name} of {source} has a value out of range ({error}): write the column as text"
        ) from None
    return pa.array(written, pa.large_string()).take(distinct.indices)


def format_value(value: object) -> str:
    """Return a value as people write it; empty if it is missing.

    >>> [format_value(value) for value in (True, 12, 1e6, float("nan"), Decimal("1.500"), datetime.date(1956, 10, 20))]
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
        case bytes() | bytearray() | memoryview():
            return mark_invalid_bytes(bytes(value)).decode()
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the start of a table says.

    `names`: those of all columns, as facts have them, "" for one without a name; without a header their numbers, from 1.
    `delimiter`: of CSV. `header_rows`: how many lines CSV has up to its first row, without those that begin with `comment`.
    `lists`: the columns of Parquet or rows
    that have lists, by their places. `joined`: after all others, columns whose cells are those of several columns, with
    spaces between: the places of these by its place.
    """

    kind: Literal["CSV", "Parquet", "rows"]
    names: tuple[str, ...]
    delimiter: str = ","
    header_rows: int = 1
    comment: str | None = None
    lists: Mapping[int, pa.Field] = field(default_factory=dict)
    joined: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of_schema(cls, kind: Literal["Parquet", "rows"], schema: pa.Schema) -> "Header":
        """Return the header of a table whose columns have types."""
        lists = {at: one for at, one in enumerate(schema) if _is_list(one.type)}
        return cls(kind=kind, names=tuple(map(written_part, schema.names)), lists=lists)


def read_header(source: Source, options: TableOptions, wanted: Collection[str]) -> Header:
    """Return the header of a table, given by its content: Parquet by its first bytes, otherwise CSV by its first line.

    `wanted`: names of columns, in lower case, that the header may have.

    Raises:
        InputError: the header is not UTF-8; Parquet is corrupt, compressed as a file, or on standard input; or as
            `Source.blocks`.
    """
    if isinstance(source, BatchSource):
        return _with_joined(Header.of_schema("rows", source.schema), source.table, options)
    start = source.first_lines()
    if start.startswith(b"PAR1"):
        return _with_joined(Header.of_schema("Parquet", parquet_schema(source)), source.table, options)
    if options.comment is not None:
        start = Comments(options.comment, options.delimiter).remove(start)
    lines = start.split(b"\n")
    filled = (at for at, line in enumerate(lines) if line.strip())
    at = next(filled, 0)
    separator = SEPARATOR.fullmatch(lines[at])
    if separator is not None:
        at = next(filled, at)
    own = () if separator is None else (separator[1].decode(),)
    delimiters = (options.delimiter,) if options.delimiter else (*own, *_DELIMITERS)
    try:
        read = {one: _first_row(lines[at:], one) for one in delimiters}
    except UnicodeDecodeError as error:
        at = lines.index(error.object.removesuffix(b"\n"), at)
        raise unreadable(f"{source.name}:{at + 1}: {not_utf8(lines[at])}") from None

    def fits(one: str) -> tuple[int, bool, int]:
        names, _ = read[one]
        return len({name.casefold() for name in names} & set(wanted)), '"' not in "".join(names), len(names)

    best = max(read, key=fits)
    names, height = read[best]
    if not any(names):
        raise InputError(f"{source.name} has only blank lines: expected a table")
    if height > len(lines) - at:
        raise InputError(
            f"{source.name}:{at + 1} opens a quotation mark that is never closed: close it, or write it twice within quotes"
        )
    numbers = tuple(map(str, range(1, len(names) + 1)))
    header = Header(
        kind="CSV",
        names=names if options.header else numbers,
        delimiter=best,
        header_rows=at + height if options.header else at,
        comment=options.comment,
    )
    return _with_joined(header, source.table, options)


def _with_joined(header: Header, table: str, options: TableOptions) -> Header:
    """Return a header with the columns that options join of several of a table: `FirstName+LastName`."""
    given = (*options.subjects, *options.ids, *(side.strip() for key in options.keys for side in key.split("=", 1)))
    places = {name.casefold(): at for at, name in reversed(list(enumerate(header.names)))}
    names, joined = list(header.names), dict[int, tuple[int, ...]]()
    for one in dict.fromkeys(given):
        wanted = one[len(table) + 1 :] if one.casefold().startswith(f"{table.casefold()}.") else one
        parts = [places.get(part.strip().casefold()) for part in wanted.split("+")]
        found = tuple(at for at in parts if at is not None)
        if len(found) == len(parts) > 1 and wanted.casefold() not in places and wanted not in names:
            joined[len(names)] = found
            names.append(wanted)
    return replace(header, names=tuple(names), joined=joined) if joined else header


def read_rows(
    source: Source, header: Header, positions: Sequence[int], make: RowParser, advance: Callable[[int], object]
) -> Iterator[Parsed]:
    """Yield what `make` does of the rows of a table, given the columns at `positions`.

    A row of CSV whose number of cells is not that of the header is malformed; rows are numbered from 1, in CSV with the
    header as row 1.

    Raises:
        InputError: CSV is not UTF-8, or has a quotation mark that is never closed; Parquet is corrupt or has nested
            values; a database refuses a query; or as `Source.blocks`.
    """
    if header.joined:
        yield from _joined_rows(source, header, positions, make, advance)
    elif isinstance(source, BatchSource):
        row = 1
        for batch in source.batches():
            for at in positions:
                check_type(source.name, batch.schema.field(at))
            columns = [as_text(source.name, header.names[at], batch.column(at)) for at in positions]
            yield make(columns, partial(operator.add, row))
            row += len(batch)
    elif header.kind == "Parquet":
        yield from parse_parquet(source.path, positions, make, advance)
    else:
        yield from parse_csv(source, header, positions, make, advance)


def _joined_rows(
    source: Source, header: Header, positions: Sequence[int], make: RowParser, advance: Callable[[int], object]
) -> Iterator[Parsed]:
    """Yield what `read_rows` does for a header with joined columns."""
    parts = [header.joined.get(at, (at,)) for at in positions]
    read = sorted({at for of in parts for at in of})

    def join(texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
        cells = dict(zip(read, texts, strict=True))
        space = pa.scalar(" ", pa.large_string())
        joined = [
            cells[of[0]]
            if len(of) == 1
            else pc.binary_join_element_wise(*(pc.fill_null(cells[at], "") for at in of), space)
            for of in parts
        ]
        return make(joined, row_number)

    names = header.names[: len(header.names) - len(header.joined)]
    yield from read_rows(source, replace(header, names=names, joined={}), read, join, advance)


def _first_row(lines: Sequence[bytes], delimiter: str) -> tuple[tuple[str, ...], int]:
    """Return the clean cells of the row that begins with the first line, and how many lines it has: one more than there are
    if its quotation marks are never closed. Raise UnicodeDecodeError for a line of it that is not UTF-8."""
    reader = csv.reader(chain((line.decode() + "\n" for line in lines), [_END]), delimiter=delimiter)
    try:
        cells = next(reader, [])
    except csv.Error:
        cells = [lines[0].decode()]
    return tuple(map(written_part, cells)), max(reader.line_num, 1)
