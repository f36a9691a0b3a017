"""What of a pack is like a question: its patterns, by words and phrases, and its examples, by meaning, words and patterns."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from refactx.errors import InputError
from refactx.lazy import require
from refactx.linking.names import unaccented
from refactx.ranking.encoders import Encoder, embeddings_of
from refactx.sparql.packs.pack import GAP, Pack, PackExample, QuestionPattern

_BETWEEN = r"(?:\W+\w+){0,3}"
_PAIRS = ("''", '""', "‘’", "“”", "«»", "„“", "``")
_GLOSS = r"(?:\s*\([^()]*\))?"
_QUOTED = re.compile("|".join(rf"(?<!\w){a}(?=\S)([^{a}{b}\n]+?){b}(?!\w){_GLOSS}" for a, b in map(tuple, _PAIRS)))
WORDS, PHRASES = 0.4, 0.6
"""The shares of words and phrases in a score, those of the published detector (tonazzog/nl2sparql, `patterns.py`)."""
FLOOR = 0.4
"""The cosine with a phrase that counts for nothing, as questions of other patterns reach it (docs/results/packs.md)."""
HAS_PATTERN = 0.5
"""The weight from which on an example has a pattern, as in the published evaluation."""
RIDGE = 0.1
"""How much a learned detector prefers small weights."""
LEARNED = 0.35
"""The least score of a pattern that a learned detector finds."""
HINTED = 0.7
"""The share of a pattern's weight that it has by two hints."""
_K1, _B = 1.5, 0.75
_STEM = 6
"""Words are compared by so many letters, which is a stem in Italian as in English."""


def compile_words(words: Iterable[str]) -> "re.Pattern[str] | None":
    """Return an expression that finds each of some words in folded text; None without words.

    `*` at the end or the beginning of a word stands for letters, `...` between words for at most three of them, and `^`
    before the first word for the beginning of the text.

    >>> found = compile_words(["sinonim*", "how many ... senses"]).finditer("how many different senses, e sinonimi?")
    >>> [match[0] for match in found]
    ['how many different senses', 'sinonimi']
    """
    parts = sorted(map(_part, words), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)") if parts else None


def _part(word: str) -> str:
    word = unaccented(word)
    found, start = "", r"^\W*" if word.startswith("^") else ""
    for piece in word.removeprefix("^").split():
        if piece == GAP:
            found += _BETWEEN
            continue
        found += (r"\W+" if found else "") + re.escape(piece).replace(r"\*", r"\w*")
    return start + found


def quoted_terms(question: str) -> tuple[str, ...]:
    """Return what is in quotes.

    >>> quoted_terms("Which nouns' definitions have 'casa' (house), or \\"l'oro\\"?")
    ('casa', "l'oro")
    """
    return tuple(next(filter(None, match.groups())) for match in _QUOTED.finditer(question))


def without_quoted(question: str) -> str:
    """Return a question without what is in quotes, and without a translation in parentheses after it.

    >>> without_quoted("Find hyponyms of 'animale' (animal) with their definitions")
    'Find hyponyms of  with their definitions'
    """
    return _QUOTED.sub("", question)


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
    pattern: QuestionPattern
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
        text = unaccented(without_quoted(question))
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


class LearnedDetector:
    """Detects the patterns of a pack in questions as its examples have them, without its words and phrases.

    Each pattern is learned from all questions of the examples by regression with a kernel: the mean similarity of two
    questions in words, weighed by how rare these are, and in meaning with an encoder. A score from 0 to 1 is what the
    regression says of the pattern; those below `LEARNED` are not detected. Raises InputError for a pack without examples
    that have patterns.
    """

    def __init__(self, pack: Pack, encoder: Encoder | None = None) -> None:
        self._encoder = encoder
        rows = [(at, text) for at, one in enumerate(pack.examples) for text in one.questions]
        self._names = sorted({name for one in pack.examples for name in _gold(one)})
        if not self._names:
            raise InputError(f"the pack {pack.name} has no examples with patterns, from which they could be learned")
        self._owners = np.array([at for at, _ in rows])
        terms = [_terms(text) for _, text in rows]
        frequency = Counter(term for some in terms for term in some)
        self._columns = {term: at for at, term in enumerate(sorted(frequency))}
        self._rarity = np.array([math.log(1 + len(rows) / frequency[term]) for term in self._columns], np.float64)
        self._features = np.stack([self._features_of(text) for _, text in rows])
        targets = np.array([[name in _gold(pack.examples[at]) for name in self._names] for at, _ in rows], np.float64)
        self._mean = targets.mean(0)
        kernel = self._features @ self._features.T
        self._inverse = np.asarray(np.linalg.inv(kernel + RIDGE * np.eye(len(rows))), np.float64)
        self._weights = self._inverse @ (targets - self._mean)
        self._targets = targets

    def detect(self, question: str) -> dict[str, float]:
        """Return the patterns of a question with their scores, the best first."""
        return self._detected(self._features_of(question) @ (self._features.T @ self._weights))

    def explain(self, question: str) -> tuple[Detected, ...]:
        """Return the patterns of a question, the best first, as of `PatternDetector`; none is detected by words."""
        scores = self.detect(question).items()
        return tuple(Detected(name=name, score=score, words=0.0, phrases=None, found=()) for name, score in scores)

    def left_out(self) -> list[dict[str, float]]:
        """Return the patterns of the first question of each example, as all other examples have them.

        It is what the regression says without all questions of the example, by the inverse of the whole kernel; how rare
        words and patterns are is counted with them.
        """
        found = []
        for at in range(self._owners[-1] + 1):
            own = np.flatnonzero(self._owners == at)
            without = self._targets[own] - np.linalg.solve(self._inverse[np.ix_(own, own)], self._weights[own])
            found.append(self._detected(without[0] - self._mean))
        return found

    def _detected(self, values: NDArray[np.float64]) -> dict[str, float]:
        scores = zip(self._names, np.clip(self._mean + values, 0, 1).tolist(), strict=True)
        return dict(sorted(((name, score) for name, score in scores if score >= LEARNED), key=lambda one: -one[1]))

    def _features_of(self, question: str) -> NDArray[np.float64]:
        """Return the features of a question, of length 1, so that a product of two is their similarity."""
        words = np.zeros(len(self._columns))
        for term in _terms(question):
            if term in self._columns:
                words[self._columns[term]] = self._rarity[self._columns[term]]
        parts = [words / max(float(np.linalg.norm(words)), 1e-9)]
        if self._encoder is not None:
            parts.append(self._encoder.encode([without_quoted(question)])[0].astype(np.float64))
        return np.concatenate(parts) / math.sqrt(len(parts))


