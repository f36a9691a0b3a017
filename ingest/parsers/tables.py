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
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from refactx.errors import InputError
from refactx.fact import counted, visible
from refactx.ingest.parsers.parsed import (
    COLUMNS,
    Parsed,
    RowParser,
    clean_parts,
    facts_of_columns,
    fault,
    mark_invalid_bytes,
    not_utf8,
    utf8_blocks,
)
from refactx.ingest.parsers.records import EdgePlan, Plan, edges_of_columns, edges_of_plan, rows_of_plan
from refactx.ingest.parsers.values import format_date, format_double
from refactx.ingest.selection import Selection, TableOptions
from refactx.ingest.sources import BlockStream, RowSource, Source

SEPARATOR = re.compile(rb'\s*"?sep=([^"\\\x80-\xff])"?\s*', re.IGNORECASE)
"""The first line with which Excel reads and writes the delimiter of a file."""
_BLOCK_BYTES = 16 << 20
"""Also the size of the largest possible row."""
_ESCAPED = re.compile(rb'\\(["\\])')
_END = "\x00end of the table\x00"
"""The cells of a row added after the last one: if it is not read, it is inside a cell whose quotes are not closed."""


def parse_csv(
    source: Source,
    *,
    delimiter: str,
    width: int,
    positions: Sequence[int],
    header_rows: int,
    make: RowParser,
    advance: Callable[[int], object],
) -> Iterator[Parsed]:
    """Yield what `make` does of the rows of a CSV file of `width` columns, given the columns at `positions`."""
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
    with BlockStream(_readable_blocks(source, advance, delimiter, end)) as stream:
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


def _readable_blocks(
    source: Source, advance: Callable[[int], object], delimiter: str, end: bytes
) -> Generator[bytes, None, None]:
    """Yield the blocks of a file and one more line, `end`.

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
        yield block
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


_BATCH_ROWS = 122_880

_ARE_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)


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
            _check_type(str(path), field)
        try:
            for batch in file.iter_batches(_BATCH_ROWS, columns=[field.name for field in fields]):
                columns = [as_text(str(path), field.name, batch[field.name]) for field in fields]
                yield make(columns, partial(operator.add, row))
                row += len(batch)
                share = size * (row - 1) // total
                advance(share - done)
                done = share
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is a corrupt Parquet file ({error}): write it again") from None


BETWEEN = "\ue000"
"""What is between the values of a list when it is text: a character that Unicode leaves for private use."""


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def _check_type(source: str, field: pa.Field, *, may_be_list: bool = True) -> None:
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


_DELIMITERS = (",", ";", "\t", "|")
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the start of a table says.

    `names`: those of all columns; without a header their numbers, from 1. `delimiter`: of CSV. `header_rows`: how many
    lines CSV has up to its first row. `lists`: the columns of Parquet or rows that have lists, by their places.
    """

    kind: Literal["CSV", "Parquet", "rows"]
    names: tuple[str, ...]
    delimiter: str = ","
    header_rows: int = 1
    lists: Mapping[int, pa.Field] = field(default_factory=dict)

    @classmethod
    def of_schema(cls, kind: Literal["Parquet", "rows"], schema: pa.Schema) -> "Header":
        """Return the header of a table whose columns have types."""
        lists = {at: one for at, one in enumerate(schema) if _is_list(one.type)}
        return cls(kind=kind, names=tuple(schema.names), lists=lists)


