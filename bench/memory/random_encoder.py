"""An encoder of random embeddings, for sizes and times without a model: of a text always the same one."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray


class RandomEncoder:
    """An `Encoder` of 384 numbers, as many as all-MiniLM-L6-v2 has. Embeddings are in 1,000 clusters of near ones, since
    independent ones have no neighbours: all are equally far."""

    name, width, fingerprint = "bench.memory.random_encoder:random", 384, "random 384 in 1000"

    def __init__(self) -> None:
        self._centres = np.random.default_rng(0).normal(size=(1000, self.width)).astype(np.float32)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of n texts, float32[n, 384], each of length 1."""
        found = np.empty((len(texts), self.width), np.float32)
        for row, text in zip(found, texts, strict=True):
            own = np.random.default_rng(crc32(text.encode("utf-8", "replace")))
            row[:] = self._centres[own.integers(1000)] + own.standard_normal(self.width, np.float32)
        lengths: NDArray[np.float32] = np.linalg.norm(found, axis=1, keepdims=True)
        return found / lengths


def random() -> RandomEncoder:
    """`--encoder bench.memory.random_encoder:random`."""
    return RandomEncoder()
