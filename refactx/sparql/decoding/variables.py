"""Variables and words as token ids: which tokens may continue one."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from refactx.query.decoding.slots import Begun
from refactx.sparql.decoding.scope import Choice
from refactx.tree.tree import NO_TOKENS, Path, Tokens

LONGEST = 24
"""The most characters of a variable, without `?`."""
_FIRST, _MORE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*"), re.compile(rb"[A-Za-z0-9_]+")
_PIECE = re.compile(rb" ?\??[A-Za-z0-9_]*")
_NOTHING = Begun(NO_TOKENS)


class Texts:
    """The tokens that write variables and words. `token_bytes`: the bytes of each id, by id."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._ids: dict[bytes, list[int]] = {}
        for number, text in enumerate(token_bytes):
            if text and (_PIECE.fullmatch(text) or text in (b" }", b"}")):
                self._ids.setdefault(text, []).append(number)
        pieces = self._ids.items()
        self._begins = {
            before: [
                (text.removeprefix(before), number)
                for text, numbers in pieces
                if text.startswith(before) and _FIRST.fullmatch(text, len(before))
                for number in numbers
            ]
            for before in (b" ?", b"?", b"")
        }
        self._more = [(text, number) for text, numbers in pieces if _MORE.fullmatch(text) for number in numbers]
        self._arrays = {
            key: (_numbers(found), np.array([len(text) for text, _ in found], np.int32))
            for key, found in (*self._begins.items(), (None, self._more))
        }

    def bytes_of(self, ids: Path) -> bytes:
        """Return the text of ids."""
        return b"".join(self._token_bytes[token] for token in ids)

    def word(self, text: bytes, ids: Path) -> Begun:
        """Return the beginning of a word with some ids.

        >>> from support.tiny_model import tiny_fact_tokenizer
        >>> texts = Texts(tiny_fact_tokenizer().token_bytes)
        >>> [texts.bytes_of((token,)) for token in texts.word(b" }", ()).tokens.tolist()]
        [b' ']
        """
        done = self.bytes_of(ids)
        if done == text:
            return Begun(NO_TOKENS, text.decode().strip())
        if not text.startswith(done):
            return _NOTHING
        return Begun(self._prefixes_of(text[len(done) :]))

    def variable(self, choice: Choice, ids: Path, after_bracket: bool) -> Begun:
        """Return the beginning of a variable with some ids, whose `unit` has no `?`.

        `after_bracket`: the text before it ends in an opening bracket, so that it needs no space.
        """
        done = self.bytes_of(ids)
        head = re.match(rb" ?\??", done)
        opened, name = (head[0], done[head.end() :]) if head is not None else (b"", done)
        if opened in (b"?", b"") and not after_bracket and done:
            return _NOTHING
        if name and (not opened.endswith(b"?") or not _FIRST.fullmatch(name) or len(name) > LONGEST):
            return _NOTHING
        text = name.decode()
        if choice.among is not None:
            return self._among(sorted(choice.among), opened, text, after_bracket)
        if name:
            whole = text if choice.has(text) else None
            return Begun(self._fitting(None, text, choice), whole)
        starts = [b" ?", b"?"] if after_bracket else [b" ?"]
        found = [self._fitting(start[len(opened) :], "", choice) for start in starts if start.startswith(opened)]
        if not opened.endswith(b"?"):
            found.append(np.array([*self._shorter(starts, opened)], np.int32))
        return Begun(np.unique(np.concatenate(found)))

    def _fitting(self, before: bytes | None, written: str, choice: Choice) -> Tokens:
        """Return the tokens after which a variable is not too long, and can be one of a choice.

        `before`: the bytes before the name that the tokens begin with; None if the name has begun.
        """
        tokens, lengths = self._arrays[before]
        left = LONGEST - len(written)
        kept = lengths <= left
        if any(len(name) == LONGEST for name in choice.without):
            texts = self._more if before is None else self._begins[before]
            kept &= np.array([len(text) < left or choice.has(written + text.decode()) for text, _ in texts], np.bool_)
        return np.sort(tokens[kept])

    def _shorter(self, starts: Sequence[bytes], opened: bytes) -> Iterator[int]:
        """Yield the tokens that write a part of the beginning of a variable, of which `opened` is written."""
        for start in starts:
            if start.startswith(opened):
                yield from self._prefixes_of(start[len(opened) :]).tolist()

    def _among(self, names: Sequence[str], opened: bytes, name: str, after_bracket: bool) -> Begun:
        done = opened + name.encode()
        wholes = [(f"{space}?{one}".encode(), one) for one in names for space in ("", " ")[not after_bracket :]]
        found = [self._prefixes_of(whole[len(done) :]) for whole, _ in wholes if whole.startswith(done)]
        tokens = np.unique(np.concatenate(found)) if found else NO_TOKENS
        return Begun(tokens, next((one for whole, one in wholes if whole == done), None))

    def _prefixes_of(self, text: bytes) -> Tokens:
        """Return the tokens with the beginning of a text, or all of it: int32[n], ascending."""
        found = [token for size in range(1, len(text) + 1) for token in self._ids.get(text[:size], ())]
        return np.array(sorted(found), np.int32)


def _numbers(found: Sequence[tuple[bytes, int]]) -> Tokens:
    return np.array([number for _, number in found], np.int32)
