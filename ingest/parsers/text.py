"""The cleaning of many texts at once: Arrow recognises those that are clean already.

Nearly all parts of facts are plain: visible characters with single spaces between them, nothing that `clean_part` would
change. These are kept; only the others go through Python, one by one, to the same result.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from refactx.fact import MAX_PART_CHARACTERS, clean_part, cut_part

# Characters that `clean_part` leaves alone whatever their neighbours are: visible, no brackets, and neither changed by
# Unicode NFC nor combined with a neighbour. ASCII except the backslash (an escape in N-Triples), Latin, Cyrillic,
# dashes and quotation marks, kana, Han.
_CHARACTERS = (
    r"!-;=?-\[\]-~"
    "\u00a1-\u00ac\u00ae-\u02af\u0400-\u0482\u048a-\u052f\u2010-\u2027\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff"
)
PLAIN_TEXT = f"[{_CHARACTERS}]+(?: [{_CHARACTERS}]+)*"
"""A regular expression (RE2) that matches plain text only."""


def is_plain(texts: pa.Array) -> pa.Array:
    """Return for each text whether it is plain.

    >>> is_plain(pa.array(["Café", "two  spaces", "<", ""])).to_pylist()
    [True, False, False, False]
    """
    return pc.match_substring_regex(texts, f"^{PLAIN_TEXT}$")


def clean_texts(texts: pa.Array, clean: Callable[[str], str | None]) -> pa.Array:
    """Return plain texts as they are, and the others as `clean` returns them (which must not change plain ones).

    >>> clean_texts(pa.array(["plain", " x "], pa.large_string()), str.strip).to_pylist()
    ['plain', 'x']
    """
    odd = pc.invert(is_plain(texts))
    if not odd.true_count:
        return texts
    cleaned = pa.array([clean(text) for text in texts.filter(odd).to_pylist()], pa.large_string())
    return pc.replace_with_mask(texts, odd, cleaned)


def clean_parts(texts: pa.Array) -> pa.Array:
    """Return each text (large_string) as a clean part, not cut; empty if nothing visible is left, or if it is null.

    >>> clean_parts(pa.array(["plain", " a  <b>", None, "\\u200b"], pa.large_string())).to_pylist()
    ['plain', 'a ‹b›', '', '']
    """
    return clean_texts(pc.fill_null(texts, ""), clean_part)


def cut_parts(parts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return clean parts with those over `MAX_PART_CHARACTERS` cut, and which ones were cut (boolean).

    >>> parts, long = cut_parts(pa.array(["short", "a" * 2000], pa.large_string()))
    >>> [len(part) for part in parts.to_pylist()], long.to_pylist()
    ([5, 1000], [False, True])
    """
    long = pc.greater(pc.utf8_length(parts), MAX_PART_CHARACTERS)
    ends = [cut_part(part) for part in parts.filter(long).to_pylist()]
    return (pc.replace_with_mask(parts, long, pa.array(ends, pa.large_string())) if ends else parts), long
