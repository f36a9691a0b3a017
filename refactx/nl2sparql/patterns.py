"""Which patterns a question has: by words, of which one is enough, and by phrases if there is an encoder."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refactx.nl2sparql.embeddings import embeddings_of
from refactx.nl2sparql.pack import Pack, Pattern
from refactx.nl2sparql.wording import compile_words, fold, without_quoted
from refactx.sparql.memory.entry import Encoder

WORDS, PHRASES = 0.4, 0.6
"""The shares of words and phrases in a score, those of the published detector (tonazzog/nl2sparql, `patterns.py`)."""
FLOOR = 0.4
"""The cosine with a phrase that counts for nothing, as questions of other patterns reach it (docs/results/packs.md)."""
HINTED = 0.7
"""The share of a pattern's weight that it has by two hints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A pattern of a question.

    `score`: from 0 to 1; `words`: by words alone; `phrases`: the cosine with the nearest phrase, None without an encoder;
    `found`: the words, or the pattern that implies it.
    """

    name: str
    score: float
    words: float
    phrases: float | None
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Wording:
    pattern: Pattern
    words: "re.Pattern[str] | None"
    hints: "re.Pattern[str] | None"
    unless: "re.Pattern[str] | None"


class PatternDetector:
    """Detects the patterns of a pack in questions, in any of its languages.

    A question has a pattern if it has one of its `words`, or two different `hints`; the score is then the pattern's weight,
    or 0.7 of it. With an encoder, it is 0.4 of that and 0.6 of the cosine of the question with the nearest phrase (from 0.4,
    as 0, to 1), if this is more. Terms in quotes are left out. Patterns below the pack's `threshold` are not detected; those
    that remain give a share of their score to the patterns that they imply.
    """

    def __init__(self, pack: Pack, encoder: Encoder | None = None) -> None:
        self._pack = pack
        self._encoder = encoder
        self._wordings = [
            _Wording(one, *(compile_words(_of(words)) for words in (one.words, one.hints, one.unless)))
            for one in pack.patterns.values()
        ]
        owners = [(one.name, phrase) for one in pack.patterns.values() for phrase in _of(one.phrases)]
        self._owners = [name for name, _ in owners]
        texts = [without_quoted(phrase) for _, phrase in owners]
        self._embeddings = embeddings_of(encoder, texts) if encoder is not None and texts else None

    def detect(self, question: str) -> dict[str, float]:
        """Return the patterns of a question with their scores, the best first."""
        return {one.name: one.score for one in self.explain(question)}

    def explain(self, question: str) -> tuple[Detected, ...]:
        """Return the patterns of a question with what they were detected by, the best first."""
        text = fold(without_quoted(question))
        near, found = self._near(question), dict[str, Detected]()
        for wording in self._wordings:
            name, (words, which) = wording.pattern.name, _by_words(wording, text)
            phrases = near.get(name, 0.0) if self._encoder is not None else None
            score = (
                words
                if phrases is None
                else max(words, WORDS * words + PHRASES * max(phrases - FLOOR, 0.0) / (1 - FLOOR))
            )
            if score >= self._pack.threshold:
                found[name] = Detected(name=name, score=score, words=words, phrases=phrases, found=which)
        for name, one in list(found.items()):
            for implied, share in self._pack.patterns[name].implies.items():
                score = share * one.score
                if score >= self._pack.threshold and (implied not in found or found[implied].score < score):
                    phrases = near.get(implied, 0.0) if self._encoder is not None else None
                    found[implied] = Detected(name=implied, score=score, words=0.0, phrases=phrases, found=(name,))
        return tuple(sorted(found.values(), key=lambda one: (-one.score, one.name)))

    def _near(self, question: str) -> Mapping[str, float]:
        """Return the cosine of a question with the nearest phrase of each pattern."""
        if self._encoder is None or self._embeddings is None:
            return {}
        similar: NDArray[np.float32] = self._embeddings @ self._encoder.encode([without_quoted(question)])[0]
        best = dict[str, float]()
        for name, value in zip(self._owners, similar.tolist(), strict=True):
            best[name] = max(best.get(name, -1.0), value)
        return best


def detect(pack: Pack, question: str, encoder: Encoder | None = None) -> dict[str, float]:
    """Return the patterns of one question with their scores, the best first.

    >>> from refactx.nl2sparql.pack import load_pack
    >>> detect(load_pack("liita"), "Quanti sensi ha la parola 'banco'?")["SENSE_COUNT"]
    1.0
    """
    return PatternDetector(pack, encoder).detect(question)


def _by_words(wording: _Wording, text: str) -> tuple[float, tuple[str, ...]]:
    if wording.unless is not None:
        text = wording.unless.sub(" ", text)
    found = _found(wording.words, text)
    if found:
        return wording.pattern.weight, found
    found = _found(wording.hints, text)
    return (HINTED * wording.pattern.weight, found) if len(found) > 1 else (0.0, ())


def _found(expression: "re.Pattern[str] | None", text: str) -> tuple[str, ...]:
    return () if expression is None else tuple(dict.fromkeys(match[0] for match in expression.finditer(text)))


def _of(texts: Mapping[str, Sequence[str]]) -> list[str]:
    return [text for some in texts.values() for text in some]
