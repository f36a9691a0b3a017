"""MySQL dumps (`mysqldump`, `mariadb-dump`) as Arrow tables, read as a stream of INSERT statements; no server.

A dump is text: comments, `CREATE TABLE`, and statements of a megabyte, ``INSERT INTO `t` VALUES (1,'a'),(2,NULL);``, on
a line each or (newer versions) with a line a row. The order of the columns is that of the file's own `CREATE TABLE`, or
of the statement's own list.

The rows of a block become CSV, which pyarrow reads: `),(` becomes a line feed, and as strings hold no raw line feed (it
is written as `\\n`), one inside a value can be turned back. Before that `\\\\` and `\\'` become two other bytes that a dump
always escapes, even in binary values, so that every quotation mark left is the end of a string. A block where that does
not work out, as it is damaged, is read row by row with the grammar of a value, to the same result.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from refactx.errors import InputError

from ...parsers.parsed import fault
from ...sources.source import Source

_CREATE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?`([^`]+)` \(")
_COLUMN = re.compile(rb"\s*`([^`]+)` ")
_INSERT = re.compile(rb"INSERT (?:IGNORE )?INTO `([^`]+)` (?:\(([^)]*)\) )?VALUES\s*")
_VALUE = rb"(?:_binary )?'([^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+)'|([^'(),]*)"
_ONE_VALUE = re.compile(_VALUE, re.DOTALL)
_ROW = re.compile(rb"\((?:%b)(?:,(?:%b))*\)" % (_VALUE, _VALUE), re.DOTALL)
_BACKSLASH, _QUOTE = b"\x1a", b"\0"
"""Stand-ins: mysqldump escapes these two bytes, so that none stands raw in a dump."""
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"0": b"\0", b"Z": b"\x1a"}
"""What follows a backslash and is not itself (https://dev.mysql.com/doc/refman/8.4/en/string-literals.html)."""
_CSV_BLOCK = 4 << 20


@dataclass(slots=True)
class Rows:
    """The rows of one block of a dump.

    `table` has the columns asked for; `count` is the number of rows with the malformed ones, which `faults` holds as
    (line number, what). `line` is the number of the block's first line that has rows.
    """

    table: pa.Table
    line: int
    count: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)


def read_rows(
    source: Source, name: str, types: Mapping[str, pa.DataType], advance: Callable[[int], object] = lambda _: None
) -> Iterator[Rows]:
    """The rows of table `name` in a dump, some columns of them; rows of other tables are passed over.

    `types` says which columns, and as what: `pa.int64()`, `pa.large_string()` for UTF-8 text, or `pa.large_binary()`.
    A row in which one of them is of another form is malformed; NULL is a null.

    Raises:
        InputError: the file is no dump, not one of that table, lacks a column or ends too early; or as `Source.blocks`.
    """
    reader = _Statements(source.name, name)
    for block in source.blocks(advance):
        statements = list(reader.statements(block))
        if statements:
            yield _parsed(statements, reader.positions(types), len(reader.columns), types)
    reader.finish()


_Piece = tuple[int, bytes]
"""Rows `(1,'a'),(2,'b')` as they stand in a file, and the number of their line."""