def _terms(question: str) -> set[str]:
    """Return the words of a question and the pairs of words in a row."""
    words = tokens_of(without_quoted(question))
    return {*words, *map(" ".join, pairwise(words))}


def _gold(example: PackExample) -> list[str]:
    return [name for name, weight in example.patterns.items() if weight >= HAS_PATTERN]


def detect(pack: Pack, question: str, encoder: Encoder | None = None) -> dict[str, float]:
    """Return the patterns of one question with their scores, the best first.

    >>> from refactx.sparql.packs.pack import load_pack
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
        counts = [self._frequency[token] for token in set(tokens)]
        weights = [math.log(1 + (self._count - found + 0.5) / (found + 0.5)) for found in counts]  # as Lucene has them
        whole = sum(weights) / (_K1 * (1 - _B + _B * len(tokens) / max(self._mean, 1)) + 1)
        if not known:
            return np.zeros(self._count, np.float32)
        shares: NDArray[np.float32] = np.asarray(self._index.get_scores(known), np.float32) / np.float32(whole)
        return np.minimum(shares, 1, dtype=np.float32)


def tokens_of(question: str) -> list[str]:
    """Return the words of a question, folded and cut to stems.

    >>> tokens_of("Quali sono gli iponimi?")
    ['quali', 'sono', 'gli', 'iponim']
    """
    return [word[:_STEM] for word in re.findall(r"\w+", unaccented(question))]


@dataclass(frozen=True, slots=True)
class RetrievalWeights:
    """The shares of a score, which are divided by their sum: embeddings, BM25 and patterns."""

    dense: float = 0.4
    bm25: float = 0.3
    pattern: float = 0.3

    @classmethod
    def read(cls, text: str) -> "RetrievalWeights":
        """Return the shares that a text has, in order. Raises InputError if it is not three numbers of at least 0, not all 0.

        >>> RetrievalWeights.read("0.5, 0.5, 0")
        RetrievalWeights(dense=0.5, bm25=0.5, pattern=0.0)
        """
        try:
            values = [float(part) for part in text.split(",")]
        except ValueError:
            values = []
        if len(values) != 3 or not all(0 <= value < math.inf for value in values) or not any(values):
            raise InputError(f"the weights are {text}: expected three numbers of at least 0, such as 0.4,0.3,0.3")
        return cls(*values)

    def without_dense(self) -> "RetrievalWeights":
        """Return the shares of the others, out of 1.

        >>> RetrievalWeights().without_dense()
        RetrievalWeights(dense=0.0, bm25=0.5, pattern=0.5)
        """
        rest = self.bm25 + self.pattern
        return RetrievalWeights(0.0, self.bm25 / rest, self.pattern / rest) if rest else RetrievalWeights(0.0, 0.5, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """An example, and how much it is like a question, each from 0 to 1.

    `question`: the one of the example's questions that is nearest; `score`: the weighted sum of `dense` (the cosine of
    embeddings, None without an encoder), `bm25` and `pattern`.
    """

    example: PackExample
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

    def __init__(self, pack: Pack, encoder: Encoder | None = None, weights: RetrievalWeights | None = None) -> None:
        weights = weights or RetrievalWeights()
        self.pack, self.encoder = pack, encoder
        self.shares = weights if encoder is not None else weights.without_dense()
        self._detector = PatternDetector(pack, encoder)
        self._questions = [(row, text) for row, one in enumerate(pack.examples) for text in one.questions]
        self._rows = np.array([row for row, _ in self._questions], np.intp)
        texts = [without_quoted(text) for _, text in self._questions]
        self._index = QuestionIndex(texts)
        self._embeddings = embeddings_of(encoder, texts) if encoder is not None and texts else None

    def retrieve(
        self, question: str, k: int = 5, *, patterns: Mapping[str, float] | None = None, without: Collection[str] = ()
    ) -> tuple[Retrieved, ...]:
        """Return the `k` examples most like a question, the best first.

        `patterns`: those of the question, by default as detected; `without`: ids of examples that are left out.

        >>> from refactx.sparql.packs.pack import load_pack
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