def read_header(source: Source, options: TableOptions, wanted: Collection[str]) -> Header:
    """Return the header of a table, given by its content: Parquet by its first bytes, otherwise CSV by its first line.

    `wanted`: names of columns, in lower case, that the header may have.

    Raises:
        InputError: the header is not UTF-8; Parquet is corrupt, compressed as a file, or on standard input; or as
            `Source.blocks`.
    """
    if isinstance(source, RowSource):
        return Header.of_schema("rows", source.schema)
    start = source.first_lines()[:_HEADER_BYTES]
    if start.startswith(b"PAR1"):
        return Header.of_schema("Parquet", parquet_schema(source))
    lines = start.split(b"\n")
    filled = (at for at, line in enumerate(lines) if line.strip())
    at = next(filled, 0)
    separator = SEPARATOR.fullmatch(lines[at])
    if separator is not None:
        at = next(filled, at)
    try:
        header = lines[at].decode()
    except UnicodeDecodeError:
        raise InputError(f"{source.name}:{at + 1}: {not_utf8(lines[at])}") from None
    own = () if separator is None else (separator[1].decode(),)
    read = {one: _cells(header, one) for one in ((options.delimiter,) if options.delimiter else (*own, *_DELIMITERS))}
    best = max(
        read, key=lambda one: (len({name.strip().casefold() for name in read[one]} & set(wanted)), len(read[one]))
    )
    names = tuple(name.strip() for name in read[best])
    if not any(names):
        raise InputError(f"{source.name} has only blank lines: expected a table")
    if not options.header:
        return Header(kind="CSV", names=tuple(map(str, range(1, len(names) + 1))), delimiter=best, header_rows=at)
    return Header(kind="CSV", names=names, delimiter=best, header_rows=at + 1)


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
    if isinstance(source, RowSource):
        row = 1
        for batch in source.batches():
            for at in positions:
                _check_type(source.name, batch.schema.field(at))
            columns = [as_text(source.name, header.names[at], batch.column(at)) for at in positions]
            yield make(columns, partial(operator.add, row))
            row += len(batch)
    elif header.kind == "Parquet":
        yield from parse_parquet(source.path, positions, make, advance)
    else:
        yield from parse_csv(
            source,
            delimiter=header.delimiter,
            width=len(header.names),
            positions=positions,
            header_rows=header.header_rows,
            make=make,
            advance=advance,
        )


def _cells(line: str, delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader([line], delimiter=delimiter), ()))
    except csv.Error:
        return (line,)


_GRAPH_COLUMNS = (":id", ":start_id", ":end_id", "~id", "~from", "~to")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """How a table is read: its header, the places of the columns that `make` takes, and remarks for the user."""

    header: Header
    positions: tuple[int, ...]
    make: RowParser
    what: str
    notes: tuple[str, ...] = ()


def table_form(source: Source, selection: Selection) -> TableForm:
    """Return how a table is read, by the selection's options and its header.

    Raises InputError if a column is missing or occurs twice, or as `read_header`.
    """
    options = selection.tables
    header = read_header(source, options, wanted_columns(options))
    folded = [name.casefold() for name in header.names]
    if any(name.endswith(_GRAPH_COLUMNS) or re.search(r":(?:start_|end_)?id\(", name) for name in folded):
        return _graph_form(source, header, selection)
    table = source.table
    subject = None if options.columns else column_of(options.subjects, table, header.names)
    if subject is not None:
        return _wide_form(source, header, subject, selection)
    positions = _fact_columns(source, header, options)
    _refuse_lists(source, header, positions)
    make = edges_of_columns if options.edges or options.labels else facts_of_columns
    ignored = [name for at, name in enumerate(header.names) if at not in positions]
    notes: tuple[str, ...] = ()
    if ignored:
        columns = f"column {ignored[0]} is" if len(ignored) == 1 else f"columns {', '.join(ignored)} are"
        notes = (f"{columns} ignored: facts come from subject, predicate and object",)
    return TableForm(
        header=header, positions=positions, make=make, what="subject, predicate and object in each row", notes=notes
    )


def _refuse_lists(source: Source, header: Header, places: Iterable[int | None]) -> None:
    for at in places:
        if at is not None and at in header.lists:
            _check_type(source.name, header.lists[at], may_be_list=False)


