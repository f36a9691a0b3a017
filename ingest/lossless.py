"""Whether a tokenizer keeps every text as it is, so that facts can be read back from their token ids."""

import unicodedata
from functools import cache

from refactx.errors import TokenizerMismatchError
from refactx.tokenizer import FactTokenizer


@cache
def _probe() -> str:
    """Characters of all scripts and both cases, as they may stand in a fact (Unicode NFC, printable)."""
    characters = [chr(code) for code in (*range(0x21, 0x250), *range(0x250, 0x30000, 61))]
    kept = [c for c in characters if c.isprintable() and unicodedata.normalize("NFC", c) == c and not c.isspace()]
    # Each a part of its own, without those that would combine with the bracket in front of them.
    return " <" + "> <".join(c for c in kept if c not in "<>" and not unicodedata.combining(c)) + ">"


def check_lossless(tokenizer: FactTokenizer, name: str) -> None:
    """Raise TokenizerMismatchError unless a text of all kinds of characters comes back from its ids."""
    back = tokenizer.decode_bytes(tokenizer.encode(_probe()))
    if back != _probe().encode():
        raise TokenizerMismatchError(
            f"the tokenizer {name} does not keep every text (it drops or changes characters), so facts cannot be read back "
            "from its token ids: ingest the sources again instead of --kb"
        )
