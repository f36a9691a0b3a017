"""The parser of tables (CSV, TSV or Parquet), whose rows are ready-made facts: their cells are names already.

A table has columns `subject`, `predicate` and `object`, in any order and in any case. Further columns are ignored;
`TableForm.ignored` has their names. Cells are text, in Parquet also numbers, dates, times and booleans, which are
converted to text as people write them. The delimiter of CSV (comma, semicolon, tab or bar, or another one in a first
line `sep=` for Excel) is the one with which the header has these columns; a cell in double quotes may contain
delimiters, line breaks and doubled quotes. pyarrow reads both, a block at a time.
"""

import csv
import datetime
import operator
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from refactx.errors import InputError
from refactx.fact import counted, visible
from refactx.ingest.parsers.parsed import NOT_UTF8, Parsed, clean_parts, cut_parts, fault, not_utf8
from refactx.ingest.parsers.values import format_date, format_double
from refactx.ingest.sources import BlockStream, Source

COLUMNS = ("subject", "predicate", "object")
SEPARATOR = re.compile(rb'\s*"?sep=([^"\\\x80-\xff])"?\s*', re.IGNORECASE)
"""The first line with which Excel reads and writes the delimiter of a file."""
INVALID = "\ufdd0"
"""The mark before a byte that is not UTF-8: a noncharacter, which Unicode reserves for such uses."""


def header_advice(delimiter: str) -> str:
    """Return what to do with a table of three columns that are not named, as the end of a sentence.

    >>> header_advice("\\t")
    ': write subject<TAB>predicate<TAB>object in place of the first line, or before it if it is a fact'
    """
    header = ("<TAB>" if delimiter == "\t" else delimiter).join(COLUMNS)
    return f": write {header} in place of the first line, or before it if it is a fact"


def mark_invalid_bytes(text: bytes) -> bytes:
    """Return the bytes of a text with `INVALID` and its character in Windows-1252 for each byte that is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        escaped = text.decode(errors="surrogateescape")
        return re.sub(
            "[\udc80-\udcff]",
            lambda byte: INVALID + bytes([ord(byte[0]) & 0xFF]).decode("cp1252", errors="replace"),
            escaped,
        ).encode()
    return text


def facts_of_columns(texts: list[pa.Array], row_number: Callable[[int], int], not_utf8: str = NOT_UTF8) -> Parsed:
    """Return three columns of text as facts; `row_number` maps the place of a row in them to its number.

    `not_utf8`: what is wrong with a row that is not UTF-8.
    """
    result = Parsed(lines=len(texts[0]))
    wrong = pc.fill_null(_any(pc.match_substring(column, INVALID) for column in texts), False)
    if pc.any(wrong).as_py():
        for at in pc.indices_nonzero(wrong).to_pylist():
            start = " ".join(column[at].as_py() or "" for column in texts).replace(INVALID, "")
            result.faults.append((row_number(at), fault(not_utf8, start)))
        texts = [column.filter(pc.invert(wrong)) for column in texts]
    result.statements = len(texts[0])
    parts = [clean_parts(column) for column in texts]
    is_empty = [pc.equal(column, "") for column in parts]
    empty = _any(is_empty)
    if dropped := pc.sum(empty).as_py():
        blank = pc.sum(reduce(pc.and_, is_empty)).as_py()
        result.dropped += Counter({"empty part": dropped - blank, "blank": blank})
        parts = [column.filter(pc.invert(empty)) for column in parts]
    facts = {}
    for name, column in zip(COLUMNS, parts, strict=True):
        facts[name], long = cut_parts(column)
        result.cut += pc.sum(long).as_py() or 0
    result.tables["ready"] = pa.table(facts)
    return result


def _any(masks: Iterable[pa.Array]) -> pa.Array:
    return reduce(pc.or_kleene, masks)


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
    advance: Callable[[int], object],
) -> Iterator[Parsed]:
    """Yield the rows of a CSV file of `width` columns; `positions` are those of subject, predicate and object."""
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
                    delimiter=delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=skip,
                ),
                arrow_csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.large_string())),
            )
            for batch in reader:
                ended = bool(len(batch)) and batch[0][-1].as_py() == _END
                rows = batch.slice(0, len(batch) - ended)
                parsed = facts_of_columns(list(rows.columns), partial(_row_number, header_rows + 1, good, before))
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

    Bytes that are not UTF-8 are marked, since pyarrow does not report them. In a cell that can only be read so,
    backslashes before quotes (`"a \\"b\\" c"`) are taken for escapes, as many programs write them.
    """
    # A cell whose first quote after a backslash cannot end it, as what follows shows; else one that ends on its line.
    cell = re.compile(
        rb"""((?:^|D)")((?:[^"\\]|\\[^"]|"")*+\\"(?![D"\n])(?:[^"\\]|\\[\s\S]|"")*+
        |(?:[^"\\\n]|\\[^"\n]|"")*+\\"(?:[^"\\\n]|\\.|"")*+)("(?=D|$))""".replace(b"D", re.escape(delimiter.encode())),
        re.MULTILINE | re.VERBOSE,
    )
    last = b""
    for block in source.blocks(advance):
        last = block[-1:]
        if b'\\"' in block:
            block = cell.sub(lambda found: found[1] + _ESCAPED.sub(_unescape, found[2]) + found[3], block)  # noqa: PLW2901
        yield mark_invalid_bytes(block)
    yield end if last == b"\n" else b"\n" + end


