"""The parser of tables (CSV, TSV or Parquet), whose rows are ready-made facts: their cells are names already.

A table has columns `subject`, `predicate` and `object`, in any order and in any case. Further columns are ignored;
`TableForm.ignored` has their names. Cells are text, in Parquet also numbers, dates, times and booleans, which are
converted to text as people write them. The delimiter of CSV (comma, semicolon, tab or bar, or another one in a first
line `sep=` for Excel) is the one with which the header has these columns; a cell in double quotes may contain
delimiters, line breaks and doubled quotes. pyarrow reads both, a block at a time.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from refactx.errors import InputError
from refactx.fact import visible
from refactx.ingest.parsers.parsed import Parsed, not_utf8
from refactx.ingest.parsers.tables.columns import COLUMNS, SEPARATOR, header_advice
from refactx.ingest.parsers.tables.csv import parse_csv
from refactx.ingest.parsers.tables.parquet import parquet_names, parse_parquet
from refactx.ingest.sources.source import Source

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
