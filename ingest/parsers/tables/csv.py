"""The parser of CSV: pyarrow reads it block by block, and every row that it cannot take is a fault."""

import re
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyarrow import csv

from refactx.errors import InputError
from refactx.fact import counted
from refactx.ingest.parsers.parsed import Parsed, fault
from refactx.ingest.parsers.tables.columns import INVALID, facts_of_columns, mark_invalid_bytes
from refactx.ingest.sources.source import Source
from refactx.ingest.sources.stream import BlockStream

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
    skipped: list[csv.InvalidRow] = []  # since the last block
    before: list[int] = []  # for each skipped row, how many well-formed rows are before it

    def skip(row: csv.InvalidRow) -> str:
        before.append(row.number - header_rows - 1 - len(before))
        skipped.append(row)
        return "skip"

    columns = [str(at) for at in range(width)]
    wanted = [columns[at] for at in positions]
    end = delimiter.encode().join([_END.encode()] * width)
    good, ended = 0, False
    with BlockStream(_readable_blocks(source, advance, delimiter, end)) as stream:
        try:
            reader = csv.open_csv(
                stream,
                csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK_BYTES, column_names=columns, skip_rows=header_rows
                ),
                csv.ParseOptions(
                    delimiter=delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=skip,
                ),
                csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.large_string())),
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


def _add_skipped(parsed: Parsed, rows: list[csv.InvalidRow], expected: int) -> None:
    """Add the rows skipped so far as faults; pyarrow may be adding further ones meanwhile."""
    count = len(rows)
    parsed.lines += count
    for row in rows[:count]:
        text = row.text.replace(INVALID, "")
        parsed.faults.append((row.number, fault(f"{counted(row.actual_columns, 'cell')} instead of {expected}", text)))
    del rows[:count]