def _unescape(escape: re.Match[bytes]) -> bytes:
    return b'""' if escape[1] == b'"' else escape[1]


def _row_number(first: int, good: int, before: list[int], at: int) -> int:
    """Return the number of the row that has `good + at` well-formed rows before it; `first`: of the first row."""
    return first + good + at + bisect_right(before, good + at)


def _add_skipped(parsed: Parsed, rows: list[arrow_csv.InvalidRow], expected: int) -> None:
    """Add the rows skipped so far as faults; pyarrow may be adding further ones meanwhile."""
    count = len(rows)
    parsed.lines += count
    for row in rows[:count]:
        text = row.text.replace(INVALID, "")
        parsed.faults.append((row.number, fault(f"{counted(row.actual_columns, 'cell')} instead of {expected}", text)))
    del rows[:count]


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


_DELIMITERS = (",", ";", "\t", "|")
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """The form of a table.

    `names`: those of all columns. `positions`: the places of subject, predicate and object among them. `delimiter`: of
    CSV. `header_rows`: how many lines CSV has up to its header, which is included.
    """

    kind: Literal["CSV", "Parquet"]
    names: tuple[str, ...]
    positions: tuple[int, int, int]
    delimiter: str = ","
    header_rows: int = 1

    @property
    def ignored(self) -> tuple[str, ...]:
        """The names of the other columns."""
        return tuple(name for at, name in enumerate(self.names) if at not in self.positions)


def table_form(source: Source) -> TableForm:
    """Return the form of a table, given by its content: Parquet by its first bytes, otherwise CSV by its header.

    Raises:
        InputError: a column is missing or occurs twice; the header is not UTF-8; Parquet is corrupt, compressed as a
            file, or on standard input; or as `Source.blocks`.
    """
    start = source.first_lines()[:_HEADER_BYTES]
    if start.startswith(b"PAR1"):
        names = parquet_names(source)
        return TableForm(kind="Parquet", names=names, positions=_positions(source, names))
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
    read = {delimiter: _cells(header, delimiter) for delimiter in (*own, *_DELIMITERS)}
    best = max(
        read, key=lambda one: (len({name.strip().casefold() for name in read[one]} & set(COLUMNS)), len(read[one]))
    )
    return TableForm(
        kind="CSV",
        names=read[best],
        positions=_positions(source, read[best], best),
        delimiter=best,
        header_rows=at + 1,
    )


def parse_table(source: Source, form: TableForm, advance: Callable[[int], object] = lambda _: None) -> Iterator[Parsed]:
    """Yield the rows of a table as rows of `ready`, clean and cut; `lines` counts rows without the header.

    A row whose number of cells is not that of the header, or that is not UTF-8, is malformed; rows are numbered from 1,
    in CSV with the header as row 1. A row with an empty subject, predicate or object is dropped as `empty part`, or as
    `blank` if all three are empty.

    Raises:
        InputError: CSV has a quotation mark that is never closed; Parquet is corrupt or has nested values; or as
            `Source.blocks`.
    """
    if form.kind == "CSV":
        read = parse_csv(
            source,
            delimiter=form.delimiter,
            width=len(form.names),
            positions=form.positions,
            header_rows=form.header_rows,
            advance=advance,
        )
    else:
        read = parse_parquet(source.path, [form.names[at] for at in form.positions], advance)
    empty, first_fault = True, ""
    if form.ignored:
        columns = f"column {form.ignored[0]} is" if len(form.ignored) == 1 else f"columns {', '.join(form.ignored)} are"
        yield Parsed(lines=0, notes=(f"{columns} ignored: facts come from subject, predicate and object",))
    for parsed in read:
        if parsed.faults and not first_fault:
            first_fault = "row {}: {}; ".format(*min(parsed.faults))
        yield parsed
        empty = empty and not parsed.statements
    if empty:
        raise InputError(
            f"{source.name} has no complete row after its header: {first_fault}expected subject, predicate and object in "
            "each row"
        )


def _positions(source: Source, names: tuple[str, ...], delimiter: str = "") -> tuple[int, int, int]:
    plain = [name.strip().casefold() for name in names]
    found = ", ".join(visible(name[:40]) for name in names[:10]) + (", …" if len(names) > 10 else "")
    missing = [column for column in COLUMNS if column not in plain]
    if missing:
        advice = header_advice(delimiter) if delimiter and len(names) == len(COLUMNS) else ""
        raise InputError(
            f"{source.name} has no column {', '.join(missing)}: its columns are {found}: "
            f"name the columns subject, predicate and object{advice or ' in the first line'}"
        )
    twice = [column for column in COLUMNS if plain.count(column) > 1]
    if twice:
        raise InputError(
            f"{source.name} has column {', '.join(twice)} twice: its columns are {found}: rename one of them"
        )
    return plain.index(COLUMNS[0]), plain.index(COLUMNS[1]), plain.index(COLUMNS[2])


def _cells(line: str, delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader([line], delimiter=delimiter), ()))
    except csv.Error:
        return (line,)
