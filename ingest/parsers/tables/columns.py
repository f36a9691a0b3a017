"""The conversion of three columns of text to rows of `ready`, which the parsers of CSV and of Parquet share."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from refactx.ingest.parsers.parsed import NOT_UTF8, Parsed, fault
from refactx.ingest.parsers.text import clean_parts, cut_parts

COLUMNS = ("subject", "predicate", "object")
SEPARATOR = re.compile(rb'\s*"?sep=([^"\\\x80-\xff])"?\s*', re.IGNORECASE)
"""The first line with which Excel reads and writes the delimiter of a file."""
INVALID = "\ufdd0"
"""The mark before a byte that is not UTF-8: a noncharacter, which Unicode reserves for such uses."""


def header_advice(delimiter: str) -> str:
    """Return what to do with a table of three columns that are not named, as the end of a sentence.

    >>> header_advice("\\t")
    ': write subject<TAB>predicate<TAB>object in place of the first line, or before it if it is a fact'
    """
    header = ("<TAB>" if delimiter == "\t" else delimiter).join(COLUMNS)
    return f": write {header} in place of the first line, or before it if it is a fact"


def mark_invalid_bytes(text: bytes) -> bytes:
    """Return the bytes of a text with `INVALID` and its character in Windows-1252 for each byte that is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        escaped = text.decode(errors="surrogateescape")
        return re.sub(
            "[\udc80-\udcff]",
            lambda byte: INVALID + bytes([ord(byte[0]) & 0xFF]).decode("cp1252", errors="replace"),
            escaped,
        ).encode()
    return text


def facts_of_columns(texts: list[pa.Array], row_number: Callable[[int], int], not_utf8: str = NOT_UTF8) -> Parsed:
    """Return three columns of text as facts; `row_number` maps the place of a row in them to its number.

    `not_utf8`: what is wrong with a row that is not UTF-8.
    """
    result = Parsed(lines=len(texts[0]))
    wrong = pc.fill_null(_any(pc.match_substring(column, INVALID) for column in texts), False)
    if pc.any(wrong).as_py():
        for at in pc.indices_nonzero(wrong).to_pylist():
            start = " ".join(column[at].as_py() or "" for column in texts).replace(INVALID, "")
            result.faults.append((row_number(at), fault(not_utf8, start)))
        texts = [column.filter(pc.invert(wrong)) for column in texts]
    result.statements = len(texts[0])
    parts = [clean_parts(column) for column in texts]
    is_empty = [pc.equal(column, "") for column in parts]
    empty = _any(is_empty)
    if dropped := pc.sum(empty).as_py():
        blank = pc.sum(reduce(pc.and_, is_empty)).as_py()
        result.dropped += Counter({"empty part": dropped - blank, "blank": blank})
        parts = [column.filter(pc.invert(empty)) for column in parts]
    facts = {}
    for name, column in zip(COLUMNS, parts, strict=True):
        facts[name], long = cut_parts(column)
        result.cut += pc.sum(long).as_py() or 0
    result.tables["ready"] = pa.table(facts)
    return result


def _any(masks: Iterable[pa.Array]) -> pa.Array:
    return reduce(pc.or_kleene, masks)
