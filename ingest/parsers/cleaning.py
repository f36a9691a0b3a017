"""Columns of texts made clean parts by the thousands: `refactx.fact.clean_part` in Arrow; and parts cut to their limit."""

import pyarrow as pa
import pyarrow.compute as pc

from refactx.fact import MAX_PART_CHARACTERS, clean_part

from ..parsers.text import clean_texts


def clean_parts(texts: pa.Array) -> pa.Array:
    """Each text (large_string) as a clean part, not cut; empty where nothing visible is left, or where it is null.

    >>> clean_parts(pa.array(["plain", " a  <b>", None, "\\u200b"], pa.large_string())).to_pylist()
    ['plain', 'a ‹b›', '', '']
    """
    return clean_texts(pc.fill_null(texts, ""), clean_part)


def cut_parts(parts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Clean parts with those over `MAX_PART_CHARACTERS` cut, and which ones were (boolean).

    >>> parts, long = cut_parts(pa.array(["short", "a" * 2000], pa.large_string()))
    >>> [len(part) for part in parts.to_pylist()], long.to_pylist()
    ([5, 1000], [False, True])
    """
    long = pc.greater(pc.utf8_length(parts), MAX_PART_CHARACTERS)
    ends = [cut(part) for part in parts.filter(long).to_pylist()]
    return (pc.replace_with_mask(parts, long, pa.array(ends, pa.large_string())) if ends else parts), long


def cut(part: str) -> str:
    """A clean part, shortened to `MAX_PART_CHARACTERS` if it is longer, with an ellipsis as the last of them."""
    return part if len(part) <= MAX_PART_CHARACTERS else part[: MAX_PART_CHARACTERS - 1].rstrip() + "…"