class _Statements:
    """Finds the rows in the lines of a dump, and the order of their columns."""

    def __init__(self, file: str, name: str) -> None:
        self._file, self._name = file, name
        self.columns: list[str] = []
        self._tables: list[str] = []
        self._creating = self._inserting = self._locked = self._any_rows = False
        self._line = 0
        self._first = b""

    def statements(self, block: bytes) -> Iterator[_Piece]:
        for line in block.removesuffix(b"\n").split(b"\n"):
            self._line += 1
            self._first = self._first or line[:200].strip()
            if self._inserting and line.lstrip().startswith(b"("):
                rows = line.strip()
            elif line.startswith(b"INSERT"):
                insert = _INSERT.match(line)
                if insert is None or insert[1].decode(errors="replace") != self._name:
                    continue
                self._set_columns(insert[2])
                self._inserting = self._any_rows = True
                rows = line[insert.end() :].strip()
            else:
                self._other(line)
                continue
            if rows.endswith(b";"):
                self._inserting = False
            if rows := rows.rstrip(b",;"):
                yield self._line, rows

    def positions(self, types: Mapping[str, pa.DataType]) -> dict[str, int]:
        """Where the columns asked for stand in a row."""
        missing = [name for name in types if name not in self.columns]
        if missing:
            raise InputError(
                f"table {self._name} in {self._file} has no column {', '.join(missing)}: found "
                f"{', '.join(self.columns) or 'no CREATE TABLE before the rows'}; expected a dump made by MediaWiki"
            )
        return {name: self.columns.index(name) for name in types}

    def finish(self) -> None:
        if self._inserting or self._locked or self._creating:
            raise InputError(
                f"{self._file} is truncated: it ends at line {self._line} within table {self._name}: download it again"
            )
        if self._any_rows:
            return
        if self._name in self._tables:
            raise InputError(f"{self._file} has table {self._name}, but no rows in it: download it again")
        if self._tables:
            found = f"found a dump of table {', '.join(self._tables)}: check which file is given for which option"
        else:
            found = f"it has no CREATE TABLE, and {fault('begins with', self._first.decode(errors='replace'))}"
        raise InputError(f"{self._file} is not a MySQL dump of table {self._name}: {found}")

    def _set_columns(self, written: bytes | None) -> None:
        if written is not None:
            self.columns = [column.strip(b"` ").decode(errors="replace") for column in written.split(b",")]

    def _other(self, line: bytes) -> None:
        if self._creating:
            column = _COLUMN.match(line)
            if column is not None and self._tables[-1] == self._name:
                self.columns.append(column[1].decode(errors="replace"))
            self._creating = not line.startswith(b")")
        elif (create := _CREATE.match(line)) is not None:
            self._tables.append(create[1].decode(errors="replace"))
            self._creating = True
        elif line.startswith(b"LOCK TABLES"):
            self._locked = f"`{self._name}`".encode() in line
        elif line.startswith(b"UNLOCK TABLES"):
            self._locked = False


def _parsed(pieces: list[_Piece], at: dict[str, int], width: int, types: Mapping[str, pa.DataType]) -> Rows:
    try:
        table = _read_csv([rows for _, rows in pieces], at, width, types)
    except (pa.ArrowInvalid, _NotPlainError):
        return _read_each(pieces, at, width, types)
    return Rows(table, pieces[0][0], len(table))


class _NotPlainError(Exception):
    """The rows cannot be turned into CSV and back without a loss."""


