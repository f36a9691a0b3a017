"""Workbooks of Excel and OpenDocument as sources: each sheet is a table, whose first filled row has the names of its columns.

A few bytes of a workbook can stand for any number of cells. So it is read by a process of its own, with limits of memory and
time, which writes the rows of the sheets to files and ends.
"""

import tempfile
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa

from refactx.errors import InputError
from refactx.ingest.databases import names_for_options, rows_of
from refactx.ingest.parallel import Process, ProcessEndedError, pickled
from refactx.ingest.parsers.tables import format_value
from refactx.ingest.sources import WORKBOOK, BatchSource, Source, TableKeys
from refactx.lazy import require

_MEMORY_BYTES = 4 << 30
_SECONDS = 600.0
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"


def is_workbook(path: Path) -> bool:
    """Return whether a file is a workbook of Excel or OpenDocument, by its content; of old ones, by its name too."""
    try:
        with path.open("rb") as file:
            start = file.read(1 << 16)
    except OSError:
        return False
    return WORKBOOK.match(start) is not None or (start.startswith(_OLD_EXCEL) and path.suffix.lower() == ".xls")


def workbook_tables(path: Path) -> list[Source]:
    """Return the sheets of a workbook as sources. A sheet alone is called as its file is.

    Raises InputError if `python-calamine` is missing, and if the workbook cannot be read, is too large, or has no table.
    """
    require("python_calamine", "workbooks")
    folder = tempfile.TemporaryDirectory(prefix="refactx-workbook-")  # it goes with the last of the sources
    try:
        with Process(pickled(_write_sheets, Path(folder.name)), memory=_MEMORY_BYTES) as process:
            sheets: list[str] = process.run(path, _SECONDS)
    except (ProcessEndedError, TimeoutError, MemoryError):
        raise InputError(
            f"{path} is a workbook that is damaged, or whose sheets have more cells than {_MEMORY_BYTES >> 30} GB hold: "
            "save each sheet as CSV in UTF-8, and give these files"
        ) from None
    if not sheets:
        raise InputError(f"{path} is a workbook whose sheets are empty: expected a table with a row of names")
    found: list[Source] = []
    for number, (sheet, name) in enumerate(zip(sheets, names_for_options(sheets), strict=True)):
        read = partial(_read, folder, Path(folder.name, str(number)))
        with read() as reader:
            schema = reader.schema
        table = path.name.partition(".")[0] if len(sheets) == 1 else name
        found.append(BatchSource(f"{path}: sheet {sheet}", read, table=table, schema=schema, keys=TableKeys()))
    return found


def _read(folder: "tempfile.TemporaryDirectory[str]", path: Path) -> pa.RecordBatchReader:
    """Return the rows in a file. `folder`: that of the file, which must live as long."""
    file = pa.ipc.open_file(pa.memory_map(str(path)))
    return pa.RecordBatchReader.from_batches(
        file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
    )


def _write_sheets(folder: Path, path: Path) -> list[str]:
    """Write the rows of each sheet that has a table to a file, whose name is its number. Return the names of these sheets.

    Raises InputError if the file cannot be read as a workbook.
    """
    import python_calamine

    try:
        workbook = python_calamine.CalamineWorkbook.from_path(str(path))
    except python_calamine.CalamineError as error:
        raise InputError(
            f"{path} is no workbook that can be read ({error}): save each sheet as CSV in UTF-8, and give these files"
        ) from None
    names: list[str] = []
    for name in workbook.sheet_names:
        try:
            rows = workbook.get_sheet_by_name(name).iter_rows()
        except python_calamine.CalamineError:  # a chart
            continue
        header = next(([format_value(cell) for cell in row] for row in rows if any(cell != "" for cell in row)), None)
        first = next(rows, None)
        if header is None or first is None:
            continue
        reader = rows_of(chain([first], rows), header)
        with pa.OSFile(str(folder / str(len(names))), "wb") as file, pa.ipc.new_file(file, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        names.append(name)
    return names
