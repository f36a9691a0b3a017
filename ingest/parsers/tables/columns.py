"""The conversion of three columns of text to rows of `ready`, which the parsers of CSV and of Parquet share."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from refactx.ingest.parsers.parsed import Parsed, fault
from refactx.ingest.parsers.text import clean_parts, cut_parts

COLUMNS = ("subject", "predicate", "object")
NOT_UTF8 = "\ufdd0"
"""The stand-in for a byte that is not UTF-8: a noncharacter, which Unicode reserves for such uses."""


def mark_invalid_bytes(text: bytes) -> bytes:
    """Return the bytes of a text with `NOT_UTF8` for each byte that is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return re.sub("[\udc80-\udcff]", NOT_UTF8, text.decode(errors="surrogateescape")).encode()
    return text


def facts_of_columns(texts: list[pa.Array], row_number: Callable[[int], int]) -> Parsed:
    """Return three columns of text as facts; `row_number` maps the place of a row in them to its number."""
    result = Parsed(lines=len(texts[0]))
    wrong = pc.fill_null(_any(pc.match_substring(column, NOT_UTF8) for column in texts), False)
    if pc.any(wrong).as_py():
        for at in pc.indices_nonzero(wrong).to_pylist():
            start = " ".join(column[at].as_py() or "" for column in texts).replace(NOT_UTF8, "\ufffd")
            result.faults.append((row_number(at), fault("not UTF-8", start)))
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
