"""BM25 (bm25s) over short questions: how much of a question's weight another question has, from 0 to 1."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.extras import require
from refactx.nl2sparql.patterns.wording import fold

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