def parse_table(source: Source, form: TableForm, advance: Callable[[int], object] = lambda _: None) -> Iterator[Parsed]:
    """Yield what the rows of a table say.

    A row with an empty subject, predicate or object is dropped as `empty part`, or as `blank` if all three are empty.
    Raises InputError as `read_rows` does, and if no row is complete.
    """
    empty, first_fault = True, ""
    if form.notes:
        yield Parsed(lines=0, notes=form.notes)
    for parsed in read_rows(source, form.header, form.positions, form.make, advance):
        if parsed.faults and not first_fault:
            first_fault = "row {}: {}; ".format(*min(parsed.faults))
        yield parsed
        empty = empty and not parsed.statements
    if empty:
        after = "" if form.header.kind == "rows" or not form.header.header_rows else " after its header"
        raise InputError(f"{source.name} has no complete row{after}: {first_fault}expected {form.what}")


def column_of(given: Sequence[str], table: str, names: Sequence[str]) -> int | None:
    """Return the place of the first column that is given for a table: by its name, `TABLE.NAME`, or its number from 1.

    >>> column_of(["suppliers.company", "name"], "products", ["id", "Name"]), column_of(["2"], "products", ["id", "Name"])
    (1, 1)
    """
    folded = [name.strip().casefold() for name in names]
    for one in given:
        wanted = one.strip().casefold().removeprefix(f"{table.casefold()}.")
        if wanted in folded:
            return folded.index(wanted)
        if wanted.isdecimal() and 0 < int(wanted) <= len(names):
            return int(wanted) - 1
    return None


def wanted_columns(options: TableOptions) -> set[str]:
    """Return the names, in lower case, by which the header of a table is recognised."""
    given = (*options.columns, *options.subjects, *options.ids)
    names = {name.casefold() for one in given for name in (one, one.rpartition(".")[2])}
    return names | (set() if options.columns or options.subjects else set(COLUMNS)) | set(_GRAPH_COLUMNS)


def _fact_columns(source: Source, header: Header, options: TableOptions) -> tuple[int, int, int]:
    """Return the places of subject, predicate and object. Raise InputError if one is missing or occurs twice."""
    names = header.names
    if not options.columns and len(names) == 3 and (header.kind == "rows" or not options.header):
        return 0, 1, 2
    places = [column_of((one,), source.table, names) for one in options.columns or COLUMNS]
    missing = [one for one, at in zip(options.columns or COLUMNS, places, strict=True) if at is None]
    if missing:
        raise InputError(_no_column(source, header, missing, options))
    folded = [name.casefold() for name in names]
    twice = [one for one in options.columns or COLUMNS if folded.count(one.casefold()) > 1]
    if twice or len(set(places)) < 3:
        raise InputError(
            f"{source.name} has column {', '.join(twice) or names[places[0] or 0]} twice: its columns are "
            f"{shown_names(names)}: rename one of them, or give their numbers with --columns 1,2,3"
        )
    return places[0] or 0, places[1] or 0, places[2] or 0


def _no_column(source: Source, header: Header, missing: Sequence[str], options: TableOptions) -> str:
    found = f"{source.name} has no column {', '.join(missing)}: its columns are {shown_names(header.names)}"
    if options.subjects:
        given = ", ".join(options.subjects)
        return f"{source.name} has no column {given}: its columns are {shown_names(header.names)}: correct --subject"
    if options.columns:
        return f"{found}: correct --columns"
    subject = _proposed_subject(source, header)
    if len(header.names) == 3 and header.kind == "CSV":
        return (
            f"{found}: give --no-header if this line is a fact, else --columns 1,2,3, or {subject} if the other columns are "
            "predicates"
        )
    return f"{found}: give {subject} if the other columns are predicates, or --columns SUBJECT,PREDICATE,OBJECT"


_NAMING = (r"(name|label|title)$", r".*\b(name|label|title)$", r".*(name|label|title)")


