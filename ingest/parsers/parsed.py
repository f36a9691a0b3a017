"""What parsing one block of lines gives: rows for the work database, and what became of the other lines."""

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(slots=True)
class Parsed:
    """The outcome of one block.

    `tables` maps a table of the work database to rows for it (`ingest.staging`); `statements` counts the lines
    that are what their file should hold, used or not; `dropped` the lines left out so far, by reason; `faults` are the
    malformed ones as (line number, what);
    `cut` counts parts cut at `refactx.fact.MAX_PART_CHARACTERS`; `notes` is what else a person should know of the source.
    """

    lines: int
    statements: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, str]] = field(default_factory=list)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    cut: int = 0
    notes: tuple[str, ...] = ()


def decoded_lines(block: bytes) -> list[str | None]:
    """The lines of a block without their line feeds; None for one that is not UTF-8.

    >>> decoded_lines(b"a\\r\\nb\\xff\\n\\nc")
    ['a\\r', None, '', 'c']
    """
    try:
        lines: list[str | None] = list(block.decode().split("\n"))
    except UnicodeDecodeError:
        lines = [_decoded(line) for line in block.split(b"\n")]
    if lines[-1] == "":
        lines.pop()
    return lines


def fault(what: str, line: str) -> str:
    """A fault with the start of its line, for a person to find it by.

    >>> fault("not a triple", "<x:s> nonsense")
    'not a triple: <x:s> nonsense'
    """
    start = " ".join(line[:200].split())
    return f"{what}: {start[:60]}{'…' if len(start) > 60 else ''}"


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
