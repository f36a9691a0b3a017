"""Completions of a text: a search of the tree by bytes, since a prefix that a person types may end inside a token."""

import heapq
import re
import unicodedata
from collections.abc import Iterator

from refactx.tokenizer import FactTokenizer
from refactx.tree.children import FactTree, Path


def normalise_prefix(text: str) -> str:
    """Return the beginning of a fact as the tree spells it: one space before it and between words, Unicode NFC.

    >>> normalise_prefix("<Danny  Boyle> <")
    ' <Danny Boyle> <'
    """
    text = text.encode("utf-8", "replace").decode()  # a shell may have passed bytes that are not UTF-8
    # Bracket by bracket: NFC would join a bracket with a combining mark after it.
    parts = [unicodedata.normalize("NFC", part) for part in re.split("([<>])", text)]
    return " " + re.sub(r"\s+", " ", "".join(parts)).lstrip()


def completions(tree: FactTree, tokenizer: FactTokenizer, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield the texts that begin with `prefix` (normalised) and end with the next part, with their numbers of facts.

    Texts with more facts come first: the search always opens the node with the most leaves, and no node has more than
    its parent. So the first twenty cost no more than the search for those.
    """
    table, wanted = tokenizer.token_bytes, prefix.encode()
    heap: list[tuple[int, bool, Path, bytes]] = []
    for path, text, leaves in _matching(tree, table, wanted):
        heapq.heappush(heap, (-leaves, b">" not in text[len(wanted) :], path, text))
    while heap:
        leaves, is_open, path, text = heapq.heappop(heap)
        if not is_open:
            end = text.index(b">", len(wanted)) + 1
            yield text[:end].decode("utf-8", "replace").lstrip(), -leaves
            continue
        below = tree.children(path)
        for token, count in zip(below.tokens.tolist(), below.leaves.tolist(), strict=True):
            grown = text + table[token]
            heapq.heappush(heap, (-count, b">" not in grown[len(wanted) :], (*path, token), grown))


def _matching(tree: FactTree, table: list[bytes], wanted: bytes) -> Iterator[tuple[Path, bytes, int]]:
    """Yield the shortest paths whose text begins with `wanted`: ids, text and leaves."""
    waiting: list[tuple[Path, bytes, int]] = [((), b"", tree.children(()).total)]
    while waiting:
        path, text, leaves = waiting.pop()
        if len(text) >= len(wanted):
            yield path, text, leaves
            continue
        rest = wanted[len(text) :]
        below = tree.children(path)
        for token, count in zip(below.tokens.tolist(), below.leaves.tolist(), strict=True):
            piece = table[token]
            if piece.startswith(rest) or (piece and rest.startswith(piece)):
                waiting.append(((*path, token), text + piece, count))