def _proposed_subject(source: Source, header: Header) -> str:
    """Return `--subject` with a column that can name the rows, and why it can: in the first rows no cell of it is empty,
    and all differ. One that is called a name comes first, then one of text."""
    columns: list[list[str]] = []
    with suppress(InputError):  # what is refused is the header
        places = range(len(header.names))
        next(read_rows(source, header, places, partial(_keep_cells, columns), lambda _: None), None)
    found: list[tuple[int, str]] = []
    for name, cells in zip(header.names, columns, strict=False):
        if name and all(cells) and len(set(cells)) == len(cells):
            called = (at for at, one in enumerate(_NAMING) if re.match(one, name.replace("_", " "), re.IGNORECASE))
            found.append((next(called, len(_NAMING) + all(map(str.isdecimal, cells))), name))
    if not found:
        return "--subject COLUMN, the one that names the rows,"
    _, best = min(found, key=lambda one: one[0])
    return f"--subject {_quoted(best)} (its cells differ, and none is empty)"


def _keep_cells(columns: list[list[str]], texts: list[pa.Array], _: Callable[[int], int]) -> Parsed:
    columns += [clean_parts(one).to_pylist() for one in texts]
    return Parsed(lines=len(texts[0]))


def shown_names(names: Sequence[str]) -> str:
    """Return the names of columns for a message."""
    return ", ".join(visible(name[:40]) for name in names[:60]) + (", …" if len(names) > 60 else "")


def _quoted(name: str) -> str:
    return f"'{name[:40]}'" if re.search(r"[^\w.-]", name) else name


def _wide_form(source: Source, header: Header, subject: int, selection: Selection) -> TableForm:
    options, table, names = selection.tables, source.table, header.names
    key = key_column(options, table, names)
    for option, given in (("--description", options.descriptions), ("--alias", options.aliases), ("--id", options.ids)):
        for one in given:
            if column_of((one,), table, names) is None and not _of_other_table(one, table):
                raise InputError(f"{source.name} has no column {one} ({option}): its columns are {shown_names(names)}")
    _refuse_lists(source, header, (subject, key))
    lists, keys = _lists(source, header, options) | dict.fromkeys(header.lists, BETWEEN), dict[int, str]()
    notes = []
    for left, right in map(parts_of_key, options.keys):
        place = column_of((left,), table, names) if not _of_other_table(left, table) else None
        if place is not None and place != subject:
            keys[place] = f"{right.rpartition('.')[0]}:"
            notes.append(f"column {names[place]} is read as the key of table {right.rpartition('.')[0]}")
        elif place is None and left.casefold().startswith(f"{table.casefold()}."):
            raise InputError(
                f"{source.name} has no column {left.rpartition('.')[2]} (--key): its columns are {shown_names(names)}"
            )
    if "" in names:
        notes.append("a column without a name is ignored")
    plan = Plan(
        predicates=names,
        subject=subject,
        id=None if key == subject else key,
        descriptions=frozenset(_all_columns(options.descriptions, table, names)),
        aliases=frozenset(_all_columns(options.aliases, table, names)),
        prefix=f"{table}:" if options.prefixed else "",
        keys=keys,
        lists=lists,
        row_of=options.row_of(table),
        needs_name=True,
    )
    make = partial(rows_of_plan, plan, bool(selection.aliases))
    what = f"a name in column {names[subject]}"
    return TableForm(header=header, positions=tuple(range(len(names))), make=make, what=what, notes=tuple(notes))


def _of_other_table(given: str, table: str) -> bool:
    return "." in given and not given.casefold().startswith(f"{table.casefold()}.")


def _all_columns(given: Sequence[str], table: str, names: Sequence[str]) -> list[int]:
    return [at for one in given if (at := column_of((one,), table, names)) is not None]


