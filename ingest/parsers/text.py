"""Texts that are clean as they stand, told from the others by the thousands in Arrow.

Nearly all parts of facts are plain: visible characters, single spaces between them, nothing that `clean_part` would
change. Those stay where they are; only the others go through Python, one by one, to the same result.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

# Characters that `clean_part` leaves alone in any company: visible, no brackets, and neither changed by Unicode NFC nor
# combined with a neighbour. ASCII but for the backslash (an escape in N-Triples), Latin, Cyrillic, dashes and quotation
# marks, kana, Han.
_CHARACTERS = (
    r"!-;=?-\[\]-~"
    "\u00a1-\u00ac\u00ae-\u02af\u0400-\u0482\u048a-\u052f\u2010-\u2027\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff"
)
PLAIN_TEXT = f"[{_CHARACTERS}]+(?: [{_CHARACTERS}]+)*"
"""A regular expression (RE2) that matches plain text only."""


def is_plain(texts: pa.Array) -> pa.Array:
    """Which of some texts are plain.

    >>> is_plain(pa.array(["Café", "two  spaces", "<", ""])).to_pylist()
    [True, False, False, False]
    """
    return pc.match_substring_regex(texts, f"^{PLAIN_TEXT}$")


def clean_texts(texts: pa.Array, clean: Callable[[str], str | None]) -> pa.Array:
    """Some texts, plain ones as they are, the others as `clean` makes them (which must leave plain ones alone).

    >>> clean_texts(pa.array(["plain", " x "], pa.large_string()), str.strip).to_pylist()
    ['plain', 'x']
    """
    odd = pc.invert(is_plain(texts))
    if not odd.true_count:
        return texts
    cleaned = pa.array([clean(text) for text in texts.filter(odd).to_pylist()], pa.large_string())
    return pc.replace_with_mask(texts, odd, cleaned)
