"""The outcome of parsing a block: rows for the joins, and what became of every line."""

from collections import Counter
from dataclasses import KW_ONLY, dataclass, field

import pyarrow as pa

NOT_UTF8 = "not UTF-8, perhaps Latin-1: convert the file (iconv -f LATIN1 -t UTF-8)"


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


def decode_lines(block: bytes) -> list[str | bytes]:
    """Return the lines of a block without their line feeds; those that are not UTF-8 as bytes.

    >>> decode_lines(b"a\\r\\nb\\xff\\n\\nc")
    ['a\\r', b'b\\xff', '', 'c']
    """
    try:
        lines: list[str | bytes] = list(block.decode().split("\n"))
    except UnicodeDecodeError:
        lines = [_decode_line(line) for line in block.split(b"\n")]
    if lines[-1] == "":
        lines.pop()
    return lines


def fault(what: str, line: str) -> str:
    """Return the description of a fault, with the start of its line to find it by, without what a terminal would obey.

    >>> fault("not a triple", "<x:s> \\x1b[2Jnonsense")
    'not a triple: <x:s> [2Jnonsense'
    """
    start = " ".join("".join(letter if letter.isprintable() else " " for letter in line[:200]).split())
    return f"{what}: {start[:60]}{'…' if len(start) > 60 else ''}"


def not_utf8(line: bytes) -> str:
    """Return the description of a line that is not UTF-8, which shows it as Windows-1252, a superset of Latin-1.

    >>> not_utf8(b"M\\xfcller").rpartition(": ")[2]
    'Müller'
    """
    return fault(NOT_UTF8, line.decode("cp1252", errors="replace"))


def _decode_line(line: bytes) -> str | bytes:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line
