"""Anchors: the names of the tree that stand in a question, found by its letters without a model.

From each word the tree is walked along the question, whatever the case of letters and however the tokenizer cuts words.
So `where was barack obama born` finds `<Barack Obama (...)>`, in a few hundred lookups and about a millisecond.
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
    that it was looked for from, up to its closing bracket or to the parenthesis that tells namesakes apart; `state`:
    that after them.
    """

    start: int
    stop: int
    ids: IdPath
    state: InFact


class FoldedTokens:
    """The ids of a tokenizer by their folded text, so that `<barack` finds `<Bar` and `<bar`."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        ids: defaultdict[bytes, list[int]] = defaultdict(list)
        for token, piece in enumerate(token_bytes):
            if piece:
                ids[_fold_bytes(piece)].append(token)
        self._ids, self._longest = dict(ids), max(map(len, ids), default=0)

    def beginning(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield the ids with which a folded text may begin, and how many bytes each has."""
        for size in range(1, min(len(text), self._longest) + 1):
            for token in self._ids.get(text[:size], ()):
                yield token, size

    def of(self, text: bytes) -> Sequence[int]:
        """Return the ids whose folded text is `text`."""
        return self._ids.get(text, ())


@dataclass(frozen=True, slots=True)
class _Span:
    """Words of a question from `start` to `stop`, as the tree may spell them: `text`, folded."""

    start: int
    stop: int
    text: str


def find_anchors(machine: Machine, state: InFact, tokens: FoldedTokens, question: str) -> Lookups[list[Anchor]]:
    """Return the anchors of a question: names that begin a fact after `state`, the longest of each place in it.

    A name of one word is left out within a longer one. A plural finds the singular if there is no name in the plural.
    """
    found: dict[tuple[int, int], list[Anchor]] = {}
    words = list(_WORD.finditer(question))
    for first in range(len(words)):
        spans = list(_spans(question, words[first : first + WORDS]))
        ends = yield from _walk(machine, state, tokens, {f" <{span.text}".encode(): span for span in spans})
        for span, ids, end in ends:
            found.setdefault((span.start, span.stop), []).append(Anchor(span.start, span.stop, ids, end))
    whole = [place for place in found if not any(_is_within(place, other) for other in found)]
    return [anchor for place in sorted(whole) for anchor in found[place]]


def fold(text: str) -> str:
    """Return a text in lower case and without accents.

    >>> fold("Diego Forlán")
    'diego forlan'
    """
    decomposed = unicodedata.normalize("NFD", text.lower())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _fold_bytes(piece: bytes) -> bytes:
    if piece.isascii():
        return piece.lower()
    try:
        return fold(piece.decode()).encode()
    except UnicodeDecodeError:  # a part of a letter
        return piece


def _is_within(place: tuple[int, int], other: tuple[int, int]) -> bool:
    return place != other and other[0] <= place[0] and place[1] <= other[1]


def _spans(question: str, words: Sequence[re.Match[str]]) -> Iterator[_Span]:
    """Yield the spans that begin with the first word: as they stand, with full stops, and in the singular."""
    start = words[0].start()
    for number, word in enumerate(words, 1):
        text = fold(" ".join(question[start : word.end()].split()))
        yield _Span(start, word.end(), text)
        if any(len(one.group()) == 1 for one in words[:number]):  # `Michael J Fox`, `US`
            yield _Span(start, word.end(), _INITIAL.sub(".", text))
        elif word.end() < len(question) and question[word.end()] == ".":
            yield _Span(start, word.end() + 1, text + ".")
        for ending, singular in _PLURAL:
            if text.endswith(ending) and len(word.group()) > len(ending) + 2:
                yield _Span(start, word.end(), text.removesuffix(ending) + singular)


def _walk(
    machine: Machine, state: InFact, tokens: FoldedTokens, spans: dict[bytes, _Span]
) -> Lookups[list[tuple[_Span, IdPath, InFact]]]:
    """Return the spans that are names, given by their texts after a state, with the ids and the state after each."""
    found: list[tuple[_Span, IdPath, InFact]] = []
    waiting: list[tuple[bytes, IdPath, InFact]] = [(b"", (), state)]
    seen: set[IdPath] = set()
    while waiting:
        text, ids, at = waiting.pop()
        wanted = [whole for whole in spans if whole.startswith(text)]
        grown = dict[IdPath, bytes]()
        for whole in wanted:
            rest = whole[len(text) :]
            for token, size in tokens.beginning(rest):
                grown[(*ids, token)] = text + rest[:size]
            for closing in (b">", b" ("):
                for token in tokens.of(rest + closing):
                    grown[(*ids, token)] = whole + closing
        for path, longer in grown.items():
            if path in seen or not at.children.leaves_of(path[-1]):
                continue
            seen.add(path)
            after = yield from machine.advancing(at, path[-1], 0)
            if not isinstance(after, InFact):
                continue
            name = longer.removesuffix(b">").removesuffix(b" (")
            if longer != name:
                found.append((spans[name], path, after))
            else:
                waiting.append((longer, path, after))
    return found
