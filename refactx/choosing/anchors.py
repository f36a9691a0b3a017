"""Anchors: the names of the tree that stand in a question, found by its letters without a model.

From each word the tree is walked along the question, whatever the case of letters and however the tokenizer cuts words.
So `where was barack obama born` finds `<Barack Obama (...)>`, in a few hundred lookups and a few milliseconds.
Accents may be left out, except those of letters that the tokenizer cuts into bytes: such a letter is found as it is.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from refactx.decoding.lookups import Lookups
from refactx.decoding.machine import Machine
from refactx.decoding.states import InFact
from refactx.engines.engine import IdPath

WORDS = 8
"""The most words of an anchor."""

_WORD = re.compile(r"[^\W_]+")
_INITIAL = re.compile(r"(?<=\b\w)(?![\w.'’])")
_PLURAL = (("ies", "y"), ("es", ""), ("s", ""))


@dataclass(frozen=True, slots=True)
class Anchor:
    """A name of the tree that stands in a question.

    `start`, `stop`: the half-open range of its characters in the question; `ids`: those of the name after the state
    that it was looked for from, up to its closing bracket or to the parenthesis that tells namesakes apart (the last one
    may have text beyond that); `state`: that after them.
    """

    start: int
    stop: int
    ids: IdPath
    state: InFact


class FoldedTokens:
    """The ids of a tokenizer by their folded text, so that `<barack` finds `<Bar` and `<bar`.

    Each has its text in lower case besides, with accents: a part of a letter is found in a text with that letter.
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        ids, closing = defaultdict[bytes, list[int]](list), defaultdict[bytes, list[int]](list)
        for token, piece in enumerate(token_bytes):
            low = piece.lower()  # (the case of ASCII alone)
            ids[low].append(token)
            if not piece.isascii() and (folded := _fold_bytes(piece)) != low:
                ids[folded].append(token)
        ids.pop(b"", None)
        for text, same in ids.items():
            for end in _ends_of_name(text) if b">" in text or b"(" in text else ():
                closing[text[:end]] += same
        self._ids, self._closing, self._longest = dict(ids), dict(closing), max(map(len, ids), default=0)

    def beginning(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield the ids with which a folded text may begin, and how many bytes each has."""
        for size in range(1, min(len(text), self._longest) + 1):
            for token in self._ids.get(text[:size], ()):
                yield token, size

    def closing(self, text: bytes) -> Sequence[int]:
        """Return the ids whose folded text begins with `text`, which is the rest of a name with what closes it."""
        return self._closing.get(text, ())


@dataclass(frozen=True, slots=True)
class _Span:
    """Words of a question from `start` to `stop`, as the tree may spell them: `text`, in lower case."""

    start: int
    stop: int
    text: str


def find_anchors(machine: Machine, state: InFact, tokens: FoldedTokens, question: str) -> Lookups[list[Anchor]]:
    """Return the anchors of a question: names that begin a fact after `state`, the longest of each place in it.

    A name is left out within a longer one. A plural finds the singular too.
    """
    found: dict[tuple[int, int], dict[IdPath, Anchor]] = {}
    words = list(_WORD.finditer(question))
    for first in range(len(words)):
        spans = list(_spans(question, words[first : first + WORDS]))
        ends = yield from _walk(machine, state, tokens, {f" <{span.text}".encode(): span for span in spans})
        for span, ids, end in ends:
            found.setdefault((span.start, span.stop), {})[ids] = Anchor(span.start, span.stop, ids, end)
    whole = [place for place in found if not any(_is_within(place, other) for other in found)]
    return [anchor for place in sorted(whole) for anchor in found[place].values()]


def fold(text: str) -> str:
    """Return a text in lower case and without accents.

    >>> fold("Diego Forlán")
    'diego forlan'
    """
    decomposed = unicodedata.normalize("NFD", text.lower())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _fold_bytes(piece: bytes) -> bytes:
    try:
        return fold(piece.decode()).encode()
    except UnicodeDecodeError:  # a part of a letter
        return piece.lower()


def _ends_of_name(text: bytes) -> Iterator[int]:
    """Yield where a name may end in the text of an id: after a closing bracket, and after ` (` or the rest of it."""
    name, bracket, _ = text.partition(b">")
    if bracket:
        yield len(name) + 1
    if b" (" in name:
        yield name.index(b" (") + 2
    if name.startswith(b"("):
        yield 1


def _is_within(place: tuple[int, int], other: tuple[int, int]) -> bool:
    return place != other and other[0] <= place[0] and place[1] <= other[1]


def _spans(question: str, words: Sequence[re.Match[str]]) -> Iterator[_Span]:
    """Yield the spans that begin with the first word: as they stand, with full stops, and in the singular."""
    start = words[0].start()
    for number, word in enumerate(words, 1):
        stop, written = word.end(), " ".join(question[start : word.end()].split())
        for text in dict.fromkeys((fold(written), written.encode().lower().decode())):  # (the case of ASCII alone)
            texts = [text]
            if any(len(one.group()) == 1 for one in words[:number]):  # `Michael J Fox`
                texts.append(_INITIAL.sub(".", text))
            yield from (_Span(start, stop, one) for one in texts)
            if question[stop : stop + 1] == ".":  # `Martin L. King Jr.`
                yield from (_Span(start, stop + 1, one + ".") for one in texts if not one.endswith("."))
            for ending, singular in _PLURAL:
                if text.endswith(ending) and len(word.group()) > len(ending) + 2:
                    yield _Span(start, stop, text.removesuffix(ending) + singular)


def _walk(
    machine: Machine, state: InFact, tokens: FoldedTokens, spans: dict[bytes, _Span]
) -> Lookups[list[tuple[_Span, IdPath, InFact]]]:
    """Return the spans that are names, given by their texts after a state, with the ids and the state after each."""
    found: list[tuple[_Span, IdPath, InFact]] = []
    waiting: list[tuple[bytes, IdPath, InFact]] = [(b"", (), state)]
    while waiting:
        text, ids, at = waiting.pop()
        grown = defaultdict[int, dict[tuple[bytes, _Span | None], None]](dict)  # the span: its name ends there
        for name, span in spans.items():
            spaced = name + b" "
            if not spaced.startswith(text):
                continue
            rest = spaced[len(text) :]
            for token, size in tokens.beginning(rest):
                grown[token][text + rest[:size], None] = None
            for token in (*tokens.closing(rest + b"("), *(tokens.closing(rest[:-1] + b">") if rest else ())):
                grown[token][spaced, span] = None
        for token, ways in grown.items():
            after = (yield from machine.advancing(at, token, 0)) if at.children.leaves_of(token) else None
            if isinstance(after, InFact):
                path = (*ids, token)
                waiting += [(longer, path, after) for longer, ended in ways if ended is None]
                found += [(ended, path, after) for _, ended in ways if ended is not None]
    return found
