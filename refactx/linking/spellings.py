"""The ways in which the names of a tree spell a text: found by a walk of the tree, never by reading its names."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from refactx.linking.names import fold
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import NO_TOKENS, FactTree, Path, Tokens

MOST_STATES = 2_000
"""The most nodes of the tree that one look-up visits: names need some ten, and a spelling of separators no end."""


class Spellings:
    """The spellings of names that begin facts, in any case, with and without accents and separators (`fold`).

    A node's continuations are met with the tokens whose folded text comes next, however the tokenizer cuts words: a few
    milliseconds, in a tree of any size. Tokens that are parts of letters are followed as far as they lead.
    """

    def __init__(self, tree: FactTree, tokenizer: FactTokenizer) -> None:
        self._tree, self._bytes = tree, tokenizer.token_bytes
        texts, ends, parts = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list), list[int]()
        for token, piece in enumerate(self._bytes):
            try:
                text = piece.decode()
            except UnicodeDecodeError:
                parts.append(token)
                continue
            if ">" not in text:
                texts[fold(text)].append(token)
            if ">" in text or "(" in text:
                for end in _ends(text):
                    ends[fold(text[:end])].append(token)
        self._parts = np.array(parts, np.int32)
        self._texts, self._ends = _arrays(texts), _arrays(ends)
        self._longest = max(map(len, texts), default=0)

    def of(self, text: str) -> list[str]:
        """Return the names, and the labels before a description, that spell a text. Raises as `Index.children` does."""
        return [name for name in self.beginning(text) if fold(name) == fold(text)]

    def beginning(self, text: str) -> list[str]:
        """Return the names, and the labels before a description, that spell a text or its beginning, within words too."""
        wanted, found = fold(text), dict[str, None]()
        waiting: list[tuple[Path, bytes]] = [((), b"")] if wanted else []
        for _ in range(MOST_STATES):
            if not waiting:
                break
            path, raw = waiting.pop()
            for token in self._following(path, raw, wanted).tolist():
                grown = raw + self._bytes[token]
                written = grown.decode("utf-8", "ignore")
                for end in _ends(written):
                    name = fold(written[:end]) if end >= len(raw.decode("utf-8", "ignore")) - 1 else ""
                    if name and wanted.startswith(name):
                        found[written[:end].lstrip(" <")] = None
                if b">" not in grown and wanted.startswith(fold(written)):
                    waiting.append(((*path, token), grown))
        return list(found)

    def _following(self, path: Path, raw: bytes, wanted: str) -> Tokens:
        """Return the tokens after a path that may spell what is left of a text, each once."""
        rest = wanted[len(fold(raw.decode("utf-8", "ignore"))) :]
        texts = [rest[:size] for size in range(min(len(rest), self._longest) + 1)]
        some = [found[text] for found in (self._texts, self._ends) for text in texts if text in found] + [self._parts]
        tokens, possible = self._tree.children(path).tokens, np.concatenate(some)
        if not len(tokens):
            return NO_TOKENS
        following: Tokens = np.unique(possible[tokens[np.searchsorted(tokens[:-1], possible)] == possible])
        return following


def _ends(text: str) -> Iterator[int]:
    """Yield where a name may end in a text: before the closing bracket, and before each description."""
    at = text.find(">")
    name = text if at < 0 else text[:at]
    if at >= 0:
        yield at
    begin = name.find("(")
    while begin >= 0:
        yield begin - 1 if name[begin - 1 : begin] == " " else begin
        begin = name.find("(", begin + 1)


def _arrays(tokens: dict[str, list[int]]) -> dict[str, Tokens]:
    return {text: np.array(some, np.int32) for text, some in tokens.items()}
