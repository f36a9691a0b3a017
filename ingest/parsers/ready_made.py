"""The parser of ready-made facts, one `<subject> <predicate> <object> .` a line, whose parts are names already.

Nearly all lines of such a file have the exact form of a fact and consist of plain characters; Arrow recognises and
splits these by the thousand. Any other line (with white space, brackets inside a part, accents as separate characters,
a missing dot) is parsed in Python, to the same result.
"""

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from refactx.fact import MAX_PART_CHARACTERS, clean_part, cut_part
from refactx.ingest.parsers.parsed import Parsed, decode_lines, fault, not_utf8
from refactx.ingest.parsers.text import PLAIN_TEXT

_EXACT_FACT = f"^<{PLAIN_TEXT}> <{PLAIN_TEXT}> <{PLAIN_TEXT}> \\.$"
_BOUNDARY = re.compile(r">\s+<")


def parse_ready_made(block: bytes, first_line: int) -> Parsed:
    """Return a block of ready-made facts as rows of `ready` (`subject, predicate, object`, clean and cut).

    `first_line` is the number of the block's first line in its file.
    """
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    try:
        text = block.removesuffix(b"\n").decode()
    except UnicodeDecodeError:
        return _parse_lines(decode_lines(block), range(first_line, first_line + block.count(b"\n") + 1))
    lines = pc.split_pattern(pa.array([text], pa.large_string()), "\n").flatten()
    # A line within the limit in bytes has no part beyond it in characters.
    exact = pc.and_(
        pc.match_substring_regex(lines, _EXACT_FACT), pc.less_equal(pc.binary_length(lines), MAX_PART_CHARACTERS)
    )
    parts = pc.split_pattern(
        pc.binary_slice(lines.filter(exact).cast(pa.large_binary()), 1, -3).cast(pa.large_string()), "> <"
    )
    table = pa.table({name: pc.list_element(parts, at) for at, name in enumerate(("subject", "predicate", "object"))})
    others = lines.filter(pc.invert(exact))
    if not len(others):
        return Parsed(lines=len(lines), statements=len(lines), tables={"ready": table})
    numbers = (first_line + number for number, is_exact in enumerate(exact.to_pylist()) if not is_exact)
    result = _parse_lines(others.to_pylist(), numbers)
    result.lines = len(lines)
    result.statements += len(table)
    result.tables["ready"] = pa.concat_tables([table, result.tables["ready"]])
    return result


def split_line(line: str) -> tuple[str, str, str] | None:
    """Return the three raw parts of a ready-made fact, with or without its dot; None if there are not three.

    A part may hold `<` or `>` as long as `> <` marks only the two boundaries between parts.

    >>> split_line("<a < b>  <is> <1> .")
    ('a < b', 'is', '1')
    >>> split_line("<a> <is> <b> <c> .") is None
    True
    """
    line = line.strip()
    if line.endswith("."):
        line = line[:-1].rstrip()
    if not (line.startswith("<") and line.endswith(">")):
        return None
    parts = _BOUNDARY.split(line[1:-1])
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _parse_lines(lines: Sequence[str | bytes], numbers: Iterable[int]) -> Parsed:
    """Parse lines of any form, given the number of each in its file."""
    result = Parsed(lines=len(lines))
    facts: list[tuple[str, str, str]] = []
    for number, line in zip(numbers, lines, strict=False):
        if isinstance(line, bytes):
            result.faults.append((number, not_utf8(line)))
            continue
        start = line.strip().removeprefix("\ufeff")
        if not start or start.startswith("#"):
            result.dropped["comment" if start else "blank"] += 1
            continue
        parts = split_line(start)
        if parts is None:
            result.faults.append((number, fault("not <subject> <predicate> <object> .", line)))
            continue
        result.statements += 1
        clean = [clean_part(part) for part in parts]
        if not all(clean):
            result.dropped["empty part"] += 1
            continue
        result.cut += sum(len(part) > MAX_PART_CHARACTERS for part in clean)
        facts.append((cut_part(clean[0]), cut_part(clean[1]), cut_part(clean[2])))
    columns = zip(*facts, strict=True) if facts else ((), (), ())
    names = ("subject", "predicate", "object")
    result.tables["ready"] = pa.table(
        {name: pa.array(list(column), pa.large_string()) for name, column in zip(names, columns, strict=True)}
    )
    return result
