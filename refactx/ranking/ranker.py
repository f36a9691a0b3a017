"""The ranker: how near names are to a question in meaning, by the embeddings of an encoder."""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from refactx.errors import InputError
from refactx.ranking.encoders import E5, STATIC, WORDS, Encoder, embeddings_of, load_encoder

MOST_TEXTS = 16
"""The most questions whose embeddings are kept, each maybe without the names in it."""
MOST_KEPT = 50_000
"""The most names whose embeddings are kept: those of the predicates of nearly all graphs."""
COSINES = {STATIC: (0.05, 0.41), WORDS: (0.02, 0.17), E5: (0.82, 0.88)}
"""The mean cosines of a question with the predicates that do not answer it, and with the one that does, by encoder."""
ALIAS = 0.3
"""How much nearer an alias has to be than the name: of many aliases, one is always near."""
OTHER_COSINES = 0.1, 0.5
"""The same for other encoders."""

_log = logging.getLogger(__name__)


class Ranker:
    """The names of one index as an encoder sees them. `aliases`: other names, by name.

    >>> from refactx.ranking.encoders import WordEncoder
    >>> ranker = Ranker(WordEncoder(), {"place of birth": ["born in"]})
    >>> ranker.nearness("Where was Ann born?", ["date of birth", "place of birth"]).round(1).tolist()
    [-0.1, 1.9]
    """

    def __init__(self, encoder: Encoder, aliases: Mapping[str, Sequence[str]] | None = None) -> None:
        self.encoder, self._aliases = encoder, aliases or {}
        self._vectors: dict[str, NDArray[np.float32]] = {}  # by name: of the name and its aliases
        self._texts: dict[str, NDArray[np.float32]] = {}

    def nearness(self, text: str, names: Sequence[str]) -> NDArray[np.float64]:
        """Return how near names, or the nearest of their aliases, are to a text in meaning, float64[names].

        0 is that of a name that has nothing to do with a question, 1 that of the predicate that answers it, each in the mean.
        """
        if not names or not text.strip():
            return np.zeros(len(names))
        self._learn([name for name in dict.fromkeys(names) if name not in self._vectors])
        low, high = COSINES.get(self.encoder.name, OTHER_COSINES)
        wanted, found = self._vector(text), np.empty(len(names))
        for at, name in enumerate(names):
            own, *others = ((self._vectors[name] @ wanted - low) / (high - low)).tolist()
            found[at] = max([own, *(one - ALIAS for one in others)])
        return found

    def _vector(self, text: str) -> NDArray[np.float32]:
        """Return the embedding of a text, float32[width]: that of the last ones is kept."""
        if text not in self._texts:
            self._texts = dict(list(self._texts.items())[-MOST_TEXTS:]) | {text: self.encoder.encode([text])[0]}
        return self._texts[text]

    def _learn(self, names: Sequence[str]) -> None:
        """Keep the embeddings of names, and of their aliases, made in one call."""
        if not names:
            return
        if len(self._vectors) + len(names) > MOST_KEPT:
            self._vectors.clear()
        texts = [[name, *self._aliases.get(name, ())] for name in names]
        found = embeddings_of(self.encoder, [text for some in texts for text in some])
        ends = np.cumsum([len(some) for some in texts])[:-1]
        self._vectors.update(zip(names, np.split(found, ends), strict=True))


def open_ranker(name: str = "", aliases: Mapping[str, Sequence[str]] | None = None) -> Ranker:
    """Return the ranker of an index. `name`: that of an encoder (`load_encoder`), or "": static vectors if the package that
    has them is installed, else words, which a line in the log says. `aliases`: other names of predicates, by name.

    Raises InputError or ModelError as `load_encoder` does.
    """
    return Ranker(_encoder_of(name), aliases)


@lru_cache(maxsize=4)
def _encoder_of(name: str) -> Encoder:
    """Return an encoder, once for all indexes of a process."""
    if name:
        return load_encoder(name)
    try:
        return load_encoder(STATIC)
    except InputError as error:
        _log.warning("names are compared with questions by their words alone: %s", error)
        return load_encoder(WORDS)
