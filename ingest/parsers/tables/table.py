"""Tables of a graph of one's own, CSV, TSV or Parquet, as ready-made facts: names are names already.

A table has columns `subject`, `predicate` and `object`, in any order and in any case; further ones are ignored, and
`TableForm` names them. Cells are text; in Parquet also numbers, dates, times and truth values, which are read as people
write them. In CSV the delimiter (comma, semicolon, tab or bar) is the one that gives the header these columns, and a cell
in double quotes may hold delimiters, line breaks and doubled quotes. pyarrow reads both, a block at a time.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from refactx.errors import InputError

from ...parsers.parsed import Parsed
from ...parsers.tables.columns import COLUMNS
from ...parsers.tables.csv import parse_csv
from ...parsers.tables.parquet import parquet_names, parse_parquet
from ...sources.source import Source

_DELIMITERS = (",", ";", "\t", "|")
_HEADER_BYTES = 1 << 20


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


def table_form(source: Source) -> TableForm:
    """What a table looks like, by its content: Parquet by its first bytes, else CSV by its header.

    Raises:
        InputError: a column is missing or there twice, the Parquet file is broken, no file, or compressed besides; or as
            `Source.blocks`.
    """
    start = source.first_lines()[:_HEADER_BYTES]
    if start.startswith(b"PAR1"):
        names = parquet_names(source)
        return TableForm("Parquet", names, _positions(source, names))
    lines = start.split(b"\n")
    blank = next((at for at, line in enumerate(lines) if line.strip()), 0)
    header = lines[blank].decode(errors="replace").strip("\r")
    read = {delimiter: _cells(header, delimiter) for delimiter in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda delimiter: len({name.casefold() for name in read[delimiter]} & set(COLUMNS)))
    return TableForm("CSV", read[best], _positions(source, read[best]), best, blank + 1)


def parse_table(source: Source, form: TableForm, advance: Callable[[int], object] = lambda _: None) -> Iterator[Parsed]:
    """The rows of a table as rows of `ready`, clean and cut; `lines` counts rows without the header.

    A row with another number of cells than the header, or one that is not UTF-8, is malformed; its number is that of the row,
    the header being row 1. A row with an empty subject, predicate or object is dropped: `empty part`, or `blank` if all
    three are.

    Raises:
        InputError: CSV with a quote that is never closed, Parquet that is broken or has lists; or as `Source.blocks`.
    """
    if form.kind == "CSV":
        read = parse_csv(source, form.delimiter, len(form.names), form.positions, form.header_rows, advance)
    else:
        read = parse_parquet(source.path, [form.names[at] for at in form.positions], advance)
    empty = True
    if form.ignored:
        columns = f"column {form.ignored[0]} is" if len(form.ignored) == 1 else f"columns {', '.join(form.ignored)} are"
        yield Parsed(0, notes=(f"{columns} ignored: facts come from subject, predicate and object",))
    for parsed in read:
        yield parsed
        empty = empty and not parsed.statements
    if empty:
        raise InputError(
            f"{source.name} has no row below its header that is whole: expected subject, predicate and object in each"
        )


def _positions(source: Source, names: tuple[str, ...]) -> tuple[int, int, int]:
    plain = [name.strip().casefold() for name in names]
    found = ", ".join(name[:40] for name in names[:10]) + (", …" if len(names) > 10 else "")
    missing = [column for column in COLUMNS if column not in plain]
    if missing:
        raise InputError(
            f"{source.name} has no column {', '.join(missing)}: its columns are {found}: "
            "name the columns subject, predicate and object in a first line"
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
