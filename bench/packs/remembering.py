"""An encoder that remembers what it has encoded: the same questions are asked of each retriever."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.ranking.encoders import Encoder


class RememberingEncoder:
    """Another encoder, asked once for each text."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known = dict[str, NDArray[np.float32]]()

    @property
    def name(self) -> str:
        return self._encoder.name

    @property
    def width(self) -> int:
        return self._encoder.width

    @property
    def fingerprint(self) -> str:
        return self._encoder.fingerprint

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, width]."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._encoder.encode(new), strict=True))
        return np.array([self._known[text] for text in texts], np.float32).reshape(len(texts), self.width)
