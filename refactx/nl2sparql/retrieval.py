"""The examples of a pack that are most like a question: by meaning, by words and by patterns, with the parts of a score."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refactx.errors import InputError
from refactx.lazy import require
from refactx.nl2sparql.embeddings import embeddings_of
from refactx.nl2sparql.pack import Example, Pack
from refactx.nl2sparql.patterns import PatternDetector
from refactx.nl2sparql.wording import fold, without_quoted
from refactx.sparql.memory.entry import Encoder

_K1, _B = 1.5, 0.75
_STEM = 6
"""Words are compared by so many letters, which is a stem in Italian as in English."""


class QuestionIndex:
    """The words of questions, indexed for BM25. Raises InputError if bm25s is not installed."""

    def __init__(self, questions: Sequence[str]) -> None:
        require("bm25s", "sparql")
        import bm25s

        texts = [tokens_of(question) for question in questions]
        self._count = len(texts)
        self._frequency = Counter(token for tokens in texts for token in set(tokens))
        self._mean = sum(map(len, texts)) / max(len(texts), 1)
        self._index = bm25s.BM25(k1=_K1, b=_B, method="lucene")
        if self._frequency:
            self._index.index(texts, show_progress=False)

    def similarities(self, question: str) -> NDArray[np.float32]:
        """Return the BM25 scores of the n questions for another one, float32[n], as shares of its score with itself."""
        tokens = tokens_of(question)
        known = [token for token in dict.fromkeys(tokens) if token in self._frequency]
        whole = sum(map(self._weight, set(tokens))) / (_K1 * (1 - _B + _B * len(tokens) / max(self._mean, 1)) + 1)
        if not known:
            return np.zeros(self._count, np.float32)
        shares: NDArray[np.float32] = np.asarray(self._index.get_scores(known), np.float32) / np.float32(whole)
        return np.minimum(shares, 1, dtype=np.float32)

    def _weight(self, token: str) -> float:
        """Return the inverse document frequency of a word, as Lucene has it."""
        found = self._frequency[token]
        return math.log(1 + (self._count - found + 0.5) / (found + 0.5))


def tokens_of(question: str) -> list[str]:
    """Return the words of a question, folded and cut to stems.

    >>> tokens_of("Quali sono gli iponimi?")
    ['quali', 'sono', 'gli', 'iponim']
    """
    return [word[:_STEM] for word in re.findall(r"\w+", fold(question))]


@dataclass(frozen=True, slots=True)
class Weights:
    """The shares of a score, which are divided by their sum: embeddings, BM25 and patterns."""

    dense: float = 0.4
    bm25: float = 0.3
    pattern: float = 0.3

    @classmethod
    def read(cls, text: str) -> "Weights":
        """Return the shares that a text has, in order. Raises InputError if it is not three numbers of at least 0, not all 0.

        >>> Weights.read("0.5, 0.5, 0")
        Weights(dense=0.5, bm25=0.5, pattern=0.0)
        """
        try:
            values = [float(part) for part in text.split(",")]
        except ValueError:
            values = []
        if len(values) != 3 or not all(0 <= value < math.inf for value in values) or not any(values):
            raise InputError(f"the weights are {text}: expected three numbers of at least 0, such as 0.4,0.3,0.3")
        return cls(*values)

    def without_dense(self) -> "Weights":
        """Return the shares of the others, out of 1.

        >>> Weights().without_dense()
        Weights(dense=0.0, bm25=0.5, pattern=0.5)
        """
        rest = self.bm25 + self.pattern
        return Weights(0.0, self.bm25 / rest, self.pattern / rest) if rest else Weights(0.0, 0.5, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """An example, and how much it is like a question, each from 0 to 1.

    `question`: the one of the example's questions that is nearest; `score`: the weighted sum of `dense` (the cosine of
    embeddings, None without an encoder), `bm25` and `pattern`.
    """

    example: Example
    question: str
    score: float
    dense: float | None
    bm25: float
    pattern: float


class Retriever:
    """Retrieves examples of a pack.

    `encoder`: without one, the other two parts have its share of the score (`weights`, in use: `shares`). Terms in quotes
    are left out of questions, as they are data. All questions of an example are compared, and the best one counts.
    Raises InputError if bm25s is not installed.
    """

    def __init__(self, pack: Pack, encoder: Encoder | None = None, weights: Weights | None = None) -> None:
        weights = weights or Weights()
        self.pack, self.encoder = pack, encoder
        self.shares = weights if encoder is not None else weights.without_dense()
        self._detector = PatternDetector(pack, encoder)
        self._questions = [(row, text) for row, one in enumerate(pack.examples) for text in one.questions]
        self._rows = np.array([row for row, _ in self._questions], np.intp)
        texts = [without_quoted(text) for _, text in self._questions]
        self._index = QuestionIndex(texts)
        self._embeddings = embeddings_of(encoder, texts) if encoder is not None and texts else None

    def retrieve(
        self,
        question: str,
        k: int = 5,
        *,
        patterns: Mapping[str, float] | None = None,
        without: Collection[str] = (),
    ) -> tuple[Retrieved, ...]:
        """Return the `k` examples most like a question, the best first.

        `patterns`: those of the question, by default as detected; `without`: ids of examples that are left out.

        >>> from refactx.nl2sparql.pack import load_pack
        >>> best, *_ = Retriever(load_pack("liita")).retrieve("How many senses does 'mano' have?")
        >>> best.example.id, best.dense
        ('123', None)
        """
        if not self.pack.examples:
            return ()
        asked = without_quoted(question)
        if patterns is None:
            patterns = self._detector.detect(question)
        by_word = self._index.similarities(asked)
        dense = np.zeros_like(by_word)
        if self.encoder is not None and self._embeddings is not None:
            dense = np.clip(self._embeddings @ self.encoder.encode([asked])[0], 0, 1)
        by_pattern = np.array([pattern_similarity(patterns, one.patterns) for one in self.pack.examples], np.float32)
        shares = self.shares
        per_question = shares.dense * dense + shares.bm25 * by_word + shares.pattern * by_pattern[self._rows]
        total = shares.dense + shares.bm25 + shares.pattern
        left_out, found = set(without), list[Retrieved]()
        rows = dict[int, int]()
        for at in np.argsort(-per_question, kind="stable").tolist():
            rows.setdefault(self._questions[at][0], at)
        for row, at in rows.items():
            example = self.pack.examples[row]
            if example.id in left_out:
                continue
            if len(found) == k:
                break
            found.append(
                Retrieved(
                    example=example,
                    question=self._questions[at][1],
                    score=_rounded(per_question, at) / total,
                    dense=None if self.encoder is None else _rounded(dense, at),
                    bm25=_rounded(by_word, at),
                    pattern=_rounded(by_pattern, row),
                )
            )
        return tuple(found)


def pattern_similarity(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how much two sets of weighted patterns have in common: the cosine of their weights.

    >>> pattern_similarity({"COUNT": 1.0}, {"COUNT": 0.6, "VERB": 0.8})
    0.6
    """
    both = sum(weight * other[name] for name, weight in one.items() if name in other)
    lengths = sum(w * w for w in one.values()) * sum(w * w for w in other.values())
    return float(round(both / lengths**0.5, 6)) if both and lengths else 0.0


def _rounded(values: NDArray[np.float32], at: int) -> float:
    return round(float(values[at]), 6)