def _read_csv(pieces: list[bytes], at: dict[str, int], width: int, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The rows of a block by way of CSV; an error if any of them is malformed."""
    lines = []
    for rows in pieces:
        if not (rows.startswith(b"(") and rows.endswith(b")")):
            raise _NotPlainError
        lines.append(rows[1:-1])
    text = b"\n".join(lines)
    if _BACKSLASH in text or _QUOTE in text or b"\r" in text:
        raise _NotPlainError
    if b"\\" in text:
        text = text.replace(b"\\\\", _BACKSLASH).replace(b"\\'", _QUOTE)
    stand_ins = [one for one in (b"\\", _QUOTE, _BACKSLASH) if one in text]
    if b",_binary '" in text:
        text = text.replace(b",_binary '", b",'")
    if text.count(b"'") % 2:
        raise _NotPlainError
    text = text.replace(b"),(", b"\n")
    raw = {str(at[name]): type_ if type_ == pa.int64() else pa.large_binary() for name, type_ in types.items()}
    table = csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=[str(column) for column in range(width)], block_size=_CSV_BLOCK),
        csv.ParseOptions(quote_char="'", newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            include_columns=list(raw),
            column_types=raw,
            null_values=["NULL"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = {}
    for (name, type_), column in zip(types.items(), table.columns, strict=True):
        columns[name] = column if type_ == pa.int64() else _unescaped(column, stand_ins).cast(type_)
    return pa.table(columns)


def _unescaped(column: pa.ChunkedArray, stand_ins: Sequence[bytes]) -> pa.Array:
    """The values that line feeds, stand-ins and escapes mean; only those that have any are touched."""
    column = column.combine_chunks()
    has_any = pc.match_substring(column, b"\n")
    for stand_in in stand_ins:
        has_any = pc.or_(has_any, pc.match_substring(column, stand_in))
    has_any = pc.fill_null(has_any, False)
    changed = pc.replace_substring(column.filter(has_any), b"\n", b"),(")
    changed = pc.replace_substring(changed, b'\\"', b'"')
    rare = pc.match_substring(changed, b"\\")  # escapes of control characters: one by one
    decoded = [
        _decoded(value.replace(_BACKSLASH, b"\\\\").replace(_QUOTE, b"\\'"))
        for value in changed.filter(rare).to_pylist()
    ]
    for stand_in, meant in ((_QUOTE, b"'"), (_BACKSLASH, b"\\")):
        changed = pc.replace_substring(changed, stand_in, meant)
    if decoded:
        changed = pc.replace_with_mask(changed, rare, pa.array(decoded, pa.large_binary()))
    return pc.replace_with_mask(column, has_any, changed) if len(changed) else column


def _read_each(pieces: list[_Piece], at: dict[str, int], width: int, types: Mapping[str, pa.DataType]) -> Rows:
    """The same rows one at a time: those that can be read, and a fault for each other."""
    found: dict[str, list[object]] = {name: [] for name in types}
    result = Rows(pa.table({}), pieces[0][0])
    for line, rows in pieces:
        for row in _split(rows):
            result.count += 1
            try:
                values = _values(row, width)
                read = [_converted(values[at[name]], type_) for name, type_ in types.items()]
            except ValueError as error:
                result.faults.append((line, fault(str(error), row[:200].decode(errors="replace"))))
                continue
            for column, value in zip(found.values(), read, strict=True):
                column.append(value)
    result.table = pa.table({name: pa.array(found[name], type_) for name, type_ in types.items()})
    return result


def _split(rows: bytes) -> Iterator[bytes]:
    """Rows of a statement, also behind damaged ones: after those it goes on at the next `),(`."""
    position = 0
    while position < len(rows):
        row = _ROW.match(rows, position)
        end = row.end() if row else -1
        if end != len(rows) and rows[end : end + 2] != b",(":
            end = rows.find(b"),(", position) + 1 or len(rows)
        yield rows[position:end]
        position = end + 1


def _values(row: bytes, width: int) -> list[bytes | None]:
    """The values of a row, decoded; None for NULL."""
    if _ROW.fullmatch(row) is None:
        raise ValueError("not a row of values")
    values: list[bytes | None] = []
    position = 1
    while position < len(row):
        value = _ONE_VALUE.match(row, position)
        assert value is not None  # noqa: S101 - the row consists of them
        values.append(_decoded(value[1]) if value[1] is not None else None if value[2] == b"NULL" else value[2])
        position = value.end() + 1
    if len(values) != width:
        raise ValueError(f"{len(values)} values instead of {width}")
    return values


def _decoded(text: bytes) -> bytes:
    return re.sub(rb"\\(.)|''", lambda m: _ESCAPES.get(m[1], m[1]) if m[1] else b"'", text, flags=re.DOTALL)


def _converted(value: bytes | None, type_: pa.DataType) -> object:
    if value is None:
        return None
    if type_ == pa.large_binary():
        return value
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    if type_ == pa.large_string():
        return text
    if not re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII):
        raise ValueError(f"{text[:40]!r} is no number")
    return int(text)
