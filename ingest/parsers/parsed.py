"""The outcome of parsing a block: rows for the joins, and what became of every line."""

from collections import Counter
from dataclasses import KW_ONLY, dataclass, field

import pyarrow as pa


@dataclass(slots=True, kw_only=True)
class Parsed:
    """The outcome of parsing a block of `lines` lines (rows, triples).

    `statements`: how many of them are what their file should hold, used or not. `dropped`: how many were left out so
    far, by reason. `faults`: the malformed ones, as (line number, what is wrong). `tables`: rows for the tables of
    `refactx.ingest.parsers.staging`, by their names. `cut`: how many parts were longer than
    `refactx.fact.MAX_PART_CHARACTERS`. `notes`: other remarks on the source for the user.
    """

    lines: int
    _: KW_ONLY
    statements: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, str]] = field(default_factory=list)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    cut: int = 0
    notes: tuple[str, ...] = ()


def decode_lines(block: bytes) -> list[str | None]:
    """Return the lines of a block without their line feeds; None for a line that is not UTF-8.

    >>> decode_lines(b"a\\r\\nb\\xff\\n\\nc")
    ['a\\r', None, '', 'c']
    """
    try:
        lines: list[str | None] = list(block.decode().split("\n"))
    except UnicodeDecodeError:
        lines = [_decode_line(line) for line in block.split(b"\n")]
    if lines[-1] == "":
        lines.pop()
    return lines


def fault(what: str, line: str) -> str:
    """Return the description of a fault, with the start of its line to find it by.

    >>> fault("not a triple", "<x:s> nonsense")
    'not a triple: <x:s> nonsense'
    """
    start = " ".join(line[:200].split())
    return f"{what}: {start[:60]}{'…' if len(start) > 60 else ''}"


def _decode_line(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
