"""An encoder without a model: texts are near by the words that they share."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refactx.linking.names import unaccented


class WordEncoder:
    """An encoder of word counts: equal texts have cosine 1, texts without a common word 0."""

    name, fingerprint = "words", "words"
    width = 512

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = np.zeros((len(texts), self.width), np.float32)
        for row, text in enumerate(texts):
            for word in unaccented(text).split() or ["?"]:
                found[row, sum(word.encode()) * 31 % self.width] += 1
        return found / np.linalg.norm(found, axis=1, keepdims=True)
