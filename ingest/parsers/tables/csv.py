"""CSV as ready-made facts, block by block: pyarrow reads, and every row it cannot take is a fault (`ingest.tables`)."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyarrow import csv

from refactx.errors import InputError

from ...parsers.parsed import Parsed, fault
from ...parsers.tables.columns import NOT_UTF8, facts_of_columns, marked
from ...sources.source import Source
from ...sources.stream import BlockStream

_BLOCK_BYTES = 16 << 20
"""The most that a row may have."""
_END = "\x00end of the table\x00"
"""A row of these is put behind the last: if it does not come out, it is inside a cell whose quotes are not closed."""


def parse_csv(
    source: Source,
    delimiter: str,
    width: int,
    positions: Sequence[int],
    header_rows: int,
    advance: Callable[[int], object],
) -> Iterator[Parsed]:
    """The rows of a CSV file of `width` columns, of which those at `positions` are subject, predicate and object."""
    skipped: list[csv.InvalidRow] = []  # since the last block
    ahead: list[int] = []  # of each row skipped, how many well-formed ones are ahead of it

    def skip(row: csv.InvalidRow) -> str:
        ahead.append(row.number - header_rows - 1 - len(ahead))
        skipped.append(row)
        return "skip"

    columns = [str(at) for at in range(width)]
    wanted = [columns[at] for at in positions]
    end = delimiter.encode().join([_END.encode()] * width)
    good, ended = 0, False
    with BlockStream(_utf8_blocks(source, advance, end)) as stream:
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
                parsed = facts_of_columns(list(rows.columns), partial(_row_number, header_rows + 1, good, ahead))
                good += len(rows)
                _add_skipped(parsed, skipped, width)
                yield parsed
        except pa.ArrowInvalid as error:
            if stream.error is not None:
                raise stream.error from None
            reason = str(error).partition("(")[0].strip()
            raise InputError(
                f"{source.name} cannot be read behind row {good + len(ahead) + header_rows}: {reason}: "
                "look for a quotation mark that is never closed"
            ) from None
    if not ended:
        raise InputError(
            f"row {good + len(ahead) + header_rows} of {source.name} opens a quotation mark that is never closed, and all that "
            "follows would be one cell: close it, or write it twice within quotes"
        )


def _utf8_blocks(source: Source, advance: Callable[[int], object], end: bytes) -> Generator[bytes, None, None]:
    """The blocks of a file and one more line, `end`; bytes that are not UTF-8, which pyarrow can't report, are replaced."""
    last = b""
    for block in source.blocks(advance):
        yield marked(block)
        last = block[-1:]
    yield end if last == b"\n" else b"\n" + end


def _row_number(first: int, good: int, ahead: list[int], at: int) -> int:
    """The number of the row that has `good + at` well-formed ones ahead of it; `first` is that of the first row."""
    return first + good + at + bisect_right(ahead, good + at)


def _add_skipped(parsed: Parsed, rows: list[csv.InvalidRow], expected: int) -> None:
    """The rows skipped so far, as faults; pyarrow may be adding the next ones already."""
    count = len(rows)
    parsed.lines += count
    for row in rows[:count]:
        text = row.text.replace(NOT_UTF8, "\ufffd")
        parsed.faults.append((row.number, fault(f"{row.actual_columns} cells instead of {expected}", text)))
    del rows[:count]