def _lists(source: Source, header: Header, options: TableOptions) -> dict[int, str]:
    """Return what is between the values in the cells of each column that has several."""
    table, names = source.table, header.names
    found: dict[int, str] = {}
    for one in sorted(options.lists, key=lambda one: "=" in one[:-1]):
        column, _, delimiter = one.rpartition("=") if "=" in one[:-1] else ("", "", one)
        if not column:
            found |= dict.fromkeys(range(len(names)), delimiter)
            for given in (options.subjects, options.ids, options.descriptions):
                for at in _all_columns(given, table, names):
                    found.pop(at, None)
            continue
        place = column_of((column,), table, names)
        if place is None and not _of_other_table(column, table):
            raise InputError(f"{source.name} has no column {column} (--list): its columns are {shown_names(names)}")
        if place is not None:
            found[place] = delimiter
    return found


def parts_of_key(key: str) -> tuple[str, str]:
    """Return the two columns of `products.supplier=suppliers.id`.

    >>> parts_of_key("products.supplier=suppliers.id")
    ('products.supplier', 'suppliers.id')
    """
    left, _, right = key.partition("=")
    return left.strip(), right.strip()


def key_column(options: TableOptions, table: str, names: Sequence[str]) -> int | None:
    """Return the place of a table's key: that of `--id`, or that `--key` names; None if its names are its keys."""
    rights = [
        right for _, right in map(parts_of_key, options.keys) if right.casefold().startswith(f"{table.casefold()}.")
    ]
    return column_of((*(one for one in options.ids if not _of_other_table(one, table)), *rights), table, names)


def _graph_form(source: Source, header: Header, selection: Selection) -> TableForm:
    """Return how a table of nodes or edges of Neo4j or Neptune is read."""
    names, lists, places = [], dict[int, str](), dict[str, int]()
    groups: dict[str, str] = {}
    lists |= dict.fromkeys(header.lists, BETWEEN)
    for at, name in enumerate(header.names):
        field_ = re.fullmatch(r"(.*?):?(?::|~)(start_id|end_id|type|label|ignore|id|from|to)(?:\((.*)\))?", name, re.I)
        if field_:
            kind = {"from": "start_id", "to": "end_id"}.get(field_[2].casefold(), field_[2].casefold())
            places[kind], groups[kind] = at, f"{field_[3]}:" if field_[3] else ""
            names.append(field_[1] if kind == "id" and not name.startswith("~") else "")
            continue
        typed = re.fullmatch(r"(.*):([A-Za-z0-9]+(?:\{.*\})?)(\[\])?(?:\((?:single|set)\))?", name, re.IGNORECASE)
        names.append(typed[1] if typed else name)
        if typed and typed[3]:
            lists.setdefault(at, ";")
    positions = tuple(range(len(names)))
    _refuse_lists(source, header, (places.get(kind) for kind in ("id", "start_id", "end_id", "type")))
    if "start_id" in places and "end_id" in places:
        plan = EdgePlan(
            ends=(places["start_id"], places["end_id"]),
            type=places.get("type", places.get("label")),
            id=places.get("id"),
            properties=tuple(names),
            prefixes=(groups["start_id"], groups["end_id"]),
            lists=lists,
            default_type=source.table,
        )
        what = "the ids of both ends in each row"
        return TableForm(header=header, positions=positions, make=partial(edges_of_plan, plan), what=what)
    if "id" not in places:
        raise InputError(
            f"{source.name} has neither an id of nodes nor both ends of edges: its columns are {shown_names(header.names)}: "
            "expected :ID, or :START_ID and :END_ID"
        )
    if "label" in places:
        lists.setdefault(places["label"], ";")
    subject = column_of(selection.tables.subjects or ("name", "title", "label"), source.table, names)
    plan_of_nodes = Plan(
        predicates=tuple(names),
        subject=subject,
        id=places["id"],
        descriptions=frozenset(_all_columns(selection.tables.descriptions, source.table, names)),
        aliases=frozenset(_all_columns(selection.tables.aliases, source.table, names)),
        classes=places.get("label"),
        prefix=groups["id"],
        lists=lists,
    )
    make = partial(rows_of_plan, plan_of_nodes, bool(selection.aliases))
    return TableForm(header=header, positions=positions, make=make, what="an id in each row")
