"""Columns of texts made clean parts by the thousands: `refactx.fact.clean_part` in Arrow."""

import pyarrow as pa
import pyarrow.compute as pc

from refactx.fact import MAX_PART_CHARACTERS, clean_part

# Characters that `clean_part` leaves alone in any company: visible, no brackets, and neither changed by Unicode NFC nor
# combined with a neighbour. ASCII, Latin, Cyrillic, dashes and quotation marks, kana, Han.
PLAIN = (
    "!-;=?-~\u00a1-\u00ac\u00ae-\u02af\u0400-\u0482\u048a-\u052f\u2010-\u2027\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff"
)
"""The inside of a character class."""
_PLAIN_PART = f"^[{PLAIN}]+(?: [{PLAIN}]+)*$"


def clean_parts(texts: pa.Array) -> pa.Array:
    """Each text (large_string) as a clean part, not cut; empty where nothing visible is left, or where it is null.

    >>> clean_parts(pa.array(["plain", " a  <b>", None, "\\u200b"], pa.large_string())).to_pylist()
    ['plain', 'a ‹b›', '', '']
    """
    texts = pc.fill_null(texts, "")
    other = pc.invert(pc.match_substring_regex(texts, _PLAIN_PART))
    changed = [clean_part(text) for text in texts.filter(other).to_pylist()]
    return pc.replace_with_mask(texts, other, pa.array(changed, pa.large_string())) if changed else texts


def cut_parts(parts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Clean parts with those over `MAX_PART_CHARACTERS` cut, and which ones were (boolean).

    >>> parts, long = cut_parts(pa.array(["short", "a" * 2000], pa.large_string()))
    >>> [len(part) for part in parts.to_pylist()], long.to_pylist()
    ([5, 1000], [False, True])
    """
    long = pc.greater(pc.utf8_length(parts), MAX_PART_CHARACTERS)
    ends = [part[: MAX_PART_CHARACTERS - 1].rstrip() + "…" for part in parts.filter(long).to_pylist()]
    return (pc.replace_with_mask(parts, long, pa.array(ends, pa.large_string())) if ends else parts), long
